/* See choice.h. Each shape that is possible is tried: one chunk a rank, two in a loop, two in a V,
 * or what --virtual says. Of each the costs of stages are sums over nodes, their bytes are those of
 * a slot as memory plans place it, and program/auto.h finds the best order. The fastest shape is
 * taken; of equal ones the first, which has fewest messages.
 *
 * Rejected: forecasts of whole programs for each candidate. They would have to be made and verified
 * first, some hundred of them; and what they add, updates and sums, is the same for all. */
#include "plan/choice.h"

#include <stdlib.h>

#include "base/mem.h"
#include "comm/channel.h"
#include "graph/memory.h"
#include "plan/pool.h"

enum { MOST_SHAPES = 3 };

/* What all shapes are tried with. */
struct times {
    struct costs costs;
    struct cost_net net;
    struct cost_table table;
    struct cost_devices *on; /* per position: those of all replicas */
    int positions;
};

/* One shape that is tried. */
struct trial {
    const struct choice_input *input;
    const struct times *times;
    struct pipeline_shape shape;
    int stages;
    struct partition partition;
    struct ranges ranges;
    double *forward, *backward, *weight; /* per stage */
    double *latency, *moving[2];         /* per cut, where links are known */
    int64_t *kept;                       /* per stage: bytes of a slot */
    int64_t *limit;                      /* per position */
};

/* --- shapes --- */

static int layer_count(const struct graph *graph) {
    SCOPED(layers_free) struct layer_list layers = layers_of(graph);
    return layers.count;
}

/* Chunks a rank that the options leave no choice about, or 0. */
static int chunks_asked(const struct run_config *config) {
    if (config->chunks_asked) return config->chunks_asked;
    bool even = config->cut && (config->cut_count + 1) % config->grid.stages == 0;
    if (even) return (config->cut_count + 1) / config->grid.stages;
    /* Units are of a stage, whatever its size: numbers of stages cannot be compared by them. */
    return config->cut || config->grid.stages == 1 || cost_of_work(config->costs).units;
}

static int list_shapes(const struct choice_input *input, struct pipeline_shape *shape) {
    const struct run_config *config = input->config;
    int asked = chunks_asked(config), count = 0;
    bool two = asked ? asked == 2 : layer_count(input->graph) >= 2 * config->grid.stages;
    struct pipeline_shape one = {.positions = config->grid.stages,
                                 .chunks = asked ? asked : 1,
                                 .micro_batches = config->micro_batches};
    shape[count++] = one;
    one.chunks = 2;
    if (two && !asked) shape[count++] = one;
    one.v_shape = true;
    if (two && config->grid.stages > 1) shape[count++] = one;
    return count;
}

/* --- costs --- */

static struct times times_new(const struct choice_input *input) {
    const struct run_config *config = input->config;
    const struct grid *grid = &config->grid;
    int pipelines = group_count(grid, GROUP_PIPELINE);
    struct costs work = cost_of_work(config->costs);
    struct times times = {.costs = cost_at_rate(&work, input->graph, config->micro_batches),
                          .positions = grid->stages};
    times.net = cost_net_of(&times.costs, config->threads);
    times.on = MEM_ARRAY(struct cost_devices, grid->stages);
    for (int i = 0; i < grid->stages * pipelines; i++) {
        int rank = group_rank(grid, GROUP_PIPELINE, i % pipelines, i / pipelines);
        struct cost_device device = cost_device_of(&times.net, rank);
        if (times.costs.hetero) device.slowness *= hetero_slowness(times.costs.hetero, rank);
        cost_devices_add(&times.on[i / pipelines], device);
    }
    return times;
}

static void times_free(struct times *times) {
    for (int p = 0; p < times->positions; p++) cost_devices_free(&times->on[p]);
    free(times->on);
    cost_table_free(&times->table);
}

static const struct cost_devices *on_of(const struct trial *trial, int stage) {
    return &trial->times->on[pipeline_position(&trial->shape, stage)];
}

/* Sender and receiver copy a message, each reads and writes it. */
static void add_copies(struct trial *trial, int cut) {
    const struct crossing *crossing = trial->partition.chunks[cut].crossing;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        double *to = phase == PHASE_FORWARD ? trial->forward : trial->backward,
               copy = cost_copy_ns(&trial->times->costs, on_of(trial, cut),
                                   trial->input->config->threads, (double)crossing[phase].bytes);
        to[cut] += copy;
        to[cut + 1] += copy;
    }
}

/* The slowest link of any pipeline; between chunks of one rank there is none. */
static struct cost_link link_of(const struct trial *trial, int from, int to) {
    const struct grid *grid = &trial->input->config->grid;
    struct cost_link slowest = {0};
    for (int i = 0; from != to && i < group_count(grid, GROUP_PIPELINE); i++) {
        int sends = group_rank(grid, GROUP_PIPELINE, i, from),
            receives = group_rank(grid, GROUP_PIPELINE, i, to);
        slowest = cost_slower_link(slowest, cost_link(&trial->times->net, sends, receives));
    }
    return slowest;
}

static void time_link(struct trial *trial, int cut) {
    const struct crossing *crossing = trial->partition.chunks[cut].crossing;
    int low = pipeline_position(&trial->shape, cut),
        high = pipeline_position(&trial->shape, cut + 1);
    struct cost_link ahead = link_of(trial, low, high);
    trial->latency[cut] = ahead.latency;
    trial->moving[0][cut] = cost_moving(ahead, (double)crossing[PHASE_FORWARD].bytes);
    trial->moving[1][cut] =
        cost_moving(link_of(trial, high, low), (double)crossing[PHASE_BACKWARD].bytes);
}

static double pass_ns(const struct trial *trial, int stage, enum cost_pass pass) {
    return cost_pass_ns(&trial->times->table, on_of(trial, stage), &trial->ranges, stage, pass);
}

static double add_ns(const struct trial *trial, int stage) {
    return cost_add_ns(&trial->times->costs, on_of(trial, stage), trial->input->config->threads,
                       (double)trial->partition.chunks[stage].param_bytes, true);
}

static void count_times(struct trial *trial) {
    for (int s = 0; s < trial->stages; s++) {
        trial->forward[s] = pass_ns(trial, s, COST_PASS_F);
        trial->backward[s] = pass_ns(trial, s, COST_PASS_I);
        trial->weight[s] = pass_ns(trial, s, COST_PASS_W) + add_ns(trial, s);
    }
    for (int s = 0; s + 1 < trial->stages; s++)
        (trial->times->net.cluster ? time_link : add_copies)(trial, s);
    for (int s = 0; s < trial->stages; s++)
        if (trial->input->config->recompute != RECOMPUTE_NEVER)
            trial->backward[s] += trial->forward[s];
}

/* --- bytes --- */

/* With sizes alone where a pool has placed the stage before. */
static struct placement place(const struct trial *trial, int stage,
                              const struct placement_config *config) {
    struct plan_pool *pool = trial->input->pool;
    return pool ? plan_pool_place(pool, &trial->ranges, stage, config)
                : graph_place(&trial->ranges, stage, config);
}

/* Good for orders with B and with I and W. */
static int64_t slot_bytes(const struct trial *trial, int stage) {
    struct placement_config config = {
        .life = {.split = true,
                 .mixed = true,
                 .inputs = trial->ranges.graph->device->backend->apart,
                 .recompute = trial->input->config->recompute == RECOMPUTE_ALWAYS},
        .shared = true};
    SCOPED(placement_free) struct placement placement = place(trial, stage, &config);
    return (int64_t)placement.slot_bytes;
}

/* What all slots of a position share. */
static size_t shared_bytes(const struct trial *trial, int position) {
    struct placement_config config = {
        .life = {.split = true,
                 .mixed = true,
                 .inputs = trial->ranges.graph->device->backend->apart},
        .shared = true};
    size_t most = 0;
    for (int c = 0; c < trial->shape.chunks; c++) {
        int stage = pipeline_stage(&trial->shape, position, c);
        struct placement placement = place(trial, stage, &config);
        if (placement.shared_bytes > most) most = placement.shared_bytes;
        placement_free(&placement);
    }
    return most;
}

/* Messages over a cut are kept by whoever receives them; a sender may keep copies. */
static size_t message_bytes(const struct trial *trial, int cut, int position) {
    const struct run_config *config = trial->input->config;
    size_t bytes = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        size_t one = trial->partition.chunks[cut].crossing[phase].bytes;
        int sends = pipeline_position(&trial->shape, phase == PHASE_FORWARD ? cut : cut + 1),
            receives = pipeline_position(&trial->shape, phase == PHASE_FORWARD ? cut + 1 : cut);
        if (receives == position) bytes += comm_channel_bytes(one, PROGRAM_CREDITS);
        if (sends == position && config->comm)
            bytes += comm_channel_overhead(config->comm, COMM_SENDER, !config->spread, one,
                                           PROGRAM_CREDITS);
    }
    return bytes;
}

static size_t scratch_bytes(const struct trial *trial, int stage) {
    size_t most = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct node_range nodes =
            ranges_find(&trial->ranges, stage, SEGMENT_ALL, (enum phase)phase);
        size_t bytes = graph_scratch_bytes(trial->input->graph, nodes.begin, nodes.end) +
                       graph_packed_bytes(trial->input->graph, nodes.begin, nodes.end);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* What a position needs besides its slots. */
static size_t fixed_bytes(const struct trial *trial, int position) {
    const struct partition_config *partition = &trial->input->partition;
    size_t copies = (size_t)(1 + partition->grads + partition->states),
           bytes = trial->input->other_bytes + shared_bytes(trial, position), scratch = 0;
    for (int c = 0; c < trial->shape.chunks; c++) {
        int stage = pipeline_stage(&trial->shape, position, c);
        size_t own = scratch_bytes(trial, stage);
        const struct partition_chunk *chunk = &trial->partition.chunks[stage];
        bytes += chunk->param_bytes * copies - chunk->frozen_bytes * (copies - 1);
        if (own > scratch) scratch = own;
    }
    for (int cut = 0; cut + 1 < trial->stages; cut++) bytes += message_bytes(trial, cut, position);
    return bytes + scratch;
}

static void count_bytes(struct trial *trial) {
    int64_t limit = trial->input->config->memory_limit;
    for (int s = 0; s < trial->stages; s++) trial->kept[s] = slot_bytes(trial, s);
    for (int p = 0; p < trial->shape.positions; p++)
        trial->limit[p] = limit ? limit - (int64_t)fixed_bytes(trial, p) : INT64_MAX;
}

/* --- one shape --- */

static void trial_free(struct trial *trial) {
    ranges_free(&trial->ranges);
    if (!trial->input || !trial->input->pool) partition_free(&trial->partition);
    free(trial->forward);
    free(trial->backward);
    free(trial->weight);
    free(trial->latency);
    for (int d = 0; d < 2; d++) free(trial->moving[d]);
    free(trial->kept);
    free(trial->limit);
}

static enum status trial_new(const struct choice_input *input, const struct times *times,
                             const struct pipeline_shape *shape, struct trial *out) {
    int stages = pipeline_stages(shape);
    struct partition_config partition = input->partition;
    struct trial trial = {.input = input, .times = times, .shape = *shape, .stages = stages};
    partition.chunks = stages;
    const struct partition *shared;
    if (input->pool) {
        TRY(plan_pool_partition(input->pool, input->graph, &partition, &shared));
        trial.partition = *shared;
    } else {
        TRY(partition_new(input->graph, &partition, &trial.partition));
    }
    enum status status = ranges_new(input->graph, trial.partition.cuts, stages - 1, &trial.ranges);
    trial.forward = MEM_ARRAY(double, stages);
    trial.backward = MEM_ARRAY(double, stages);
    trial.weight = MEM_ARRAY(double, stages);
    trial.latency = MEM_ARRAY(double, stages);
    for (int d = 0; d < 2; d++) trial.moving[d] = MEM_ARRAY(double, stages);
    trial.kept = MEM_ARRAY(int64_t, stages);
    trial.limit = MEM_ARRAY(int64_t, shape->positions);
    if (status == STATUS_OK) {
        count_times(&trial);
        count_bytes(&trial);
        *out = trial;
    } else {
        trial_free(&trial);
    }
    return status;
}

/* --- the whole --- */

static struct choice_row row_of(const struct trial *trial, const struct auto_choice *found) {
    return (struct choice_row){.name = found->from,
                               .chunks = trial->shape.chunks,
                               .v_shape = trial->shape.v_shape,
                               .fits = found->fits,
                               .step_ns = found->times.total,
                               .bubble = found->times.bubble,
                               .peak_bytes = found->peak_bytes};
}

static void add_row(struct choice *choice, struct choice_row row) {
    choice->row = mem_grow(choice->row, &choice->row_capacity, (size_t)choice->row_count + 1,
                           sizeof *choice->row);
    choice->row[choice->row_count++] = row;
}

/* Those that are meant for several chunks are others by another name where there is one. */
static void add_fixed(const struct trial *trial, const struct auto_input *input,
                      struct choice *choice) {
    for (int i = 0; i < pipeline_count(); i++) {
        const struct pipeline_schedule *schedule = pipeline_at(i);
        if (schedule->older) continue; /* another training */
        struct auto_choice found;
        bool meant = trial->shape.chunks > 1 || schedule->chunks == 1;
        if (meant && auto_measure(input, schedule, &found)) add_row(choice, row_of(trial, &found));
    }
}

/* The best may be one of them. */
static void drop_best(struct choice *choice) {
    const struct choice_row *best = &choice->row[0];
    int kept = 1;
    for (int i = 1; i < choice->row_count; i++) {
        struct choice_row row = choice->row[i];
        bool same = row.name == best->name && row.chunks == best->chunks;
        if (!same) choice->row[kept++] = row;
    }
    choice->row_count = kept;
}

static void count_ranks(const struct trial *trial, const struct auto_input *input,
                        struct choice *choice) {
    int64_t limit = trial->input->config->memory_limit;
    choice->most_bytes = choice->least_bytes = 0;
    for (int p = 0; p < trial->shape.positions && limit; p++) {
        int64_t fixed = limit - trial->limit[p], least = fixed,
                most = fixed + auto_peak(input, choice->orders, p);
        for (int c = 0; c < trial->shape.chunks; c++)
            least += trial->kept[pipeline_stage(&trial->shape, p, c)];
        if (most > choice->most_bytes) choice->most_bytes = most;
        if (least > choice->least_bytes) choice->least_bytes = least;
    }
}

/* Row 0 is the best so far. */
static void try_orders(const struct trial *trial, const struct auto_input *input,
                       struct choice *choice) {
    int positions = trial->shape.positions;
    struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, positions);
    struct auto_choice found;
    bool better = auto_find(input, orders, &found) &&
                  (!choice->orders || found.times.total < choice->row[0].step_ns * (1 - 1e-9));
    if (better) {
        struct pipeline_order *worse = choice->orders;
        choice->row[0] = row_of(trial, &found);
        choice->orders = orders;
        orders = worse;
        count_ranks(trial, input, choice);
    }
    pipeline_orders_free(&orders, positions);
    add_fixed(trial, input, choice);
}

/* Tries one shape; with `refuse` says why nothing fits it. */
static enum status try_shape(const struct choice_input *input, const struct times *times,
                             const struct pipeline_shape *shape, bool refuse,
                             struct choice *choice) {
    SCOPED(trial_free) struct trial trial = {0};
    TRY(trial_new(input, times, shape, &trial));
    struct replay_costs costs = {.forward = trial.forward,
                                 .input = trial.backward,
                                 .weight = trial.weight,
                                 .hop = times->net.link.latency,
                                 .latency = times->net.cluster ? trial.latency : NULL,
                                 .moving = {trial.moving[0], trial.moving[1]}};
    struct replay_bytes bytes = {.forward = trial.kept, .input = trial.kept};
    struct auto_input search = {.shape = &trial.shape,
                                .costs = &costs,
                                .bytes = &bytes,
                                .limit_bytes = trial.limit,
                                .under_ns = choice->orders ? choice->row[0].step_ns : 0,
                                .slots = true};
    if (refuse)
        TRY(auto_refuse(&search));
    else
        try_orders(&trial, &search, choice);
    return STATUS_OK;
}

static int by_time(const void *a, const void *b) {
    const struct choice_row *one = a, *other = b;
    if (one->fits != other->fits) return one->fits ? -1 : 1;
    return (one->step_ns > other->step_ns) - (one->step_ns < other->step_ns);
}

enum status choice_make(const struct choice_input *input, struct grid *grid, struct choice *out) {
    const struct run_config *config = input->config;
    struct pipeline_shape shape[MOST_SHAPES];
    int shapes = list_shapes(input, shape);
    struct times times = times_new(input);
    struct choice choice = {.positions = config->grid.stages, .units = times.costs.units};
    enum status status = STATUS_OK;
    cost_table_new(&times.costs, input->graph, &times.table);
    add_row(&choice, (struct choice_row){0});
    for (int i = 0; i < shapes && status == STATUS_OK; i++)
        status = try_shape(input, &times, &shape[i], false, &choice);
    if (status == STATUS_OK && !choice.orders)
        status = try_shape(input, &times, &shape[0], true, &choice);
    times_free(&times);
    if (status == STATUS_OK) {
        drop_best(&choice);
        qsort(choice.row + 1, (size_t)choice.row_count - 1, sizeof *choice.row, by_time);
        grid->chunks = choice.row[0].chunks;
        grid->v_shape = choice.row[0].v_shape;
        *out = choice;
    } else {
        choice_free(&choice);
    }
    return status;
}

void choice_free(struct choice *choice) {
    pipeline_orders_free(&choice->orders, choice->positions);
    free(choice->row);
    *choice = (struct choice){0};
}
