/* One rank: what each instruction does to what it holds, by the column "doc" of instr.def and the
 * executor's handlers. */
#include <string.h>

#include "world.h"

/* --- operands --- */

static int chunk_of(const struct world *world, const struct instr *instr) {
    return grid_chunk(&world->program->grid, instr->stage);
}

static int stages(const struct world *world) {
    return world->program->grid.stages * world->program->grid.chunks;
}

static int limit_of(const struct world *world, const struct rank *rank, const struct instr *instr,
                    char letter) {
    const struct program *program = world->program;
    const struct chunk_sizes *sizes = &rank->own->chunk[chunk_of(world, instr)];
    switch (letter) {
    case 's': return stages(world);
    case 'm': return rank->cell.replica_count * program->micro_batches;
    case 'a': return sizes->slots;
    case 'e':
    case 'b': return sizes->buckets;
    case 'g':
    case 'h': return rank->own->grads;
    case 'q': return program->group_count;
    case 'p': return program->grid.stages;
    default: return 1;
    }
}

/* Within its buffers, on a stage that the rank holds, with flags that mean something. */
static bool operands_fit(struct world *world, const struct rank *rank, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    if (strchr(row->operands, 's') &&
        (instr->stage < 0 || instr->stage >= stages(world) ||
         grid_position(&world->program->grid, instr->stage) != rank->cell.position))
        return world_wrong(world, "a stage that the rank does not hold");
    for (const char *at = row->operands; *at; at++) {
        bool optional = *at == '?';
        if (optional) at++;
        int operand = instr_operand(instr, *at);
        if (operand == INSTR_ALL && optional) continue;
        if (operand < 0 || operand >= limit_of(world, rank, instr, *at))
            return world_wrong(world, "an operand beyond its limit");
    }
    for (int bit = 0; bit < 8; bit++) {
        if (!(instr->flags >> bit & 1)) continue;
        if (!instr_flag_name(bit) || !strstr(row->flags, instr_flag_name(bit)))
            return world_wrong(world, "a flag without meaning");
    }
    return true;
}

static struct slot *slot_of(const struct world *world, const struct rank *rank,
                            const struct instr *instr) {
    return &rank->slots[sizes_slot(rank->own->chunk, chunk_of(world, instr), instr->slot)];
}

/* The micro-batch of the step that a rank's own is. */
static int global_micro(const struct world *world, const struct rank *rank, int micro) {
    return rank->cell.first_replica * world->program->micro_batches + micro;
}

bool world_present(const struct world *world, const struct rank *rank, int micro) {
    return !world->samples || world->samples[global_micro(world, rank, micro)] > 0;
}

/* --- buckets --- */

struct span {
    int first, count, chunk;
};

static struct span span_of(const struct world *world, const struct rank *rank,
                           const struct instr *instr, int one) {
    int chunk = chunk_of(world, instr), first = 0;
    for (int c = 0; c < chunk; c++) first += rank->own->chunk[c].buckets;
    if (one == INSTR_ALL) return (struct span){first, rank->own->chunk[chunk].buckets, chunk};
    return (struct span){first + one, 1, chunk};
}

static struct bucket *bucket_at(const struct rank *rank, int grad, int index) {
    return &rank->buckets[grad * rank->bucket_count + index];
}

static int first_bucket(const struct rank *rank, int chunk) {
    int first = 0;
    for (int c = 0; c < chunk; c++) first += rank->own->chunk[c].buckets;
    return first;
}

/* --- samples and messages --- */

static bool run_load(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (!await_slot(world, rank, slot)) return false;
    if (!world_present(world, rank, instr->micro))
        return world_wrong(world, "loads a micro-batch without samples");
    *slot = (struct slot){
        .micro = instr->micro,
        .samples = reference_samples(global_micro(world, rank, instr->micro)),
    };
    return true;
}

static struct wire wire_of(const struct world *world, const struct rank *rank,
                           const struct instr *instr) {
    bool backward = instr->op == INSTR_SEND_B || instr->op == INSTR_RECV_B;
    bool receive = instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B;
    bool next = instr->op == INSTR_SEND_F || instr->op == INSTR_RECV_B;
    int peer = rank->number - rank->cell.position + instr->peer;
    (void)world;
    return (struct wire){.from = receive ? peer : rank->number,
                         .to = receive ? rank->number : peer,
                         .cut = next ? instr->stage : instr->stage - 1,
                         .backward = backward};
}

static bool run_message(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (!await_slot(world, rank, slot)) return false;
    struct wire like = wire_of(world, rank, instr);
    if (like.cut < 0 || like.cut >= stages(world) - 1)
        return world_wrong(world, "a message beyond the model");
    if (slot->micro < 0 || slot->micro != instr->micro)
        return world_wrong(world, "a message of a slot that holds something else");
    int wire = wire_find(world, like), number;
    if (instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B) {
        number = world->wires[wire].posted++;
    } else {
        value sent = instr->op == INSTR_SEND_F ? slot->output : slot->input_gradient;
        if (!sent) return world_wrong(world, "sends what was not made");
        number = world->wires[wire].sent;
        wire_send(world, wire, (struct message){sent, instr->micro});
    }
    slot->posted = (struct under_way){.instr = instr, .wire = wire, .number = number};
    return true;
}

/* --- passes --- */

static bool is_forward(const struct instr *instr) {
    return instr->op == INSTR_F || instr->op == INSTR_STATS_F;
}

/* What a pass gives to those it shares statistics with. */
static value pass_value(const struct slot *slot, const struct instr *instr, value gradient) {
    if (instr->op == INSTR_F) return reference_pass(instr->stage, slot->samples, slot->received);
    return reference_pass(instr->stage, slot->forward, gradient);
}

static value gradient_of(const struct world *world, const struct rank *rank,
                         const struct slot *slot, const struct instr *instr) {
    return instr->stage == stages(world) - 1 ? rank->seeds : slot->gradient;
}

/* Meets the others of the group; false while they are missing. */
static bool share(struct world *world, struct rank *rank, const struct instr *instr, value own,
                  value *shared) {
    int64_t what = (int64_t)instr->stage * 2 + is_forward(instr);
    struct meeting_group *group = group_here(world, rank, instr->group);
    if (!rank->in_pass) group_post(world, rank, instr->group, MEETING_PASS, what, own, 0);
    rank->in_pass = true;
    int number = rank->posted[instr->group] - 1;
    if (world->wrong || !group_done(group, number)) return false;
    rank->in_pass = false;
    *shared = 0;
    for (int m = 0; m < group->members; m++)
        *shared = value_of(VALUE_SHARED, *shared, group->items[number].given[m]);
    return true;
}

/* Backward meets at batch norms anywhere in it: the group is its own up to the last segment. */
static void end_share(struct world *world, struct rank *rank, const struct instr *instr) {
    if (instr_shares(instr) && !is_forward(instr))
        group_post(world, rank, instr->group, MEETING_PASS_END, instr->stage, 0, 0);
}

static bool forward(struct world *world, struct rank *rank, const struct instr *instr,
                    value shared) {
    struct slot *slot = slot_of(world, rank, instr);
    int chunk = chunk_of(world, instr);
    value pass = pass_value(slot, instr, 0);
    slot->forward = reference_forward(pass, rank->params[chunk], shared);
    slot->output = value_of(VALUE_OUTPUT, slot->forward, 0);
    slot->gradient = VALUE_NONE;
    if (!(instr->flags & INSTR_PURE))
        rank->statistics[chunk] = reference_moved(rank->statistics[chunk], shared);
    if (instr->stage == stages(world) - 1) rank->losses += reference_loss(slot->forward);
    return true;
}

static bool can_forward(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (slot->micro < 0 || slot->micro != instr->micro)
        return world_wrong(world, "forward of a micro-batch that is not there");
    if (instr->stage > 0 && !slot->received)
        return world_wrong(world, "forward before the tensors came");
    if (slot->forward || slot->kept || slot->input_gradient || slot->segment > 0)
        return world_wrong(world, "forward twice");
    (void)rank;
    return true;
}

static void collect(struct world *world, struct rank *rank, const struct instr *instr, value kept) {
    struct span span = span_of(world, rank, instr, instr->segment);
    int start = first_bucket(rank, span.chunk);
    for (int b = span.first; b < span.first + span.count; b++) {
        struct bucket *bucket = bucket_at(rank, instr->grad, b);
        value leaf = reference_leaf(kept, b - start);
        if (!(instr->flags & INSTR_NEW) && !bucket->value)
            world_wrong(world, "adds to a gradient that was not started");
        bucket->value = instr->flags & INSTR_NEW ? leaf : value_sum(bucket->value, leaf);
    }
}

/* The segments of a pass come in order; true behind the last. */
static bool next_segment(struct world *world, struct rank *rank, const struct instr *instr,
                         struct slot *slot) {
    int count = rank->own->chunk[chunk_of(world, instr)].buckets;
    if (instr->segment == INSTR_ALL) {
        if (slot->segment > 0) world_wrong(world, "segments run again");
        return true;
    }
    if (instr->segment != slot->segment) world_wrong(world, "segments out of order");
    slot->segment++;
    return slot->segment == count;
}

static bool can_backward(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (slot->micro < 0 || slot->micro != instr->micro)
        return world_wrong(world, "backward of a micro-batch that is not there");
    if (instr->op == INSTR_W) {
        if (!slot->kept) return world_wrong(world, "W before I");
        return true;
    }
    if (!slot->forward) return world_wrong(world, "backward before forward");
    if (instr->op == INSTR_I && slot->segment > 0) return world_wrong(world, "I inside of B");
    if (!gradient_of(world, rank, slot, instr))
        return world_wrong(world, "backward before its gradient or seeds");
    return true;
}

static void end_backward(struct slot *slot, value kept) {
    slot->input_gradient = value_of(VALUE_INPUT_GRADIENT, kept, 0);
    slot->forward = slot->gradient = VALUE_NONE;
    slot->segment = 0;
}

static void backward(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    value kept = slot->kept;
    if (instr->op != INSTR_W) {
        slot->output = slot->received = VALUE_NONE;
        kept = reference_kept(slot->forward, gradient_of(world, rank, slot, instr), slot->shared);
    }
    if (instr->op == INSTR_I) {
        slot->kept = kept;
        end_backward(slot, kept);
        end_share(world, rank, instr);
        return;
    }
    collect(world, rank, instr, kept);
    if (!next_segment(world, rank, instr, slot)) return;
    slot->kept = VALUE_NONE;
    slot->segment = 0;
    if (instr->op == INSTR_W) return;
    end_backward(slot, kept);
    end_share(world, rank, instr);
}

/* --- several replicas of one rank that share statistics --- */

static int sharers(const struct world *world, const struct rank *rank, int micro) {
    int each = world->program->micro_batches, count = 0;
    for (int m = micro % each; m < each * rank->cell.replica_count; m += each)
        count += world_present(world, rank, m);
    return count;
}

/* What all of them share, by replica; false where they are not one of each. */
static bool join_values(struct world *world, struct rank *rank, value *shared) {
    int each = world->program->micro_batches, count = rank->lockstep_count;
    const struct instr *first = rank->lockstep[0];
    *shared = 0;
    for (int r = 0; r < rank->cell.replica_count; r++) {
        value own = 0;
        for (int i = 0; i < count; i++) {
            const struct instr *instr = rank->lockstep[i];
            if (instr->stage != first->stage || instr->op != first->op ||
                instr->micro % each != first->micro % each)
                return world_wrong(world, "different passes in lockstep");
            if (instr->micro / each != r) continue;
            if (own) return world_wrong(world, "one replica twice in lockstep");
            const struct slot *slot = slot_of(world, rank, instr);
            own = pass_value(slot, instr, gradient_of(world, rank, slot, instr));
        }
        *shared = value_of(VALUE_SHARED, *shared, own);
    }
    return true;
}

static bool run_lockstep(struct world *world, struct rank *rank, const struct instr *instr) {
    value shared;
    if (instr->op == INSTR_STATS_F || instr->op == INSTR_STATS_B)
        return world_wrong(world, "stands in on a rank of all replicas");
    if (rank->lockstep_count == MOST_LOCKSTEP) return world_wrong(world, "too many in lockstep");
    if (instr->op == INSTR_B && instr->segment != INSTR_ALL)
        return world_wrong(world, "segments in lockstep");
    rank->lockstep[rank->lockstep_count++] = instr;
    if (rank->lockstep_count < sharers(world, rank, instr->micro)) return true;
    if (!join_values(world, rank, &shared)) return false;
    int count = rank->lockstep_count;
    rank->lockstep_count = 0;
    for (int i = 0; i < count && !world->wrong; i++) {
        const struct instr *one = rank->lockstep[i];
        slot_of(world, rank, one)->shared = shared;
        if (one->op == INSTR_F)
            forward(world, rank, one, shared);
        else
            backward(world, rank, one);
    }
    /* The meeting of a rank with itself. */
    return true;
}

/* --- passes, begun --- */

static bool await_gradient(struct world *world, struct rank *rank, const struct instr *instr) {
    if (instr->op == INSTR_I) return true;
    struct span span = span_of(world, rank, instr, instr->segment);
    return await_buckets(world, rank, instr->grad, span.first, span.count);
}

static bool run_pass(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    bool ahead = instr->op == INSTR_F;
    if (!rank->in_pass) {
        if (!await_slot(world, rank, slot)) return false;
        if (ahead && !await(world, rank, &rank->report)) return false;
        if (!ahead && instr->op != INSTR_W && !await(world, rank, &rank->count)) return false;
        if (!ahead && !await_gradient(world, rank, instr)) return false;
        if (!(ahead ? can_forward : can_backward)(world, rank, instr)) return false;
    }
    value own =
        instr->op == INSTR_W ? 0 : pass_value(slot, instr, gradient_of(world, rank, slot, instr));
    value shared = own;
    if (instr_shares(instr)) {
        if (rank->cell.replica_count > 1) return run_lockstep(world, rank, instr);
        bool goes_on = instr->op == INSTR_B && slot->segment > 0;
        if (!goes_on && !share(world, rank, instr, own, &shared)) return false;
        if (goes_on) shared = slot->shared;
    }
    if (ahead) return forward(world, rank, instr, shared);
    slot->shared = shared;
    backward(world, rank, instr);
    return true;
}

/* The slot lends its memory for what comes from the others. */
static bool run_stand_in(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    value shared;
    if (rank->cell.replica_count > 1) return run_lockstep(world, rank, instr);
    if (!rank->in_pass && !await_slot(world, rank, slot)) return false;
    if (world_present(world, rank, instr->micro))
        return world_wrong(world, "stands in for a micro-batch with samples");
    if (!share(world, rank, instr, 0, &shared)) return false;
    end_share(world, rank, instr);
    *slot = (struct slot){.micro = -1};
    if (instr->op == INSTR_STATS_B) return true;
    value *statistics = &rank->statistics[chunk_of(world, instr)];
    *statistics = reference_moved(*statistics, shared);
    return true;
}

/* --- gradients --- */

static bool run_gradient(struct world *world, struct rank *rank, const struct instr *instr) {
    int one = instr->op == INSTR_TIE || instr->op == INSTR_REDUCE ? instr->bucket : INSTR_ALL;
    struct span span = span_of(world, rank, instr, one);
    if (!await_buckets(world, rank, instr->grad, span.first, span.count)) return false;
    if (instr->op == INSTR_SUM && !await_buckets(world, rank, instr->other, span.first, span.count))
        return false;
    for (int b = span.first; b < span.first + span.count; b++) {
        struct bucket *bucket = bucket_at(rank, instr->grad, b);
        if (instr->op == INSTR_ZERO) bucket->value = VALUE_NEUTRAL;
        if (!bucket->value) return world_wrong(world, "reads a gradient that was not made");
        if (instr->op == INSTR_TIE) bucket->value = value_tied(bucket->value);
        if (instr->op == INSTR_SUM) {
            struct bucket *from = bucket_at(rank, instr->other, b);
            if (!from->value) return world_wrong(world, "adds a gradient that was not made");
            bucket->value = value_sum(bucket->value, from->value);
        }
        if (instr->op != INSTR_REDUCE) continue;
        int64_t what = (int64_t)instr->stage << 32 | instr->bucket;
        int number = group_post(world, rank, instr->group, MEETING_REDUCE, what, bucket->value, 0);
        bucket->posted = (struct under_way){.instr = instr,
                                            .group = group_here(world, rank, instr->group),
                                            .wire = -1,
                                            .number = number};
    }
    return true;
}

/* --- exchanges, and the end of a step --- */

static void post_exchange(struct world *world, struct rank *rank, const struct instr *instr,
                          enum meeting_kind kind, value given, struct under_way *out) {
    int number = group_post(world, rank, instr->group, kind, 0, given,
                            value_of(VALUE_RANK, (value)rank->number, 0));
    rank->exchange[instr->group]++;
    *out = (struct under_way){.instr = instr,
                              .group = group_here(world, rank, instr->group),
                              .wire = -1,
                              .number = number,
                              .step = rank->step};
}

static bool run_count(struct world *world, struct rank *rank, const struct instr *instr) {
    value labels = 0;
    if (!await(world, rank, &rank->count)) return false;
    for (int r = 0; r < rank->cell.replica_count; r++)
        labels += reference_labels(rank->cell.first_replica + r);
    post_exchange(world, rank, instr, MEETING_LABELS, labels, &rank->count);
    return true;
}

static bool run_report(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!await(world, rank, &rank->count) || !await(world, rank, &rank->report)) return false;
    post_exchange(world, rank, instr, MEETING_REPORT, rank->losses, &rank->report);
    return true;
}

static bool run_norm(struct world *world, struct rank *rank, const struct instr *instr) {
    value squares = 0;
    if (instr->grad == INSTR_ALL) return world_wrong(world, "the norm of no gradients");
    if (!await_buckets(world, rank, instr->grad, 0, rank->bucket_count)) return false;
    if (!await(world, rank, &rank->squares)) return false;
    for (int c = 0; c < rank->own->chunks; c++) {
        int stage = grid_stage(&world->program->grid, rank->cell.position, c);
        for (int b = 0; b < rank->own->chunk[c].buckets; b++) {
            value gradient = bucket_at(rank, instr->grad, first_bucket(rank, c) + b)->value;
            if (!gradient) return world_wrong(world, "the norm of what was not made");
            squares += reference_squares(stage, b, gradient);
        }
    }
    if (instr->group == INSTR_ALL)
        rank->norm = rank->norms[rank->step] = value_of(VALUE_NORM, squares, 0);
    else
        post_exchange(world, rank, instr, MEETING_NORM, squares, &rank->squares);
    return true;
}

static bool run_step(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!await_buckets(world, rank, instr->grad, 0, rank->bucket_count)) return false;
    bool clips = instr->flags & INSTR_CLIP;
    if (clips && (!await(world, rank, &rank->report) || !await(world, rank, &rank->squares)))
        return false;
    for (int c = 0; c < rank->own->chunks; c++) {
        value *params = &rank->params[c];
        for (int b = 0; b < rank->own->chunk[c].buckets; b++)
            *params = value_of(VALUE_STEP, *params,
                               bucket_at(rank, instr->grad, first_bucket(rank, c) + b)->value);
        if (clips) *params = reference_clipped(*params, rank->norm, rank->losses);
    }
    return true;
}

/* Parameters, state and statistics of the first member; those of each chunk to the same chunk. */
static bool run_meeting(struct world *world, struct rank *rank, const struct instr *instr) {
    struct meeting_group *group = group_here(world, rank, instr->group);
    enum meeting_kind kind = instr->op == INSTR_MEET ? MEETING_BARRIER : MEETING_BROADCAST;
    if (!rank->in_pass) group_post(world, rank, instr->group, kind, 0, (value)rank->number + 1, 0);
    rank->in_pass = true;
    int number = rank->posted[instr->group] - 1;
    if (world->wrong || !group_done(group, number)) return false;
    rank->in_pass = false;
    if (instr->op == INSTR_MEET) return true;
    const struct rank *first = &world->ranks[group->items[number].given[0] - 1];
    if (first->cell.position != rank->cell.position)
        return world_wrong(world, "the parameters of another stage");
    memcpy(rank->params, first->params, sizeof rank->params);
    return true;
}

bool rank_run(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!operands_fit(world, rank, instr)) return false;
    const struct program *program = world->program;
    if (strchr(instr_row(instr)->operands, 'q') && instr->group != INSTR_ALL &&
        group_of(&program->grid, program->group[instr->group], rank->number) < 0)
        return world_wrong(world, "a group that the rank is not in");
    if (rank->lockstep_count > 0 && !instr_shares(instr))
        return world_wrong(world, "something between passes in lockstep");
    switch ((enum instr_op)instr->op) {
    case INSTR_LOAD: return run_load(world, rank, instr);
    case INSTR_RECV_F:
    case INSTR_SEND_F:
    case INSTR_RECV_B:
    case INSTR_SEND_B: return run_message(world, rank, instr);
    case INSTR_F:
    case INSTR_B:
    case INSTR_I:
    case INSTR_W: return run_pass(world, rank, instr);
    case INSTR_STATS_F:
    case INSTR_STATS_B: return run_stand_in(world, rank, instr);
    case INSTR_ZERO:
    case INSTR_TIE:
    case INSTR_SUM:
    case INSTR_REDUCE: return run_gradient(world, rank, instr);
    case INSTR_COUNT: return run_count(world, rank, instr);
    case INSTR_REPORT: return run_report(world, rank, instr);
    case INSTR_NORM: return run_norm(world, rank, instr);
    case INSTR_STEP: return run_step(world, rank, instr);
    case INSTR_MEET:
    case INSTR_BCAST: return run_meeting(world, rank, instr);
    default: return world_wrong(world, "an instruction that the judge does not know");
    }
}
