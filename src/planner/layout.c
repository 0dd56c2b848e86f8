/* See layout.h. */
#include "planner/layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static struct grid grid_of(const struct planner_layout *layout) {
    return (struct grid){
        .stages = layout->stages, .chunks = 1, .replicas = layout->replicas, .replicas_each = 1};
}

static int rank_at(const struct planner_layout *layout, int replica, int position) {
    struct grid grid = grid_of(layout);
    return group_rank(&grid, GROUP_PIPELINE, replica, position);
}

/* The next one of a pipeline; of one position itself. */
static void look_up(struct planner_layout *out, const struct cost_net *net, int replica) {
    for (int p = 0; p < out->stages; p++) {
        int at = out->pipelines * out->stages + p, rank = rank_at(out, replica, p),
            next = rank_at(out, replica, p + 1 < out->stages ? p + 1 : 0);
        out->device[at] = cost_device_of(net, rank);
        out->link[0][at] = cost_link(net, rank, next);
        out->link[1][at] = cost_link(net, next, rank);
    }
}

static bool same_link(struct cost_link a, struct cost_link b) {
    return a.latency == b.latency && a.bytes_per_time == b.bytes_per_time;
}

static bool same_pipeline(const struct planner_layout *layout, int a, int b) {
    for (int p = 0; p < layout->stages; p++) {
        int one = a * layout->stages + p, other = b * layout->stages + p;
        if (layout->device[one].class != layout->device[other].class ||
            layout->device[one].slowness != layout->device[other].slowness ||
            !same_link(layout->link[0][one], layout->link[0][other]) ||
            !same_link(layout->link[1][one], layout->link[1][other]))
            return false;
    }
    return true;
}

static bool is_known(const struct planner_layout *layout) {
    for (int i = 0; i < layout->pipelines; i++)
        if (same_pipeline(layout, i, layout->pipelines)) return true;
    return false;
}

static struct cost_link around(const struct cost_net *net, const struct planner_layout *layout,
                               enum group_family family, int index) {
    struct grid grid = grid_of(layout);
    int size = group_size(&grid, family, index);
    struct cost_link slowest = {0};
    if (!net->cluster) return net->group_link;
    for (int i = 0; size > 1 && i < size; i++)
        slowest = cost_slower_link(
            slowest, cost_link(net, group_rank(&grid, family, index, i),
                               group_rank(&grid, family, index, i + 1 < size ? i + 1 : 0)));
    return slowest;
}

static void add_pipelines(struct planner_layout *layout, const struct cost_net *net) {
    for (int r = 0; r < layout->replicas; r++) {
        look_up(layout, net, r);
        if (is_known(layout)) continue;
        layout->replica[layout->pipelines] = r;
        layout->pipeline[layout->pipelines++] = around(net, layout, GROUP_PIPELINE, r);
    }
}

struct planner_layout *planner_layout_new(const struct cost_net *net, int stages, int replicas) {
    struct planner_layout *layout = MEM_NEW(struct planner_layout);
    int ranks = stages * replicas;
    *layout = (struct planner_layout){.stages = stages, .replicas = replicas};
    layout->device = MEM_ARRAY(struct cost_device, ranks);
    layout->ring = MEM_ARRAY(struct cost_link, stages);
    layout->pipeline = MEM_ARRAY(struct cost_link, replicas);
    layout->replica = MEM_ARRAY(int, replicas);
    for (int d = 0; d < 2; d++) layout->link[d] = MEM_ARRAY(struct cost_link, ranks);
    add_pipelines(layout, net);
    for (int p = 0; p < stages; p++) layout->ring[p] = around(net, layout, GROUP_REPLICAS, p);
    layout->world = around(net, layout, GROUP_WORLD, 0);
    return layout;
}

void planner_layout_free(struct planner_layout **layout) {
    if (!*layout) return;
    free((*layout)->device);
    free((*layout)->ring);
    free((*layout)->pipeline);
    free((*layout)->replica);
    for (int d = 0; d < 2; d++) free((*layout)->link[d]);
    free(*layout);
    *layout = NULL;
}
