/* --recompute: the bits of a run that keeps all activations, in less memory. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/flops.h"
#include "base/file.h"
#include "base/log.h"
#include "exec/state.h"
#include "kit.h"

#define RUN "--threads 1 --batch 12 --epochs 2 --stages 1 --micro-batches 3 "
#define IMAGES "--data synthetic:count=29,test_count=4,channels=1,size=16,classes=10 "
#define BN RUN IMAGES "--model resnet8 --strategy "
#define VIT RUN IMAGES "--model vit-micro --dropout 0.2 --strategy "

struct ending {
    uint64_t params, buffers;
    double loss;
};

static struct ending end_of(struct kit_run *run) {
    struct ending end = {.loss = kit_steps(run, -1).loss};
    end.params = kit_hash(run);
    cr_assert_eq(store_buffer_hash(engine_store(run->engine), &end.buffers), STATUS_OK);
    kit_close(&run);
    return end;
}

static void expect_same(struct ending a, struct ending b, const char *what) {
    cr_expect_eq(a.params, b.params, "%s: other parameters", what);
    cr_expect_eq(a.buffers, b.buffers, "%s: other running statistics", what);
    cr_expect_eq(a.loss, b.loss, "%s: another loss", what);
}

/* An epoch's last step is short, and its last micro-batch shorter. */
Test(exec_recompute, has_the_bits_of_activations_that_are_kept) {
    static const char *const lines[] = {BN, VIT};
    static const char *const schedules[] = {"gpipe", "interleaved", "zbv"};
    for (int i = 0; i < 6; i++) {
        const char *line = lines[i / 3], *schedule = schedules[i % 3];
        struct ending kept = end_of(kit_open("%s %s", line, schedule));
        expect_same(end_of(kit_open("%s %s --recompute always", line, schedule)), kept, schedule);
        expect_same(end_of(kit_open("%s %s --recompute except-last", line, schedule)), kept,
                    schedule);
    }
}

/* Whoever runs in between leaves nothing in the memory that slots share; R and the backward behind
 * it are not interrupted. */
static void spoil(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                  int64_t end_ns) {
    struct kit_run *run = *(struct kit_run **)context;
    (void)step, (void)begin_ns, (void)end_ns;
    if (!run || instr->op == INSTR_R || !instr_runs_nodes(instr)) return;
    const struct plan *plan = run->engine->plan;
    memset(run->engine->arena + plan->shared_begin, 0xff, plan->shared_bytes);
}

Test(exec_recompute, needs_nothing_of_the_shared_memory_but_from_r_to_backward) {
    static const char *const schedules[] = {"gpipe", "zbv"};
    struct kit_run *run = NULL;
    struct engine_observer observer = {.context = &run, .instr = spoil};
    for (int i = 0; i < 2; i++) {
        struct ending kept = end_of(kit_open(BN "%s", schedules[i]));
        run = kit_open_watched(&observer, BN "%s --recompute always", schedules[i]);
        cr_expect_gt(run->planned.plan->shared_bytes, 0);
        expect_same(end_of(run), kept, schedules[i]);
        run = NULL;
    }
}

/* --- memory --- */

static size_t slot_bytes(const struct plan *plan, enum slot_form form) {
    return plan->chunk[0].slot_bytes[form];
}

static size_t activations(const char *line) {
    struct kit_run *run = kit_open("%s", line);
    size_t bytes = run->planned.plan->memory.activations;
    kit_close(&run);
    return bytes;
}

Test(exec_recompute, slots_keep_what_came_in) {
    struct kit_run *run = kit_open(BN "gpipe --recompute except-last");
    const struct plan *plan = run->planned.plan;
    cr_expect_eq(plan->sizes[0].slots, 3);
    cr_expect_eq(plan->forms.of[0], FORM_KEPT);
    cr_expect_eq(plan->forms.of[1], FORM_LIGHT);
    cr_expect_eq(plan->forms.of[2], FORM_LIGHT);
    cr_expect_not(plan->forms.mixed);
    /* One stage receives nothing and sends nothing: losses are left. */
    cr_expect_lt(slot_bytes(plan, FORM_LIGHT), 1024);
    cr_expect_gt(slot_bytes(plan, FORM_KEPT), 100 * slot_bytes(plan, FORM_LIGHT));
    cr_expect_eq(plan_slot_begin(plan, 0, 1), slot_bytes(plan, FORM_KEPT));
    cr_expect_eq(plan_slot_begin(plan, 0, 3),
                 slot_bytes(plan, FORM_KEPT) + 2 * slot_bytes(plan, FORM_LIGHT));
    kit_close(&run);
    size_t never = activations(BN "gpipe"), some = activations(BN "gpipe --recompute except-last"),
           always = activations(BN "gpipe --recompute always");
    cr_expect_lt(always, some);
    cr_expect_lt(some, never);
}

/* With what W needs, a slot of split backwards keeps more; still less than all. */
Test(exec_recompute, slots_of_split_backwards_keep_what_the_weights_need) {
    struct kit_run *never = kit_open(BN "zbv"), *split = kit_open(BN "zbv --recompute always"),
                   *whole = kit_open(BN "interleaved --recompute always");
    cr_expect_lt(split->planned.plan->memory.activations, never->planned.plan->memory.activations);
    cr_expect_lt(slot_bytes(split->planned.plan, FORM_LIGHT),
                 slot_bytes(never->planned.plan, FORM_KEPT));
    cr_expect_gt(slot_bytes(split->planned.plan, FORM_LIGHT),
                 slot_bytes(whole->planned.plan, FORM_LIGHT));
    kit_close(&never);
    kit_close(&split);
    kit_close(&whole);
}

Test(exec_recompute, costs_the_forwards_that_run_again) {
    struct kit_run *never = kit_open(BN "gpipe"),
                   *some = kit_open(BN "gpipe --recompute except-last"),
                   *always = kit_open(BN "gpipe --recompute always");
    double forward = graph_flops(always->planned.plan->micro[0].graph, PHASE_FORWARD);
    double again = plan_recompute_flops(always->planned.plan);
    cr_expect_eq(plan_recompute_flops(never->planned.plan), 0);
    cr_expect_float_eq(plan_recompute_flops(some->planned.plan), again * 2 / 3, 1);
    cr_expect_leq(again, 3 * forward);
    cr_expect_geq(again, 0.9 * 3 * forward, "almost all of it is read by backward");
    cr_expect_float_eq(plan_step_flops(always->planned.plan),
                       plan_step_flops(never->planned.plan) + again, 1);
    cr_expect_gt(plan_step_ns(always->planned.plan), plan_step_ns(never->planned.plan));
    kit_close(&never);
    kit_close(&some);
    kit_close(&always);
}

/* --- programs of one's own --- */

static char *text_of(const struct program *program) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(program, stream);
    fclose(stream);
    return text;
}

/* The body recomputes, the short last step, which the program leaves to the strategy, does not:
 * their slots are good for both. */
Test(exec_recompute, a_program_of_its_own_may_recompute_where_the_short_step_does_not) {
    struct kit_run *always = kit_open(BN "gpipe --recompute always");
    program_set_last(always->planned.plan->program, NULL);
    char *text = text_of(always->planned.plan->program), *folder = kit_folder(), *path;
    path = mem_format("%s/program.txt", folder);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    struct run_config config = always->planned.plan->config;
    config.recompute = RECOMPUTE_NEVER;
    struct bytes bytes = {(unsigned char *)text, strlen(text)};
    struct plan *plan;
    cr_assert_eq(plan_new(&config, &(struct plan_given){.name = path, .program = &bytes}, &plan),
                 STATUS_OK);
    cr_expect(plan->forms.mixed);
    cr_expect(plan->forms.has[FORM_KEPT]);
    plan_free(&plan);
    kit_close(&always);
    expect_same(end_of(kit_open(BN "gpipe --program %s", path)), end_of(kit_open(BN "gpipe")),
                "mixed");
    remove(path);
    remove(folder);
    free(path);
    free(folder);
    free(text);
}

/* --- refused --- */

static void expect_refused(const char *line, const char *words) {
    struct options options;
    struct kit_plan plan;
    char said[1024] = "";
    kit_options(line, &options);
    log_capture(said, sizeof said);
    enum status status = kit_plan(&options, 0, 1, NULL, &plan);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(said, words), "%s", said);
    options_free(&options);
}

Test(exec_recompute, is_refused_where_it_saves_nothing) {
    expect_refused("--model mlp --recompute always", "--recompute always saves nothing");
    expect_refused("--model mlp --deal 2x2 --recompute except-last",
                   "--recompute except-last saves nothing");
}

/* --- not finite --- */

/* Finite losses, infinite gradients. The search runs forward again, too: what backward reads is not
 * what it left. */
Test(exec_recompute, what_is_not_finite_is_still_found) {
    struct kit_run *run =
        kit_open(RUN "--data synthetic --model mlp --strategy gpipe --recompute always");
    char said[1024] = "";
    struct step_result result;
    for (int i = 0; i < 64 * 128; i++) kit_set_param(run, "fc2.weight", i, i % 129 ? 0 : 1e-36f);
    for (int i = 0; i < 64; i++) kit_set_param(run, "fc2.bias", i, 1e-36f);
    for (int i = 0; i < 128; i++) kit_set_param(run, "fc1.bias", i, 1e3f);
    for (int i = 0; i < 640; i++)
        kit_set_param(run, "fc3.weight", i, i % 128 < 64 ? 3e38f : -3e38f);
    log_capture(said, sizeof said);
    cr_expect_eq(engine_step(run->engine, &result), STATUS_NUMERIC);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "norm of the gradients") && strstr(said, "(backward) on micro-batch 0"),
              "%s", said);
    kit_close(&run);
}
