/* Norms of blocks over steps: what they add up, on how many ranks, and how a checkpoint keeps them.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../late/late.h"
#include "base/mem.h"
#include "exec/manifest.h"
#include "exec/state.h"
#include "exec/train.h"
#include "graph/freeze.h"
#include "kit.h"

enum { BLOCKS = 4 };
#define VIT                                                                                        \
    "--model vit-micro --data synthetic:size=8,test_count=8,count=24 --batch 8 --epochs 1 "        \
    "--threads 1 --clip 0 --deal 2x2 "

struct normed {
    struct options options;
    struct kit_plan planned;
    struct train_state state;
    struct engine *engine;
};

static void open_normed(struct normed *run, struct exact_sum *squares, const char *line) {
    kit_options(line, &run->options);
    cr_assert_eq(kit_plan(&run->options, 0, 1, NULL, &run->planned), STATUS_OK);
    run->state = train_fresh();
    run->state.norms = (struct train_norms){squares, BLOCKS};
    cr_assert_eq(kit_engine(run->planned.plan, &run->state, NULL, &run->engine), STATUS_OK);
}

static void close_normed(struct normed *run) {
    engine_close(&run->engine);
    kit_plan_free(&run->planned);
    options_free(&run->options);
}

/* The squares of the gradients of each block, and in `all` of the whole model, of the step before.
 */
static void add_gradients(struct engine *engine, double *blocks, double *all) {
    const struct graph *graph = engine_plan(engine)->micro[0].graph;
    const struct state_layout *layout = engine_store(engine)->layout;
    int array = state_array(layout, ARRAY_GRAD, 0);
    for (int p = 0; p < graph->param_count; p++) {
        int64_t count = shape_count(&layout->params[p].type.shape);
        int block = freeze_block(graph, graph->params[p].block);
        SCOPED_FREE float *plain = MEM_ARRAY(float, count);
        if (!state_holds(&layout->params[p])) continue;
        cr_assert_eq(store_get(engine_store(engine), array, p, plain), STATUS_OK);
        for (int64_t i = 0; i < count; i++) {
            double square = (double)plain[i] * plain[i];
            if (block < BLOCKS) blocks[block] += square;
            *all += square;
        }
    }
}

static void expect_near(double have, double want, const char *what, int number) {
    cr_expect(fabs(have - want) <= 1e-6 * want, "%s %d: %.17g, and not %.17g", what, number, have,
              want);
}

/* The layers before the first block count with it; the head counts nowhere. */
Test(exec_norms, blocks_add_up_over_steps) {
    struct normed run = {0};
    struct exact_sum squares[BLOCKS] = {0};
    struct step_result result;
    double blocks[BLOCKS] = {0};
    open_normed(&run, squares, VIT);
    for (int s = 0; s < 3; s++) {
        double all = 0, norm;
        cr_assert_eq(engine_step(run.engine, &result), STATUS_OK);
        cr_assert_eq(engine_settle(run.engine), STATUS_OK);
        add_gradients(run.engine, blocks, &all);
        cr_assert(engine_norm(run.engine, s, &norm));
        expect_near(norm * norm, all, "step", s);
        if (s == 1) cr_assert_eq(engine_gather_norms(run.engine), STATUS_OK);
    }
    cr_expect(exact_total(&squares[0]) < blocks[0], "nobody has gathered the last step's");
    cr_assert_eq(engine_gather_norms(run.engine), STATUS_OK);
    for (int b = 0; b < BLOCKS; b++) expect_near(exact_total(&squares[b]), blocks[b], "block", b);
    close_normed(&run);
}

/* Where the device's memory is its own, sums lie there until they are gathered. */
Test(exec_norms, a_device_apart_has_the_same) {
    static const char *const lines[] = {VIT "--device ref", VIT "--device late"};
    struct exact_sum squares[2][BLOCKS] = {0};
    struct step_result result;
    late_add();
    for (int i = 0; i < 2; i++) {
        struct normed run = {0};
        open_normed(&run, squares[i], lines[i]);
        for (int s = 0; s < 3; s++) cr_assert_eq(engine_step(run.engine, &result), STATUS_OK);
        cr_assert_eq(engine_settle(run.engine), STATUS_OK);
        cr_assert_eq(engine_gather_norms(run.engine), STATUS_OK);
        close_normed(&run);
    }
    for (int b = 0; b < BLOCKS; b++) {
        double host = exact_total(&squares[0][b]);
        cr_expect(host > 0 && host == exact_total(&squares[1][b]), "block %d", b);
    }
}

Test(exec_norms, frozen_blocks_have_none) {
    struct normed run = {0};
    struct exact_sum squares[BLOCKS] = {0};
    struct step_result result;
    open_normed(&run, squares, VIT "--freeze 2");
    cr_assert_eq(engine_step(run.engine, &result), STATUS_OK);
    cr_assert_eq(engine_settle(run.engine), STATUS_OK);
    cr_assert_eq(engine_gather_norms(run.engine), STATUS_OK);
    for (int b = 0; b < BLOCKS; b++)
        cr_expect((exact_total(&squares[b]) > 0) == (b >= 2), "block %d", b);
    close_normed(&run);
}

Test(exec_norms, a_manifest_keeps_sums_to_the_last_bit) {
    struct exact_sum squares[3] = {0};
    struct course_part parts[] = {{0, 0, 4, 1, 4}, {7, 3, 2, 2, 2}};
    struct manifest_file file = {"model.safetensors", {5, 6}};
    struct manifest manifest = {.state = {.step = 9, .best_step = -1},
                                .course = {parts, 2, {squares, 3}},
                                .files = &file,
                                .file_count = 1};
    struct manifest again;
    for (int i = 0; i < 1000; i++) exact_add(&squares[0], ldexp(1.25, i % 600 - 300));
    exact_add(&squares[2], 0x1p-1074);
    SCOPED_FREE char *text = manifest_print(&manifest);
    cr_assert_eq(manifest_parse("here", text, strlen(text), &again), STATUS_OK);
    cr_assert(again.course.count == 2 && again.course.norms.blocks == 3);
    cr_expect(memcmp(&again.course.part[1], &parts[1], sizeof parts[1]) == 0);
    for (int b = 0; b < 3; b++) {
        struct exact_sum rest = again.course.norms.squares[b];
        for (int i = 0; i < EXACT_LIMBS; i++) rest.limb[i] = -rest.limb[i];
        exact_merge(&rest, &squares[b]);
        cr_expect_eq(exact_total(&rest), 0, "block %d", b);
    }
    manifest_free(&again);
}
