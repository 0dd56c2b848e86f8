/* See rounds.h. */
#include "exec/rounds.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

bool rounds_act(const struct engine *engine) {
    return engine->plan->config.chooses && engine->meeting.chooser;
}

void rounds_open(struct engine *engine) {
    int replicas = engine->plan->config.replicas;
    if (!engine->plan->config.chooses) return;
    engine->rounds.choice.replica = MEM_ARRAY(int, replicas);
    engine->rounds.choice.weight = MEM_ARRAY(double, replicas);
}

void rounds_close(struct engine *engine) {
    free(engine->rounds.choice.replica);
    free(engine->rounds.choice.weight);
}

static int replica_of(const struct engine *engine) {
    return engine->plan->config.cell.first_replica;
}

static struct train_position position_of(const struct engine *engine, int64_t step) {
    const struct run_config *config = &engine->plan->config;
    return (struct train_position){step / config->steps_per_epoch,
                                   step % config->steps_per_epoch * config->batch};
}

static void stand_at(struct engine *engine, int64_t step) {
    engine->state->done.step = step;
    engine->state->next = position_of(engine, step);
}

/* At the begin, or from a checkpoint, which one rank has read. */
static enum status place(struct engine *engine) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    struct comm_group *world = comm_world(engine->comm);
    TRY(comm_barrier(world));
    engine->rounds.index = chooser->drawn(chooser->context, replica_of(engine));
    engine->rounds.placed = true;
    engine_find_place(engine);
    return comm_barrier(world);
}

/* Training pauses where somebody evaluates or saves, or at its end. */
static enum status begin_round(struct engine *engine) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    struct rounds_run *rounds = &engine->rounds;
    if (!rounds->placed) TRY(place(engine));
    int64_t total = engine->state->done.step + engine_steps_left(engine),
            pause = engine->overlap.pause;
    rounds->end = pause > engine->state->done.step && pause < total ? pause : total;
    rounds->under_way = true;
    rounds->asked = -1;
    rounds->wanted = rounds->agreed = (struct step_request){0};
    return chooser->begin(chooser->context, engine->comm, rounds->round++,
                          rounds->end * engine->plan->config.replicas, rounds->end == total);
}

/* The loader reads it while the mini-batch before is computed, where it is known then. */
static void ask_loader(struct engine *engine, int64_t number) {
    const struct run_config *config = &engine->plan->config;
    if (!engine->train || number < 0 || number <= engine->rounds.asked) return;
    engine->rounds.asked = number;
    loader_ask(engine->train, number / config->replicas,
               (int)(number % config->replicas) * config->micro_batches);
}

static const struct step *step_before(const struct engine *engine, int64_t number) {
    const struct step *before =
        &engine->ring[(number + engine->ring_count - 1) % engine->ring_count];
    return before->number == number - 1 ? before : NULL;
}

/* The norm of a step may be known with the next one. */
enum status rounds_tell(struct engine *engine, const struct step *step) {
    const struct step *before = step_before(engine, step->number);
    struct step_request others;
    if (before && before->normed) TRY(speakers_tell(engine, before));
    if (step->normed) TRY(speakers_tell(engine, step));
    return speakers_look(engine, &others); /* whoever decides has heard of it */
}

/* All ranks are told what any of them was asked for. */
static enum status pause_together(struct engine *engine) {
    struct rounds_run *rounds = &engine->rounds;
    int ranks = comm_size(engine->comm);
    SCOPED_FREE struct step_request *all = MEM_ARRAY(struct step_request, ranks);
    TRY(engine_settle(engine));
    const struct step *last = step_before(engine, engine->step->number);
    if (last) TRY(rounds_tell(engine, last));
    TRY(speakers_settle(engine, 0));
    TRY(comm_exchange(comm_world(engine->comm), &rounds->wanted, sizeof *all, all));
    for (int r = 0; r < ranks; r++) step_request_add(&rounds->agreed, &all[r]);
    rounds->under_way = false;
    return STATUS_OK;
}

/* The end of a round may have come earlier than it was to be: numbers then say where it was. */
static enum status end_round(struct engine *engine) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    int replicas = engine->plan->config.replicas;
    int64_t drawn = 0;
    TRY(pause_together(engine));
    for (int r = 0; r < replicas; r++) drawn += chooser->drawn(chooser->context, r);
    stand_at(engine, drawn / replicas);
    return STATUS_OK;
}

enum status rounds_next(struct engine *engine, bool *pauses) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    struct rounds_run *rounds = &engine->rounds;
    int replica = replica_of(engine);
    int64_t number;
    if (!rounds->under_way) TRY(begin_round(engine));
    TRY(chooser->number(chooser->context, replica, rounds->index, true, &number));
    *pauses = number == CONTROLLER_NONE;
    if (*pauses) return end_round(engine);
    ask_loader(engine, number);
    stand_at(engine, number / engine->plan->config.replicas);
    engine->step->drawn = number;
    TRY(chooser->draw(chooser->context, replica, rounds->index + 1));
    return rounds_look_ahead(engine);
}

enum status rounds_look_ahead(struct engine *engine) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    int64_t next;
    if (!rounds_act(engine)) return STATUS_OK;
    TRY(chooser->number(chooser->context, replica_of(engine), engine->rounds.index + 1, false,
                        &next));
    ask_loader(engine, next);
    return STATUS_OK;
}

bool engine_is_in_round(const struct engine *engine) {
    return rounds_act(engine) && engine->rounds.under_way;
}

struct step_request engine_asked(const struct engine *engine) {
    return engine->rounds.agreed;
}

enum status rounds_ended(struct engine *engine, const struct step_request *asked) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    engine->rounds.index++;
    step_request_add(&engine->rounds.wanted, asked);
    return step_request_asks(asked) ? chooser->pause(chooser->context) : STATUS_OK;
}
