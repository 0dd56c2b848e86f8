/* Calls of a driver: a message for each, over channels from the driver to each rank with a stage.
 *
 * The messages go by the communicator, not by the control plane: that one has a store of keys, kept
 * by a server between the two ranks, whose waits block outside of engine_wait; ranks that are
 * threads have none. A channel has credits, which the verifier has looked at, and its waits are
 * explained like those of all messages.
 *
 * What comes must be what the program awaits there. The verifier has proven that, so another call
 * is a bug, of this rank or of the other. */
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/state.h"

_Static_assert(sizeof(struct call) <= PROGRAM_CALL_BYTES, "a call is larger than its message");

static struct call call_of(const struct engine *engine, const struct instr *instr) {
    return (struct call){.step = engine->step->number,
                         .stage = instr->stage,
                         .micro = instr->micro,
                         .what = instr->flags & ~INSTR_CLIP};
}

static struct comm_channel *channel_of(const struct engine *engine, const struct instr *instr) {
    return engine->calls[grid_position(&engine->plan->program->grid, instr->stage)];
}

/* Both are run twice: to post, and when that is done. */
enum status run_CALL(struct engine *engine, const struct instr *instr) {
    struct comm_piece piece = {&engine->call, sizeof engine->call};
    engine->met = !engine->met;
    if (!engine->met) return STATUS_OK;
    engine->call = call_of(engine, instr);
    engine->awaiting = &engine->request;
    return comm_channel_post_send(channel_of(engine, instr), &piece, 1, &engine->request);
}

static enum status take(struct engine *engine, const struct instr *instr) {
    struct comm_channel *channel = channel_of(engine, instr);
    size_t bytes;
    const struct call *call = comm_channel_message(channel, engine->call_number, &bytes);
    struct call own = call_of(engine, instr);
    char line[INSTR_TEXT_BYTES];
    bool same = bytes == sizeof own && call->step == own.step && call->stage == own.stage &&
                call->micro == own.micro && call->what == own.what;
    if (!same)
        return fail(STATUS_BUG,
                    "the driver calls for something else than %s: stage %d, "
                    "micro-batch %d of step %lld",
                    instr_text(instr, engine->plan->config.rank, line), (int)call->stage,
                    (int)call->micro, (long long)call->step + 1);
    return comm_channel_release(channel);
}

enum status run_SERVE(struct engine *engine, const struct instr *instr) {
    engine->met = !engine->met;
    if (!engine->met) return take(engine, instr);
    engine->awaiting = &engine->request;
    TRY(comm_channel_post_receive(channel_of(engine, instr), &engine->request));
    engine->call_number = comm_request_sequence(engine->request);
    return STATUS_OK;
}

enum status engine_open_calls(struct engine *engine) {
    const struct program *program = engine->plan->program;
    const struct grid *grid = &program->grid;
    int kinds = (grid->stages * grid->chunks - 1) * PHASE_COUNT, own = comm_rank(engine->comm);
    engine->calls = MEM_ARRAY(struct comm_channel *, grid->stages);
    for (int p = 0; grid->drivers > 0 && p < grid->stages; p++) {
        int to = group_rank(grid, GROUP_PIPELINE, 0, p);
        struct comm_channel *channel;
        TRY(comm_channel_new(engine->comm, 0, to, kinds + p, PROGRAM_CALL_BYTES, program->credits,
                             &channel));
        if (own == 0 || own == to) engine->calls[p] = channel;
    }
    return STATUS_OK;
}
