/* Passes of a rank: forward, backward and its halves, whole or by segments, and what stands in for
 * them. */
#include <string.h>

#include "world.h"

static bool is_forward(const struct instr *instr) {
    return instr->op == INSTR_F || instr->op == INSTR_STATS_F;
}

static bool is_cut(const struct instr *instr) {
    return instr->segment != INSTR_ALL;
}

/* The memory of what was run again is that of all slots: who else runs nodes overwrites it, and the
 * gradients that segments of backward hand on. */
static void use_memory(struct rank *rank, const struct slot *slot, bool fresh) {
    if (rank->again == slot && !fresh) return;
    if (rank->again) rank->again->lost = rank->again->segment > 0;
    rank->again = NULL;
}

/* --- parameters and gradients that a pass touches --- */

struct span {
    int first, end;
};

/* Segments that an instruction runs. */
static struct span span_of(const struct world *world, const struct rank *rank,
                           const struct instr *instr) {
    if (!is_cut(instr))
        return (struct span){0, reference_parts(sizes_of(world, rank, instr)->buckets)};
    return (struct span){instr->segment, instr->segment + 1};
}

static struct param_bucket *params_at(const struct world *world, const struct rank *rank, int stage,
                                      int bucket) {
    return &rank->params[bucket_index(rank, grid_chunk(&world->program->grid, stage), bucket)];
}

/* The kept bucket is read and written by every segment. */
static bool touches_kept(const struct world *world, const struct rank *rank,
                         const struct instr *instr) {
    return sizes_of(world, rank, instr)->kept;
}

static bool await_parameters(struct world *world, struct rank *rank, const struct instr *instr) {
    struct span span = span_of(world, rank, instr);
    int last = sizes_of(world, rank, instr)->buckets - 1;
    for (int b = span.first; b < span.end; b++)
        if (!await_params(world, rank, params_at(world, rank, instr->stage, b))) return false;
    if (touches_kept(world, rank, instr) &&
        !await_params(world, rank, params_at(world, rank, instr->stage, last)))
        return false;
    const struct program_tie *tie = program_tie_of(world->program, instr->stage);
    return !tie || tie_is_apart(tie) || tie->other != instr->stage ||
           await_params(world, rank, params_at(world, rank, tie->stage, tie->bucket));
}

/* Which version a pass of a step names: after how many updates it was there. */
static int version_of(const struct world *world, const struct rank *rank,
                      const struct instr *instr) {
    int behind = instr->version == INSTR_ALL ? 0 : instr->version,
        version = world_step(world, rank, instr) - behind;
    return version < 0 ? 0 : version;
}

/* The newest, or one of those that are kept. */
static value version_value(struct world *world, const struct rank *rank, const struct instr *instr,
                           const struct param_bucket *params) {
    bool moves = list_is_step(rank->list) && !is_frozen(world, instr);
    int before = moves ? rank->updates - version_of(world, rank, instr) : 0;
    if (before == 0) return params_value(world, params);
    if (before < 0 || before > sizes_of(world, rank, instr)->older) {
        world_wrong(world, "a version that is not there");
        return VALUE_NONE;
    }
    return params->older[before - 1];
}

static bool read_one(struct world *world, const struct rank *rank, const struct instr *instr,
                     int stage, int bucket, int as, value *read) {
    value found = version_value(world, rank, instr, params_at(world, rank, stage, bucket));
    if (!found) return world_wrong(world, "reads parameters that are not there");
    *read += reference_read(as, found);
    return true;
}

/* Adds what is read to what the pass has read. */
static bool read_parameters(struct world *world, const struct rank *rank, const struct instr *instr,
                            value *read) {
    struct span span = span_of(world, rank, instr);
    int last = sizes_of(world, rank, instr)->buckets - 1;
    const struct program_tie *tie = program_tie_of(world->program, instr->stage);
    value beside = 0;
    for (int b = span.first; b < span.end; b++)
        if (!read_one(world, rank, instr, instr->stage, b, b, read)) return false;
    if (touches_kept(world, rank, instr) &&
        !read_one(world, rank, instr, instr->stage, last, last, &beside))
        return false;
    if (!tie || tie_is_apart(tie) || tie->other != instr->stage) return true;
    value *once = span.first == 0 ? read : &beside;
    return read_one(world, rank, instr, tie->stage, tie->bucket, INSTR_ALL, once);
}

/* --- gradients of weights, use by use --- */

struct use {
    int stage, bucket, use;
    value made;
};

/* What a segment of backward touches, and makes where it has nodes; returns how many. */
static int uses_of(const struct world *world, const struct rank *rank, const struct instr *instr,
                   int segment, value kept, struct use out[3]) {
    const struct chunk_sizes *sizes = sizes_of(world, rank, instr);
    const struct program_tie *tie = program_tie_of(world->program, instr->stage);
    int stage = instr->stage, last = sizes->buckets - 1, count = 0;
    if (!sizes->kept || segment < last)
        out[count++] = (struct use){stage, segment, 0, reference_use(kept, stage, segment, 0)};
    if (sizes->kept && segment < last)
        out[count++] =
            (struct use){stage, last, segment, reference_use(kept, stage, last, segment)};
    if (!tie || tie_is_apart(tie) || tie->other != stage) return count;
    struct stage_shape shape =
        reference_shape(&rank->own->chunk[grid_chunk(&world->program->grid, tie->stage)]);
    int behind = reference_own_uses(&shape, tie->bucket);
    out[count++] = (struct use){tie->stage, tie->bucket, behind + segment,
                                reference_use(kept, stage, INSTR_ALL, segment)};
    return count;
}

static bool await_one(struct world *world, struct rank *rank, int stage, int grad, int index) {
    struct bucket *bucket = bucket_of(world, rank, stage, grad, index);
    return bucket && await_bucket(world, rank, bucket);
}

/* Also the bucket of a segment that makes nothing. */
static bool await_gradient(struct world *world, struct rank *rank, const struct instr *instr) {
    struct span span = span_of(world, rank, instr);
    struct use uses[3];
    for (int e = span.first; e < span.end; e++) {
        int count = uses_of(world, rank, instr, e, VALUE_NONE, uses);
        if (!await_one(world, rank, instr->stage, instr->grad, e)) return false;
        for (int u = 0; u < count; u++)
            if (!await_one(world, rank, uses[u].stage, instr->grad, uses[u].bucket)) return false;
    }
    return true;
}

static void collect_one(struct world *world, struct rank *rank, const struct instr *instr,
                        const struct use *use) {
    struct bucket *bucket = bucket_of(world, rank, use->stage, instr->grad, use->bucket);
    bool fresh = instr->flags & INSTR_NEW;
    if (fresh && bucket->holds != use->bucket) {
        memset(bucket->use, 0, sizeof bucket->use);
        bucket->holds = use->bucket;
    }
    value *into = &bucket->use[use->use];
    if (fresh) bucket->is_slice = false;
    if (bucket->is_slice) world_wrong(world, "adds a whole gradient to a slice");
    if (!fresh && (!*into || bucket->holds != use->bucket))
        world_wrong(world, "adds to a gradient that was not started");
    *into = fresh ? use->made : value_sum(*into, use->made);
}

static void collect(struct world *world, struct rank *rank, const struct instr *instr, value kept) {
    struct span span = span_of(world, rank, instr);
    struct stage_shape shape = reference_shape(sizes_of(world, rank, instr));
    struct use uses[3];
    if (world_slices(world, SLICED_GRADIENTS) && span.end - span.first > 1)
        world_wrong(world, "several buckets in a window");
    for (int e = span.first; e < span.end && e < reference_making(&shape); e++) {
        int count = uses_of(world, rank, instr, e, kept, uses);
        for (int u = 0; u < count; u++) collect_one(world, rank, instr, &uses[u]);
    }
}

/* --- shared statistics --- */

/* What a pass gives to those it shares statistics with. */
static value pass_value(const struct slot *slot, const struct instr *instr, value gradient) {
    if (instr->op == INSTR_F) return reference_pass(instr->stage, slot->samples, slot->received);
    return reference_pass(instr->stage, slot->forward, gradient);
}

static value gradient_of(const struct world *world, const struct rank *rank,
                         const struct slot *slot, const struct instr *instr) {
    return instr->stage == world_stages(world) - 1 ? rank->seeds : slot->gradient;
}

/* Meets the others of the group once in each segment, as if each had a batch norm; false while they
 * are missing. */
static bool share(struct world *world, struct rank *rank, const struct instr *instr, value own,
                  value *shared) {
    int count = sizes_of(world, rank, instr)->buckets, parts = is_cut(instr) ? 1 : count;
    for (; rank->met < parts; rank->met++) {
        int next = is_forward(instr) ? count - 1 - rank->met : rank->met;
        int segment = is_cut(instr) ? instr->segment : next;
        int64_t what = ((int64_t)instr->stage * 1000 + segment) * 2 + is_forward(instr);
        const struct meeting *meeting =
            group_meet(world, rank, instr->group, MEETING_PASS, what, own);
        if (!meeting) return false;
        value all = 0;
        int members = group_here(world, rank, instr->group)->members;
        for (int m = 0; m < members; m++) all = value_of(VALUE_SHARED, all, meeting->given[m]);
        if (rank->met > 0 && all != *shared)
            return world_wrong(world, "other passes meet in the middle of this one");
        *shared = all;
    }
    rank->met = 0;
    return true;
}

/* Each segment has running statistics of its own. */
static void move_statistics(const struct world *world, struct rank *rank, const struct instr *instr,
                            value shared) {
    struct span span = span_of(world, rank, instr);
    for (int e = span.first; e < span.end; e++) {
        value *moved = &rank->statistics[bucket_index(rank, chunk_of(world, instr), e)];
        *moved = reference_moved(*moved, shared);
    }
}

value statistics_of(const struct rank *rank, int chunk) {
    return slices_value(rank->statistics + bucket_index(rank, chunk, 0),
                        reference_parts(rank->own->chunk[chunk].buckets));
}

/* --- forward --- */

static void end_forward(struct world *world, struct rank *rank, const struct instr *instr,
                        value shared) {
    struct slot *slot = slot_of(world, rank, instr);
    int chunk = chunk_of(world, instr);
    value pass = pass_value(slot, instr, 0);
    bool round = rank->list == LIST_EVAL;
    slot->forward = round ? reference_evaluated(pass, slot->read, statistics_of(rank, chunk))
                          : reference_forward(pass, slot->read, shared);
    slot->output = value_of(VALUE_OUTPUT, slot->forward, 0);
    slot->gradient = VALUE_NONE;
    slot->read = 0;
    slot->version = version_of(world, rank, instr);
    if (instr->stage == world_stages(world) - 1) rank->losses += reference_loss(slot->forward);
}

/* Memory is laid out for the rank, and for all of a pass. */
static bool keep_form(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    unsigned form = instr->flags & INSTR_AGAIN;
    if (slot->segment > 0 && form != slot->form)
        return world_wrong(world, "segments of forward keep different things");
    slot->form = form;
    if (list_is_step(rank->list)) rank->forms |= form;
    return rank->forms != INSTR_AGAIN || world_wrong(world, "runs again by stage and by block");
}

static bool can_forward(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (slot->micro < 0 || slot->micro != world_micro(world, rank, instr))
        return world_wrong(world, "forward of a micro-batch that is not there");
    if (instr->stage > 0 && !slot->received)
        return world_wrong(world, "forward before the tensors came");
    if (slot->forward || slot->kept || slot->input_gradient)
        return world_wrong(world, "forward twice");
    return keep_form(world, rank, instr);
}

/* By stage segments follow one another as those of forward do, and all stay. By block each is made
 * right before its backward, in the memory of the one before it. */
static bool make_again(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    struct span span = span_of(world, rank, instr);
    int count = sizes_of(world, rank, instr)->buckets;
    bool blocks = slot->form == INSTR_BLOCK;
    if (blocks && (span.end - span.first > 1 || span.first != slot->segment))
        return world_wrong(world, "runs a block again out of turn");
    if (!blocks && slot->segment > 0)
        return world_wrong(world, "runs again in the middle of backward");
    bool begins = rank->again != slot || span.end == count;
    use_memory(rank, slot, false);
    rank->again = slot;
    if (blocks || begins) rank->made = 0;
    if (!blocks && span.end != count - rank->made)
        return world_wrong(world, "runs segments again out of order");
    rank->made = blocks ? span.first : rank->made + span.end - span.first;
    return true;
}

bool run_again(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    value read = 0;
    if (!await_parameters(world, rank, instr) || !await_slot(world, rank, slot)) return false;
    if (slot->micro < 0 || slot->micro != world_micro(world, rank, instr) || !slot->forward ||
        !slot->form)
        return world_wrong(world, "runs again what was not run, or is there");
    if (!read_parameters(world, rank, instr, &read)) return false;
    if (version_of(world, rank, instr) != slot->version)
        return world_wrong(world, "runs again with other parameters");
    slot->output = VALUE_NONE;
    return make_again(world, rank, instr);
}

/* --- backward --- */

static bool has_activations(const struct world *world, const struct rank *rank,
                            const struct instr *instr) {
    const struct slot *slot = slot_of(world, rank, instr);
    struct span span = span_of(world, rank, instr);
    if (!slot->form) return true;
    if (rank->again != slot || slot->lost) return false;
    if (slot->form == INSTR_LIGHT) return rank->made == sizes_of(world, rank, instr)->buckets;
    return span.first == rank->made && span.end == rank->made + 1;
}

static bool can_backward(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (slot->micro < 0 || slot->micro != world_micro(world, rank, instr))
        return world_wrong(world, "backward of a micro-batch that is not there");
    if (instr->op == INSTR_W) {
        if (!slot->kept) return world_wrong(world, "W before I");
        return true;
    }
    if (!slot->forward) return world_wrong(world, "backward before forward");
    if (!has_activations(world, rank, instr))
        return world_wrong(world, "backward without activations");
    if (!gradient_of(world, rank, slot, instr))
        return world_wrong(world, "backward before its gradient or seeds");
    return true;
}

static void backward(struct world *world, struct rank *rank, const struct instr *instr, bool ends) {
    struct slot *slot = slot_of(world, rank, instr);
    value kept = slot->kept;
    if (instr->op != INSTR_W) {
        slot->output = slot->received = VALUE_NONE;
        kept = reference_kept(slot->forward, gradient_of(world, rank, slot, instr), slot->shared);
    }
    if (instr->op != INSTR_I) collect(world, rank, instr, kept);
    if (!ends) return;
    slot->kept = instr->op == INSTR_I ? kept : VALUE_NONE;
    if (instr->op == INSTR_W) return;
    slot->input_gradient = reference_input_gradient(kept, slot->read);
    slot->forward = slot->gradient = VALUE_NONE;
    slot->read = 0;
    if (rank->again == slot) rank->again = NULL;
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
    if (is_cut(instr)) return world_wrong(world, "segments in lockstep");
    rank->lockstep[rank->lockstep_count++] = instr;
    if (rank->lockstep_count < sharers(world, rank, instr->micro)) return true;
    if (!join_values(world, rank, &shared)) return false;
    int count = rank->lockstep_count;
    rank->lockstep_count = 0;
    for (int i = 0; i < count && !world->wrong; i++) {
        const struct instr *one = rank->lockstep[i];
        slot_of(world, rank, one)->shared = shared;
        if (one->op == INSTR_F && !(one->flags & INSTR_PURE))
            move_statistics(world, rank, one, shared);
        if (one->op == INSTR_F)
            end_forward(world, rank, one, shared);
        else
            backward(world, rank, one, true);
    }
    return true;
}

/* --- passes, begun --- */

static bool check_segment(struct world *world, struct rank *rank, const struct instr *instr) {
    const struct slot *slot = slot_of(world, rank, instr);
    int count = sizes_of(world, rank, instr)->buckets;
    int next = instr->op == INSTR_F ? count - 1 - slot->segment : slot->segment;
    if (slot->segment > 0 && slot->pass != instr->op)
        return world_wrong(world, "a pass inside of another");
    if (!is_cut(instr)) return slot->segment == 0 || world_wrong(world, "segments run again");
    return instr->segment == next || world_wrong(world, "segments out of order");
}

/* Waits for what the pass touches, in the order of instr.def; then it must be able to run. */
static bool begin_pass(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    bool ahead = instr->op == INSTR_F, weights = instr->op == INSTR_B || instr->op == INSTR_W;
    unsigned called = ahead ? INSTR_FORWARD : INSTR_BACKWARD;
    if (instr->op != INSTR_W && !await_parameters(world, rank, instr)) return false;
    if (!await_slot(world, rank, slot)) return false;
    if (ahead && !await(world, rank, &rank->report)) return false;
    if (!ahead && instr->op != INSTR_W && !await(world, rank, &rank->count)) return false;
    if (weights && !await_gradient(world, rank, instr)) return false;
    if (slot->segment == 0 && instr->op != INSTR_W && list_is_step(rank->list) &&
        !was_called(world, rank, instr, called))
        return false;
    if (!check_segment(world, rank, instr)) return false;
    use_memory(rank, slot, ahead);
    if (!(ahead ? can_forward : can_backward)(world, rank, instr)) return false;
    return instr->op == INSTR_W || read_parameters(world, rank, instr, &slot->read);
}

/* True behind the last segment of the pass. */
static bool end_segment(const struct world *world, const struct rank *rank,
                        const struct instr *instr, struct slot *slot) {
    slot->pass = instr->op;
    slot->segment++;
    bool ends = !is_cut(instr) || slot->segment == sizes_of(world, rank, instr)->buckets;
    if (ends) slot->segment = 0;
    return ends;
}

bool run_pass(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    bool goes_on = slot->segment > 0;
    if (!rank->in_pass && !begin_pass(world, rank, instr)) return false;
    value own =
        instr->op == INSTR_W ? 0 : pass_value(slot, instr, gradient_of(world, rank, slot, instr));
    value shared = own;
    if (instr_shares(instr) && list_is_step(rank->list)) {
        if (rank->cell.replica_count > 1) return run_lockstep(world, rank, instr);
        if (rank->met > 0) shared = slot->shared;
        bool done = share(world, rank, instr, own, &shared);
        if (rank->met > 0) slot->shared = shared;
        if (!done) return false;
        if (goes_on && shared != slot->shared)
            return world_wrong(world, "segments of a pass share different things");
    }
    if (instr->op != INSTR_W) slot->shared = shared;
    bool moves = instr->op == INSTR_F && list_is_step(rank->list) && !is_frozen(world, instr);
    if (moves && !(instr->flags & INSTR_PURE)) move_statistics(world, rank, instr, shared);
    bool ends = end_segment(world, rank, instr, slot);
    if (instr->op != INSTR_F)
        backward(world, rank, instr, ends);
    else if (ends)
        end_forward(world, rank, instr, shared);
    return true;
}

/* --- without samples --- */

static bool stands_in_order(struct world *world, struct rank *rank, const struct instr *instr) {
    const struct instr *before = rank->stands_in;
    int count = sizes_of(world, rank, instr)->buckets;
    if (before &&
        (before->op != instr->op || before->stage != instr->stage || before->micro != instr->micro))
        return world_wrong(world, "stands in for another before the end");
    if (!is_cut(instr)) return !before || world_wrong(world, "stands in again");
    int next = is_forward(instr) ? count - 1 - rank->stood : rank->stood;
    return instr->segment == next || world_wrong(world, "stands in out of order");
}

/* The slot lends its memory for what comes from the others. */
bool run_stand_in(struct world *world, struct rank *rank, const struct instr *instr) {
    struct slot *slot = slot_of(world, rank, instr);
    if (rank->cell.replica_count > 1) return run_lockstep(world, rank, instr);
    if (!rank->in_pass) {
        if (!await_slot(world, rank, slot)) return false;
        if (world_present(world, rank, instr->micro))
            return world_wrong(world, "stands in for a micro-batch with samples");
        if (!stands_in_order(world, rank, instr)) return false;
        use_memory(rank, slot, true);
    }
    value shared = slot->shared;
    bool done = share(world, rank, instr, 0, &shared);
    *slot = (struct slot){.micro = -1, .shared = shared};
    if (!done) return false;
    if (is_forward(instr)) move_statistics(world, rank, instr, shared);
    rank->stands_in = instr;
    rank->stood++;
    if (is_cut(instr) && rank->stood < sizes_of(world, rank, instr)->buckets) return true;
    rank->stands_in = NULL;
    rank->stood = 0;
    return true;
}
