/* Older versions of the parameters: which one a pass reads, what is kept, what is counted. Whole
 * trainings are held against a replay in tests/equal. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "exec/versions.h"
#include "kit.h"

#define TWO                                                                                        \
    "--model mlp --device ref --threads 1 --strategy pipedream-2bw --stages 1 --micro-batches 2 "  \
    "--steps 6 --data synthetic:size=8,count=64,test_count=8 --batch 8"

static float first_of(const struct store *store, int array) {
    return *(const float *)store->held[array].data;
}

/* One stage keeps the newest and the one before it; all before the first update are the first. */
Test(exec_versions, an_update_keeps_what_it_replaces) {
    struct kit_run *run = kit_open(TWO);
    struct store *store = engine_store(run->engine);
    cr_assert_eq(versions_kept(store), 1);
    float before = first_of(store, versions_array(store, 0));
    cr_expect_eq(versions_array(store, -1), versions_array(store, 0));
    for (int64_t t = 1; t <= 4; t++) {
        kit_steps(run, 1);
        cr_expect_eq(store->updates, t);
        cr_expect_eq(versions_array(store, t), state_array(store->layout, ARRAY_PARAM, 0));
        cr_expect_eq(first_of(store, versions_array(store, t - 1)), before, "after %d updates",
                     (int)t);
        float now = first_of(store, versions_array(store, t));
        cr_expect_neq(now, before);
        before = now;
    }
    cr_assert_eq(versions_fill(store), STATUS_OK);
    cr_expect_eq(first_of(store, versions_array(store, 3)), before);
    kit_close(&run);
}

/* The first update is made with what it changes, all others with what was there one before. */
Test(exec_versions, staleness_is_counted) {
    struct kit_run *run = kit_open(TWO);
    kit_steps(run, -1);
    cr_expect_eq(run->state.stale.updates[0], 1);
    cr_expect_eq(run->state.stale.updates[1], 5);
    kit_close(&run);
}

static void one_more(void *context, const struct instr *instr, int64_t step, int64_t now_ns) {
    struct kit_run **run = context;
    (void)now_ns;
    if (instr->op == INSTR_STEP && step == 2) engine_store((*run)->engine)->updates++;
}

/* Somebody else has updated in between, and the program says that nobody does. */
Test(exec_versions, an_update_that_is_staler_than_declared_is_a_bug) {
    struct kit_run *run = NULL;
    struct engine_observer observer = {.context = &run, .starting = one_more};
    struct step_result result;
    char log[512] = "";
    run = kit_open_watched(&observer, "--model mlp --device ref --threads 1 --steps 4");
    kit_steps(run, 2);
    log_capture(log, sizeof log);
    cr_expect_eq(engine_step(run->engine, &result), STATUS_BUG);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "step 3: 1 updates came between"), "%s", log);
    kit_close(&run);
}
