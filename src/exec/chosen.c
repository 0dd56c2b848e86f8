/* Handlers of groups that are chosen while ranks run: the question, and the average over the
 * answer.
 *
 * What is averaged goes through gradient buffer 0, which is free behind STEP, lies where others
 * reach it, and spans the same elements as the parameters (apart.c). Each member scales its own by
 * its weight, and the sum is the average. A replica alone keeps what it has. */
#include <string.h>

#include "backend/blend.h"
#include "base/log.h"
#include "exec/handlers.h"
#include "exec/places.h"
#include "exec/queues.h"
#include "exec/state.h"

/* --- the question --- */

static bool by_stage(const struct engine *engine, const struct instr *instr) {
    return engine->plan->program->group[instr->group] == GROUP_CHOSEN_BY_STAGE;
}

static int key_of(const struct engine *engine, const struct instr *instr) {
    return by_stage(engine, instr) ? engine->plan->config.cell.position : 0;
}

static bool has_loss(const struct engine *engine) {
    const struct grid *grid = &engine->plan->program->grid;
    return engine->plan->config.cell.position ==
           grid_position(grid, grid->stages * grid->chunks - 1);
}

enum status prepare_GROUP(struct engine *engine, const struct instr *instr) {
    (void)instr;
    return rounds_look_ahead(engine);
}

/* Where nobody decides there is nothing to wait for. */
enum status post_GROUP(struct engine *engine, const struct instr *instr,
                       struct comm_request **out) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    struct posted *posted = engine_posted(engine, instr);
    *out = NULL;
    posted->asks = rounds_act(engine);
    if (!posted->asks || (!by_stage(engine, instr) && !has_loss(engine))) return STATUS_OK;
    return chooser->arrive(chooser->context, key_of(engine, instr),
                           engine->plan->config.cell.first_replica, posted->step->number);
}

static enum status ask(struct engine *engine, const struct posted *posted, bool wait,
                       struct controller_group *out, bool *formed) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    return chooser->group(chooser->context, key_of(engine, posted->instr),
                          engine->plan->config.cell.first_replica, posted->step->number, wait, out,
                          formed);
}

enum status chosen_test(struct engine *engine, const struct posted *posted, bool *formed) {
    struct controller_group group;
    return ask(engine, posted, false, &group, formed);
}

enum status chosen_wait(struct engine *engine, const struct posted *posted) {
    struct controller_group group;
    bool formed;
    return ask(engine, posted, true, &group, &formed);
}

static void take_all(struct engine *engine, int64_t number) {
    struct rounds_choice *choice = &engine->rounds.choice;
    choice->count = engine->plan->config.replicas;
    choice->number = number;
    choice->spread = 0;
    for (int r = 0; r < choice->count; r++) {
        choice->replica[r] = r;
        choice->weight[r] = 1.0 / choice->count;
    }
}

static enum status take_answer(struct engine *engine, const struct posted *posted) {
    struct rounds_choice *choice = &engine->rounds.choice;
    struct controller_group group;
    bool formed;
    TRY(ask(engine, posted, false, &group, &formed));
    CHECK(formed, "the group of mini-batch %lld is not there", (long long)posted->step->number);
    choice->count = group.count;
    choice->number = group.number;
    choice->spread = group.spread;
    memcpy(choice->replica, group.replica, (size_t)group.count * sizeof *choice->replica);
    memcpy(choice->weight, group.weight, (size_t)group.count * sizeof *choice->weight);
    return STATUS_OK;
}

static int64_t bar(int64_t count) {
    return count < STALE_MOST ? count : STALE_MOST;
}

enum status finish_GROUP(struct engine *engine, const struct instr *instr) {
    struct posted *posted = engine_posted(engine, instr);
    struct rounds_choice *choice = &engine->rounds.choice;
    if (posted->asks)
        TRY(take_answer(engine, posted));
    else
        take_all(engine, posted->step->number);
    posted->asks = false;
    posted->step->members = choice->count;
    posted->step->spread = choice->spread;
    if (by_stage(engine, instr) || has_loss(engine)) {
        engine->state->groups.members[bar(choice->count)]++;
        engine->state->groups.spread[bar(choice->spread)]++;
    }
    comm_group_choose(engine->group[instr->group], choice->replica, choice->count,
                      (uint64_t)choice->number + 1);
    return STATUS_OK;
}

/* --- the average --- */

static const struct bucket *bucket_of(const struct engine *engine, const struct instr *instr) {
    return &engine->plan->chunk[chunk_of(engine, instr)].buckets.items[instr->bucket];
}

static float own_weight(const struct engine *engine) {
    const struct rounds_choice *choice = &engine->rounds.choice;
    int own = engine->plan->config.cell.first_replica, place = 0;
    while (choice->replica[place] != own) place++;
    return (float)choice->weight[place];
}

static bool is_averaged(const struct engine *engine) {
    return engine->rounds.choice.count > 1;
}

enum status prepare_AVERAGE(struct engine *engine, const struct instr *instr) {
    struct device *device = engine->plan->device;
    struct stream *stream = engine->store->stream;
    const struct bucket *bucket = bucket_of(engine, instr);
    struct elements own = store_bucket_params(engine->store, bucket),
                    sum = store_bucket_gradient(engine->store, instr->grad, bucket);
    if (!is_averaged(engine)) return STATUS_OK;
    TRY(device->backend->array_copy(device, sum.data, own.data, elements_bytes(&sum), stream));
    TRY(device->backend->blend->blend(device, &sum, own_weight(engine), NULL, 0, stream));
    queues_follow(engine);
    return queues_copy_out(engine, store_shared(engine->store, sum.data), sum.data,
                           elements_bytes(&sum));
}

enum status post_AVERAGE(struct engine *engine, const struct instr *instr,
                         struct comm_request **out) {
    struct elements sum =
        store_bucket_gradient(engine->store, instr->grad, bucket_of(engine, instr));
    *out = NULL;
    if (!is_averaged(engine)) return STATUS_OK;
    return comm_all_reduce(engine->group[instr->group], store_shared(engine->store, sum.data),
                           sum.count, out);
}

enum status finish_AVERAGE(struct engine *engine, const struct instr *instr) {
    struct device *device = engine->plan->device;
    const struct bucket *bucket = bucket_of(engine, instr);
    struct elements own = store_bucket_params(engine->store, bucket),
                    sum = store_bucket_gradient(engine->store, instr->grad, bucket);
    if (!is_averaged(engine)) return STATUS_OK;
    TRY(queues_copy_in(engine, sum.data, store_shared(engine->store, sum.data),
                       elements_bytes(&sum)));
    return device->backend->array_copy(device, own.data, sum.data, elements_bytes(&own),
                                       engine->stream[STREAM_COMM]);
}
