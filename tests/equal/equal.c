/* The equality matrix: every strategy trains to the bits of one device that replays its
 * micro-batches.
 *
 *     equal [-v] [-l SECONDS]   the lines of standard input, one cell each
 *
 * A cell is a line "RANKS OPTIONS | OPTIONS OF ONE DEVICE". Ranks are threads of one process; each
 * cell compares the hash of all parameters, the hash of replica 0's running statistics, the losses
 * and the norm of the gradients after the last step. A line that ends in "| refused" must be
 * refused when it is planned or opened. Answers of one device are kept: many cells share one. Of a
 * strategy whose steps overlap there is no training of one device to compare with: "| replay
 * OPTIONS OF ONE DEVICE" is the rule of its paper, step by step (replay.h); there is no norm to
 * compare.
 *
 * Cells run in a child process. One that gives no answer within the limit (60 s), or that ends its
 * process, is reported, and another child goes on behind it. A child for each cell was rejected: it
 * would have to compute the answers of one device again. -v names also those that are equal. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../late/late.h"
#include "../options_line.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "exec/answer.h"
#include "plan/course.h"
#include "plan/resolve.h"
#include "replay.h"
#include "sim/forecast.h"
#include "stretto.h"
#include "virtual/virtual.h"

/* A model whose layers have parameters or none by turns, the first two none: --model bare. Stages
 * of it have no parameters, no gradients, or no gradients of what comes in. Images are 8x8. */
static void build_bare(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_input(graph, "image");
    x = stretto_avg_pool(graph, "in1", x, 2, 2, 0);
    x = stretto_max_pool(graph, "in2", x, 3, 1, 1);
    x = stretto_conv2d(graph, "conv1", x, 6, 3, 1, 1, 1);
    x = stretto_max_pool(graph, "pool1", x, 2, 2, 0);
    x = stretto_conv2d(graph, "conv2", x, 8, 3, 1, 1, 1);
    x = stretto_avg_pool(graph, "pool2", x, 2, 2, 0);
    x = stretto_linear(graph, "fc", stretto_flatten(graph, "flatten", x), stretto_classes(graph));
    stretto_cross_entropy(graph, "loss", x, stretto_input(graph, "label"), 0);
    (void)context;
}
static const struct stretto_model bare = {sizeof bare, "bare", build_bare, .clip = 1};

/* The plans of a cell's ranks. */
struct cell {
    const struct options *given;
    struct dataset *dataset;     /* that all ranks read */
    struct options *options;     /* per rank: resolved */
    struct plan **plan;          /* per rank */
    struct course *course;       /* likewise, of its run */
    struct plan ***later;        /* likewise: of the further parts of the course, once they began */
    struct costs **costs;        /* likewise: of laws that make ranks unequal */
    struct virtual_world *world; /* of --clock virtual; NULL */
    int ranks;
};

static const struct engine_clock *clock_of(void *context, int rank) {
    const struct cell *cell = context;
    return cell->world ? virtual_clock(cell->world, rank) : NULL;
}

/* Of replicas that train apart: a step behind another one like it, to the last bit; one that
 * averages, which begins as another step has left it, about. */
static enum status check_average(const struct cell *cell, struct forecast *forecast) {
    enum status status = STATUS_OK;
    int every = cell->plan[0]->program->every;
    for (int64_t s = FORECAST_STEPS - 1; s < cell->plan[0]->config.steps; s++) {
        bool averages = (s + 1) % every == 0, like = (s + 1) % every > 2;
        double told = averages ? forecast->averaging : forecast->result.step,
               took = virtual_step_ns(cell->world, s), bound = averages ? 0.02 * told : 1e-6;
        if ((averages || like) && fabs(told - took) > bound && status == STATUS_OK)
            status = fail(STATUS_NO, "step %lld took %.17g ns and not the simulator's %.17g",
                          (long long)s + 1, took, told);
    }
    forecast_free(forecast);
    return status;
}

/* In virtual time the third step takes what the simulator says, to the last bit. */
static enum status check_times(const struct cell *cell) {
    struct forecast forecast;
    int least =
        cell->plan[0]->program->ahead > 0 ? 5 * cell->plan[0]->config.grid.stages : FORECAST_STEPS;
    int every = cell->plan[0]->program->every;
    if (!cell->world || cell->plan[0]->config.steps < least || cell->plan[0]->last_samples ||
        course_changes(&cell->course[0]))
        return STATUS_OK;
    TRY(forecast_new(cell->plan[0], cell->costs[0], true, &forecast));
    if (every > 0) return check_average(cell, &forecast);
    int64_t steps = forecast.input.steps,
            from = forecast.input.program->ahead ? steps / 2 : steps - 1;
    double told = forecast.result.step, took = 0;
    for (int64_t s = from; s < steps; s++) took += virtual_step_ns(cell->world, s);
    took /= (double)(steps - from);
    forecast_free(&forecast);
    if (from < steps - 1 ? fabs(told - took) < 1e-6 : told == took) return STATUS_OK;
    return fail(STATUS_NO, "steps %lld to %lld took %.17g ns and not the simulator's %.17g",
                (long long)from + 1, (long long)steps, took, told);
}

static enum status plan_rank(void *context, int rank, const struct plan **out) {
    struct cell *cell = context;
    struct resolve_place place = {.rank = rank, .ranks = cell->ranks, .threads = 1};
    struct run_config config;
    cell->options[rank] = *cell->given;
    const struct model *model = model_find(cell->given->model);
    TRY(resolve_run(&cell->options[rank], model, cell->dataset, &place, &config));
    TRY(resolve_costs(&cell->options[rank], true, cell->ranks, &config, &cell->costs[rank]));
    TRY(plan_new(&config, NULL, &cell->plan[rank]));
    TRY(course_new(cell->plan[rank], &cell->course[rank]));
    cell->later[rank] = MEM_ARRAY(struct plan *, cell->course[rank].count);
    *out = cell->plan[rank];
    if (rank == 0 && cell->costs[0]->simulated)
        return virtual_new(cell->plan[0], cell->costs[0], &cell->world);
    return STATUS_OK;
}

/* The plan of the part of its course that a rank is at. */
static enum status next_plan(void *context, int rank, int64_t steps, const struct plan **out) {
    struct cell *cell = context;
    const struct course *course = &cell->course[rank];
    const struct course_part *part = course_at(course, steps);
    struct plan **later = &cell->later[rank][part - course->part];
    if (part == course->part) return STATUS_OK;
    struct run_config config = resolve_for_part(&cell->plan[rank]->config, part, false);
    if (!*later) TRY(plan_new(&config, NULL, later));
    *out = *later;
    return STATUS_OK;
}

static void free_rank(struct cell *cell, int rank) {
    for (int i = 0; i < cell->course[rank].count; i++) plan_free(&cell->later[rank][i]);
    free(cell->later[rank]);
    course_free(&cell->course[rank]);
    plan_free(&cell->plan[rank]);
    cost_free(&cell->costs[rank]);
}

/* Trains, or replays by a rule that is known; `learn` is told the rule of the training. */
static enum status train_cell(struct cell *cell, const struct replay_rule *rule,
                              struct replay_rule *learn, struct answer *out) {
    struct answer_config config = {.ranks = cell->ranks,
                                   .context = cell,
                                   .plan = plan_rank,
                                   .next = next_plan,
                                   .clock = clock_of};
    const struct plan *plan;
    if (rule) {
        TRY(plan_rank(cell, 0, &plan));
        return rule->every ? replay_local(cell->plan[0], rule, out)
                           : replay_train(cell->plan[0], rule, out);
    }
    TRY(answer_train(&config, out));
    for (int r = 0; learn && r < cell->plan[0]->config.grid.stages; r++)
        replay_note(cell->plan[r], learn);
    return check_times(cell);
}

static enum status run_line(const char *line, int ranks, const struct replay_rule *rule,
                            struct replay_rule *learn, struct answer *out) {
    struct options options;
    TRY(options_of_line(COMMAND_TRAIN, line, &options));
    struct cell cell = {.given = &options,
                        .options = MEM_ARRAY(struct options, ranks),
                        .plan = MEM_ARRAY(struct plan *, ranks),
                        .course = MEM_ARRAY(struct course, ranks),
                        .later = MEM_ARRAY(struct plan **, ranks),
                        .costs = MEM_ARRAY(struct costs *, ranks),
                        .ranks = ranks};
    enum status status = resolve_data(&options, model_find(options.model), &cell.dataset);
    if (status == STATUS_OK) status = train_cell(&cell, rule, learn, out);
    virtual_free(&cell.world);
    for (int r = 0; r < ranks; r++) free_rank(&cell, r);
    free(cell.course);
    free(cell.later);
    dataset_free(&cell.dataset);
    options_free(&options);
    free(cell.options);
    free(cell.plan);
    free(cell.costs);
    return status;
}

/* --- answers of one device, by their line --- */

struct known {
    char *line;
    struct answer answer;
};
static struct known *known;
static int known_count;
static size_t known_capacity;

static enum status answer_of(const char *line, struct answer *out) {
    for (int i = 0; i < known_count; i++) {
        if (strcmp(known[i].line, line) != 0) continue;
        *out = known[i].answer;
        return STATUS_OK;
    }
    TRY(run_line(line, 1, NULL, NULL, out));
    known = mem_grow(known, &known_capacity, (size_t)known_count + 1, sizeof *known);
    known[known_count++] = (struct known){mem_text(line), *out};
    return STATUS_OK;
}

/* --- cells --- */

/* Whether the cell is as it must be; what is not into `why`. */
static bool check_cell(const char *cell, char *why, size_t bytes) {
    char *line = mem_text(cell), *bar = strstr(line, " | ");
    int ranks = atoi(line), skip = (int)strspn(line, "0123456789 ");
    struct answer one, many;
    snprintf(why, bytes, "not a cell");
    if (!bar || ranks < 1) {
        free(line);
        return false;
    }
    *bar = 0;
    const char *reference = bar + 3, *what = NULL;
    bool refused = strcmp(reference, "refused") == 0,
         replayed = strncmp(reference, "replay ", 7) == 0;
    struct replay_rule rule = {0};
    *why = 0;
    log_capture(why, bytes);
    enum status status = run_line(line + skip, ranks, NULL, replayed ? &rule : NULL, &many);
    if (!refused && status == STATUS_OK)
        status =
            replayed ? run_line(reference + 7, 1, &rule, NULL, &one) : answer_of(reference, &one);
    log_capture(NULL, 0);
    if (replayed && status == STATUS_OK) many.norm = one.norm;
    bool close = fabs(many.loss - one.loss) <= 1e-12 * fabs(one.loss);
    if (rule.replicas > 1 && status == STATUS_OK && close) many.loss = one.loss;
    free(rule.stage_of);
    if (!refused && status == STATUS_OK) what = answer_difference(&many, &one);
    for (char *c = why; *c; c++) *c = *c == '\n' ? ' ' : *c;
    if (what) snprintf(why, bytes, "other %s", what);
    if (refused && status == STATUS_OK) snprintf(why, bytes, "not refused");
    free(line);
    return refused ? status == STATUS_USAGE : status == STATUS_OK && !what;
}

/* --- children --- */

struct cells {
    char **line;
    int count;
    size_t capacity;
};

/* What parent and child share. */
struct progress {
    int at; /* the cell under way */
    int good, bad;
    int64_t begin_ns; /* of that cell */
    int64_t slowest_ns;
    int slowest;
};

static struct cells read_cells(FILE *in) {
    struct cells cells = {0};
    char line[1024];
    while (fgets(line, sizeof line, in)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#') continue;
        cells.line =
            mem_grow(cells.line, &cells.capacity, (size_t)cells.count + 1, sizeof *cells.line);
        cells.line[cells.count++] = mem_text(line);
    }
    return cells;
}

static void say(const struct cells *cells, int at, bool good, int64_t ns, const char *why) {
    printf("%s  %s (%.2fs)%s%s\n", good ? "ok" : "not ok", cells->line[at], (double)ns * 1e-9,
           *why ? ": " : "", why);
    fflush(stdout);
}

static void run_cells(const struct cells *cells, struct progress *progress, bool verbose) {
    for (; progress->at < cells->count; progress->at++) {
        char why[1024];
        progress->begin_ns = clock_ns();
        bool good = check_cell(cells->line[progress->at], why, sizeof why);
        int64_t ns = clock_ns() - progress->begin_ns;
        *(good ? &progress->good : &progress->bad) += 1;
        if (ns > progress->slowest_ns) {
            progress->slowest_ns = ns;
            progress->slowest = progress->at;
        }
        if (!good || verbose) say(cells, progress->at, good, ns, good ? "" : why);
    }
}

/* Until the child ends: false where it took too long over a cell and was killed. */
static bool watch(pid_t child, const volatile struct progress *progress, double limit_s, int *end) {
    struct timespec nap = {.tv_nsec = 10 * 1000 * 1000};
    while (waitpid(child, end, WNOHANG) == 0) {
        nanosleep(&nap, NULL);
        if ((double)(clock_ns() - progress->begin_ns) * 1e-9 < limit_s) continue;
        kill(child, SIGKILL);
        waitpid(child, end, 0);
        return false;
    }
    return true;
}

/* Runs cells from progress->at in a child, as far as it comes. */
static void run_child(const struct cells *cells, struct progress *progress, bool verbose,
                      double limit_s) {
    int end = 0;
    progress->begin_ns = clock_ns();
    fflush(stdout);
    pid_t child = fork();
    CHECK(child >= 0, "fork: %s", strerror(errno));
    if (child == 0) {
        run_cells(cells, progress, verbose);
        for (int i = 0; i < known_count; i++) free(known[i].line);
        free(known);
        exit(0);
    }
    bool in_time = watch(child, progress, limit_s, &end);
    if (progress->at == cells->count) return;
    char why[64];
    snprintf(why, sizeof why, in_time ? "ended its process, status %#x" : "no answer", end);
    say(cells, progress->at, false, clock_ns() - progress->begin_ns, why);
    progress->bad++;
    progress->at++;
}

static double cpu_ms(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-3;
}

int main(int argc, char **argv) {
    bool verbose = false;
    double limit_s = 60;
    for (int option; (option = getopt(argc, argv, "vl:")) != -1;) {
        if (option == 'v') verbose = true;
        if (option == '?' || (option == 'l' && !number_real(optarg, &limit_s))) return 2;
    }
    CHECK(stretto_add_model(&bare) == 0, "%s", stretto_error());
    late_add();
    struct cells cells = read_cells(stdin);
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(progress != MAP_FAILED, "mmap: %s", strerror(errno));
    int64_t begin = clock_ns();
    while (progress->at < cells.count) run_child(&cells, progress, verbose, limit_s);
    double ms = (double)(clock_ns() - begin) * 1e-6;
    if (cells.count)
        printf("%d cells equal, %d not; %.0f ms a cell, %.0f of CPU; slowest %.0f ms: %s\n",
               progress->good, progress->bad, ms / cells.count, cpu_ms() / cells.count,
               (double)progress->slowest_ns * 1e-6, cells.line[progress->slowest]);
    int bad = progress->bad || !progress->good;
    for (int i = 0; i < cells.count; i++) free(cells.line[i]);
    free(cells.line);
    munmap(progress, sizeof *progress);
    return bad;
}
