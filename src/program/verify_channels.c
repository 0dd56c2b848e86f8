/* What is proven of channels: there is one for each cut of the model and direction; what is sent is
 * received, in the order sent, as the same micro-batch, by the position that holds the stage; and
 * with the credits of the header none waits for ever.
 *
 * A send is under way until the channel has room for its message; a receive until the message has
 * come. Room comes back when the receiver takes the message out, which it does when an instruction
 * awaits the receive; the oldest one is given back, so they are taken out in order. Both keep their
 * slot: the next instruction that touches it awaits them. What ranks do then does not depend on how
 * fast they are, so one order of walking stands for all. */
#include "base/mem.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

/* The two directions of a cut follow one another. */
static struct channel *channel_of(const struct walk *walk, int cut, bool backward) {
    const struct grid *grid = &walk->program->grid;
    int cuts = grid->stages * grid->chunks - 1;
    return &walk->verifier->channels[(walk->pipeline * cuts + cut) * 2 + backward];
}

/* The stage at the other end. */
int verify_other_stage(const struct instr *instr) {
    int cut = instr_cut(instr);
    return cut == instr->stage ? cut + 1 : cut;
}

enum status verify_peer(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    const struct grid *grid = &walk->program->grid;
    int other = verify_other_stage(instr);
    if (other < 0 || other >= grid->stages * grid->chunks)
        return verify_broken(walk, RULE_PEER, nobody,
                             "stage %d is the model's %s: there is no stage beyond it",
                             instr->stage, other < 0 ? "first" : "last");
    if (instr->peer == grid_position(grid, other)) return STATUS_OK;
    return verify_broken(walk, RULE_PEER, nobody, "stage %d is at position %d, not %d", other,
                         grid_position(grid, other), (int)instr->peer);
}

/* Known from when it is sent, or a receive is posted for it. */
static struct message *message_at(struct channel *channel, int number) {
    if (number == channel->count) {
        channel->items = mem_grow(channel->items, &channel->capacity, (size_t)number + 1,
                                  sizeof *channel->items);
        channel->items[channel->count++] = (struct message){0};
    }
    return &channel->items[number];
}

enum status verify_message(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr_row(instr)->meets != MEETS_PEER) return STATUS_OK;
    TRY(verify_peer(walk));
    struct channel *channel = channel_of(walk, instr_cut(instr), instr_goes_back(instr));
    int number = instr_receives(instr) ? channel->received++ : channel->sent++;
    struct message *message = message_at(channel, number);
    if (instr_receives(instr))
        message->receive = instr;
    else
        message->sent = (struct place){instr, walk->rank};
    if (!instr_receives(instr)) message->micro = verify_micro(walk);
    verify_under_way(walk, &(struct pending){.channel = channel,
                                             .number = number,
                                             .micro = verify_micro(walk),
                                             .instr = instr});
    if (!instr_receives(instr)) verify_wake_end(channel, true);
    return STATUS_OK;
}

enum status verify_take_message(struct walk *walk, const struct pending *pending) {
    struct channel *channel = pending->channel;
    struct walk receiver = {.rank = walk->rank, .instr = pending->instr};
    struct place sent = channel->items[pending->number].sent;
    if (pending->number != channel->taken) {
        struct place older = {channel->items[channel->taken].receive, walk->rank};
        return verify_broken(&receiver, RULE_MESSAGES, older,
                             "its message is used before an older one of the channel");
    }
    channel->taken++;
    verify_wake_end(channel, false);
    if (channel->items[pending->number].micro == pending->micro) return STATUS_OK;
    return verify_broken(&receiver, RULE_MESSAGES, sent,
                         "the message that comes there is of another micro-batch");
}

/* A message leaves when there is a credit for it. */
bool verify_message_done(const struct verifier *verifier, const struct pending *pending) {
    const struct channel *channel = pending->channel;
    return pending->number < channel->sent &&
           pending->number < channel->taken + verifier->program->credits;
}

enum status verify_all_received(const struct verifier *verifier) {
    const struct grid *grid = &verifier->program->grid;
    int count = verifier->pipeline_count * (grid->stages * grid->chunks - 1) * 2;
    for (int c = 0; c < count; c++) {
        const struct channel *channel = &verifier->channels[c];
        if (channel->received >= channel->sent) continue;
        struct place lost = channel->items[channel->received].sent;
        struct walk sender = {.rank = lost.rank, .instr = lost.instr};
        return verify_broken(&sender, RULE_MESSAGES, nobody, "no rank receives it");
    }
    return STATUS_OK;
}
