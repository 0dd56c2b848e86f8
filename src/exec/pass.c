/* Running the nodes of a graph. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "exec/device_times.h"
#include "exec/state.h"

static bool is_absent(enum pass pass) {
    return pass == PASS_ABSENT_FORWARD || pass == PASS_ABSENT_BACKWARD;
}

static bool in_pass(const struct pass_run *run) {
    const struct pass_config *config = &run->config;
    const struct node *node = &run->runnable->plan->graph->nodes[run->node];
    switch (config->pass) {
    case PASS_FORWARD: return !(config->pure && op_def(node->op)->flags & OP_SIDE_EFFECT);
    case PASS_AGAIN: return config->again[run->node];
    case PASS_BACKWARD: return true;
    case PASS_INPUT_HALF: return node->half == OP_HALF_I;
    case PASS_WEIGHT_HALF: return node->half == OP_HALF_W;
    case PASS_ABSENT_FORWARD:
    case PASS_ABSENT_BACKWARD: return op_def(node->op)->flags & OP_EVERY_RANK;
    }
    return false;
}

static bool runs_forward(enum pass pass) {
    return pass == PASS_FORWARD || pass == PASS_AGAIN || pass == PASS_ABSENT_FORWARD;
}

static enum status await_compute(struct engine *engine) {
    struct device *device = engine->plan->device;
    return device->backend->stream_wait(device, engine->stream[STREAM_COMPUTE]);
}

struct launch {
    struct kernel *kernel;
    void **in, **out, *scratch;
    struct stream *stream;
};

static enum status run_launch(void *context) {
    const struct launch *l = context;
    return kernel_run(l->kernel, l->in, l->out, l->scratch, l->stream);
}

/* The cause was said. */
static void tell_kernel(const struct engine *engine, const struct graph *graph,
                        const struct node *node) {
    char text[INSTR_TEXT_BYTES] = "no instruction";
    if (engine->list && engine->at < engine->list->count)
        instr_text(&engine->list->items[engine->at], engine->plan->config.rank, text);
    log_note("it failed at %s: %s, which makes %s, by kernel %s", text, op_def(node->op)->name,
             graph->values[node->out[0]].name, node->kernel->name);
}

/* Whoever watches the nodes of a step is told what the kernel took. */
static enum status run_kernel(struct engine *engine, const struct graph *graph,
                              const struct node *node, void **in, void **out) {
    const struct engine_observer *observer = &engine->state->observer;
    struct stream *stream = engine->stream[STREAM_COMPUTE];
    if (!node->kernel) return STATUS_OK;
    bool timed = observer->node && list_is_step(engine->list_name);
    struct launch launch = {node->kernel, in, out, engine->scratch, stream};
    int64_t ns = 0;
    trail_begin(engine, graph, node);
    enum status status =
        timed ? times_kernel(engine, run_launch, &launch, &ns) : run_launch(&launch);
    if (status == STATUS_OK)
        trail_end(engine);
    else if (!trail_device_failed(engine))
        tell_kernel(engine, graph, node);
    if (status == STATUS_OK && timed) observer->node(observer->context, graph, node, ns);
    return status;
}

/* A gradient of the first micro-batch goes straight into its accumulator; later ones go through a
 * temporary and are added, since no kernel accumulates. */
static enum status run_node(struct engine *engine, const struct graph *graph,
                            const struct node *node, void **address,
                            const struct pass_config *config) {
    void *in[OP_MAX_IN], *out[OP_MAX_OUT];
    int use[OP_MAX_OUT];
    for (int i = 0; i < node->in_count; i++) in[i] = address[node->in[i]];
    for (int i = 0; i < node->out_count; i++) {
        const struct value *value = &graph->values[node->out[i]];
        out[i] = address[node->out[i]];
        use[i] = config->grad < 0 ? -1 : value->use;
        if (use[i] >= 0 && config->fresh)
            out[i] = store_use_gradient(engine->store, config->grad, use[i]).data;
    }
    TRY(run_kernel(engine, graph, node, in, out));
    for (int i = 0; i < node->out_count; i++) {
        if (use[i] >= 0 && !config->fresh)
            TRY(store_collect(engine->store, config->grad, use[i], out[i], false));
    }
    return STATUS_OK;
}

/* Operations of the I half may make weight gradients too (batch norm): when the halves run apart,
 * these wait in the slot until W names the buffer they go to. */
static enum status collect_from_input_half(struct engine *engine, const struct graph *graph,
                                           void **address, const struct pass_config *config,
                                           struct node_range range) {
    for (int u = 0; u < graph->use_count; u++) {
        int value = graph->uses[u].gradient, producer = graph->values[value].producer;
        if (producer < range.begin || producer >= range.end) continue;
        if (graph->nodes[producer].half != OP_HALF_I) continue;
        TRY(store_collect(engine->store, config->grad, u, address[value], config->fresh));
    }
    return STATUS_OK;
}

static struct node_range range_of(const struct micro_plan *plan, const struct pass_config *config) {
    bool forward = runs_forward(config->pass);
    enum phase phase = forward ? PHASE_FORWARD : PHASE_BACKWARD;
    int segment = config->segment == INSTR_ALL ? SEGMENT_ALL : config->segment;
    return ranges_of_bucket(&plan->ranges, config->stage, segment, phase);
}

void pass_begin(struct pass_run *run) {
    struct node_range range = range_of(run->runnable->plan, &run->config);
    run->node = range.begin;
    run->end = range.end;
    run->exchanging = false;
}

static const struct node *node_of(const struct pass_run *run) {
    return &run->runnable->plan->graph->nodes[run->node];
}

static char *address_of(const struct pass_run *run, int value) {
    return run->runnable->slot[run->slot].address[value];
}

/* What a rank gives at an exchange. */
static size_t given_bytes(const struct pass_run *run) {
    return tensor_type_bytes(&run->runnable->plan->graph->values[node_of(run)->in[0]].type);
}

/* Values lie in the memory of the device: it copies and fills them. */
static enum status copy_bytes(struct engine *engine, void *to, const void *from, size_t bytes) {
    struct device *device = engine->plan->device;
    return device->backend->array_copy(device, to, from, bytes, engine->stream[STREAM_COMPUTE]);
}

static enum status clear_value(struct engine *engine, const struct pass_run *run, int value) {
    const struct graph *graph = run->runnable->plan->graph;
    const struct tensor_type *type = &graph->values[value].type;
    struct elements all = {type->dtype, address_of(run, value), shape_count(&type->shape)};
    return graph->device->backend->array_fill(graph->device, &all, 0,
                                              engine->stream[STREAM_COMPUTE]);
}

/* --- ranks that share statistics --- */

/* All members' vectors, in member order. Long ones go in pieces through scratch, which has room for
 * all of them (op/sync_norm.c); those of a device that is apart through memory of the host, where
 * this rank's own is in front of all. */
static enum status post_piece(struct engine *engine, struct pass_run *run) {
    struct device *device = engine->plan->device;
    size_t bytes = given_bytes(run), left = bytes - run->exchanged;
    bool whole = bytes <= COMM_EXCHANGE_BYTES;
    char *own = address_of(run, node_of(run)->in[0]) + run->exchanged,
         *all = whole ? address_of(run, node_of(run)->out[0]) : engine->scratch;
    run->piece = left < COMM_EXCHANGE_BYTES ? left : COMM_EXCHANGE_BYTES;
    if (engine->apart) {
        TRY(device->backend->copy_out(device, engine->exchanged, own, run->piece,
                                      engine->stream[STREAM_COMPUTE]));
        TRY(await_compute(engine));
        own = engine->exchanged;
        all = engine->exchanged + COMM_EXCHANGE_BYTES;
    }
    engine->awaiting = &engine->request;
    return comm_exchange_post(run->config.sharers, own, run->piece, all, &engine->request);
}

/* Member `member`'s part of the piece that has come. */
static enum status take_part(struct engine *engine, const struct pass_run *run, int member) {
    struct device *device = engine->plan->device;
    size_t bytes = given_bytes(run), at = (size_t)member * run->piece;
    char *to = address_of(run, node_of(run)->out[0]) + (size_t)member * bytes + run->exchanged;
    if (engine->apart)
        return device->backend->copy_in(device, to, engine->exchanged + COMM_EXCHANGE_BYTES + at,
                                        run->piece, engine->stream[STREAM_COMPUTE]);
    return bytes > COMM_EXCHANGE_BYTES ? copy_bytes(engine, to, engine->scratch + at, run->piece)
                                       : STATUS_OK;
}

static enum status begin_exchange(struct engine *engine, struct pass_run *run) {
    if (is_absent(run->config.pass)) TRY(clear_value(engine, run, node_of(run)->in[0]));
    run->exchanging = true;
    run->exchanged = 0;
    return post_piece(engine, run);
}

/* A piece has come: the next one, or the next node. */
static enum status end_piece(struct engine *engine, struct pass_run *run) {
    size_t bytes = given_bytes(run);
    int members = comm_group_count(run->config.sharers);
    for (int m = 0; m < members; m++) TRY(take_part(engine, run, m));
    run->exchanged += run->piece;
    if (run->exchanged < bytes) return post_piece(engine, run);
    run->exchanging = false;
    run->node++;
    return STATUS_OK;
}

/* Exchanges inside a pass; graphs of all sizes have the same. */
static int64_t exchanges_of(const struct plan *plan, const struct instr *instr) {
    const struct micro_plan *main = &plan->micro[0];
    struct pass_config config = {.pass = instr_is_forward(instr) ? PASS_FORWARD : PASS_BACKWARD,
                                 .stage = instr->stage,
                                 .segment = instr_is_segment(instr) ? instr->segment : INSTR_ALL};
    struct node_range range = range_of(main, &config);
    int64_t count = 0;
    for (int node = range.begin; node < range.end; node++) {
        const struct node *one = &main->graph->nodes[node];
        if (!(op_def(one->op)->flags & OP_EXCHANGE)) continue;
        size_t bytes = tensor_type_bytes(&main->graph->values[one->in[0]].type);
        count += (int64_t)((bytes + COMM_EXCHANGE_BYTES - 1) / COMM_EXCHANGE_BYTES);
    }
    return count;
}

int64_t engine_most_waits(const struct plan *plan, const struct instr_list *list) {
    int64_t count = 0;
    for (int i = 0; i < list->count; i++) {
        const struct instr *instr = &list->items[i];
        const struct instr_row *row = instr_row(instr);
        bool meets = row->meets != MEETS_NOBODY && row->meets != MEETS_SHARERS;
        count += row->queue == QUEUE_COMM || meets; /* awaited once */
        if (instr_shares(instr)) count += exchanges_of(plan, instr);
    }
    return count;
}

/* --- running --- */

static bool shares_here(const struct pass_run *run) {
    return run->config.sharers && op_def(node_of(run)->op)->flags & OP_EXCHANGE;
}

/* *ended tells that the one who looks on has seen enough. */
static enum status run_nodes(struct engine *engine, struct pass_run *run, bool *ended) {
    const struct graph *graph = run->runnable->plan->graph;
    const struct pass_config *config = &run->config;
    void **address = run->runnable->slot[run->slot].address;
    for (; run->node < run->end; run->node++) {
        if (!in_pass(run)) continue;
        if (shares_here(run)) return begin_exchange(engine, run);
        TRY(run_node(engine, graph, node_of(run), address, config));
        engine_progress(engine);
        TRY(engine->comm_status);
        *ended =
            config->after && config->after(config->context, run->runnable, run->slot, run->node);
        if (*ended) return STATUS_OK;
    }
    return STATUS_OK;
}

enum status pass_go_on(struct engine *engine, struct pass_run *run) {
    bool ended = false;
    if (run->exchanging) TRY(end_piece(engine, run));
    if (run->exchanging) return STATUS_OK;
    TRY(run_nodes(engine, run, &ended));
    if (engine->awaiting || ended) return STATUS_OK;
    if (run->config.pass != PASS_WEIGHT_HALF) return STATUS_OK;
    return collect_from_input_half(engine, run->runnable->plan->graph,
                                   run->runnable->slot[run->slot].address, &run->config,
                                   range_of(run->runnable->plan, &run->config));
}

/* --- replicas of one device that share statistics --- */

/* Up to the next node that shares, which is counted where there is one. Graphs of other sizes may
 * have other nodes between (reorders), but share the same things in the same order. */
static enum status run_to_exchange(struct engine *engine, struct pass_run *run, int *sharing) {
    const struct graph *graph = run->runnable->plan->graph;
    void **address = run->runnable->slot[run->slot].address;
    for (; run->node < run->end; run->node++) {
        const struct node *node = node_of(run);
        if (!in_pass(run)) continue;
        if (op_def(node->op)->flags & OP_EXCHANGE) {
            ++*sharing;
            break;
        }
        TRY(run_node(engine, graph, node, address, &run->config));
    }
    return STATUS_OK;
}

/* What an exchange does between ranks; replicas without samples give zeros. */
static enum status share(struct engine *engine, struct pass_run *runs, int count) {
    for (int to = 0; to < count; to++) {
        int value = node_of(&runs[to])->out[0];
        char *all = address_of(&runs[to], value);
        TRY(clear_value(engine, &runs[to], value));
        for (int from = 0; from < count; from++) {
            size_t bytes = given_bytes(&runs[from]);
            TRY(copy_bytes(engine, all + (size_t)runs[from].replica * bytes,
                           address_of(&runs[from], node_of(&runs[from])->in[0]), bytes));
        }
    }
    for (int i = 0; i < count; i++) runs[i].node++;
    return STATUS_OK;
}

enum status pass_run_lockstep(struct engine *engine, struct pass_run *runs, int count) {
    int sharing = count;
    for (int i = 0; i < count; i++) pass_begin(&runs[i]);
    while (sharing > 0) {
        sharing = 0;
        for (int i = 0; i < count; i++) TRY(run_to_exchange(engine, &runs[i], &sharing));
        CHECK(sharing == 0 || sharing == count, "%d of %d replicas share", sharing, count);
        if (sharing) TRY(share(engine, runs, count));
    }
    return STATUS_OK;
}
