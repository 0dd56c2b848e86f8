/* Sync policy zero: ranks (threads here) that hold slices train and evaluate to the bits of one
 * device, and hold no more than the plan says: the memory of each stage. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "kit.h"

struct member {
    struct kit_plan planned;
    struct comm *comm;
    struct train_state state;
    struct engine *engine;
    enum status status;
    pthread_t thread;
    int rank;
    uint64_t params;
    double loss;
};

static enum status run(struct member *member) {
    struct step_result result;
    struct eval_result evaluation;
    member->state = train_fresh();
    TRY(kit_engine(member->planned.plan, &member->state, &member->comm, &member->engine));
    TRY(engine_start(member->engine));
    while (engine_next_step(member->engine) < member->planned.plan->config.steps)
        TRY(engine_step(member->engine, &result));
    TRY(engine_evaluate(member->engine, &evaluation));
    member->loss = evaluation.loss;
    return engine_param_hash(member->engine, &member->params);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    member->status = run(member);
    if (member->status != STATUS_OK) comm_abort(engine_comm(member->engine), member->rank);
    return NULL;
}

enum { MOST = 4 };
struct rank_set {
    struct options options;
    int ranks;
    struct member member[MOST];
};

static void ranks_run(struct rank_set *set, const char *line) {
    struct comm *comms[MOST];
    size_t heap = 0;
    *set = (struct rank_set){0};
    kit_options(line, &set->options);
    set->ranks = (int)set->options.local_ranks;
    for (int r = 0; r < set->ranks; r++) {
        struct member *member = &set->member[r];
        member->rank = r;
        cr_assert_eq(kit_plan(&set->options, r, set->ranks, set->member[0].planned.dataset,
                              &member->planned),
                     STATUS_OK);
        size_t own = plan_heap_bytes(member->planned.plan);
        if (own > heap) heap = own;
    }
    cr_assert_eq(comm_open_threads(set->ranks, heap, 0, comms), STATUS_OK);
    for (int r = 0; r < set->ranks; r++) {
        set->member[r].comm = comms[r];
        pthread_create(&set->member[r].thread, NULL, member_main, &set->member[r]);
    }
    for (int r = 0; r < set->ranks; r++) pthread_join(set->member[r].thread, NULL);
    for (int r = 0; r < set->ranks; r++) cr_assert_eq(set->member[r].status, STATUS_OK);
}

static void ranks_free(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++) engine_close(&set->member[r].engine);
    for (int r = set->ranks - 1; r >= 0; r--) kit_plan_free(&set->member[r].planned);
    options_free(&set->options);
}

/* --- bits --- */

#define MODEL                                                                                      \
    "--model mlp --device ref --data synthetic:count=29,test_count=11,size=8,channels=1 "          \
    "--batch 12 --steps 3 --optimizer adamw --clip 0.5 --bucket-size 8KiB "

static const char *const ways[][2] = {
    {"--zero-stage 1", ""},
    {"--zero-stage 2", ""},
    {"--zero-stage 2 --zero-accumulate scatter", "--sum replicas-first"},
    {"--zero-stage 3", ""},
    {"--zero-stage 3 --zero-accumulate scatter", "--sum replicas-first"},
    {"--zero-stage 3 --zero-accumulate scatter --zero-prefetch 0", "--sum replicas-first"},
    {"--zero-stage 3 --zero-keep 1KiB", ""},
    {"--zero-stage 3 --zero-keep 1KiB --zero-accumulate scatter", "--sum replicas-first"},
};

Test(exec_zero, slices_train_and_evaluate_as_one_device) {
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        char line[512];
        struct rank_set set;
        struct eval_result evaluation;
        uint64_t params;
        snprintf(line, sizeof line, MODEL "--micro-batches 3 -n 2 --strategy ddp %s", ways[i][0]);
        ranks_run(&set, line);
        struct kit_run *one = kit_open(MODEL "--strategy single --deal 2x3 %s", ways[i][1]);
        kit_steps(one, -1);
        cr_assert_eq(engine_evaluate(one->engine, &evaluation), STATUS_OK);
        cr_assert_eq(engine_param_hash(one->engine, &params), STATUS_OK);
        for (int r = 0; r < set.ranks; r++) {
            cr_expect_eq(set.member[r].params, params, "%s, rank %d", ways[i][0], r);
            cr_expect_float_eq(set.member[r].loss, evaluation.loss, 1e-12, "%s", ways[i][0]);
        }
        kit_close(&one);
        ranks_free(&set);
    }
}

/* --- memory --- */

static size_t held_bytes(const struct store *store, enum array_kind kind) {
    size_t bytes = 0;
    for (int i = 0; i < store->layout->array_count; i++)
        if (store->layout->arrays[i].kind == kind) bytes += elements_bytes(&store->held[i]);
    return bytes;
}

static void expect_estimate(const struct member *member) {
    const struct memory_estimate *estimate = &member->planned.plan->memory;
    const struct store *store = engine_store(member->engine);
    cr_expect_eq(estimate->params, held_bytes(store, ARRAY_PARAM));
    cr_expect_eq(estimate->gradients, held_bytes(store, ARRAY_GRAD));
    cr_expect_eq(estimate->state, held_bytes(store, ARRAY_STATE));
    cr_expect_eq(estimate->in_flight, held_bytes(store, ARRAY_GRAD_WINDOW));
    cr_expect_eq(estimate->gathered, held_bytes(store, ARRAY_PARAM_WINDOW));
}

/* Whole and sliced bytes of a parameter, of 16 in all. */
struct formula {
    const char *way;
    int micros, whole, sliced;
};
static const struct formula formulas[] = {
    {"--zero-stage 1", 1, 8, 8},
    {"--zero-stage 1", 3, 8, 8},
    {"--zero-stage 2", 1, 4, 12},
    {"--zero-stage 2", 3, 8, 8},
    {"--zero-stage 2 --zero-accumulate scatter", 3, 4, 12},
    {"--zero-stage 3", 1, 0, 16},
    {"--zero-stage 3", 3, 4, 12},
    {"--zero-stage 3 --zero-accumulate scatter", 3, 0, 16},
};

/* The largest rank: a bucket's blocks do not divide evenly. */
Test(exec_zero, a_rank_holds_what_its_stage_says) {
    enum { RANKS = 4 };
    for (size_t i = 0; i < sizeof formulas / sizeof formulas[0]; i++) {
        const struct formula *of = &formulas[i];
        char line[512];
        struct rank_set set;
        snprintf(
            line, sizeof line,
            "--model vit-micro --device ref --data synthetic:count=24,test_count=4,size=16 "
            "--batch 12 --steps 1 --optimizer adamw -n %d --strategy ddp --micro-batches %d %s",
            RANKS, of->micros, of->way);
        ranks_run(&set, line);
        const struct plan *plan = set.member[0].planned.plan;
        double all = (double)plan->store->param_elements, sum = 0;
        for (int r = 0; r < RANKS; r++) {
            const struct memory_estimate *memory = &set.member[r].planned.plan->memory;
            expect_estimate(&set.member[r]);
            sum += (double)(memory->params + memory->gradients + memory->state);
        }
        double want = RANKS * of->whole * all + of->sliced * all;
        cr_expect_float_eq(sum, want, 0.001 * want, "%s, %d micro-batches: %.0f, not %.0f", of->way,
                           of->micros, sum, want);
        ranks_free(&set);
    }
}
