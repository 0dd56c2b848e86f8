/* A training that goes on with another plan between two steps has the bits of one that does not:
 * ranks as threads and as processes, slices of ZeRO too. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../comm/trial.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/rank_threads.h"
#include "exec/train.h"
#include "kit.h"
#include "saves.h"

#define VIT                                                                                        \
    "--model vit-micro --data synthetic:size=8,test_count=8,count=80 --batch 32 --epochs 2 "       \
    "--threads 1 --sum tree --optimizer adamw --clip 0.5 "
#define DEEP VIT "--strategy 1f1b --stages 4 --micro-batches 4 -n 4"
#define WIDE VIT "--strategy 1f1b --stages 2 --replicas 2 --micro-batches 2 -n 4"

enum { RANKS = 4, MOST_STEPS = 8 };

/* What each step came to, and the model in the end. */
struct told {
    int64_t steps;
    double loss[MOST_STEPS], norm[MOST_STEPS];
    uint64_t params;
};

struct member {
    int rank;
    const struct options *options; /* of its two plans; a model NULL: there is one */
    struct kit_plan plan[2];
    int changes; /* so far */
    struct train_state state;
    struct engine *engine;
    struct told course;
    struct rank_threads *threads; /* NULL: it is a process */
    struct comm_link link;
    int openings;
};

static enum status open_comm(void *context, const struct plan *plan, struct comm **out) {
    struct member *member = context;
    if (member->threads) return rank_threads_comm(member->threads, member->rank, plan, out);
    struct comm_config config = {.rank = member->rank,
                                 .size = RANKS,
                                 .link = &member->link,
                                 .epoch = member->openings++,
                                 .heap_bytes = plan_heap_bytes(plan),
                                 .channel_bytes = plan_channel_bytes(plan),
                                 .host = "one"};
    return comm_open("shm", &config, out);
}

static void on_starting(void *context, const char *what, int64_t steps) {
    (void)context, (void)what, (void)steps;
}

static void on_step(void *context, const struct step_result *result) {
    struct told *course = context;
    course->loss[course->steps++] = result->loss;
}

static void on_row(void *context, const struct step_row *row) {
    ((struct told *)context)->norm[row->step] = row->grad_norm;
}

/* What is frozen stays so: its gradients and optimizer state are gone. */
static bool goes_back(const struct member *member) {
    return member->plan[0].plan->config.frozen == member->plan[1].plan->config.frozen;
}

/* After the second step, in the middle of an epoch; and back after the fourth. */
static enum status next_plan(void *context, int64_t steps, const struct plan **out) {
    struct member *member = context;
    if (steps == 2 || (steps == 4 && goes_back(member)))
        *out = member->plan[++member->changes % 2].plan;
    return STATUS_OK;
}

static enum status train(struct member *member) {
    struct engine_config engine = {.plan = member->plan[0].plan,
                                   .state = &member->state,
                                   .meeting = {.context = member, .open = open_comm}};
    struct train_observer observer = {
        .context = &member->course, .starting = on_starting, .step = on_step, .row = on_row};
    bool changes = member->plan[1].plan;
    struct train_config config = {.next_plan = changes ? next_plan : NULL, .context = member};
    struct train_result result;
    member->state = train_fresh();
    TRY(engine_open(&engine, &member->engine));
    TRY(engine_start(member->engine));
    TRY(train_all(&member->engine, &config, &observer, &result));
    if (engine_plan(member->engine) != member->plan[member->changes % 2].plan ||
        result.steps != member->course.steps)
        return fail(STATUS_BUG, "%lld steps told, %lld done", (long long)member->course.steps,
                    (long long)result.steps);
    return engine_param_hash(member->engine, &member->course.params);
}

/* On the rank's own thread: a device sets up the threads of whoever opens it. */
static enum status plan_both(struct member *member) {
    for (int p = 0; p < 2 && member->options[p].model; p++)
        TRY(kit_plan(&member->options[p], member->rank, RANKS, NULL, &member->plan[p]));
    return STATUS_OK;
}

static void close_rank(struct member *member) {
    engine_close(&member->engine);
    for (int p = 1; p >= 0; p--) kit_plan_free(&member->plan[p]);
}

/* --- threads --- */

static enum status train_task(void *context, int rank) {
    struct member *member = (struct member *)context + rank;
    TRY(plan_both(member));
    return train(member);
}

static enum status close_task(void *context, int rank) {
    close_rank((struct member *)context + rank);
    return STATUS_OK;
}

/* Sums of the ranks that answer for parameters: those of the first pipeline. */
static struct told of_all(const struct member *members) {
    struct told all = members[0].course;
    const struct grid *grid = &members[0].plan[members[0].changes % 2].plan->config.grid;
    all.params = 0;
    for (int p = 0; p < grid->stages; p++)
        all.params += members[group_rank(grid, GROUP_PIPELINE, 0, p)].course.params;
    return all;
}

static struct told run_threads(const char *line, const char *other) {
    struct options options[2] = {0};
    struct member members[RANKS] = {0};
    struct rank_threads *threads;
    kit_options(line, &options[0]);
    if (other) kit_options(other, &options[1]);
    cr_assert_eq(rank_threads_open(RANKS, false, &threads), STATUS_OK);
    for (int r = 0; r < RANKS; r++) {
        members[r].rank = r;
        members[r].threads = threads;
        members[r].options = options;
    }
    cr_assert_eq(rank_threads_do(threads, train_task, members), STATUS_OK);
    struct told course = of_all(members);
    rank_threads_try(threads, close_task, members);
    rank_threads_close(&threads);
    for (int p = 0; p < 2; p++) options_free(&options[p]);
    return course;
}

/* --- processes --- */

struct shared {
    struct trial_shared trial;
    struct told course[RANKS];
};

static void be_rank(struct shared *shared, int rank, const struct options *options) {
    struct member member = {.rank = rank, .options = options, .link = trial_link(&shared->trial)};
    enum status status = plan_both(&member);
    if (status == STATUS_OK) status = train(&member);
    shared->course[rank] = member.course;
    if (status != STATUS_OK) atomic_store(&shared->trial.lost, rank);
    close_rank(&member);
    _exit(status != STATUS_OK);
}

static struct told run_processes(const char *line, const char *other) {
    struct options options[2] = {0};
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
    atomic_store(&shared->trial.lost, -1);
    kit_options(line, &options[0]);
    kit_options(other, &options[1]);
    pid_t pid[RANKS];
    for (int r = 0; r < RANKS; r++) {
        pid[r] = fork();
        if (pid[r] > 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be_rank(shared, r, options);
    }
    for (int r = 0; r < RANKS; r++) {
        int how;
        cr_assert_eq(waitpid(pid[r], &how, 0), pid[r]);
        cr_expect(WIFEXITED(how) && WEXITSTATUS(how) == 0, "rank %d ended with %#x", r, how);
    }
    struct told all = shared->course[0];
    for (int r = 1; r < RANKS; r++) all.params += shared->course[r].params; /* one pipeline */
    munmap(shared, sizeof *shared);
    for (int p = 0; p < 2; p++) options_free(&options[p]);
    return all;
}

/* --- bits --- */

static void expect_equal(const struct told *have, const struct told *want, const char *what) {
    cr_expect_eq(have->steps, want->steps, "%s", what);
    for (int64_t s = 0; s < want->steps; s++) {
        cr_expect_eq(have->loss[s], want->loss[s], "%s, loss of step %d", what, (int)s);
        cr_expect_eq(have->norm[s], want->norm[s], "%s, norm of step %d", what, (int)s);
    }
    cr_expect_eq(have->params, want->params, "%s: %016llx, not %016llx", what,
                 (unsigned long long)have->params, (unsigned long long)want->params);
}

Test(exec_plan_change, pipelines_of_threads) {
    struct told same = run_threads(DEEP, NULL);
    cr_assert_eq(same.steps, 6);
    struct told changed = run_threads(DEEP, WIDE);
    expect_equal(&changed, &same, "4x1, 2x2 and back");
    changed = run_threads(WIDE, DEEP);
    expect_equal(&changed, &same, "2x2, 4x1 and back");
}

Test(exec_plan_change, pipelines_of_processes) {
    struct told same = run_threads(DEEP, NULL), changed = run_processes(DEEP, WIDE);
    expect_equal(&changed, &same, "4x1, 2x2 and back");
}

/* More blocks are frozen in the middle of an epoch, on the same grid and on another one: with sums
 * by the tree the bits are those of any ranks that freeze at this step. */
Test(exec_plan_change, freezing) {
    struct told deep = run_threads(DEEP, DEEP " --freeze 2"),
                wide = run_threads(WIDE, WIDE " --freeze 2"),
                both = run_threads(DEEP, WIDE " --freeze 2"),
                sliced = run_threads(DEEP, WIDE " --freeze 2 --zero-stage 2"),
                same = run_threads(DEEP, NULL);
    expect_equal(&wide, &deep, "2x2 beside 4x1");
    expect_equal(&both, &deep, "4x1 to 2x2");
    expect_equal(&sliced, &deep, "4x1 to slices on 2x2");
    cr_expect_eq(deep.norm[1], same.norm[1]);
    cr_expect_neq(deep.norm[2], same.norm[2], "frozen blocks have no gradients");
    cr_expect_neq(deep.params, same.params);
}

/* Each rank has slices of parameters and of the optimizer's state, then whole tensors, and back. */
Test(exec_plan_change, slices) {
    static const char whole[] = VIT "--strategy ddp -n 4 --micro-batches 1",
                      sliced[] = VIT "--strategy ddp --zero-stage 3 -n 4 --micro-batches 1";
    struct told same = run_threads(whole, NULL), changed = run_threads(sliced, whole);
    expect_equal(&changed, &same, "slices, whole and back");
}

/* Trains with a plan, and with another one after so many steps; how many there are in all. */
struct switching {
    const struct plan *to;
    int64_t after;
};

static enum status switch_plan(void *context, int64_t steps, const struct plan **out) {
    const struct switching *switching = context;
    if (steps == switching->after) *out = switching->to;
    return STATUS_OK;
}

static int64_t steps_of_two(const char *line, const char *other, int64_t after) {
    struct kit_run *run = kit_open("%s", line);
    struct options options;
    struct kit_plan next;
    struct told course = {0};
    struct train_result result;
    kit_options(other, &options);
    cr_assert_eq(kit_plan(&options, 0, 1, run->planned.dataset, &next), STATUS_OK);
    struct switching switching = {next.plan, after};
    struct train_config config = {.next_plan = switch_plan, .context = &switching};
    struct train_observer observer = {
        .context = &course, .starting = on_starting, .step = on_step, .row = on_row};
    cr_assert_eq(train_all(&run->engine, &config, &observer, &result), STATUS_OK);
    cr_expect(run->state.next.epoch == 2 && run->state.next.sample == 0);
    engine_close(&run->engine);
    kit_plan_free(&next);
    options_free(&options);
    kit_close(&run);
    return result.steps;
}

/* An epoch of 80 samples has three steps of 32, or two of 64: both plans end with their epochs. */
Test(exec_plan_change, ends_with_the_epochs) {
    static const char small[] = VIT "--deal 1x4", large[] = VIT "--deal 1x4 --batch 64";
    cr_expect_eq(steps_of_two(small, large, 2), 2 + 1 + 2);
    cr_expect_eq(steps_of_two(large, small, 1), 1 + 1 + 3);
}

/* Samples and updates are counted apart: a plan of larger steps begins where one of them begins. */
Test(exec_plan_change, counts_samples) {
    struct kit_run *run = kit_open(VIT "--deal 1x4 --epochs 3");
    struct options options;
    struct kit_plan large;
    char said[512] = "";
    kit_options(VIT "--deal 1x4 --batch 64", &options);
    cr_assert_eq(kit_plan(&options, 0, 1, run->planned.dataset, &large), STATUS_OK);
    kit_steps(run, 1);
    log_capture(said, sizeof said);
    cr_expect_eq(engine_change_plan(&run->engine, large.plan), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "at sample 32 of epoch 1"), "%s", said);
    kit_steps(run, 1);
    cr_assert_eq(engine_change_plan(&run->engine, large.plan), STATUS_OK);
    struct step_result result;
    cr_assert_eq(engine_step(run->engine, &result), STATUS_OK);
    cr_expect_eq(result.step, 2);
    cr_expect(result.epoch == 0 && result.step_in_epoch == 1);
    cr_expect_eq(result.samples, 16);
    cr_expect(run->state.done.step == 3 && run->state.next.epoch == 1 &&
              run->state.next.sample == 0);
    engine_close(&run->engine);
    kit_plan_free(&large);
    options_free(&options);
    kit_close(&run);
}

/* What laws count is of the run: four micro-batches, forward and backward, in each of two steps. */
Test(exec_plan_change, passes_by_laws_are_counted_over_plans) {
    struct kit_run *run = kit_open(VIT "--deal 1x4");
    struct hetero law = {.base_ns = 1};
    struct costs costs = {.hetero = &law};
    struct run_config config = run->planned.plan->config;
    struct plan *plan[2];
    struct step_result result;
    config.costs = &costs;
    engine_close(&run->engine);
    for (int p = 0; p < 2; p++) cr_assert_eq(plan_new(&config, NULL, &plan[p]), STATUS_OK);
    cr_assert_eq(kit_engine(plan[0], &run->state, NULL, &run->engine), STATUS_OK);
    cr_assert_eq(engine_step(run->engine, &result), STATUS_OK);
    int64_t begin_ns = run->state.laws.begin_ns;
    cr_assert_eq(engine_change_plan(&run->engine, plan[1]), STATUS_OK);
    cr_assert_eq(engine_step(run->engine, &result), STATUS_OK);
    cr_expect_eq(run->state.laws.passes, 2 * 4 * 2);
    cr_expect_eq(run->state.laws.begin_ns, begin_ns);
    engine_close(&run->engine);
    for (int p = 0; p < 2; p++) plan_free(&plan[p]);
    kit_close(&run);
}

/* Two steps of 32 samples, then one of 64 that ends the epoch: the third step of the larger plan
 * alone would begin elsewhere. */
Test(exec_plan_change, a_checkpoint_knows_the_sample, .init = saves_begin, .fini = saves_end) {
    static const char large_line[] = VIT "--deal 1x4 --batch 64 --epochs 3";
    struct kit_run *run = kit_open(VIT "--deal 1x4 --epochs 3"), *resumed = kit_open(large_line);
    struct options options;
    struct kit_plan large;
    struct step_result unbroken, result;
    kit_options(large_line, &options);
    cr_assert_eq(kit_plan(&options, 0, 1, run->planned.dataset, &large), STATUS_OK);
    kit_steps(run, 2);
    cr_assert_eq(engine_change_plan(&run->engine, large.plan), STATUS_OK);
    kit_steps(run, 1);
    save(run, 2, -1);
    cr_assert_eq(resume(resumed), 3);
    cr_expect(resumed->state.next.epoch == 1 && resumed->state.next.sample == 0);
    cr_assert_eq(engine_step(run->engine, &unbroken), STATUS_OK);
    cr_assert_eq(engine_step(resumed->engine, &result), STATUS_OK);
    cr_expect_eq(result.step, 3);
    cr_expect(result.epoch == 1 && result.step_in_epoch == 0 && result.samples == 64);
    cr_expect_eq(result.loss, unbroken.loss);
    kit_close(&resumed);
    /* A plan none of whose steps begins there. */
    struct kit_run *other = kit_open(VIT "--deal 1x4 --batch 40 --epochs 3");
    engine_close(&run->engine); /* before its plan */
    kit_plan_free(&large);
    options_free(&options);
    kit_close(&run);
    run = kit_open(VIT "--deal 1x4 --epochs 3");
    kit_steps(run, 4);
    save(run, 2, -1);
    cr_expect_eq(resume(other), -1);
    cr_expect(strstr(said, "at sample 32 of epoch 2"), "%s", said);
    kit_close(&other);
    kit_close(&run);
}
