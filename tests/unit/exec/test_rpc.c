/* --strategy rpc: a driver and stages that it calls, as threads here, train to the bits of one
 * device; each rank waits for calls where its program says so. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"

/* An epoch ends with a short step: with 3 and 4 micro-batches some of them are empty then. */
#define MODEL(name)                                                                                \
    "--model " name " --data synthetic:count=26,test_count=5 --device ref --threads 1 --batch 12 " \
    "--steps 4 --clip 0.5 "

enum { MOST_RANKS = 4 };

struct member {
    int rank;
    struct kit_plan planned;
    struct comm *comm;
    struct train_state state;
    struct engine *engine;
    struct step_result result;
    struct eval_result eval;
    int calls, serves; /* that were told to who watches */
    uint64_t params, buffers;
    enum status status;
    pthread_t thread;
};

static void note(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                 int64_t end_ns) {
    struct member *member = context;
    (void)step, (void)begin_ns, (void)end_ns;
    member->calls += instr->op == INSTR_CALL;
    member->serves += instr->op == INSTR_SERVE;
}

static enum status train(struct member *member) {
    member->state = train_fresh();
    member->state.observer = (struct engine_observer){.context = member, .instr = note};
    TRY(kit_engine(member->planned.plan, &member->state, &member->comm, &member->engine));
    TRY(engine_start(member->engine));
    while (engine_next_step(member->engine) < member->planned.plan->config.steps)
        TRY(engine_step(member->engine, &member->result));
    TRY(engine_evaluate(member->engine, &member->eval));
    engine_norm(member->engine, member->result.step, &member->result.grad_norm);
    TRY(engine_param_hash(member->engine, &member->params));
    return store_buffer_hash(engine_store(member->engine), &member->buffers);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    member->status = train(member);
    bool known = member->status == STATUS_OK || member->status == STATUS_NUMERIC; /* to all */
    if (!known) comm_abort(engine_comm(member->engine), member->rank);
    return NULL;
}

struct rank_set {
    struct options options;
    int ranks;
    struct member member[MOST_RANKS];
    struct comm *comm[MOST_RANKS];
};

static struct rank_set *ranks_open(const char *line, int ranks) {
    struct rank_set *set = MEM_NEW(struct rank_set);
    size_t heap, channels;
    set->ranks = ranks;
    kit_options(line, &set->options);
    for (int r = 0; r < ranks; r++) {
        struct member *member = &set->member[r];
        member->rank = r;
        cr_assert_eq(
            kit_plan(&set->options, r, ranks, set->member[0].planned.dataset, &member->planned),
            STATUS_OK);
    }
    plan_most_shared_bytes(set->member[0].planned.plan, &heap, &channels);
    cr_assert_eq(comm_open_threads(ranks, heap, channels, set->comm), STATUS_OK);
    for (int r = 0; r < ranks; r++) set->member[r].comm = set->comm[r];
    return set;
}

static void ranks_run(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++)
        pthread_create(&set->member[r].thread, NULL, member_main, &set->member[r]);
    for (int r = 0; r < set->ranks; r++) pthread_join(set->member[r].thread, NULL);
}

static void ranks_free(struct rank_set **set) {
    for (int r = 0; r < (*set)->ranks; r++) engine_close(&(*set)->member[r].engine);
    for (int r = (*set)->ranks - 1; r >= 0; r--) kit_plan_free(&(*set)->member[r].planned);
    options_free(&(*set)->options);
    free(*set);
    *set = NULL;
}

static void expect_same(const struct rank_set *set, struct kit_run *one) {
    struct step_result alone = kit_steps(one, -1);
    uint64_t params = 0, buffers = 0, own;
    struct eval_result eval;
    for (int r = 0; r < set->ranks; r++) {
        cr_assert_eq(set->member[r].status, STATUS_OK);
        params += set->member[r].params;
        buffers += set->member[r].buffers;
        cr_expect_eq(set->member[r].result.grad_norm, alone.grad_norm);
        cr_expect_float_eq(set->member[r].result.loss, alone.loss, 1e-12);
    }
    cr_assert_eq(engine_evaluate(one->engine, &eval), STATUS_OK);
    cr_expect_float_eq(set->member[0].eval.loss, eval.loss, 1e-12);
    cr_assert_eq(engine_param_hash(one->engine, &own), STATUS_OK);
    cr_expect_eq(params, own);
    cr_assert_eq(store_buffer_hash(engine_store(one->engine), &own), STATUS_OK);
    cr_expect_eq(buffers, own);
}

/* Whole steps are 3 of the 4. */
static void expect_calls(const struct rank_set *set) {
    int served = 0;
    for (int r = 1; r < set->ranks; r++) served += set->member[r].serves;
    cr_expect_eq(set->member[0].calls, served);
    cr_expect_geq(served, 3 * plan_calls(set->member[0].planned.plan));
    cr_expect_eq(set->member[0].serves, 0);
}

static void expect_bits(const char *model, int stages, int micros) {
    char *line = mem_format("%s--micro-batches %d --strategy rpc", model, micros);
    struct rank_set *set = ranks_open(line, stages + 1);
    struct kit_run *one = kit_open("%s--micro-batches %d", model, micros);
    ranks_run(set);
    expect_same(set, one);
    expect_calls(set);
    kit_close(&one);
    ranks_free(&set);
    free(line);
}

Test(exec_rpc, trains_to_the_bits_of_one_device, .timeout = 120) {
    static const int micros[] = {1, 3, 4};
    for (int i = 0; i < 9; i++) expect_bits(MODEL("mlp"), 1 + i / 3, micros[i % 3]);
}

Test(exec_rpc, batch_norm_and_recomputation, .timeout = 120) {
    expect_bits(MODEL("resnet8"), 2, 3);
    struct rank_set *set =
        ranks_open(MODEL("mlp") "--micro-batches 3 --recompute always --strategy rpc", 3);
    struct kit_run *one = kit_open(MODEL("mlp") "--micro-batches 3");
    ranks_run(set);
    expect_same(set, one);
    kit_close(&one);
    ranks_free(&set);
}

/* All ranks stop with the same answer, the driver too, which has no gradient of its own. */
Test(exec_rpc, a_loss_that_is_not_finite_stops_all_ranks) {
    struct rank_set *set = ranks_open(MODEL("mlp") "--strategy rpc --lr 1e38", 3);
    char log[4096] = "";
    log_capture(log, sizeof log);
    ranks_run(set);
    log_capture(NULL, 0);
    for (int r = 0; r < 3; r++)
        cr_expect_eq(set->member[r].status, STATUS_NUMERIC, "rank %d: %s", r, log);
    ranks_free(&set);
}
