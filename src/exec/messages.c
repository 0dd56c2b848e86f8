/* The handlers of messages between stages; see handlers.h. */
#include <string.h>

#include "base/log.h"
#include "exec/handlers.h"
#include "exec/places.h"
#include "exec/queues.h"

static struct comm_channel *channel_of(const struct engine *engine, const struct instr *instr) {
    return engine->channel[instr_channel(instr)];
}

/* The tensors of a message in the slot, as they lie there: ranks have the same layouts (they agree
 * on it before the start). */
static int message_pieces(const struct engine *engine, const struct instr *instr,
                          struct comm_piece *pieces) {
    struct runnable *runnable = slot_of(engine, instr)->runnable;
    const struct graph *graph = runnable->plan->graph;
    const struct crossing *crossing =
        &runnable->plan->crossing[instr_cut(instr) * PHASE_COUNT +
                                  (instr_goes_back(instr) ? PHASE_BACKWARD : PHASE_FORWARD)];
    void **address = runnable->slot[slot_index(engine, instr)].address;
    for (int i = 0; i < crossing->count; i++) {
        int value = crossing->values[i];
        pieces[i] = (struct comm_piece){address[value], graph->values[value].layout->bytes};
    }
    return crossing->count;
}

/* Where the device is apart and messages go through memory of the host, they are put together
 * there; each slot has a place of its own. */
static char *staging_of(const struct engine *engine, const struct instr *instr) {
    int channel = instr_channel(instr);
    size_t bytes = plan_message_bytes(engine->plan, channel / PHASE_COUNT,
                                      (enum phase)(channel % PHASE_COUNT));
    return engine->sent[channel] + (size_t)instr->slot * bytes;
}

static enum status prepare_send(struct engine *engine, const struct instr *instr) {
    if (!engine->apart || !slot_of(engine, instr)->runnable) return STATUS_OK;
    int count = message_pieces(engine, instr, engine->pieces);
    TRY(overlap_read(engine, instr));
    if (engine->mail.plane && count > 0) return mail_put(engine, instr, engine->pieces, count);
    char *to = staging_of(engine, instr);
    queues_follow(engine);
    for (int i = 0; i < count; i++) {
        const struct comm_piece *piece = &engine->pieces[i];
        TRY(queues_copy_out(engine, to, piece->data, piece->bytes));
        to += piece->bytes;
    }
    return STATUS_OK;
}

/* Where the pieces lie one behind the other. */
static void point_at(struct comm_piece *pieces, int count, const char *from) {
    for (int i = 0; i < count; i++) {
        pieces[i].data = from;
        from += pieces[i].bytes;
    }
}

static enum status send(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    struct comm_piece *pieces = engine->pieces;
    if (!slot_of(engine, instr)->runnable) return STATUS_OK; /* a round without samples */
    int count = message_pieces(engine, instr, pieces);
    if (engine->mail.plane && count > 0)
        pieces[0] = mail_piece(engine, instr), count = 1;
    else if (engine->apart && count > 0)
        point_at(pieces, count, staging_of(engine, instr));
    count += overlap_note(engine, instr, pieces + count);
    return comm_channel_post_send(channel_of(engine, instr), pieces, count, out);
}

static enum status finish_send(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}

/* What was in the slot before has been read when the message is copied. */
static enum status prepare_receive(struct engine *engine, const struct instr *instr) {
    (void)instr;
    queues_follow(engine);
    return STATUS_OK;
}

/* Messages are taken out in the order they come; see finish_receive. */
static enum status receive(struct engine *engine, const struct instr *instr,
                           struct comm_request **out) {
    struct comm_channel *channel = channel_of(engine, instr);
    struct posted *posted = engine_posted(engine, instr);
    posted->number = 0;
    if (!slot_of(engine, instr)->runnable) return STATUS_OK;
    TRY(comm_channel_post_receive(channel, out));
    posted->number = comm_request_sequence(*out);
    return STATUS_OK;
}

/* Copies a message to the slot; *done bytes of it are used up. */
static enum status take(struct engine *engine, const struct instr *instr, const char *message,
                        size_t bytes, size_t *done) {
    int count = message_pieces(engine, instr, engine->pieces);
    if (engine->mail.plane && count > 0) {
        *done = sizeof(struct mail_place);
        CHECK(*done <= bytes, "a message of %zu bytes", bytes);
        return mail_take(engine, instr, message, engine->pieces, count);
    }
    for (int i = 0; i < count; i++) {
        const struct comm_piece *piece = &engine->pieces[i];
        CHECK(*done + piece->bytes <= bytes, "a message of %zu bytes", bytes);
        TRY(queues_copy_in(engine, (void *)(uintptr_t)piece->data, message + *done, piece->bytes));
        *done += piece->bytes;
    }
    return STATUS_OK;
}

static enum status finish_receive(struct engine *engine, const struct instr *instr) {
    struct comm_channel *channel = channel_of(engine, instr);
    if (!slot_of(engine, instr)->runnable) return STATUS_OK;
    size_t bytes, done = 0;
    char *message = comm_channel_message(channel, engine_posted(engine, instr)->number, &bytes);
    TRY(take(engine, instr, message, bytes, &done));
    if (done < bytes) overlap_take(engine, instr, message + done, bytes - done);
    return STATUS_OK;
}

enum status close_receive(struct engine *engine, const struct instr *instr) {
    if (engine_posted(engine, instr)->number == 0) return STATUS_OK; /* there was no message */
    return comm_channel_release(channel_of(engine, instr));
}

#define MESSAGE(NAME, way)                                                                         \
    enum status prepare_##NAME(struct engine *engine, const struct instr *instr) {                 \
        return prepare_##way(engine, instr);                                                       \
    }                                                                                              \
    enum status post_##NAME(struct engine *engine, const struct instr *instr,                      \
                            struct comm_request **out) {                                           \
        return way(engine, instr, out);                                                            \
    }                                                                                              \
    enum status finish_##NAME(struct engine *engine, const struct instr *instr) {                  \
        return finish_##way(engine, instr);                                                        \
    }
MESSAGE(SEND_F, send)
MESSAGE(RECV_F, receive)
MESSAGE(SEND_B, send)
MESSAGE(RECV_B, receive)
