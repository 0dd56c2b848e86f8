/* --sync-bn: ranks (threads here) that share statistics train as one rank does on the whole batch,
 * but for roundings; they end with the same running statistics, to the bit; and do so again. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"

/* One rank of a run, on its own thread. */
struct member {
    const struct options *options;
    int rank, ranks;
    struct comm *comm;
    struct kit_plan planned;
    struct train_state state;
    struct engine *engine;
    enum status status;
    pthread_t thread;
    int64_t exchanges; /* waited for, inside passes */
};

static void count_exchanges(void *context, const struct instr *waiter, const struct instr *awaited,
                            int64_t step, int64_t begin_ns, int64_t end_ns) {
    (void)step, (void)begin_ns, (void)end_ns;
    ((struct member *)context)->exchanges += waiter == awaited && instr_shares(awaited);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    struct step_result result;
    member->state = train_fresh();
    member->state.observer = (struct engine_observer){.context = member, .waited = count_exchanges};
    member->status =
        kit_engine(member->planned.plan, &member->state, &member->comm, &member->engine);
    if (member->status == STATUS_OK) member->status = engine_start(member->engine);
    int64_t total = member->planned.plan->config.steps;
    while (member->status == STATUS_OK && engine_next_step(member->engine) < total)
        member->status = engine_step(member->engine, &result);
    if (member->status != STATUS_OK) comm_abort(engine_comm(member->engine), member->rank);
    return NULL;
}

/* A run of the options' -n ranks to its end; the caller frees it with ranks_free. */
struct rank_set {
    struct options options;
    int ranks;
    struct member *members;
    struct comm **comms;
};

static struct rank_set ranks_run(const char *line) {
    struct rank_set set = {0};
    kit_options(line, &set.options);
    set.ranks = (int)set.options.local_ranks;
    set.members = MEM_ARRAY(struct member, set.ranks);
    set.comms = MEM_ARRAY(struct comm *, set.ranks);
    for (int r = 0; r < set.ranks; r++) {
        struct member *member = &set.members[r];
        *member = (struct member){.options = &set.options, .rank = r, .ranks = set.ranks};
        cr_assert_eq(
            kit_plan(&set.options, r, set.ranks, set.members[0].planned.dataset, &member->planned),
            STATUS_OK);
    }
    cr_assert_eq(
        comm_open_threads(set.ranks, plan_heap_bytes(set.members[0].planned.plan), 0, set.comms),
        STATUS_OK);
    for (int r = 0; r < set.ranks; r++) {
        set.members[r].comm = set.comms[r];
        pthread_create(&set.members[r].thread, NULL, member_main, &set.members[r]);
    }
    for (int r = 0; r < set.ranks; r++) pthread_join(set.members[r].thread, NULL);
    return set;
}

static void ranks_free(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++) engine_close(&set->members[r].engine);
    for (int r = set->ranks - 1; r >= 0; r--) kit_plan_free(&set->members[r].planned);
    options_free(&set->options);
    free(set->members);
    free(set->comms);
}

static uint64_t hash_of(const struct rank_set *set, int rank) {
    const struct store *store = engine_store(set->members[rank].engine);
    uint64_t params, buffers;
    cr_assert_eq(set->members[rank].status, STATUS_OK);
    cr_assert_eq(engine_param_hash(set->members[rank].engine, &params), STATUS_OK);
    cr_assert_eq(store_buffer_hash(store, &buffers), STATUS_OK);
    return params ^ buffers;
}

/* The largest difference between the parameters, or the running statistics, of two stores. */
static double params_apart(const struct store *a, const struct store *b) {
    double most = 0;
    int params = state_array(a->layout, ARRAY_PARAM, 0);
    for (int p = 0; p < a->layout->param_count; p++) {
        int64_t count = shape_count(&a->layout->params[p].type.shape);
        float *x = MEM_ARRAY(float, count), *y = MEM_ARRAY(float, count);
        cr_assert_eq(store_get(a, params, p, x), STATUS_OK);
        cr_assert_eq(store_get(b, params, p, y), STATUS_OK);
        for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)x[i] - y[i]));
        free(x);
        free(y);
    }
    return most;
}

static double buffers_apart(const struct store *a, const struct store *b) {
    double most = 0;
    int buffers = state_array(a->layout, ARRAY_BUFFER, 0);
    cr_assert_gt(a->layout->buffer_count, 0);
    for (int i = 0; i < a->layout->buffer_count; i++) {
        const struct state_item *item = &a->layout->buffers[i];
        size_t bytes = tensor_type_bytes(&item->type);
        float *x = mem_new(bytes), *y = mem_new(bytes);
        cr_assert_eq(store_get(a, buffers, i, x), STATUS_OK);
        cr_assert_eq(store_get(b, buffers, i, y), STATUS_OK);
        if (item->type.dtype == DTYPE_I64) cr_expect_eq(memcmp(x, y, bytes), 0, "%s", item->name);
        for (size_t k = 0; item->type.dtype == DTYPE_F32 && k < bytes / sizeof(float); k++)
            most = fmax(most, fabs((double)x[k] - y[k]) / (1 + fabs((double)x[k])));
        free(x);
        free(y);
    }
    return most;
}

#define BN                                                                                         \
    "--model resnet8 --device cpu --threads 1 --lr 0.01 --warmup 0 --lr-policy const --batch 12 "

/* Data of `count` samples: 12 to a step, the rest in the short last one. The ranks' sampler pads to
 * a multiple of the ranks, so counts are such multiples. */
static void check_like_one_rank(int ranks, int micros, int count) {
    char line[512], many[640];
    snprintf(line, sizeof line,
             BN "--data synthetic:count=%d,test_count=4,size=8 --micro-batches %d --epochs 1",
             count, micros);
    struct kit_run *one = kit_open("%s", line);
    kit_steps(one, -1);
    snprintf(many, sizeof many, "%s -n %d --sync-bn", line, ranks);
    struct rank_set set = ranks_run(many);
    for (int r = 0; r < ranks; r++)
        cr_expect_eq(hash_of(&set, r), hash_of(&set, 0), "%s: rank %d", many, r);
    const struct store *want = engine_store(one->engine),
                       *have = engine_store(set.members[0].engine);
    cr_expect_lt(params_apart(want, have), 2e-5, "%s: %g", many, params_apart(want, have));
    cr_expect_lt(buffers_apart(want, have), 2e-5, "%s: %g", many, buffers_apart(want, have));
    ranks_free(&set);
    kit_close(&one);
}

Test(exec_sync_bn, ranks_train_as_one_on_the_whole_batch) {
    check_like_one_rank(2, 1, 24);
    check_like_one_rank(3, 1, 24);
    check_like_one_rank(2, 3, 24);
}

Test(exec_sync_bn, ranks_with_different_counts) {
    check_like_one_rank(2, 2, 18); /* the last step: 2 + 2 samples on rank 0, 1 + 1 on rank 1 */
    check_like_one_rank(3, 2, 21); /* 2 + 2, 2 + 1, 1 + 1 */
}

Test(exec_sync_bn, a_rank_without_samples) {
    check_like_one_rank(2, 2, 14); /* the last step: both samples are rank 0's */
    check_like_one_rank(2, 3, 16); /* four samples: 3 and 1 */
    check_like_one_rank(3, 2, 15);
}

/* The matter itself: without sharing, ranks' running statistics differ, and so does the training.
 */
Test(exec_sync_bn, without_it_ranks_have_their_own_statistics) {
    const char *line = BN "--data synthetic:count=24,test_count=4,size=8 --epochs 1 -n 2";
    struct rank_set set = ranks_run(line);
    const struct store *a = engine_store(set.members[0].engine),
                       *b = engine_store(set.members[1].engine);
    cr_expect_eq(params_apart(a, b), 0);
    cr_expect_gt(buffers_apart(a, b), 1e-3);
    ranks_free(&set);
}

Test(exec_sync_bn, the_same_bits_again) {
    const char *line = BN "--data synthetic:count=18,test_count=4,size=8 --epochs 2 -n 3 "
                          "--micro-batches 2 --sync-bn --sum tree";
    struct rank_set first = ranks_run(line), second = ranks_run(line);
    cr_expect_eq(hash_of(&first, 0), hash_of(&second, 2));
    ranks_free(&first);
    ranks_free(&second);
}

#define WIDE                                                                                       \
    "--model resnet18-cifar --device cpu --threads 1 --lr 0.001 --warmup 0 --batch 4 --steps 1 "   \
    "--data synthetic:count=4,test_count=4,size=16 "

/* Exchanges of a step of this rank, as foretold: waits less those for what was posted. */
static int64_t exchanges_foretold(const struct plan *plan, int rank) {
    const struct instr_list *body = program_list(plan->program, rank, LIST_BODY);
    int64_t count = engine_most_waits(plan, body);
    for (int i = 0; i < body->count; i++) count -= instr_row(&body->items[i])->queue == QUEUE_COMM;
    return count;
}

/* Statistics of more than an exchange holds go in pieces: 2 x 512 + 1 floats. */
Test(exec_sync_bn, long_vectors_go_in_pieces) {
    struct kit_run *one = kit_open(WIDE);
    kit_steps(one, -1);
    struct rank_set set = ranks_run(WIDE "-n 2 --sync-bn");
    const struct store *want = engine_store(one->engine),
                       *have = engine_store(set.members[1].engine);
    cr_assert_eq(set.members[1].status, STATUS_OK);
    cr_expect_lt(params_apart(want, have), 1e-4, "%g", params_apart(want, have));
    cr_expect_lt(buffers_apart(want, have), 1e-4, "%g", buffers_apart(want, have));
    for (int r = 0; r < set.ranks; r++) {
        int64_t foretold = exchanges_foretold(set.members[r].planned.plan, r);
        cr_expect_gt(foretold, 2 * 20, "resnet18 has 20 batch norms, five of them wide");
        cr_expect_eq(set.members[r].exchanges, foretold);
    }
    ranks_free(&set);
    kit_close(&one);
}

static enum status try_open(const char *line, int ranks, char log[512]) {
    struct options options;
    struct kit_plan planned;
    kit_options(line, &options);
    memset(log, 0, 512);
    log_capture(log, 512);
    enum status status = kit_plan(&options, 0, ranks, NULL, &planned);
    log_capture(NULL, 0);
    if (status == STATUS_OK) kit_plan_free(&planned);
    options_free(&options);
    return status;
}

/* 2x2 images are 1x1 in the second group; a last micro-batch of one sample over all ranks. */
Test(exec_sync_bn, one_value_per_channel_is_refused) {
    char log[512];
    const char *line = BN "--data synthetic:count=14,test_count=4,size=2 -n 2 --micro-batches 2 "
                          "--sync-bn";
    cr_expect_eq(try_open(line, 2, log), STATUS_USAGE);
    cr_expect(strstr(log, "node layer2.0.bn1") && strstr(log, "one value per channel"), "%s", log);
    line = BN "--data synthetic:count=16,test_count=4,size=2 -n 2 --micro-batches 2 --sync-bn";
    cr_expect_eq(try_open(line, 2, log), STATUS_OK, "%s", log);
}

/* --deal on one device: the bits of as many ranks, running statistics included; of the 24, 26 or 31
 * samples all but 24 are in the short last step, where replicas have none or other sizes. */
Test(exec_sync_bn, one_device_has_the_bits_of_ranks) {
    static const struct {
        int ranks, micros, count;
        const char *sum;
    } rows[] = {{2, 1, 24, "replica"}, {3, 2, 26, "replica"}, {4, 1, 26, "tree"},
                {2, 2, 31, "tree"},    {2, 3, 31, "replica"}, {3, 1, 31, "replicas-first"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[512], many[640];
        snprintf(line, sizeof line,
                 BN "--data synthetic:count=%d,test_count=4,size=8 --epochs 2 --sync-bn --sum %s",
                 rows[i].count, rows[i].sum);
        struct kit_run *one = kit_open("%s --deal %dx%d", line, rows[i].ranks, rows[i].micros);
        kit_steps(one, -1);
        snprintf(many, sizeof many, "%s -n %d --micro-batches %d", line, rows[i].ranks,
                 rows[i].micros);
        struct rank_set set = ranks_run(many);
        cr_expect_eq(kit_hash(one), hash_of(&set, 0), "%s", many);
        ranks_free(&set);
        kit_close(&one);
    }
}

/* One rank: ordinary batch norm, the same bits. */
Test(exec_sync_bn, one_rank_is_ordinary) {
    struct kit_run *plain = kit_open(BN "--data digits --steps 2"),
                   *asked = kit_open(BN "--data digits --steps 2 --sync-bn");
    kit_steps(plain, -1);
    kit_steps(asked, -1);
    cr_expect_eq(kit_hash(plain), kit_hash(asked));
    kit_close(&plain);
    kit_close(&asked);
}
