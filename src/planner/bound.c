/* See bound.h. */
#include "planner/bound.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "plan/buckets.h"
#include "program/pipeline.h"

void planner_bounds_new(const struct planner_input *input, const struct run_config *base,
                        struct plan_pool *pool, int layers, int64_t elements,
                        struct planner_bounds *out) {
    bool sized = option_is_given(input->options, OPTION_bucket_size);
    *out = (struct planner_bounds){
        .input = input,
        .base = base,
        .layout = MEM_ARRAY(struct planner_layout *, (layers + 1) * (input->ranks + 1)),
        .bucket_bytes = sized ? 0 : (double)buckets_most_bytes(elements)};
    planner_splits_new(input->costs, base, pool, layers, &out->splits);
}

void planner_bounds_free(struct planner_bounds *bounds) {
    int layouts = bounds->layout ? (bounds->splits.layers + 1) * (bounds->input->ranks + 1) : 0;
    for (int i = 0; i < layouts; i++) planner_layout_free(&bounds->layout[i]);
    free(bounds->layout);
    planner_lane_free(&bounds->lane);
    planner_lane_free(&bounds->worst);
    planner_splits_free(&bounds->splits);
    free(bounds->shared);
    *bounds = (struct planner_bounds){0};
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* --- frames --- */

/* Ranks of this machine share its cores. */
static double crowd_of(const struct planner_bounds *bounds, const struct planner_choice *choice) {
    const struct planner_input *input = bounds->input;
    double threads = (double)choice->ranks * input->threads, each = threads / input->cores;
    bool rules = !input->costs->cluster && !input->costs->section;
    return rules && input->cores > 0 && each > 1 ? each : 1;
}

static enum status graph_of(struct planner_bounds *bounds, const struct planner_choice *choice,
                            int *out) {
    int64_t samples = bounds->input->options->batch / choice->replicas / choice->micro_batches;
    return planner_graph_find(&bounds->splits, samples, out);
}

static const struct planner_layout *layout_of(struct planner_bounds *bounds,
                                              const struct cost_net *net,
                                              const struct planner_choice *choice) {
    struct planner_layout **at =
        &bounds->layout[choice->replicas * (bounds->splits.layers + 1) + choice->stages];
    if (!*at) *at = planner_layout_new(net, choice->stages, choice->replicas);
    return *at;
}

enum status planner_frame_of(struct planner_bounds *bounds, const struct planner_choice *choice,
                             bool v_shape, struct planner_frame *out) {
    struct planner_split *split;
    int graph;
    TRY(graph_of(bounds, choice, &graph));
    TRY(planner_split_find(&bounds->splits, graph, choice->stages * choice->chunks, choice->balance,
                           &split));
    const struct pipeline_schedule *schedule =
        choice->schedule >= 0 ? pipeline_at(choice->schedule) : NULL;
    *out = (struct planner_frame){.input = bounds->input,
                                  .base = bounds->base,
                                  .choice = *choice,
                                  .split = split,
                                  .grid = {.stages = choice->stages,
                                           .chunks = choice->chunks,
                                           .replicas = choice->replicas,
                                           .replicas_each = 1,
                                           .v_shape = schedule ? schedule->v_shape : v_shape},
                                  .costs = bounds->splits.costs,
                                  .crowd = crowd_of(bounds, choice),
                                  .bucket_bytes = bounds->bucket_bytes,
                                  .clips = plan_clips(bounds->base) && !planner_overlaps(choice)};
    out->costs.crowd = out->crowd;
    out->net = cost_net_of(&out->costs, bounds->input->threads);
    out->layout = layout_of(bounds, &out->net, choice);
    return STATUS_OK;
}

static enum status find_same(struct planner_bounds *bounds, const struct planner_choice *choice,
                             bool *again) {
    struct planner_split *own, *other;
    int graph, count = choice->stages * choice->chunks;
    TRY(graph_of(bounds, choice, &graph));
    TRY(planner_split_find(&bounds->splits, graph, count, choice->balance, &own));
    for (int b = 0; b < choice->balance && !*again; b++) {
        if (b == BALANCE_TIME && !bounds->input->costs->section) continue;
        TRY(planner_split_find(&bounds->splits, graph, count, b, &other));
        *again = planner_split_same(own, other);
    }
    return STATUS_OK;
}

/* auto has one stage a rank or two, unless it is told. */
enum status planner_is_again(struct planner_bounds *bounds, const struct planner_choice *choice,
                             bool *again) {
    bool fixed = option_is_given(bounds->input->options, OPTION_balance) ||
                 option_is_given(bounds->input->options, OPTION_cut);
    struct planner_choice with = *choice;
    bool same = true;
    *again = false;
    if (fixed || choice->stages == 1) return STATUS_OK;
    for (int more = 0; same && more < (choice->chunks ? 1 : 2); more++) {
        with.chunks = (int16_t)(choice->chunks ? choice->chunks : 1 + more);
        if (with.stages * with.chunks > bounds->splits.layers) break;
        same = false;
        TRY(find_same(bounds, &with, &same));
    }
    *again = same;
    return STATUS_OK;
}

/* --- forward once more --- */

double planner_run_again(const struct planner_choice *choice) {
    enum recompute_policy policy = (enum recompute_policy)choice->recompute;
    if (policy == RECOMPUTE_NEVER) return 0;
    return recompute_keeps_last(policy) ? choice->micro_batches - 1 : choice->micro_batches;
}

bool planner_overlaps(const struct planner_choice *choice) {
    return choice->schedule >= 0 && pipeline_at(choice->schedule)->older;
}

/* --- whatever the order is --- */

/* What a position does in a step. */
struct work {
    double passes, early; /* all passes; those before the last micro-batch's gradients */
    double backward;      /* those behind the first gradient that comes */
    double comm, gather;  /* all of its groups; what the first forward of the next step awaits */
};

/* Forward waits for all parameters of its stage, but with slices of gradients it runs bucket by
 * bucket: then all have come when it ends. */
double planner_lane_gathered(const struct planner_lane *lane, int stage, double gathered) {
    if (lane->frame->choice.zero_stage < 2) return gathered;
    return larger(0, gathered - lane->stage[stage].forward);
}

/* Where each backward of a position follows its forward at once nothing runs again, but by block:
 * with one micro-batch, and at the last position. Elsewhere auto does it where memory is little,
 * which takes each micro-batch to the end of the pipeline and back; or so many forwards more. */
static double again_at(const struct planner_lane *lane, int position) {
    const struct planner_choice *choice = &lane->frame->choice;
    double again = planner_run_again(choice), round = 0, own = 0;
    if (again == 0 || choice->chunks > 1 || choice->recompute == RECOMPUTE_ALWAYS_BLOCK)
        return again;
    if (choice->micro_batches == 1 || position == choice->stages - 1) return 0;
    if (choice->schedule >= 0) return again;
    const struct planner_times *stage = &lane->stage[position];
    for (int s = position; s < lane->count; s++)
        round += lane->stage[s].forward + lane->stage[s].input;
    own = stage->forward + stage->input + stage->weight;
    double more =
        choice->micro_batches * (round - own) / (stage->once_more > 0 ? stage->once_more : 1);
    return more < 0 ? 0 : more < again ? more : again;
}

static struct work work_of(const struct planner_lane *lane, int position) {
    const struct planner_frame *frame = lane->frame;
    double micros = frame->choice.micro_batches, again = again_at(lane, position);
    struct work work = {0};
    for (int c = 0; c < frame->grid.chunks; c++) {
        const struct planner_times *stage = &lane->stage[grid_stage(&frame->grid, position, c)];
        double backward = stage->input + stage->weight;
        work.backward += micros * backward + (micros - 1) * stage->add;
        work.early += micros * stage->forward + (micros - 1) * backward;
        work.passes += micros * stage->forward + again * stage->once_more;
        work.comm += stage->sum + stage->gather + stage->more;
        if (c == 0)
            work.gather =
                planner_lane_gathered(lane, grid_stage(&frame->grid, position, 0), stage->awaited);
    }
    work.passes += work.backward;
    return work;
}

/* Gradients are summed once a step, when the last micro-batch has them; those of several chunks
 * not at once. */
static bool sums_late(const struct planner_frame *frame) {
    bool scatters = strcmp(frame->input->options->zero_accumulate, "scatter") == 0;
    return frame->grid.chunks == 1 && !planner_overlaps(&frame->choice) &&
           (frame->choice.zero_stage < 2 || !scatters);
}

/* A position alone: from its own update to the next one. */
static double position_ns(const struct planner_lane *lane, int position) {
    struct work work = work_of(lane, position);
    double update = lane->update[position] + lane->norm[position];
    if (planner_overlaps(&lane->frame->choice))
        return larger(work.passes + lane->update[position], work.comm);
    double ns = larger(work.passes + update + work.gather, work.comm);
    if (!sums_late(lane->frame)) return ns;
    return larger(ns, work.early + lane->stage[position].sum + update + work.gather);
}

/* When things are there at the earliest, per stage: the first forward's inputs, the first
 * gradient, the end of the last input gradients, and the begin of the last weight gradients. */
struct earliest {
    double *ahead, *back, *input, *late;
};

static double message(const struct planner_lane *lane, int cut, int way) {
    return lane->stage[cut].moving[way] + lane->stage[cut].latency[way];
}

static void find_firsts(const struct planner_lane *lane, const double *whole,
                        struct earliest *out) {
    int last = lane->count - 1;
    out->ahead[0] = whole[0];
    for (int s = 1; s <= last; s++)
        out->ahead[s] = larger(whole[s], out->ahead[s - 1] + lane->stage[s - 1].forward +
                                             message(lane, s - 1, 0));
    out->back[last] = out->ahead[last] + lane->stage[last].forward;
    for (int s = last - 1; s >= 0; s--)
        out->back[s] = out->back[s + 1] + lane->stage[s + 1].input + message(lane, s, 1);
}

/* A link carries one message at a time: when the last of all micro-batches has come over it whose
 * first one was ready then. */
static double carried(const struct planner_lane *lane, int cut, int way, double ready) {
    const struct planner_times *stage = &lane->stage[cut];
    return ready + lane->frame->choice.micro_batches * stage->moving[way] + stage->latency[way];
}

/* When a stage has ended its last forward; the one that comes last is the last to leave. */
static void find_last_forwards(const struct planner_lane *lane, const struct earliest *times,
                               double *forward) {
    double micros = lane->frame->choice.micro_batches, come = 0;
    for (int s = 0; s < lane->count; s++) {
        double own = lane->stage[s].forward;
        forward[s] = larger(come + own, times->ahead[s] + micros * own);
        come = larger(forward[s] + message(lane, s, 0), carried(lane, s, 0, times->ahead[s] + own));
    }
}

static void find_lasts(const struct planner_lane *lane, struct earliest *out) {
    const struct planner_choice *choice = &lane->frame->choice;
    double micros = choice->micro_batches, *forward = out->late;
    find_last_forwards(lane, out, forward);
    for (int s = lane->count - 1; s >= 0; s--) {
        const struct planner_times *stage = &lane->stage[s];
        double again = again_at(lane, lane->position[s]),
               own = larger(out->ahead[s] + micros * stage->forward + again * stage->once_more,
                            out->back[s] + (again > 1 ? (again - 1) * stage->once_more : 0)) +
                     micros * stage->input,
               come = forward[s];
        if (s + 1 < lane->count)
            come = larger(larger(come, out->input[s + 1] + message(lane, s, 1)),
                          carried(lane, s, 1, out->back[s + 1] + lane->stage[s + 1].input));
        out->input[s] = larger(own, come + stage->input);
        out->late[s] =
            larger(out->input[s] - stage->input, out->ahead[s] + micros * stage->forward +
                                                     (micros - 1) * (stage->input + stage->weight));
    }
}

/* When a position has ended its passes: it is busy from its first forward on, and with all
 * gradients from the first one on that comes. */
static double ended_at(const struct planner_lane *lane, const struct earliest *times,
                       int position) {
    const struct grid *grid = &lane->frame->grid;
    struct work work = work_of(lane, position);
    int last = grid_stage(grid, position, grid->chunks - 1);
    double most = larger(times->ahead[grid_stage(grid, position, 0)] + work.passes,
                         times->back[last] + work.backward);
    for (int c = 0; c < grid->chunks; c++) {
        int stage = grid_stage(grid, position, c);
        most = larger(most, times->input[stage] + lane->stage[stage].weight);
    }
    return most;
}

/* Parameters are gathered chunk by chunk, after the update. */
static double first_forwards(const struct planner_lane *lane, double *whole) {
    const struct planner_frame *frame = lane->frame;
    double most = 0;
    for (int s = 0; s < lane->count; s++) {
        int p = lane->position[s], chunk = grid_chunk(&frame->grid, s);
        bool from_here = frame->clips || p == 0;
        double gathered = 0;
        for (int c = 0; from_here && c <= chunk; c++)
            gathered += lane->stage[grid_stage(&frame->grid, p, c)].awaited;
        whole[s] = planner_lane_gathered(lane, s, gathered) + (frame->clips ? lane->update[p] : 0);
        most = larger(most, whole[s]);
    }
    return most;
}

/* From the norm of all gradients to the next one; else from the first position's update to its
 * next one, and from the end of all passes to the next. */
static double chain_ns(struct planner_lane *lane) {
    const struct planner_frame *frame = lane->frame;
    int room = lane->room;
    double *whole = lane->found + 4 * room, *found = lane->found,
           most_whole = first_forwards(lane, whole), most = 0, ended_last = 0;
    struct earliest times = {found, found + room, found + 2 * room, found + 3 * room};
    find_firsts(lane, whole, &times);
    find_lasts(lane, &times);
    double joined = planner_lane_joined(lane, times.late);
    for (int p = 0; p < frame->grid.stages; p++) {
        double ended = ended_at(lane, &times, p),
               summed = planner_lane_summed(lane, p, times.late, ended, joined) + lane->norm[p];
        ended_last = larger(ended_last, ended);
        if (frame->clips)
            most = larger(most, summed);
        else if (p == 0)
            most = summed + lane->update[p];
    }
    if (frame->clips) return most + lane->meeting;
    return larger(most, ended_last - most_whole + lane->exchange);
}

static bool has_chain(const struct planner_frame *frame) {
    return !planner_overlaps(&frame->choice) && frame->base->frozen == 0;
}

static double lane_ns(struct planner_lane *lane) {
    double ns = has_chain(lane->frame) ? chain_ns(lane) : 0;
    for (int p = 0; p < lane->frame->grid.stages; p++) ns = larger(ns, position_ns(lane, p));
    return ns;
}

double planner_frame_ns(struct planner_bounds *bounds, const struct planner_frame *frame) {
    double most = 0;
    for (int i = 0; i < frame->layout->pipelines; i++) {
        planner_lane_fill(frame, i, &bounds->lane);
        double ns = lane_ns(&bounds->lane);
        if (i > 0 && ns <= most) continue;
        struct planner_lane lane = bounds->lane;
        bounds->lane = bounds->worst;
        bounds->worst = lane;
        most = ns;
    }
    return most;
}

/* --- memory --- */

/* Of what a rank keeps of its parameters, the slices that ZeRO leaves it. */
static double store_bytes(const struct planner_frame *frame, double bytes) {
    const struct planner_choice *choice = &frame->choice;
    double whole = bytes, slice = bytes / choice->replicas;
    int states = frame->base->optimizer->state_count;
    bool scatters = choice->micro_batches == 1 ||
                    strcmp(frame->input->options->zero_accumulate, "scatter") == 0;
    double params = choice->zero_stage == 3 ? slice : whole,
           grads = choice->zero_stage >= 2 && scatters ? slice : whole,
           state = (choice->zero_stage ? slice : whole) * states;
    return params + grads + state;
}

static double params_at(const struct planner_frame *frame, int position) {
    double bytes = 0;
    for (int c = 0; c < frame->grid.chunks; c++)
        bytes += (double)frame->split->param_bytes[grid_stage(&frame->grid, position, c)];
    return bytes;
}

static int64_t bound_bytes(const struct planner_frame *frame) {
    double most = 0;
    for (int p = 0; p < frame->grid.stages; p++) {
        double kept = 0;
        for (int c = 0; c < frame->grid.chunks && frame->choice.recompute == RECOMPUTE_NEVER; c++)
            kept += (double)frame->split->kept_bytes[grid_stage(&frame->grid, p, c)];
        most = larger(most, store_bytes(frame, params_at(frame, p)) + kept);
    }
    return (int64_t)most;
}

int64_t planner_bytes_with(const struct planner_frame *frame, int64_t kept) {
    double least = 0;
    for (int p = 0; p < frame->grid.stages; p++) {
        double bytes = store_bytes(frame, params_at(frame, p));
        if (p == 0 || bytes < least) least = bytes;
    }
    return (int64_t)least + kept;
}

/* --- the whole --- */

enum status planner_bound_whole(struct planner_bounds *bounds, struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    int graph;
    TRY(graph_of(bounds, choice, &graph));
    const struct planner_graph *of = &bounds->splits.graph[graph];
    double again = choice->recompute == RECOMPUTE_ALWAYS_BLOCK ? choice->micro_batches : 0,
           all = of->least_ns * choice->micro_batches + of->least_forward_ns * again;
    row->step_ns = all / choice->stages * crowd_of(bounds, choice);
    return STATUS_OK;
}

/* --- what many candidates have in common --- */

/* A bound of all candidates of a shape; ns 0: an empty place. */
struct planner_shared {
    int32_t stages, replicas, micro_batches;
    int16_t chunks;
    int8_t balance, kind; /* kind: V, overlapping */
    double ns;
};

static struct planner_shared shared_of(const struct planner_choice *choice, bool v_shape) {
    bool v = choice->schedule >= 0 ? pipeline_at(choice->schedule)->v_shape : v_shape;
    return (struct planner_shared){.stages = choice->stages,
                                   .replicas = choice->replicas,
                                   .micro_batches = choice->micro_batches,
                                   .chunks = choice->chunks,
                                   .balance = choice->balance,
                                   .kind = (int8_t)(v + 2 * planner_overlaps(choice))};
}

static struct planner_shared *place_of(struct planner_shared *table, int64_t room,
                                       const struct planner_shared *key) {
    enum { KEY_BYTES = offsetof(struct planner_shared, ns) };
    uint64_t at = hash64(HASH64_START, key, KEY_BYTES);
    for (at %= (uint64_t)room; table[at].ns > 0; at = (at + 1) % (uint64_t)room)
        if (memcmp(&table[at], key, KEY_BYTES) == 0) break;
    return &table[at];
}

static void make_room(struct planner_bounds *bounds) {
    if (2 * bounds->shared_count < bounds->shared_room) return;
    int64_t room = bounds->shared_room ? 2 * bounds->shared_room : 1024;
    struct planner_shared *table = MEM_ARRAY(struct planner_shared, room);
    for (int64_t i = 0; i < bounds->shared_room; i++)
        if (bounds->shared[i].ns > 0)
            *place_of(table, room, &bounds->shared[i]) = bounds->shared[i];
    free(bounds->shared);
    bounds->shared = table;
    bounds->shared_room = room;
}

/* Recomputation takes time and nothing else; of ZeRO stages the one that takes least. */
static enum status find_shape(struct planner_bounds *bounds, const struct planner_choice *choice,
                              bool v_shape, double *out) {
    struct planner_shared key = shared_of(choice, v_shape);
    struct planner_choice any = *choice;
    make_room(bounds);
    struct planner_shared *found = place_of(bounds->shared, bounds->shared_room, &key);
    any.recompute = RECOMPUTE_NEVER;
    for (int zero = 0; found->ns == 0 && zero <= (choice->replicas > 1 ? 3 : 0); zero++) {
        struct planner_frame frame;
        any.zero_stage = (int8_t)zero;
        TRY(planner_frame_of(bounds, &any, v_shape, &frame));
        frame.any_buckets = true;
        double ns = planner_frame_ns(bounds, &frame);
        if (zero == 0 || ns < key.ns) key.ns = ns;
    }
    if (found->ns == 0) {
        if (key.ns <= 0) key.ns = 1e-300;
        *found = key;
        bounds->shared_count++;
    }
    *out = found->ns;
    return STATUS_OK;
}

enum status planner_bound_shape(struct planner_bounds *bounds, struct planner_row *row) {
    bool is_auto = row->choice.schedule == PLANNER_AUTO;
    double least = 0, ns;
    for (int shape = 0; shape < (is_auto ? 3 : 1); shape++) {
        struct planner_choice choice = row->choice;
        if (is_auto && !choice.chunks) choice.chunks = shape ? 2 : 1;
        if (choice.stages * choice.chunks > bounds->splits.layers) continue;
        TRY(find_shape(bounds, &choice, shape == 2, &ns));
        if (least == 0 || ns < least) least = ns;
    }
    row->step_ns = larger(row->step_ns, least);
    return STATUS_OK;
}

/* auto has one stage a rank, or two in a loop or in a V, whichever is faster; or as many as it is
 * told. */
static enum status bound_auto(struct planner_bounds *bounds, struct planner_row *row) {
    double least = 0;
    for (int shape = 0; shape < 3; shape++) {
        struct planner_choice choice = row->choice;
        struct planner_frame frame;
        choice.chunks = shape ? 2 : 1;
        if (row->choice.chunks) choice.chunks = row->choice.chunks;
        if (choice.stages * choice.chunks > bounds->splits.layers) continue;
        TRY(planner_frame_of(bounds, &choice, shape == 2, &frame));
        double ns = planner_frame_ns(bounds, &frame);
        if (least == 0 || ns < least) least = ns;
    }
    row->step_ns = larger(row->step_ns, least);
    return STATUS_OK;
}

enum status planner_bound_stages(struct planner_bounds *bounds, struct planner_row *row) {
    struct planner_frame frame;
    if (row->choice.schedule == PLANNER_AUTO) return bound_auto(bounds, row);
    TRY(planner_frame_of(bounds, &row->choice, false, &frame));
    row->step_ns = larger(row->step_ns, planner_frame_ns(bounds, &frame));
    row->peak_bytes = bound_bytes(&frame);
    return STATUS_OK;
}
