/* Calls of a driver: a message for each, over channels from the driver to each rank with a stage.
 *
 * The messages go by the communicator, not by the control plane: that one has a store of keys, kept
 * by a server between the two ranks, whose waits block outside of exec_wait; ranks that are threads
 * have none. A channel has credits, which the verifier has looked at, and its waits are explained
 * like those of all messages.
 *
 * What comes must be what the program awaits there. The verifier has proven that, so another call
 * is a bug, of this rank or of the other. */
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/state.h"

_Static_assert(sizeof(struct call) <= PROGRAM_CALL_BYTES, "a call is larger than its message");

static struct call call_of(const struct exec *exec, const struct instr *instr) {
    return (struct call){.step = exec->step->number,
                         .stage = instr->stage,
                         .micro = instr->micro,
                         .what = instr->flags & ~INSTR_CLIP};
}

static struct comm_channel *channel_of(const struct exec *exec, const struct instr *instr) {
    return exec->calls[grid_position(&exec->plan->program->grid, instr->stage)];
}

/* Both are run twice: to post, and when that is done. */
enum status run_CALL(struct exec *exec, const struct instr *instr) {
    struct comm_piece piece = {&exec->call, sizeof exec->call};
    exec->met = !exec->met;
    if (!exec->met) return STATUS_OK;
    exec->call = call_of(exec, instr);
    exec->awaiting = &exec->request;
    return comm_channel_post_send(channel_of(exec, instr), &piece, 1, &exec->request);
}

static enum status take(struct exec *exec, const struct instr *instr) {
    struct comm_channel *channel = channel_of(exec, instr);
    size_t bytes;
    const struct call *call = comm_channel_message(channel, exec->call_number, &bytes);
    struct call own = call_of(exec, instr);
    char line[INSTR_TEXT_BYTES];
    bool same = bytes == sizeof own && call->step == own.step && call->stage == own.stage &&
                call->micro == own.micro && call->what == own.what;
    if (!same)
        return fail(STATUS_BUG,
                    "the driver calls for something else than %s: stage %d, "
                    "micro-batch %d of step %lld",
                    instr_text(instr, exec->plan->config.rank, line), (int)call->stage,
                    (int)call->micro, (long long)call->step + 1);
    return comm_channel_release(channel);
}

enum status run_SERVE(struct exec *exec, const struct instr *instr) {
    exec->met = !exec->met;
    if (!exec->met) return take(exec, instr);
    exec->awaiting = &exec->request;
    TRY(comm_channel_post_receive(channel_of(exec, instr), &exec->request));
    exec->call_number = comm_request_sequence(exec->request);
    return STATUS_OK;
}

enum status exec_open_calls(struct exec *exec) {
    const struct program *program = exec->plan->program;
    const struct grid *grid = &program->grid;
    int kinds = (grid->stages * grid->chunks - 1) * PHASE_COUNT, own = comm_rank(exec->comm);
    exec->calls = MEM_ARRAY(struct comm_channel *, grid->stages);
    for (int p = 0; grid->drivers > 0 && p < grid->stages; p++) {
        int to = group_rank(grid, GROUP_PIPELINE, 0, p);
        struct comm_channel *channel;
        TRY(comm_channel_new(exec->comm, 0, to, kinds + p, PROGRAM_CALL_BYTES, program->credits,
                             &channel));
        if (own == 0 || own == to) exec->calls[p] = channel;
    }
    return STATUS_OK;
}
