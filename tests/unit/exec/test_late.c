/* The executor on the device `late` (tests/late): memory that the host cannot touch, streams that
 * run as late as they may. Who reaches past the backend's table ends with SIGSEGV, who reads before
 * an event has other bits than `ref`. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../late/late.h"
#include "base/log.h"
#include "exec/answer.h"
#include "exec/reached.h"
#include "exec/state.h"
#include "kit.h"

struct trained {
    double loss, eval_loss, norm;
    uint64_t hash;
};

static struct trained train(const char *device, const char *line) {
    struct kit_run *run = kit_open("%s --device %s --threads 1", line, device);
    struct eval_result eval;
    struct step_result step = kit_steps(run, -1);
    struct trained trained = {.loss = step.loss};
    cr_assert_eq(engine_settle(run->engine), STATUS_OK);
    cr_expect(engine_norm(run->engine, step.step, &trained.norm));
    cr_assert_eq(engine_evaluate(run->engine, &eval), STATUS_OK);
    trained.eval_loss = eval.loss;
    trained.hash = kit_hash(run);
    kit_close(&run);
    return trained;
}

#define IMAGES "--data synthetic:count=24,test_count=12,size=8,channels=1,classes=3 --batch 8 "
static const char *const lines[] = {
    "--model mlp --data synthetic:count=24,size=8 --batch 8 --steps 5 --micro-batches 2 --clip 1",
    "--model lenet --data synthetic:count=20,size=28,channels=1 --batch 8 --epochs 2 --optimizer "
    "adamw",
    "--model resnet8 " IMAGES "--steps 4 --micro-batches 2 --recompute always:block",
    "--model resnet8 " IMAGES "--steps 3 --deal 2x1 --sync-bn",
    "--model resnet8 " IMAGES "--steps 3 --deal 2x2 --sync-bn",
    "--model resnet8 " IMAGES "--steps 3 --deal 2x2 --sum tree",
    "--model gpt2-nano --data synthetic:kind=text,seq=16,vocab=200,count=8,test_count=4 --batch 4 "
    "--steps 3 --dtype bf16"};

Test(exec_late, one_rank_has_the_bits_of_ref, .timeout = 120) {
    late_add();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct trained here = train("ref", lines[i]), late = train("late", lines[i]);
        cr_expect_eq(here.hash, late.hash, "%s", lines[i]);
        cr_expect_eq(here.loss, late.loss, "%s", lines[i]);
        cr_expect_eq(here.norm, late.norm, "%s", lines[i]);
        cr_expect_eq(here.eval_loss, late.eval_loss, "%s", lines[i]);
    }
}

/* --- several ranks, as threads --- */

struct ranks {
    struct options options;
    struct kit_plan plan[4];
    int count;
};

static enum status plan_rank(void *context, int rank, const struct plan **out) {
    struct ranks *ranks = context;
    TRY(kit_plan(&ranks->options, rank, ranks->count, rank ? ranks->plan[0].dataset : NULL,
                 &ranks->plan[rank]));
    *out = ranks->plan[rank].plan;
    return STATUS_OK;
}

/* A rank that fails ends the process, as one that reads no label does. */
static struct answer answer_of(int count, const char *device, const char *comm, const char *line) {
    char all[512];
    struct ranks ranks = {.count = count};
    struct answer answer = {0};
    snprintf(all, sizeof all, "%s --device %s --comm %s --threads 1", line, device, comm);
    kit_options(all, &ranks.options);
    struct answer_config config = {.ranks = count, .context = &ranks, .plan = plan_rank};
    if (answer_train(&config, &answer) != STATUS_OK) _exit(2);
    for (int r = count - 1; r >= 0; r--) kit_plan_free(&ranks.plan[r]);
    options_free(&ranks.options);
    return answer;
}

/* Each event that a stream of computation waits for, and what has other bits without it. */
#define MLP "--model mlp --data synthetic:count=64,size=8 --batch 16 --steps 4 "
static const struct {
    const char *instr;
    int ranks;
    const char *line;
    const char *comm; /* of late */
    int stream;       /* that has the copy: 1 of the communicator, 2 of LOAD, 3 of the plane */
    enum late_kind behind;
} awaited[] = {
    {"LOAD", 1, MLP "--micro-batches 2", "auto", 2, LATE_COPY_IN},
    {"REDUCE", 2, MLP "--strategy ddp", "shm", 1, LATE_COPY_IN},
    {"GATHER", 2, MLP "--strategy ddp --zero-stage 3", "shm", 1, LATE_COPY_IN},
    {"RECV", 2, MLP "--strategy 1f1b --stages 2 --micro-batches 4", "shm", 1, LATE_COPY_IN},
    {"RECV where steps overlap", 2, MLP "--strategy pipedream --stages 2", "shm", 1, LATE_COPY_IN},
    {"RECV by peer", 2, MLP "--strategy 1f1b --stages 2 --micro-batches 4", "peer", 3, LATE_ARRAY},
    {"REDUCE by peer", 2, MLP "--strategy ddp", "peer", 3, LATE_ARRAY},
    {"GATHER by peer", 2, MLP "--strategy ddp --zero-stage 3", "peer", 3, LATE_ARRAY}};

/* In a process of its own: what is read too early may be no label, and end it. */
static bool is_as_ref(int which, bool drops) {
    int end;
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        if (drops) cr_assert_not_null(freopen("/dev/null", "w", stderr));
        struct answer ref = answer_of(awaited[which].ranks, "ref", "auto", awaited[which].line);
        if (drops) late_drop_waits(awaited[which].stream, awaited[which].behind);
        struct answer late =
            answer_of(awaited[which].ranks, "late", awaited[which].comm, awaited[which].line);
        _exit(answer_difference(&ref, &late) ? 1 : 0);
    }
    cr_assert_eq(waitpid(child, &end, 0), child);
    return end == 0;
}

Test(exec_late, a_wait_that_is_left_out_has_other_bits, .timeout = 240) {
    late_add();
    for (int i = 0; i < (int)(sizeof awaited / sizeof *awaited); i++) {
        cr_expect(is_as_ref(i, false), "%s", awaited[i].line);
        cr_expect(!is_as_ref(i, true), "%s: the wait for it changes nothing", awaited[i].instr);
    }
}

/* --- steps that are enqueued ahead --- */

/* As train.c does it: two more before the first is looked at. */
static uint64_t train_ahead(struct kit_run *run, int64_t steps) {
    struct step_result result;
    int64_t told = 0;
    cr_assert_eq(engine_ahead(run->engine), 2);
    while (told < steps) {
        bool more = engine_next_step(run->engine) < steps;
        if (more) cr_assert_eq(engine_enqueue(run->engine), STATUS_OK);
        if (more && engine_unfinished(run->engine) <= engine_ahead(run->engine)) continue;
        cr_assert_eq(engine_finish(run->engine, &result), STATUS_OK);
        cr_expect_eq(result.step, told++);
        cr_expect(isfinite(result.grad_norm));
    }
    return kit_hash(run);
}

Test(exec_late, steps_that_are_enqueued_ahead_have_the_same_bits, .timeout = 120) {
    late_add();
    for (size_t i = 0; i < 2; i++) {
        struct kit_run *one = kit_open("%s --device late --threads 1", lines[i]),
                       *ahead = kit_open("%s --device late --threads 1", lines[i]);
        kit_steps(one, 5);
        cr_expect_eq(kit_hash(one), train_ahead(ahead, 5), "%s", lines[i]);
        kit_close(&one);
        kit_close(&ahead);
    }
}

/* A step whose gradients are not finite is found when two more have been enqueued. None of them
 * changes a parameter, and the message has its number. */
static void expect_failure(const char *options, const char *param, int count, float value,
                           const char *what) {
    struct kit_run *run = kit_open(MLP "%s --device late --threads 1", options);
    struct step_result result;
    char said[1024] = "";
    kit_steps(run, 1);
    for (int i = 0; i < count; i++) kit_set_param(run, param, i, value);
    uint64_t hash = kit_hash(run);
    for (int i = 0; i < 3; i++) cr_assert_eq(engine_enqueue(run->engine), STATUS_OK);
    log_capture(said, sizeof said);
    enum status status = engine_finish(run->engine, &result);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_NUMERIC);
    cr_expect(strstr(said, "step 2:") && strstr(said, what), "%s", said);
    cr_expect_eq(engine_unfinished(run->engine), 0);
    cr_expect_eq(kit_hash(run), hash, "%s: parameters moved", param);
    kit_close(&run);
}

Test(exec_late, what_is_not_finite_stops_the_steps_behind_it, .timeout = 120) {
    late_add();
    expect_failure("", "fc2.weight", 1, NAN, "parameter fc2.weight, read by linear");
    expect_failure("--clip 1", "fc1.bias", 1, INFINITY, "parameter fc1.bias, read by linear");
    expect_failure("--deal 1x2", "fc2.weight", 128, 3e38f, "tensor fc2.relu, made by linear");
}

/* --- kernels that fail --- */

/* The n-th node of a graph that has a kernel, in the order of forward. */
static const struct node *kernel_at(const struct graph *graph, int n) {
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].kernel && n-- == 0) return &graph->nodes[i];
    return NULL;
}

/* The host has enqueued two more steps when the kernel fails. */
Test(exec_late, a_kernel_that_fails_later_is_named, .timeout = 60) {
    enum { AT = 3 };
    late_add();
    struct kit_run *run = kit_open(MLP "--device late --threads 1");
    const struct graph *graph = run->planned.plan->micro[0].graph;
    const struct node *node = kernel_at(graph, AT);
    struct step_result result;
    char said[1024] = "", want[512];
    kit_steps(run, 1);
    log_capture(said, sizeof said);
    late_fail_kernel(AT + 1);
    enum status status = STATUS_OK;
    for (int i = 0; i < 2 && status == STATUS_OK; i++) status = engine_enqueue(run->engine);
    if (status == STATUS_OK) status = engine_finish(run->engine, &result);
    log_capture(NULL, 0);
    snprintf(want, sizeof want, " r0 F s0 m0 a0 of step 2: %s, which makes %s, by kernel %s\n",
             op_def(node->op)->name, graph->values[node->out[0]].name, node->kernel->name);
    cr_expect_eq(status, STATUS_BUG);
    cr_expect(strstr(said, want), "%sin: %s", want, said);
    cr_expect_null(strstr(strstr(said, "it failed") + 1, "it failed"), "said twice: %s", said);
    late_fail_kernel(0);
    kit_close(&run);
}

/* Later marks are behind every sixteenth kernel. */
Test(exec_late, one_of_some_kernels_is_named_late_in_a_run, .timeout = 120) {
    late_add();
    struct kit_run *run =
        kit_open("--model mlp --data synthetic:count=64,size=8 --batch 8 --epochs "
                 "1000 --device late --threads 1");
    struct step_result result;
    char said[2048] = "";
    enum status status = STATUS_OK;
    while (run->engine->trail.count < TRAIL_EACH) kit_steps(run, 1);
    log_capture(said, sizeof said);
    late_fail_kernel(3);
    while (status == STATUS_OK) status = engine_step(run->engine, &result);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_BUG);
    cr_expect(strstr(said, " r0 F s0 m0 a0 of step ") && strstr(said, "at one of ") &&
                  strstr(said, "which makes"),
              "%s", said);
    kit_close(&run);
}

/* --- memory --- */

/* What is predicted is the device's memory, within a twentieth of what is taken of it; after the
 * second step nothing more is taken. */
Test(exec_late, device_memory_is_predicted, .timeout = 120) {
    late_add();
    for (size_t i = 1; i < sizeof lines / sizeof *lines; i++) {
        struct kit_run *run = kit_open("%s --device late --threads 1", lines[i]);
        struct device *device = run->planned.plan->device;
        size_t predicted = plan_bytes(run->planned.plan);
        struct device_bytes begun, taken;
        kit_steps(run, 2);
        device->backend->memory_bytes(device, &begun);
        kit_steps(run, -1);
        device->backend->memory_bytes(device, &taken);
        size_t peak = taken.peak;
        cr_expect_eq(peak, begun.peak, "%s", lines[i]);
        cr_expect(fabs((double)peak - (double)predicted) < 0.05 * (double)predicted,
                  "%s: %zu predicted, %zu taken", lines[i], predicted, peak);
        kit_close(&run);
    }
}

/* A wait that lasts names the instruction that the device is at. What is enqueued waits there until
 * somebody asks for it, or for a while: it is seen under way in one of some steps. */
Test(exec_late, the_instruction_that_the_device_is_at_is_known, .timeout = 60) {
    late_add();
    struct kit_run *run =
        kit_open("--model mlp --data synthetic:count=64,size=8 --batch 8 --steps 40 "
                 "--device late --threads 1");
    struct step_result result;
    bool seen = false;
    for (int i = 0; i < 40; i++) {
        int64_t step = -1;
        cr_assert_eq(engine_enqueue(run->engine), STATUS_OK);
        const struct instr *at = engine_reached(run->engine, &step);
        seen |= at && at->op == INSTR_F && step == i;
        cr_assert_eq(engine_finish(run->engine, &result), STATUS_OK);
        cr_expect_null(engine_reached(run->engine, &step));
    }
    cr_expect(seen);
    kit_close(&run);
}
