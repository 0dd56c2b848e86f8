/* Parameters that two stages share, trained on two ranks (threads here) and on one: the bits of one
 * device; the two copies are equal, and it is seen when they are not. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"

#define TRAIN(count, steps)                                                                        \
    "--model bert-tiny --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=" count   \
    ",test_count=2 --device ref --threads 1 --batch 4 --clip 0.5 --steps " steps " "
#define MODEL TRAIN("8", "2")
/* The second step of an epoch has one sample: of two replicas one is empty. */
#define SHORT TRAIN("5", "4")

enum { MOST_RANKS = 4 };

/* One rank of a run, on its own thread. */
struct member {
    int rank;
    struct comm *comm;
    struct kit_plan planned;
    struct train_state state;
    struct engine *engine;
    double norm;
    uint64_t hash;
    enum status status, equal;
    bool spoil; /* change one element of what is shared before it is compared again */
    enum status spoilt;
    pthread_t thread;
};

static struct state_item *item_of(const struct member *member, int *index) {
    struct state_layout *layout = member->planned.plan->store;
    *index = kit_find_param(layout, "bert.embeddings.word_embeddings.weight");
    return &layout->params[*index];
}

static void spoil(struct member *member, enum array_kind kind) {
    int index;
    item_of(member, &index);
    struct store *store = engine_store(member->engine);
    float *values = store_tensor(store, state_array(store->layout, kind, 0), index).data;
    values[5] += 1;
}

static enum status train(struct member *member) {
    struct step_result result = {0};
    member->state = train_fresh();
    TRY(kit_engine(member->planned.plan, &member->state, &member->comm, &member->engine));
    TRY(engine_start(member->engine));
    while (engine_next_step(member->engine) < member->planned.plan->config.steps)
        TRY(engine_step(member->engine, &result));
    TRY(engine_settle(member->engine));
    engine_norm(member->engine, result.step, &member->norm);
    return engine_param_hash(member->engine, &member->hash);
}

static void *member_main(void *argument) {
    struct member *member = argument;
    member->status = train(member);
    if (member->status != STATUS_OK) {
        comm_abort(engine_comm(member->engine), member->rank);
        return NULL;
    }
    member->equal = engine_compare_copies(member->engine);
    if (member->spoil) spoil(member, ARRAY_STATE);
    member->spoilt = engine_compare_copies(member->engine);
    return NULL;
}

struct rank_set {
    struct options options;
    int ranks;
    struct member member[MOST_RANKS];
    struct comm *comm[MOST_RANKS];
};

static void ranks_open(struct rank_set *set, const char *line, int ranks) {
    size_t heap = 0, channels = 0;
    *set = (struct rank_set){.ranks = ranks};
    kit_options(line, &set->options);
    for (int r = 0; r < ranks; r++) {
        struct member *member = &set->member[r];
        member->rank = r;
        cr_assert_eq(
            kit_plan(&set->options, r, ranks, set->member[0].planned.dataset, &member->planned),
            STATUS_OK);
        size_t own = plan_heap_bytes(member->planned.plan),
               rings = plan_channel_bytes(member->planned.plan);
        if (own > heap) heap = own;
        if (rings > channels) channels = rings;
    }
    cr_assert_eq(comm_open_threads(ranks, heap, channels, set->comm), STATUS_OK);
    for (int r = 0; r < ranks; r++) set->member[r].comm = set->comm[r];
}

static void ranks_run(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++)
        pthread_create(&set->member[r].thread, NULL, member_main, &set->member[r]);
    for (int r = 0; r < set->ranks; r++) pthread_join(set->member[r].thread, NULL);
    for (int r = 0; r < set->ranks; r++) cr_assert_eq(set->member[r].status, STATUS_OK);
}

/* An engine that was opened has taken the communicator. */
static void ranks_free(struct rank_set *set) {
    for (int r = 0; r < set->ranks; r++)
        if (!set->member[r].engine) comm_close(&set->member[r].comm);
    for (int r = 0; r < set->ranks; r++) engine_close(&set->member[r].engine);
    for (int r = set->ranks - 1; r >= 0; r--) kit_plan_free(&set->member[r].planned);
    options_free(&set->options);
}

/* One of the two ranks answers for what they share: hashes of all are those of the model. */
static void expect_bits(const char *model, const char *strategy, int stages, int replicas) {
    struct rank_set *set = MEM_NEW(struct rank_set);
    struct kit_run *one = kit_open("%s--deal %dx2", model, replicas);
    char *line = mem_format("%s--strategy %s --stages %d --replicas %d --micro-batches 2", model,
                            strategy, stages, replicas);
    double norm = kit_steps(one, -1).grad_norm;
    ranks_open(set, line, stages * replicas);
    ranks_run(set);
    for (int pipeline = 0; pipeline < replicas; pipeline++) {
        uint64_t hash = 0;
        for (int p = 0; p < stages; p++) hash += set->member[pipeline * stages + p].hash;
        cr_expect_eq(hash, kit_hash(one), "%s", line);
    }
    for (int r = 0; r < set->ranks; r++) {
        cr_expect_eq(set->member[r].norm, norm, "%s", line);
        cr_expect_eq(set->member[r].equal, STATUS_OK, "%s", line);
    }
    kit_close(&one);
    ranks_free(set);
    free(set);
    free(line);
}

Test(exec_ties, two_ranks_train_to_the_bits_of_one_device) {
    expect_bits(MODEL, "1f1b", 2, 1);
    expect_bits(MODEL, "gpipe", 2, 2);
}

Test(exec_ties, two_stages_of_one_rank_do) {
    expect_bits(MODEL, "zbv", 2, 1);
    expect_bits(MODEL, "interleaved", 1, 2);
}

Test(exec_ties, a_replica_without_samples_takes_part) {
    expect_bits(SHORT, "1f1b", 2, 2);
    expect_bits(SHORT, "zbv", 1, 2);
}

/* A copy costs what the parameter costs: value, gradient and state. */
Test(exec_ties, a_copy_is_in_the_estimate) {
    struct rank_set *set = MEM_NEW(struct rank_set);
    ranks_open(set, MODEL "--strategy 1f1b --stages 2 --micro-batches 2", 2);
    size_t bytes = 0, elements = 0;
    int index;
    for (int r = 0; r < 2; r++) {
        cr_expect_eq(item_of(&set->member[r], &index)->copy, r == 1);
        bytes += set->member[r].planned.plan->memory.params;
        bytes += set->member[r].planned.plan->memory.state;
    }
    const struct graph *graph = set->member[0].planned.plan->micro[0].graph;
    for (int p = 0; p < graph->param_count; p++)
        elements += (size_t)state_param_span(graph, p) * (p == index ? 2 : 1);
    cr_expect_eq(bytes, elements * sizeof(float) * 3);
    ranks_free(set);
    free(set);
}

Test(exec_ties, copies_that_differ_are_found) {
    for (int rank = 0; rank < 2; rank++) {
        struct rank_set *set = MEM_NEW(struct rank_set);
        ranks_open(set, MODEL "--strategy 1f1b --stages 2 --micro-batches 2", 2);
        set->member[rank].spoil = true;
        ranks_run(set);
        for (int r = 0; r < 2; r++) {
            cr_expect_eq(set->member[r].equal, STATUS_OK);
            cr_expect_eq(set->member[r].spoilt, STATUS_BUG);
        }
        ranks_free(set);
        free(set);
    }
}
