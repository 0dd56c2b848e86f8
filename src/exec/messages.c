/* The handlers of messages between stages; see handlers.h. */
#include "base/log.h"
#include "exec/handlers.h"
#include "exec/places.h"

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

static enum status send(struct engine *engine, const struct instr *instr,
                        struct comm_request **out) {
    struct comm_piece *pieces = engine->pieces;
    if (!slot_of(engine, instr)->runnable) return STATUS_OK; /* a round without samples */
    int count = message_pieces(engine, instr, pieces);
    return comm_channel_post_send(channel_of(engine, instr), pieces, count, out);
}

/* Messages are taken out in the order they come; see finish_receive. */
static enum status receive(struct engine *engine, const struct instr *instr,
                           struct comm_request **out) {
    struct comm_channel *channel = channel_of(engine, instr);
    if (!slot_of(engine, instr)->runnable) return STATUS_OK;
    TRY(comm_channel_post_receive(channel, out));
    engine_posted(engine, instr)->number = comm_request_sequence(*out);
    return STATUS_OK;
}

static enum status finish_receive(struct engine *engine, const struct instr *instr) {
    struct comm_channel *channel = channel_of(engine, instr);
    struct device *device = engine->plan->device;
    if (!slot_of(engine, instr)->runnable) return STATUS_OK;
    int count = message_pieces(engine, instr, engine->pieces);
    size_t bytes, done = 0;
    char *message = comm_channel_message(channel, engine_posted(engine, instr)->number, &bytes);
    for (int i = 0; i < count; i++) {
        const struct comm_piece *piece = &engine->pieces[i];
        CHECK(done + piece->bytes <= bytes, "a message of %zu bytes", bytes);
        TRY(device->backend->array_copy(device, (void *)(uintptr_t)piece->data, message + done,
                                        piece->bytes, NULL));
        done += piece->bytes;
    }
    return comm_channel_release(channel);
}

static enum status finish_send(struct engine *engine, const struct instr *instr) {
    (void)engine, (void)instr;
    return STATUS_OK;
}

#define MESSAGE(NAME, way)                                                                         \
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
