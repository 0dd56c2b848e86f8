/* What is proven of channels: there is one for each cut of the model and direction; what is sent is
 * received, in the order sent, as the same micro-batch, by the position that holds the stage; and
 * with the credits of the header none waits for ever.
 *
 * A send is under way until the channel has room for its message; a receive until the message has
 * come. Room comes back when the receiver takes the message out, which it does when an instruction
 * awaits the receive. Both keep their slot: the next instruction that touches it awaits them. What
 * ranks do then does not depend on how fast they are, so one order of walking stands for all. */
#include "base/mem.h"
#include "program/verify.h"

/* Both directions of a cut stand one behind the other. */
static struct channel *channel_of(const struct walk *walk, int cut, bool backward) {
    const struct grid *grid = &walk->program->grid;
    int cuts = grid->stages * grid->chunks - 1;
    return &walk->verifier->channels[(walk->pipeline * cuts + cut) * 2 + backward];
}

static bool is_backward(const struct instr *instr) {
    return instr->op == INSTR_SEND_B || instr->op == INSTR_RECV_B;
}

static bool is_receive(const struct instr *instr) {
    return instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B;
}

/* The stage at the other end. */
static int other_stage(const struct instr *instr) {
    bool next = instr->op == INSTR_SEND_F || instr->op == INSTR_RECV_B;
    return instr->stage + (next ? 1 : -1);
}

enum status verify_peer(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct grid *grid = &walk->program->grid;
    int other = other_stage(instr);
    if (other < 0 || other >= grid->stages * grid->chunks)
        return verify_broken(walk, "stage %d is the model's %s: there is no stage beyond it",
                             instr->stage, other < 0 ? "first" : "last");
    if (instr->peer == grid_position(grid, other)) return STATUS_OK;
    return verify_broken(walk, "stage %d is at position %d, not %d", other,
                         grid_position(grid, other), (int)instr->peer);
}

static void add_message(struct walk *walk, struct channel *channel) {
    channel->sent = mem_grow(channel->sent, &channel->capacity, (size_t)channel->sent_count + 1,
                             sizeof *channel->sent);
    channel->sent[channel->sent_count++] = (struct message){walk->instr, walk->rank};
}

enum status verify_message(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr_row(instr)->meets != MEETS_PEER) return STATUS_OK;
    TRY(verify_peer(walk));
    int other = other_stage(instr), cut = other < instr->stage ? other : instr->stage;
    struct channel *channel = channel_of(walk, cut, is_backward(instr));
    bool receive = is_receive(instr);
    int number = receive ? channel->received++ : channel->sent_count;
    if (!receive) add_message(walk, channel);
    int chunk = verify_chunk(walk);
    walk->slots[sizes_slot(walk->own->chunk, chunk, instr->slot)].pending =
        (struct pending){.channel = channel, .number = number, .receive = receive ? instr : NULL};
    return STATUS_OK;
}

enum status verify_take_message(struct walk *walk, const struct pending *pending) {
    const struct message *sent = &pending->channel->sent[pending->number];
    char other[INSTR_TEXT_BYTES];
    pending->channel->taken++;
    if (sent->instr->micro == pending->receive->micro) return STATUS_OK;
    struct walk receiver = {.rank = walk->rank, .instr = pending->receive};
    return verify_broken(&receiver, "the message that comes there is that of %s",
                         instr_text(sent->instr, sent->rank, other));
}

bool verify_message_done(const struct verifier *verifier, const struct pending *pending) {
    const struct channel *channel = pending->channel;
    if (pending->receive) return pending->number < channel->sent_count;
    return pending->number < channel->taken + verifier->program->credits;
}

enum status verify_all_received(const struct verifier *verifier) {
    const struct grid *grid = &verifier->program->grid;
    int count = verifier->pipeline_count * (grid->stages * grid->chunks - 1) * 2;
    for (int c = 0; c < count; c++) {
        const struct channel *channel = &verifier->channels[c];
        if (channel->received >= channel->sent_count) continue;
        const struct message *lost = &channel->sent[channel->received];
        struct walk sender = {.rank = lost->rank, .instr = lost->instr};
        return verify_broken(&sender, "no rank receives it");
    }
    return STATUS_OK;
}
