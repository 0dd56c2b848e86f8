/* See lane.h. */
#include "planner/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plan/state_layout.h"

void planner_lane_free(struct planner_lane *lane) {
    free(lane->stage);
    free(lane->update);
    free(lane->norm);
    free(lane->position);
    free(lane->found);
    *lane = (struct planner_lane){0};
}

static void make_room(struct planner_lane *lane, int count) {
    if (count <= lane->room) return;
    planner_lane_free(lane);
    lane->room = 2 * count;
    lane->stage = MEM_ARRAY(struct planner_times, lane->room);
    lane->update = MEM_ARRAY(double, lane->room);
    lane->norm = MEM_ARRAY(double, lane->room);
    lane->position = MEM_ARRAY(int, lane->room);
    lane->found = MEM_ARRAY(double, 6 * lane->room);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* --- groups --- */

/* At least so many buckets, each with its own latency; where passes touch them one after the other
 * or they end with layer blocks, a bucket may be larger. */
static double least_buckets(const struct planner_frame *frame, double bytes, double largest) {
    const struct planner_choice *choice = &frame->choice;
    double most = frame->bucket_bytes > largest ? frame->bucket_bytes : largest;
    bool apart = choice->zero_stage >= 2 || choice->recompute >= RECOMPUTE_EXCEPT_LAST_BLOCK;
    if (apart || frame->any_buckets || frame->bucket_bytes <= 0 || bytes <= most) return 1;
    double whole = (double)(int64_t)(bytes / most);
    return whole * most < bytes ? whole + 1 : whole;
}

/* A part of the bytes over the replicas of a position, in so many buckets. */
static double over_replicas(const struct planner_frame *frame, int position, double bytes,
                            double buckets) {
    struct cost_link link = frame->layout->ring[position];
    int replicas = frame->layout->replicas;
    enum cost_collective collective = frame->net.collective;
    if (replicas < 2 || bytes <= 0) return 0;
    return cost_group_time(collective, link, replicas, bytes, COST_SUM) +
           (buckets - 1) * cost_group_time(collective, link, replicas, 0, COST_SUM);
}

/* ZeRO-3 gathers what a pass reads, but at most one bucket that the pass before has left; what is
 * used more than once, or by two stages, may last. */
static void gather_passes(const struct planner_frame *frame, int position, int stage,
                          struct planner_times *out) {
    const struct options *options = frame->input->options;
    const struct planner_split *split = frame->split;
    double all = (double)split->param_bytes[stage], left = (double)split->largest_bytes[stage],
           passes = 2 * frame->choice.micro_batches;
    bool usual = options->zero_keep == 0 && !option_is_given(options, OPTION_zero_prefetch) &&
                 frame->bucket_bytes > 0;
    if (stage == split->tied && split->tied_bytes > 0) all -= (double)split->tied_bytes;
    if (options->zero_keep == 0) out->awaited = over_replicas(frame, position, all / 2, 1);
    if (!usual || split->twice[stage] || all <= 0) return;
    if (left < frame->bucket_bytes) left = frame->bucket_bytes;
    out->pass = over_replicas(frame, position, all / 2, 1);
    out->again = all > left ? over_replicas(frame, position, (all - left) / 2, 1) : 0;
    out->more = larger(out->more, out->pass + (passes - 1) * out->again);
}

static void sum_stage(const struct planner_frame *frame, int position, int stage,
                      struct planner_times *out) {
    const struct planner_choice *choice = &frame->choice;
    double bytes = out->bytes,
           buckets = least_buckets(frame, bytes, (double)frame->split->largest_bytes[stage]);
    double half = over_replicas(frame, position, bytes / 2, buckets);
    out->sum = choice->zero_stage ? half : over_replicas(frame, position, bytes, buckets);
    out->gather = choice->zero_stage == 1 || choice->zero_stage == 2 ? half : 0;
    out->awaited = out->gather;
    if (choice->zero_stage < 3) return;
    out->more = half;
    gather_passes(frame, position, stage, out);
}

/* A bucket is summed over the two ranks, then over replicas. */
static void join_stages(struct planner_lane *lane, int pipeline) {
    const struct planner_frame *frame = lane->frame;
    const struct planner_split *split = frame->split;
    double bytes = (double)split->tied_bytes;
    lane->joins = bytes > 0 && lane->position[split->tied] != lane->position[split->tied_other];
    if (!lane->joins) return;
    int replica = frame->layout->replica[pipeline], at = lane->position[split->tied],
        a = group_rank(&frame->grid, GROUP_PIPELINE, replica, at),
        b = group_rank(&frame->grid, GROUP_PIPELINE, replica, lane->position[split->tied_other]);
    struct cost_link link = frame->net.cluster ? cost_slower_link(cost_link(&frame->net, a, b),
                                                                  cost_link(&frame->net, b, a))
                                               : frame->net.group_link;
    lane->join = cost_group_time(frame->net.collective, link, 2, bytes, COST_SUM);
    lane->join_sum = over_replicas(frame, at, frame->choice.zero_stage ? bytes / 2 : bytes, 1);
    lane->stage[split->tied_other].bytes += bytes;
}

static void exchange_words(struct planner_lane *lane, int pipeline) {
    const struct planner_frame *frame = lane->frame;
    const struct planner_layout *layout = frame->layout;
    enum cost_collective collective = frame->net.collective;
    int ranks = layout->stages * layout->replicas;
    lane->exchange =
        cost_group_time(collective, layout->world, ranks, COST_EXCHANGE_BYTES, COST_EXCHANGE);
    lane->meeting = cost_group_time(collective, layout->pipeline[pipeline], layout->stages,
                                    COST_EXCHANGE_BYTES, COST_EXCHANGE);
    if (frame->choice.zero_stage && layout->replicas > 1) lane->meeting = lane->exchange;
}

/* --- passes and messages --- */

static void time_messages(struct planner_lane *lane, int pipeline, const struct cost_devices *on) {
    const struct planner_frame *frame = lane->frame;
    for (int s = 0; s + 1 < lane->count; s++) {
        const struct crossing *crossing = frame->split->partition.chunks[s].crossing;
        struct planner_times *from = &lane->stage[s], *to = &lane->stage[s + 1];
        int at = pipeline * frame->grid.stages + lane->position[s];
        bool back = lane->position[s + 1] < lane->position[s] && frame->grid.v_shape;
        if (lane->position[s] == lane->position[s + 1]) continue;
        if (back) at--; /* in a V a chunk runs back over the links of the one before */
        for (int d = 0; d < 2; d++) {
            enum phase phase = d == 0 ? PHASE_FORWARD : PHASE_BACKWARD;
            double bytes = (double)crossing[phase].bytes;
            struct cost_link link =
                frame->net.cluster ? frame->layout->link[d ^ back][at] : frame->net.link;
            double copy = cost_copy_ns(&frame->costs, on, frame->input->threads, bytes);
            from->latency[d] = link.latency;
            from->moving[d] = cost_moving(link, bytes);
            *(d == 0 ? &from->forward : &from->input) += copy;
            *(d == 0 ? &to->forward : &to->input) += copy;
        }
    }
}

static void time_stage(struct planner_lane *lane, int stage, struct cost_device device,
                       const struct cost_devices *on) {
    const struct planner_frame *frame = lane->frame;
    const struct planner_split *split = frame->split;
    int at = device.class * split->count + stage;
    double factor = device.slowness * frame->crowd;
    struct planner_times *out = &lane->stage[stage];
    *out = (struct planner_times){.forward = split->forward[at] * factor,
                                  .once_more = split->forward[at] * factor,
                                  .input = split->input[at] * factor,
                                  .weight = split->weight[at] * factor,
                                  .bytes = (double)split->param_bytes[stage]};
    if (frame->choice.micro_batches == 1) return;
    out->add = cost_add_ns(&frame->costs, on, frame->input->threads, out->bytes, true);
}

/* All stages of a position are updated together, and their squares summed up before. */
static void time_update(struct planner_lane *lane, int position, const struct cost_devices *on) {
    const struct planner_frame *frame = lane->frame;
    double bytes = 0;
    for (int c = 0; c < frame->grid.chunks; c++)
        bytes += lane->stage[grid_stage(&frame->grid, position, c)].bytes;
    if (frame->choice.zero_stage) bytes /= frame->layout->replicas;
    lane->norm[position] = bytes * cost_array_ns(&frame->costs, on, frame->input->threads);
    lane->update[position] = (3 + 2 * frame->base->optimizer->state_count) * lane->norm[position];
}

void planner_lane_fill(const struct planner_frame *frame, int pipeline, struct planner_lane *lane) {
    const struct planner_layout *layout = frame->layout;
    struct cost_device device = {0, 1};
    struct cost_devices on = {.item = &device, .count = 1, .in_step = true};
    make_room(lane, frame->split->count);
    lane->frame = frame;
    lane->count = frame->split->count;
    for (int s = 0; s < lane->count; s++) {
        lane->position[s] = grid_position(&frame->grid, s);
        device = layout->device[pipeline * layout->stages + lane->position[s]];
        time_stage(lane, s, device, &on);
    }
    time_messages(lane, pipeline, &on);
    join_stages(lane, pipeline);
    for (int s = 0; s < lane->count; s++) sum_stage(frame, lane->position[s], s, &lane->stage[s]);
    for (int p = 0; p < layout->stages; p++) {
        device = layout->device[pipeline * layout->stages + p];
        time_update(lane, p, &on);
    }
    exchange_words(lane, pipeline);
}

/* --- sums over replicas --- */

bool planner_lane_shares(const struct planner_lane *lane, int position) {
    const struct planner_split *split = lane->frame->split;
    return lane->joins && (position == lane->position[split->tied] ||
                           position == lane->position[split->tied_other]);
}

double planner_lane_joined(const struct planner_lane *lane, const double *late) {
    const struct planner_split *split = lane->frame->split;
    if (!lane->joins) return 0;
    double one = late[split->tied], other = late[split->tied_other];
    return (one > other ? one : other) + lane->join;
}

/* One sum after the other: each of those that come late begins when it is there, and those behind
 * it follow. */
double planner_lane_summed(const struct planner_lane *lane, int position, const double *late,
                           double ended, double joined) {
    const struct grid *grid = &lane->frame->grid;
    double most = ended;
    for (int c = 0; c < grid->chunks; c++) {
        double begin = late[grid_stage(grid, position, c)], sums = 0;
        for (int other = 0; other < grid->chunks; other++) {
            int stage = grid_stage(grid, position, other);
            if (late[stage] >= begin) sums += lane->stage[stage].sum;
        }
        if (begin + sums > most) most = begin + sums;
    }
    if (planner_lane_shares(lane, position) && joined + lane->join_sum > most)
        most = joined + lane->join_sum;
    return most;
}
