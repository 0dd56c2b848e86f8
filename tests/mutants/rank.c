/* One rank: operands, samples, messages and exchanges, by the column "doc" of instr.def and the
 * executor's handlers; passes.c, gradients.c and between.c have the rest. */
#include <string.h>

#include "world.h"

/* --- operands --- */

int chunk_of(const struct world *world, const struct instr *instr) {
    return grid_chunk(&world->program->grid, instr->stage);
}

int world_stages(const struct world *world) {
    return world->program->grid.stages * world->program->grid.chunks;
}

bool world_slices(const struct world *world, unsigned what) {
    return world->program->sliced & what;
}

const struct chunk_sizes *sizes_of(const struct world *world, const struct rank *rank,
                                   const struct instr *instr) {
    return &rank->own->chunk[chunk_of(world, instr)];
}

bool is_frozen(const struct world *world, const struct instr *instr) {
    return instr->stage < world->program->frozen;
}

bool rank_trains(const struct world *world, const struct rank *rank) {
    const struct program *program = world->program;
    for (int c = 0; c < rank->chunks; c++)
        if (grid_stage(&program->grid, rank->cell.position, c) >= program->frozen) return true;
    return false;
}

static int limit_of(const struct world *world, const struct rank *rank, const struct instr *instr,
                    char letter) {
    const struct program *program = world->program;
    const struct chunk_sizes *sizes = sizes_of(world, rank, instr);
    bool round = rank->list == LIST_EVAL, call = instr->op == INSTR_CALL;
    switch (letter) {
    case 's': return world_stages(world);
    case 'm':
        if (call) return program->micro_batches;
        return round ? 1 : rank->cell.replica_count * program->micro_batches * (1 + program->ahead);
    case 'v': return round ? 1 : INT16_MAX;
    case 'a': return round ? 1 : sizes->slots;
    case 'e':
    case 'b': return sizes->buckets;
    case 'g':
    case 'h': return rank->own->grads;
    case 'q': return program->group_count;
    case 'p': return program->grid.stages;
    default: return 1;
    }
}

static bool holds_stage(const struct world *world, const struct rank *rank,
                        const struct instr *instr) {
    if (instr->stage < 0 || instr->stage >= world_stages(world)) return false;
    return instr->op == INSTR_CALL ||
           (rank->chunks > 0 &&
            grid_position(&world->program->grid, instr->stage) == rank->cell.position);
}

/* Within its buffers, on a stage that the rank holds, with flags that mean something. */
static bool operands_fit(struct world *world, const struct rank *rank, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    if (strchr(row->operands, 's') && !holds_stage(world, rank, instr))
        return world_wrong(world, "a stage that the rank does not hold");
    for (const char *at = row->operands; *at; at++) {
        bool optional = *at == '?';
        if (optional) at++;
        int operand = instr_operand(instr, *at);
        if (operand == INSTR_ALL && optional) continue;
        if (operand < 0 || operand >= limit_of(world, rank, instr, *at))
            return world_wrong(world, "an operand beyond its limit");
    }
    for (int bit = 0; instr->flags >> bit; bit++) {
        if (!(instr->flags >> bit & 1)) continue;
        if (bit >= FLAG_COUNT || !strstr(row->flags, flag_words[bit]))
            return world_wrong(world, "a flag without meaning");
    }
    return true;
}

struct slot *slot_of(const struct world *world, const struct rank *rank,
                     const struct instr *instr) {
    int index = instr->slot, slots = sizes_of(world, rank, instr)->slots;
    if (world->overlaps && list_is_step(rank->list)) {
        index += world->turn[rank->phase].body * world->program->micro_batches;
        while (index < 0) index += slots;
        index %= slots;
    }
    for (int c = 0; c < chunk_of(world, instr); c++) index += rank->own->chunk[c].slots;
    return &rank->slots[index];
}

int world_step(const struct world *world, const struct rank *rank, const struct instr *instr) {
    if (!world->overlaps || !list_is_step(rank->list)) return rank->step;
    bool counts = strchr(instr_row(instr)->operands, 'm');
    return world->turn[rank->phase].body +
           (counts ? instr->micro / world->program->micro_batches : 0);
}

int world_micro(const struct world *world, const struct rank *rank, const struct instr *instr) {
    if (!world->overlaps || !list_is_step(rank->list)) return instr->micro;
    return world->turn[rank->phase].body * world->program->micro_batches + instr->micro;
}

bool world_runs(const struct world *world, const struct rank *rank, const struct instr *instr) {
    if (!world->overlaps || !list_is_step(rank->list)) return true;
    const struct turn *turn = &world->turn[rank->phase];
    int step = world_step(world, rank, instr);
    return step >= turn->first && step < turn->end;
}

/* The micro-batch of the step that a rank's own is. */
static int global_micro(const struct world *world, const struct rank *rank, int micro) {
    return rank->cell.first_replica * world->program->micro_batches + micro;
}

bool world_present(const struct world *world, const struct rank *rank, int micro) {
    return rank->list != LIST_LAST || world->samples[global_micro(world, rank, micro)] > 0;
}

/* --- samples and messages --- */

static bool run_load(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    bool round = rank->list == LIST_EVAL;
    int pipeline = rank->cell.first_replica / world->program->grid.replicas_each;
    if (!await_slot(world, rank, slot)) return false;
    if (!round && !world_present(world, rank, instr->micro))
        return world_wrong(world, "loads a micro-batch without samples");
    int number = world->overlaps ? world_step(world, rank, instr) : 0,
        micro = world->overlaps ? instr->micro % world->program->micro_batches : instr->micro;
    *slot = (struct slot){
        .micro = world_micro(world, rank, instr),
        .samples = round ? reference_round(pipeline, rank->round)
                         : reference_samples(global_micro(world, rank, micro), number),
    };
    return true;
}

static struct wire wire_of(const struct rank *rank, const struct instr *instr) {
    bool backward = instr->op == INSTR_SEND_B || instr->op == INSTR_RECV_B;
    bool receive = instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B;
    bool next = instr->op == INSTR_SEND_F || instr->op == INSTR_RECV_B;
    int peer = rank->number - rank->cell.position + instr->peer;
    return (struct wire){.from = receive ? peer : rank->number,
                         .to = receive ? rank->number : peer,
                         .cut = next ? instr->stage : instr->stage - 1,
                         .backward = backward};
}

static bool run_message(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (!await_slot(world, rank, slot)) return false;
    struct wire like = wire_of(rank, instr);
    if (like.cut < 0 || like.cut >= world_stages(world) - 1)
        return world_wrong(world, "a message beyond the model");
    if (slot->micro < 0 || slot->micro != world_micro(world, rank, instr))
        return world_wrong(world, "a message of a slot that holds something else");
    int wire = wire_find(world, like), number;
    if (instr->op == INSTR_RECV_F || instr->op == INSTR_RECV_B) {
        number = world->wires[wire].posted++;
    } else {
        value sent = instr->op == INSTR_SEND_F ? slot->output : slot->input_gradient;
        if (!sent) return world_wrong(world, "sends what was not made");
        number = world->wires[wire].sent;
        wire_send(world, wire, (struct message){sent, world_micro(world, rank, instr)});
    }
    slot->posted = (struct under_way){.instr = instr, .wire = wire, .number = number};
    return true;
}

/* --- calls --- */

static value call_value(const struct instr *instr) {
    return value_of(VALUE_RANK, value_of(VALUE_RANK, (value)instr->stage, (value)instr->micro),
                    instr->flags & ~INSTR_CLIP);
}

/* Both wait where they stand: for a credit, for the call. */
bool run_call(struct world *world, struct rank *rank, const struct instr *instr) {
    bool call = instr->op == INSTR_CALL;
    int server = grid_owner(&world->program->grid, instr->stage, 0);
    if (call != (rank->cell.role == GRID_DRIVER))
        return world_wrong(world, "a call of somebody else than the driver");
    bool clips = instr->flags & INSTR_CLIP;
    if (!rank->in_pass && clips && !await_norm(world, rank)) return false;
    int wire = wire_find(world, (struct wire){.to = call ? server : rank->number, .cut = CALLS});
    struct wire *of = &world->wires[wire];
    if (!rank->in_pass && call)
        wire_send(world, wire, (struct message){call_value(instr), instr->micro});
    if (!rank->in_pass && !call) of->posted++;
    int number = (call ? of->sent : of->posted) - 1;
    rank->in_pass = !wire_has(world, wire, number);
    if (rank->in_pass) return false;
    if (call) return true;
    of->released++;
    if (of->items[number].value != call_value(instr))
        return world_wrong(world, "the call for something else");
    if (rank->served) return world_wrong(world, "a call before the last was answered");
    rank->served = instr;
    return true;
}

bool was_called(struct world *world, struct rank *rank, const struct instr *instr, unsigned what) {
    const struct instr *served = rank->served;
    if (!world->driven) return true;
    if (!served || (served->flags & ~INSTR_CLIP) != what ||
        (instr->op != INSTR_STEP &&
         (served->stage != instr->stage || served->micro != instr->micro)))
        return world_wrong(world, "nobody called for it");
    rank->served = NULL;
    return true;
}

/* --- exchanges --- */

/* Without a group a rank hears of itself, at once. */
static void post_exchange(struct world *world, struct rank *rank, const struct instr *instr,
                          enum meeting_kind kind, value given, struct under_way *out) {
    value also = value_of(VALUE_RANK, (value)rank->number, 0);
    if (instr->group == INSTR_ALL) {
        take_sums(rank, instr, rank->step, given, also);
        return;
    }
    int number = group_post(world, rank, instr->group, (int)kind, 0, given, also);
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

bool run_norm(struct world *world, struct rank *rank, const struct instr *instr) {
    value squares = 0;
    if ((instr->grad == INSTR_ALL) == rank_trains(world, rank))
        return world_wrong(world, "the norm of no gradients");
    for (int c = 0; c < rank->chunks; c++) {
        int stage = grid_stage(&world->program->grid, rank->cell.position, c);
        for (int b = 0; b < rank->own->chunk[c].buckets; b++) {
            struct bucket *bucket = bucket_of(world, rank, stage, instr->grad, b);
            if (!bucket || !await_bucket(world, rank, bucket)) return false;
            if (!bucket->use[0]) return world_wrong(world, "the norm of what was not made");
            bool sliced = world->program->sliced;
            if (bucket->is_slice && !sliced) return world_wrong(world, "the norm of a slice");
            if (reference_is_copy(world->program, stage, b)) continue;
            for (int i = 0; i < world->slices; i++)
                if (!sliced || i == rank->slice)
                    squares += reference_squares(stage, b, i, bucket->use[0]);
        }
    }
    if (!await(world, rank, &rank->squares)) return false;
    post_exchange(world, rank, instr, MEETING_NORM, squares, &rank->squares);
    return true;
}

/* --- all --- */

static bool is_in_group(const struct world *world, const struct rank *rank, int group) {
    const struct program *program = world->program;
    return group_of(&program->grid, program->group[group], rank->number) >= 0;
}

bool rank_run(struct world *world, struct rank *rank, const struct instr *instr) {
    if (!operands_fit(world, rank, instr)) return false;
    if (strchr(instr_row(instr)->operands, 'q') && instr->group != INSTR_ALL &&
        !is_in_group(world, rank, instr->group))
        return world_wrong(world, "a group that the rank is not in");
    bool backward = instr_row(instr)->time == TIME_BACKWARD || instr_goes_back(instr);
    if ((backward || instr->op == INSTR_R) && is_frozen(world, instr))
        return world_wrong(world, "gradients of a frozen stage");
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
    case INSTR_R: return run_again(world, rank, instr);
    case INSTR_STATS_F:
    case INSTR_STATS_B: return run_stand_in(world, rank, instr);
    case INSTR_CALL:
    case INSTR_SERVE: return run_call(world, rank, instr);
    case INSTR_ZERO:
    case INSTR_TIE:
    case INSTR_SUM:
    case INSTR_JOIN:
    case INSTR_REDUCE: return run_gradient(world, rank, instr);
    case INSTR_SCATTER: return run_scatter(world, rank, instr);
    case INSTR_GATHER: return run_gather(world, rank, instr);
    case INSTR_FREE: return run_free(world, rank, instr);
    case INSTR_COUNT: return run_count(world, rank, instr);
    case INSTR_REPORT: return run_report(world, rank, instr);
    case INSTR_NORM: return run_norm(world, rank, instr);
    case INSTR_STEP: return run_step(world, rank, instr);
    case INSTR_BCAST:
    case INSTR_MEET:
    case INSTR_STATS_ALL:
    case INSTR_STATS_MEAN:
    case INSTR_OPEN:
    case INSTR_COLLECT:
    case INSTR_COMMIT: return run_standing(world, rank, instr);
    case INSTR_STATS_OWN: return run_restore(world, rank, instr);
    case INSTR_DELTA:
    case INSTR_OUTER:
    case INSTR_TAKE:
    case INSTR_MEAN:
    case INSTR_OWN: return run_average(world, rank, instr);
    case INSTR_GROUP: return run_question(world, rank, instr);
    case INSTR_AVERAGE: return run_chosen(world, rank, instr);
    case INSTR_WRITE: return run_write(world, rank, instr);
    case INSTR_OUTPUT: return world_wrong(world, "an output of a program with steps");
    default: return world_wrong(world, "an instruction that the judge does not know");
    }
}
