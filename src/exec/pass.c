/* Running the nodes of a graph, and reading what a forward pass counted. */

#include "base/clock.h"
#include "base/log.h"
#include "exec/state.h"
#include "exec/tally.h"

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

/* Whoever watches the nodes of a step is told what the kernel took. */
static enum status run_kernel(struct engine *engine, const struct graph *graph,
                              const struct node *node, void **in, void **out) {
    const struct engine_observer *observer = &engine->state->observer;
    if (!node->kernel) return STATUS_OK;
    if (!observer->node || !list_is_step(engine->list_name))
        return kernel_run(node->kernel, in, out, engine->scratch, NULL);
    int64_t begin = clock_ns();
    TRY(kernel_run(node->kernel, in, out, engine->scratch, NULL));
    observer->node(observer->context, graph, node, clock_ns() - begin);
    return STATUS_OK;
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
static enum status copy_bytes(const struct pass_run *run, void *to, const void *from,
                              size_t bytes) {
    struct device *device = run->runnable->plan->graph->device;
    return device->backend->array_copy(device, to, from, bytes, NULL);
}

static enum status clear_value(const struct pass_run *run, int value) {
    const struct graph *graph = run->runnable->plan->graph;
    const struct tensor_type *type = &graph->values[value].type;
    struct elements all = {type->dtype, address_of(run, value), shape_count(&type->shape)};
    return graph->device->backend->array_fill(graph->device, &all, 0, NULL);
}

/* --- ranks that share statistics --- */

/* All members' vectors, in member order. Long ones go in pieces through scratch, which has room for
 * all of them (op/sync_norm.c). */
static enum status post_piece(struct engine *engine, struct pass_run *run) {
    size_t bytes = given_bytes(run), left = bytes - run->exchanged;
    bool whole = bytes <= COMM_EXCHANGE_BYTES;
    run->piece = left < COMM_EXCHANGE_BYTES ? left : COMM_EXCHANGE_BYTES;
    engine->awaiting = &engine->request;
    return comm_exchange_post(
        run->config.sharers, address_of(run, node_of(run)->in[0]) + run->exchanged, run->piece,
        whole ? address_of(run, node_of(run)->out[0]) : engine->scratch, &engine->request);
}

static enum status begin_exchange(struct engine *engine, struct pass_run *run) {
    if (is_absent(run->config.pass)) TRY(clear_value(run, node_of(run)->in[0]));
    run->exchanging = true;
    run->exchanged = 0;
    return post_piece(engine, run);
}

/* A piece has come: the next one, or the next node. */
static enum status end_piece(struct engine *engine, struct pass_run *run) {
    size_t bytes = given_bytes(run);
    char *all = address_of(run, node_of(run)->out[0]);
    int members = comm_group_count(run->config.sharers);
    for (int m = 0; bytes > COMM_EXCHANGE_BYTES && m < members; m++)
        TRY(copy_bytes(run, all + (size_t)m * bytes + run->exchanged,
                       engine->scratch + (size_t)m * run->piece, run->piece));
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
static enum status share(struct pass_run *runs, int count) {
    for (int to = 0; to < count; to++) {
        int value = node_of(&runs[to])->out[0];
        char *all = address_of(&runs[to], value);
        TRY(clear_value(&runs[to], value));
        for (int from = 0; from < count; from++) {
            size_t bytes = given_bytes(&runs[from]);
            TRY(copy_bytes(&runs[to], all + (size_t)runs[from].replica * bytes,
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
        if (sharing) TRY(share(runs, count));
    }
    return STATUS_OK;
}

void tally_samples(const struct runnable *runnable, const struct micro_batch *samples,
                   struct tally *tally) {
    tally->samples += (double)samples->samples;
    for (int i = 0; i < runnable->plan->graph->loss_count; i++)
        tally->labels[i] += (double)samples->label_count[runnable->label_field[i]];
}

static enum status read_value(const struct runnable *runnable, int slot, int value, void *out,
                              size_t bytes) {
    struct device *device = runnable->plan->graph->device;
    return device->backend->copy_out(device, out, runnable->slot[slot].address[value], bytes);
}

enum status tally_add(const struct runnable *runnable, int slot, const struct micro_batch *samples,
                      struct tally *tally, struct exact_sum *exact) {
    const struct graph *graph = runnable->plan->graph;
    tally_samples(runnable, samples, tally);
    for (int i = 0; i < graph->loss_count; i++) {
        const struct loss *loss = &graph->losses[i];
        double sum, counts[3];
        TRY(read_value(runnable, slot, loss->sum, &sum, sizeof sum));
        tally->loss[i] += sum;
        exact_add(&exact[i], sum);
        if (loss->top_k == NO_VALUE) continue;
        TRY(read_value(runnable, slot, loss->top_k, counts, sizeof counts));
        tally->right1 += counts[0];
        tally->right5 += counts[1];
        tally->ranked += counts[2];
    }
    return STATUS_OK;
}

double tally_loss(const struct tally *tally, int losses) {
    double sum = 0;
    for (int i = 0; i < losses; i++) {
        if (tally->labels[i] > 0) sum += tally->loss[i] / tally->labels[i];
    }
    return sum;
}

void tally_share(const struct step *step, struct step_share *out) {
    out->tally = step->tally;
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) {
        exact_split(&step->loss[i], LOSS_PARTS, out->loss[i]);
        out->tally.loss[i] = out->loss[i][0];
    }
}

void tally_sum(const struct step_share *shares, int ranks, struct tally *sum) {
    struct tally total = {0};
    for (int r = 0; r < ranks; r++) {
        double *to = (double *)&total;
        const double *from = (const double *)&shares[r].tally;
        for (size_t i = 0; i < sizeof total / sizeof(double); i++) to[i] += from[i];
    }
    for (int i = 0; i < GRAPH_MAX_LOSSES; i++) {
        struct exact_sum loss = {0};
        for (int r = 0; r < ranks; r++)
            for (int p = 0; p < LOSS_PARTS; p++) exact_add(&loss, shares[r].loss[i][p]);
        total.loss[i] = exact_total(&loss);
    }
    *sum = total;
}
