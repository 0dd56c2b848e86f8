/* A rank without a stage (a driver): it plans no memory for a model, meets the others where all
 * ranks do, and knows of each step and evaluation what they know. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "exec/state.h"
#include "kit.h"
#include "plan/resolve.h"

/* The third step of an epoch has 3 of 8 samples. */
#define MODEL                                                                                      \
    "--model mlp --data synthetic:count=19,test_count=7 --device ref --threads 1 --batch 8 "       \
    "--micro-batches 4 --steps 4 --strategy "

enum { STAGES = 2, RANKS = STAGES + 1, STEPS = 4 };

struct member {
    int rank;
    struct dataset *dataset;
    struct plan *plan;
    struct comm *comm;
    struct train_state state;
    struct engine *engine;
    struct step_result step[STEPS];
    struct eval_result eval;
    uint64_t params;
    enum status status;
    pthread_t thread;
};

struct rank_set {
    struct options options;
    struct dataset *dataset;
    struct member member[RANKS];
    struct comm *comm[RANKS];
};

/* What the options resolve to for the stages, with a driver before them. */
static void plan_member(const struct rank_set *set, struct member *member) {
    struct options options = set->options;
    struct resolve_place place = {.ranks = STAGES, .threads = 1};
    struct run_config config;
    cr_assert_eq(resolve_run(&options, model_find(options.model), set->dataset, &place, &config),
                 STATUS_OK);
    config.grid.drivers = 1;
    config.ranks = RANKS;
    config.rank = member->rank;
    config.cell = grid_cell(&config.grid, member->rank);
    cr_assert_eq(plan_new(&config, NULL, &member->plan), STATUS_OK);
}

static struct rank_set *ranks_open(void) {
    struct rank_set *set = MEM_NEW(struct rank_set);
    size_t heap, channels;
    kit_options(MODEL "pmp", &set->options);
    cr_assert_eq(resolve_data(&set->options, model_find("mlp"), &set->dataset), STATUS_OK);
    for (int r = 0; r < RANKS; r++) {
        set->member[r].rank = r;
        plan_member(set, &set->member[r]);
    }
    plan_most_shared_bytes(set->member[0].plan, &heap, &channels);
    cr_assert_eq(comm_open_threads(RANKS, heap, channels, set->comm), STATUS_OK);
    for (int r = 0; r < RANKS; r++) set->member[r].comm = set->comm[r];
    return set;
}

/* An engine that was opened has taken the communicator. */
static void ranks_free(struct rank_set **set) {
    for (int r = 0; r < RANKS; r++)
        if (!(*set)->member[r].engine) comm_close(&(*set)->member[r].comm);
    for (int r = 0; r < RANKS; r++) engine_close(&(*set)->member[r].engine);
    for (int r = 0; r < RANKS; r++) plan_free(&(*set)->member[r].plan);
    dataset_free(&(*set)->dataset);
    options_free(&(*set)->options);
    free(*set);
    *set = NULL;
}

static enum status train(struct member *member) {
    member->state = train_fresh();
    TRY(kit_engine(member->plan, &member->state, &member->comm, &member->engine));
    TRY(engine_start(member->engine));
    for (int s = 0; s < STEPS; s++) {
        TRY(engine_step(member->engine, &member->step[s]));
        if (s > 0) engine_norm(member->engine, s - 1, &member->step[s - 1].grad_norm);
    }
    TRY(engine_settle(member->engine));
    engine_norm(member->engine, STEPS - 1, &member->step[STEPS - 1].grad_norm);
    TRY(engine_evaluate(member->engine, &member->eval));
    return engine_param_hash(member->engine, &member->params);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    member->status = train(member);
    if (member->status != STATUS_OK) comm_abort(engine_comm(member->engine), member->rank);
    return NULL;
}

static void ranks_run(struct rank_set *set) {
    for (int r = 0; r < RANKS; r++)
        pthread_create(&set->member[r].thread, NULL, member_main, &set->member[r]);
    for (int r = 0; r < RANKS; r++) pthread_join(set->member[r].thread, NULL);
    for (int r = 0; r < RANKS; r++) cr_assert_eq(set->member[r].status, STATUS_OK);
}

Test(exec_driver, has_no_stage_and_no_memory_for_one) {
    struct rank_set *set = ranks_open();
    const struct plan *driver = set->member[0].plan, *first = set->member[1].plan;
    cr_expect_eq(driver->chunk_count, 0);
    cr_expect_eq(driver->grads, 0);
    const struct memory_estimate *of = &driver->memory;
    cr_expect_eq(of->params + of->gradients + of->state + of->buffers + of->activations, 0);
    cr_expect_eq(of->scratch + of->loader + of->staging, 0);
    cr_expect_eq(plan_heap_bytes(driver), 0);
    cr_expect_eq(plan_step_flops(driver), 0);
    cr_expect_eq(first->chunk[0].stage, 0, "the rank behind the driver has the first stage");
    cr_expect_eq(first->eval_rounds, driver->eval_rounds);
    ranks_free(&set);
}

Test(exec_driver, knows_what_the_stages_do) {
    struct rank_set *set = ranks_open();
    struct kit_run *one = kit_open(MODEL "single");
    const struct member *driver = &set->member[0];
    struct eval_result eval;
    ranks_run(set);
    for (int s = 0; s < STEPS; s++) {
        struct step_result alone = kit_steps(one, 1);
        const struct step_result *step = &driver->step[s];
        cr_expect_eq(step->samples, s == 2 ? 3 : 8);
        cr_expect_float_eq(step->loss, alone.loss, 1e-12);
        cr_expect_eq(step->grad_norm, alone.grad_norm);
        cr_expect_eq(step->lr, alone.lr);
        cr_expect_eq(step->lr, set->member[1].step[s].lr);
    }
    cr_expect(!driver->engine->train && !driver->engine->eval, "a driver reads no samples");
    cr_assert_eq(engine_evaluate(one->engine, &eval), STATUS_OK);
    cr_expect_eq(driver->eval.samples, 7);
    cr_expect_float_eq(driver->eval.loss, eval.loss, 1e-12);
    uint64_t hash;
    cr_assert_eq(engine_param_hash(one->engine, &hash), STATUS_OK);
    cr_expect_eq(driver->params, 0);
    cr_expect_eq(set->member[1].params + set->member[2].params, hash);
    kit_close(&one);
    ranks_free(&set);
}
