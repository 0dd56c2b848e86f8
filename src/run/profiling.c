/* See profiling.h.
 *
 * Operations are timed in the run itself: caches, other ranks and the memory they share are then as
 * they are in training. Rejected: a loop over each operation alone, which finds its data in the
 * cache; a command of its own, which would be a second way to run a graph. */
#include "run/profiling.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "cost/key.h"

/* The newest times of a node; gaps between instructions, passes and steps; repetitions at the end;
 * bytes copied; how long a rank that waits is left to fall asleep. */
enum {
    NODE_SAMPLES = 64,
    GAP_SAMPLES = 1024,
    SLEEP_NS = 2 * 1000 * 1000,
    REPEATS = 20,
    COPY_BYTES = 32 << 20
};

struct samples {
    double *value;
    int64_t count, most; /* seen; kept */
};

struct profiling {
    const struct planned_run *planned;
    struct samples *node;                 /* per node of the plan's main graph */
    struct samples gap, beside, step;     /* beside: per operation of a forward pass */
    int64_t pass_ns, pass_count, step_ns; /* operations of those under way */
    int64_t last_ns;                      /* end of the instruction before; 0: none */
    bool counts;
};

static struct samples samples_new(int64_t most) {
    return (struct samples){.value = MEM_ARRAY(double, most), .most = most};
}

static void keep(struct samples *samples, double value) {
    samples->value[samples->count++ % samples->most] = value;
}

static struct measure measured(struct samples *samples) {
    int64_t count = samples->count < samples->most ? samples->count : samples->most;
    return count ? measure_of(samples->value, count) : (struct measure){0};
}

static const struct graph *graph_of(const struct planned_run *planned) {
    return planned->plan->micro[0].graph;
}

struct profiling *profiling_new(const struct planned_run *planned) {
    if (!option_is_given(&planned->options, OPTION_save_profile)) return NULL;
    struct profiling *profiling = MEM_NEW(struct profiling);
    profiling->planned = planned;
    profiling->node = MEM_ARRAY(struct samples, graph_of(planned)->node_count);
    for (int i = 0; i < graph_of(planned)->node_count; i++)
        profiling->node[i] = samples_new(NODE_SAMPLES);
    profiling->gap = samples_new(GAP_SAMPLES);
    profiling->beside = samples_new(GAP_SAMPLES);
    profiling->step = samples_new(GAP_SAMPLES);
    return profiling;
}

void profiling_free(struct profiling **pointer) {
    struct profiling *profiling = *pointer;
    if (!profiling) return;
    for (int i = 0; i < graph_of(profiling->planned)->node_count; i++)
        free(profiling->node[i].value);
    free(profiling->node);
    free(profiling->gap.value);
    free(profiling->beside.value);
    free(profiling->step.value);
    free(profiling);
    *pointer = NULL;
}

void profiling_begin(struct profiling *profiling) {
    profiling->counts = true;
}

void profiling_node(struct profiling *profiling, const struct graph *graph, const struct node *node,
                    int64_t ns) {
    if (!profiling->counts || graph != graph_of(profiling->planned)) return;
    keep(&profiling->node[node - graph->nodes], (double)ns);
    profiling->pass_ns += ns;
    profiling->pass_count++;
    profiling->step_ns += ns;
}

static void end_step(struct profiling *profiling) {
    if (profiling->step_ns > 0) keep(&profiling->step, (double)profiling->step_ns);
    profiling->step_ns = 0;
}

/* Backward may add gradients too, which is no time beside the work. */
static void end_pass(struct profiling *profiling, const struct instr *instr, int64_t ns) {
    int64_t count = profiling->pass_count, beside = ns - profiling->pass_ns;
    if (count > 0 && instr->op == INSTR_F) keep(&profiling->beside, (double)beside / (double)count);
    profiling->pass_ns = profiling->pass_count = 0;
}

/* Waits are among the gaps; the median is without. */
void profiling_instr(struct profiling *profiling, const struct instr *instr, int64_t begin_ns,
                     int64_t end_ns) {
    if (profiling->counts && profiling->last_ns && begin_ns)
        keep(&profiling->gap, (double)(begin_ns - profiling->last_ns));
    profiling->last_ns = end_ns;
    if (instr)
        end_pass(profiling, instr, end_ns - begin_ns);
    else
        end_step(profiling);
}

/* --- memory and links --- */

/* Bytes a nanosecond of a copy of so many, of all ranks at once. */
static enum status copy_rate(struct engine *engine, char *memory, size_t bytes,
                             struct measure *out) {
    struct device *device = engine_plan(engine)->device;
    double rate[REPEATS];
    TRY(comm_barrier(comm_world(engine_comm(engine))));
    for (int i = -1; i < REPEATS; i++) { /* the first one is cold */
        int64_t begin = clock_ns();
        TRY(device->backend->array_copy(device, memory, memory + COPY_BYTES, bytes, NULL));
        if (i >= 0) rate[i] = (double)bytes / (double)(clock_ns() - begin);
    }
    *out = measure_of(rate, REPEATS);
    return STATUS_OK;
}

/* Copies of what no cache holds, and of a message that was just made. */
static enum status measure_copies(struct engine *engine, struct profile_section *section) {
    struct device *device = engine_plan(engine)->device;
    const struct backend *backend = device->backend;
    struct measure *bytes = &section->rate[PROFILE_BYTES];
    char *memory;
    TRY(backend->memory_new(device, 2 * (size_t)COPY_BYTES, "a copy", (void **)&memory));
    enum status status = copy_rate(engine, memory, COPY_BYTES, bytes);
    backend->memory_free(device, memory, 2 * (size_t)COPY_BYTES);
    bytes->median *= 2;
    bytes->iqr *= 2;
    return status;
}

/* Nothing but the way there and back of a few bytes. */
static enum status measure_latency(struct engine *engine, struct profile_link *link) {
    struct comm_group *world = comm_world(engine_comm(engine));
    int64_t *all = MEM_ARRAY(int64_t, comm_size(engine_comm(engine))), mine = 0;
    double ns[REPEATS];
    enum status status = STATUS_OK;
    for (int i = -1; i < REPEATS && status == STATUS_OK; i++) {
        status = comm_barrier(world);
        int64_t begin = clock_ns();
        if (status == STATUS_OK) status = comm_exchange(world, &mine, sizeof mine, all);
        if (i >= 0) ns[i] = (double)(clock_ns() - begin);
    }
    free(all);
    TRY(status);
    link->latency_ns = measure_of(ns, REPEATS);
    return STATUS_OK;
}

/* The first rank lets the others wait until they sleep; all of one host read the same clock. */
static enum status measure_wake(struct engine *engine, struct measure *out) {
    struct comm *comm = engine_comm(engine);
    int64_t *all = MEM_ARRAY(int64_t, comm_size(comm));
    double ns[REPEATS];
    enum status status = STATUS_OK;
    for (int i = -1; i < REPEATS && status == STATUS_OK; i++) {
        status = comm_barrier(comm_world(comm));
        int64_t mine = clock_ns(), until = mine + SLEEP_NS;
        while (comm_rank(comm) == 0 && (mine = clock_ns()) < until) continue;
        if (status == STATUS_OK) status = comm_exchange(comm_world(comm), &mine, sizeof mine, all);
        mine = clock_ns() - all[0];
        if (status == STATUS_OK) status = comm_exchange(comm_world(comm), &mine, sizeof mine, all);
        if (i >= 0) ns[i] = (double)all[1];
    }
    free(all);
    TRY(status);
    *out = measure_of(ns, REPEATS);
    return STATUS_OK;
}

/* As many elements as every rank has. */
static enum status least(struct comm *comm, int64_t *count) {
    SCOPED_FREE int64_t *all = MEM_ARRAY(int64_t, comm_size(comm));
    int64_t mine = *count;
    TRY(comm_exchange(comm_world(comm), &mine, sizeof mine, all));
    for (int r = 0; r < comm_size(comm); r++)
        if (all[r] < *count) *count = all[r];
    return STATUS_OK;
}

/* Sums of the first gradient buffer, by the formula of the simulator: latency and twice the bytes
 * over the bandwidth. */
static enum status measure_sums(struct engine *engine, struct profile_link *link) {
    const struct store *store = engine_store(engine);
    int array = state_array(store->layout, ARRAY_GRAD, 0);
    struct elements data = store->held[array];
    double rate[REPEATS];
    TRY(least(engine_comm(engine), &data.count));
    for (int i = -1; i < REPEATS; i++) {
        struct comm_request *request;
        TRY(comm_barrier(comm_world(engine_comm(engine))));
        int64_t begin = clock_ns();
        TRY(comm_all_reduce(comm_world(engine_comm(engine)), data.data, data.count, &request));
        TRY(comm_wait(&request));
        double ns = (double)(clock_ns() - begin) - link->latency_ns.median,
               bytes = 2 * (double)data.count * sizeof(float);
        if (i >= 0) rate[i] = bytes / (ns > 1 ? ns : 1);
    }
    link->bytes_per_ns = measure_of(rate, REPEATS);
    return STATUS_OK;
}

static enum status measure_links(struct engine *engine, struct profile_section *section) {
    const struct run_config *config = &engine_plan(engine)->config;
    struct profile_link *link =
        &section->link[config->spread ? PROFILE_BETWEEN_HOSTS : PROFILE_IN_HOST];
    if (config->ranks == 1) return STATUS_OK;
    TRY(measure_latency(engine, link));
    if (!config->spread) TRY(measure_wake(engine, &section->rate[PROFILE_WAKE]));
    return measure_sums(engine, link);
}

/* --- all ranks' together --- */

/* Every rank has the whole graph, and has run the nodes of its own stages. */
static enum status gather(struct profiling *profiling, struct comm *comm, struct measure *out) {
    enum { EACH = COMM_EXCHANGE_BYTES / sizeof(struct measure) };
    int count = graph_of(profiling->planned)->node_count, ranks = comm_size(comm);
    SCOPED_FREE struct measure *all = MEM_ARRAY(struct measure, ranks * EACH);
    struct measure piece[EACH];
    for (int at = 0; at < count; at += EACH) {
        int here = count - at < EACH ? count - at : EACH;
        for (int i = 0; i < here; i++) piece[i] = measured(&profiling->node[at + i]);
        TRY(comm_exchange(comm_world(comm), piece, (size_t)here * sizeof *piece, all));
        for (int i = 0; i < here * ranks; i++) {
            struct measure *to = &out[at + i % here];
            if (all[i].samples > 0) *to = to->samples > 0 ? measure_pool(to, &all[i]) : all[i];
        }
    }
    return STATUS_OK;
}

/* What an ordinary step would take, were every operation of it an ordinary one. */
static double ordinary_step_ns(struct profiling *profiling) {
    double sum = 0;
    for (int i = 0; i < graph_of(profiling->planned)->node_count; i++)
        sum += measured(&profiling->node[i]).median * (double)profiling->node[i].count;
    return sum / (double)profiling->step.count;
}

static void record_executor(struct profiling *profiling, struct profile_section *section) {
    struct measure step = measured(&profiling->step);
    double ordinary = step.samples ? ordinary_step_ns(profiling) : 0;
    section->rate[PROFILE_INSTRUCTION] = measured(&profiling->gap);
    section->rate[PROFILE_OPERATION] = measured(&profiling->beside);
    if (ordinary > 0)
        section->rate[PROFILE_TOGETHER] =
            (struct measure){step.median / ordinary, step.iqr / ordinary, step.samples};
}

/* Loaders of ranks that leave no core to them. */
static void record_loading(const struct profiling *profiling, struct engine *engine,
                           struct profile_section *section) {
    const struct run_config *config = &engine_plan(engine)->config;
    int taken = profiling->planned->local_ranks * config->threads;
    struct loader_spent spent = engine_loading(engine);
    if (spent.samples > 0 && taken >= machine_cores("").online)
        section->rate[PROFILE_SAMPLE] =
            (struct measure){(double)spent.ns / (double)spent.samples, 0, spent.samples};
}

/* Rows, and the most arithmetic that any of them did in its time. */
static void record(const struct profiling *profiling, const struct measure *nodes,
                   struct profile *profile, struct profile_section *section) {
    const struct graph *graph = graph_of(profiling->planned);
    struct measure *most = &section->rate[PROFILE_FLOPS];
    for (int i = 0; i < graph->node_count; i++) {
        const struct node *node = &graph->nodes[i];
        if (nodes[i].samples == 0) continue;
        struct arena arena = {0};
        struct op_call call = graph_call(graph, node);
        struct profile_key key = profile_key_of(graph, node, &arena);
        double ns = nodes[i].median > 1 ? nodes[i].median : 1, rate = op_cost(&call).flops / ns;
        profile_record(profile, section, &key, &nodes[i]);
        if (rate > most->median)
            *most = (struct measure){rate, rate * nodes[i].iqr / ns, nodes[i].samples};
        arena_free(&arena);
    }
}

static enum status write(struct profiling *profiling, struct engine *engine,
                         const struct measure *nodes, const char *path) {
    const struct run_config *config = &engine_plan(engine)->config;
    char isa[PROFILE_ISA_BYTES];
    struct profile_place place =
        profile_place_of(config->device, config->device_index, config->threads,
                         profiling->planned->local_ranks, isa);
    SCOPED(profile_free) struct profile profile = {0};
    profile_init(path, &profile);
    struct profile_section *section = profile_section_for(&profile, &place);
    TRY(measure_copies(engine, section));
    TRY(measure_links(engine, section));
    record_executor(profiling, section);
    record_loading(profiling, engine, section);
    record(profiling, nodes, &profile, section);
    if (comm_rank(engine_comm(engine)) == 0)
        TRY(section->row_count
                ? profile_write(&profile, path)
                : fail(STATUS_USAGE, "--save-profile: no step was timed, nothing is written\n"
                                     "  the first 5 steps are left out: more --steps"));
    return STATUS_OK;
}

enum status profiling_save(struct profiling *profiling, struct engine *engine, const char *path) {
    SCOPED_FREE struct measure *nodes =
        MEM_ARRAY(struct measure, graph_of(profiling->planned)->node_count);
    TRY(gather(profiling, engine_comm(engine), nodes));
    return write(profiling, engine, nodes, path);
}
