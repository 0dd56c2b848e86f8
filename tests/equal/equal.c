/* The equality matrix: every strategy trains to the bits of one device that replays its
 * micro-batches.
 *
 *     equal                     the lines of standard input, one cell each
 *
 * A cell is a line "RANKS OPTIONS | OPTIONS OF ONE DEVICE". Ranks are threads of this process; each
 * cell compares the hash of all parameters, the hash of replica 0's running statistics, the losses
 * and the norm of the gradients after the last step. A line that ends in "| refused" must be
 * refused when it is planned. Answers of one device are kept: many cells share one. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/option.h"
#include "exec/exec.h"
#include "plan/resolve.h"

struct answer {
    uint64_t params, buffers;
    double loss, norm;
};

struct member {
    const struct options *given;
    struct options options;
    struct dataset *dataset; /* that all ranks read */
    int rank, ranks;
    struct plan *plan;
    struct comm *comm;
    struct exec *exec;
    enum status status;
    struct answer answer;
    pthread_t thread;
};

static enum status plan_member(struct member *member) {
    struct resolve_place place = {.rank = member->rank, .ranks = member->ranks, .threads = 1};
    struct run_config config;
    member->options = *member->given;
    const struct model *model = model_find(member->options.model);
    TRY(resolve_run(&member->options, model, member->dataset, &place, &config));
    return plan_new(&config, NULL, NULL, &member->plan);
}

static enum status train(struct member *member) {
    struct step_result result = {0};
    TRY(exec_new(member->plan, member->comm, NULL, &member->exec));
    TRY(exec_start(member->exec));
    while (exec_next_step(member->exec) < member->plan->config.steps)
        TRY(exec_step(member->exec, &result));
    member->answer = (struct answer){.loss = result.loss, .norm = result.grad_norm};
    TRY(exec_compare_copies(member->exec));
    TRY(exec_param_hash(member->exec, &member->answer.params));
    return store_buffer_hash(exec_store(member->exec), &member->answer.buffers);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    member->status = train(member);
    if (member->status != STATUS_OK && member->comm) comm_abort(member->comm, member->rank);
    return NULL;
}

static enum status open_team(struct member *members, int ranks) {
    struct comm **comms = MEM_ARRAY(struct comm *, ranks);
    size_t heap = 0, channels = 0;
    for (int r = 0; r < ranks; r++) {
        size_t own = plan_heap_bytes(members[r].plan), rings = plan_channel_bytes(members[r].plan);
        if (own > heap) heap = own;
        if (rings > channels) channels = rings;
    }
    enum status status = comm_open_threads(ranks, heap, channels, comms);
    for (int r = 0; r < ranks && status == STATUS_OK; r++) members[r].comm = comms[r];
    free(comms);
    return status;
}

/* Every replica must have the same parameters; what all ranks of replica 0 hold is the model. */
static enum status collect(const struct member *members, int ranks, struct answer *out) {
    const struct grid *grid = &members[0].plan->config.grid;
    int pipelines = ranks / grid->stages;
    for (int pipeline = 0; pipeline < pipelines; pipeline++) {
        struct answer sum = {.loss = members[0].answer.loss, .norm = members[0].answer.norm};
        for (int p = 0; p < grid->stages; p++) {
            sum.params += members[pipeline * grid->stages + p].answer.params;
            sum.buffers += members[pipeline * grid->stages + p].answer.buffers;
        }
        if (pipeline == 0) *out = sum;
        if (sum.params != out->params)
            return fail(STATUS_BUG, "replica %d has other parameters", pipeline);
    }
    return STATUS_OK;
}

static enum status run_team(struct member *members, int ranks, struct answer *out) {
    for (int r = 0; r < ranks; r++) TRY(plan_member(&members[r]));
    if (ranks > 1) TRY(open_team(members, ranks));
    for (int r = 1; r < ranks; r++)
        pthread_create(&members[r].thread, NULL, member_main, &members[r]);
    member_main(&members[0]);
    for (int r = 1; r < ranks; r++) pthread_join(members[r].thread, NULL);
    for (int r = 0; r < ranks; r++) TRY(members[r].status);
    return collect(members, ranks, out);
}

static enum status parse_line(const char *line, struct options *out) {
    char *copy = mem_text(line), *word[64], *state = NULL;
    int count = 0;
    for (char *w = strtok_r(copy, " ", &state); w && count < 64; w = strtok_r(NULL, " ", &state))
        word[count++] = w;
    enum status status = options_parse(COMMAND_TRAIN, count, word, out);
    free(copy);
    return status;
}

static enum status run_line(const char *line, int ranks, struct answer *out) {
    struct options options;
    TRY(parse_line(line, &options));
    struct member *members = MEM_ARRAY(struct member, ranks);
    struct dataset *dataset = NULL;
    enum status status = resolve_data(&options, model_find(options.model), &dataset);
    for (int r = 0; r < ranks; r++)
        members[r] =
            (struct member){.given = &options, .dataset = dataset, .rank = r, .ranks = ranks};
    if (status == STATUS_OK) status = run_team(members, ranks, out);
    for (int r = 0; r < ranks; r++) exec_free(&members[r].exec);
    for (int r = 0; r < ranks; r++) comm_close(&members[r].comm);
    for (int r = 0; r < ranks; r++) plan_free(&members[r].plan);
    dataset_free(&dataset);
    options_free(&options);
    free(members);
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
    TRY(run_line(line, 1, out));
    known = mem_grow(known, &known_capacity, (size_t)known_count + 1, sizeof *known);
    known[known_count++] = (struct known){mem_text(line), *out};
    return STATUS_OK;
}

/* --- cells --- */

static const char *difference(const struct answer *a, const struct answer *b) {
    if (a->params != b->params) return "parameters";
    if (a->buffers != b->buffers) return "running statistics";
    if (fabs(a->loss - b->loss) > 1e-12 * fabs(b->loss)) return "loss"; /* added by rank */
    return a->norm != b->norm ? "norm of the gradients" : NULL;
}

static bool check_cell(char *line) {
    char *bar = strchr(line, '|');
    int ranks = atoi(line), skip = (int)strspn(line, "0123456789 ");
    struct answer one, many;
    if (!bar || ranks < 1) {
        printf("not ok  %s: not a cell\n", line);
        return false;
    }
    *bar = 0;
    const char *reference = bar + 1 + strspn(bar + 1, " ");
    bool refused = strcmp(reference, "refused") == 0;
    char log[1024] = "";
    log_capture(log, sizeof log);
    enum status status = run_line(line + skip, ranks, &many);
    const char *what = NULL;
    if (!refused && status == STATUS_OK) status = answer_of(reference, &one);
    log_capture(NULL, 0);
    if (!refused && status == STATUS_OK) what = difference(&many, &one);
    bool good = refused ? status == STATUS_USAGE : status == STATUS_OK && !what;
    if (!good) printf("not ok  %d %s: %s\n", ranks, line + skip, what ? what : log);
    return good;
}

int main(void) {
    char line[1024];
    int good = 0, bad = 0;
    int64_t begin = clock_ns();
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#') continue;
        if (check_cell(line))
            good++;
        else
            bad++;
        fflush(stdout);
    }
    double ms = (double)(clock_ns() - begin) * 1e-6;
    printf("%d cells equal, %d not; %.0f ms a cell\n", good, bad,
           ms / (good + bad ? good + bad : 1));
    for (int i = 0; i < known_count; i++) free(known[i].line);
    free(known);
    return bad || !good;
}
