/* Running the nodes of a graph, and reading what a forward pass counted. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

static bool is_absent(enum pass pass) {
    return pass == PASS_ABSENT_FORWARD || pass == PASS_ABSENT_BACKWARD;
}

static bool in_pass(const struct node *node, const struct pass_config *config) {
    switch (config->pass) {
    case PASS_FORWARD: return !(config->pure && op_def(node->op)->flags & OP_SIDE_EFFECT);
    case PASS_BACKWARD: return true;
    case PASS_INPUT_HALF: return node->half == OP_HALF_I;
    case PASS_WEIGHT_HALF: return node->half == OP_HALF_W;
    case PASS_ABSENT_FORWARD:
    case PASS_ABSENT_BACKWARD: return op_def(node->op)->flags & OP_EVERY_RANK;
    }
    return false;
}

/* All ranks' vectors of `bytes` bytes, in rank order. Long ones go in pieces through scratch, which
 * has room for all of them (op/sync_norm.c). */
static enum status gather(struct exec *exec, const char *mine, size_t bytes, char *all) {
    if (bytes <= COMM_EXCHANGE_BYTES) return comm_exchange(exec->stats, mine, bytes, all);
    int ranks = comm_size(exec->comm);
    for (size_t at = 0; at < bytes; at += COMM_EXCHANGE_BYTES) {
        size_t piece = bytes - at < COMM_EXCHANGE_BYTES ? bytes - at : COMM_EXCHANGE_BYTES;
        TRY(comm_exchange(exec->stats, mine + at, piece, exec->scratch));
        for (int r = 0; r < ranks; r++)
            memcpy(all + (size_t)r * bytes + at, exec->scratch + (size_t)r * piece, piece);
    }
    return STATUS_OK;
}

static void run_exchange(struct exec *exec, const struct graph *graph, const struct node *node,
                         void **address, const struct pass_config *config) {
    size_t bytes = tensor_type_bytes(&graph->values[node->in[0]].type);
    int64_t begin = clock_ns();
    if (is_absent(config->pass)) memset(address[node->in[0]], 0, bytes);
    exec->comm_status = gather(exec, address[node->in[0]], bytes, address[node->out[0]]);
    exec->times.comm_ns += clock_ns() - begin;
}

/* A gradient of the first micro-batch goes straight into its accumulator; later ones go through a
 * temporary and are added, since no kernel accumulates. */
static void run_node(struct exec *exec, const struct graph *graph, const struct node *node,
                     void **address, const struct pass_config *config) {
    void *in[OP_MAX_IN], *out[OP_MAX_OUT];
    float *target[OP_MAX_OUT] = {0};
    if (op_def(node->op)->flags & OP_EXCHANGE && !config->alone) {
        run_exchange(exec, graph, node, address, config);
        return;
    }
    for (int i = 0; i < node->in_count; i++) in[i] = address[node->in[i]];
    for (int i = 0; i < node->out_count; i++) {
        const struct value *value = &graph->values[node->out[i]];
        out[i] = address[node->out[i]];
        if (value->use < 0 || config->grad < 0) continue;
        target[i] = exec->store->grad[config->grad] + exec->store->use_begin[value->use];
        if (config->fresh) out[i] = target[i];
    }
    if (node->kernel) kernel_run(node->kernel, in, out, exec->scratch, NULL);
    for (int i = 0; i < node->out_count; i++) {
        if (!target[i] || config->fresh) continue;
        const struct layout *layout = graph->values[node->out[i]].layout;
        store_add(target[i], out[i], (int64_t)(layout->bytes / sizeof(float)));
    }
}

/* Operations of the I half may make weight gradients too (batch norm): when the halves run apart,
 * these wait in the slot until W names the buffer they go to. */
static void collect_from_input_half(struct exec *exec, const struct graph *graph, void **address,
                                    const struct pass_config *config, struct node_range range) {
    for (int u = 0; u < graph->use_count; u++) {
        int value = graph->uses[u].gradient, producer = graph->values[value].producer;
        if (producer < range.begin || producer >= range.end) continue;
        if (graph->nodes[producer].half != OP_HALF_I) continue;
        float *target = exec->store->grad[config->grad] + exec->store->use_begin[u];
        size_t bytes = graph->values[value].layout->bytes;
        if (config->fresh)
            memcpy(target, address[value], bytes);
        else
            store_add(target, address[value], (int64_t)(bytes / sizeof(float)));
    }
}

static struct node_range range_of(const struct runnable *runnable,
                                  const struct pass_config *config) {
    bool forward = config->pass == PASS_FORWARD || config->pass == PASS_ABSENT_FORWARD;
    int segment = config->segment == INSTR_ALL ? SEGMENT_ALL : config->segment;
    return ranges_find(&runnable->plan->ranges, config->stage, segment,
                       forward ? PHASE_FORWARD : PHASE_BACKWARD);
}

void run_pass(struct exec *exec, struct runnable *runnable, int slot,
              const struct pass_config *config) {
    const struct graph *graph = runnable->plan->graph;
    void **address = runnable->slot[slot].address;
    struct node_range range = range_of(runnable, config);
    for (int n = range.begin; n < range.end; n++) {
        if (!in_pass(&graph->nodes[n], config)) continue;
        run_node(exec, graph, &graph->nodes[n], address, config);
        exec_progress(exec);
        if (exec->comm_status != STATUS_OK) return;
        if (config->after && config->after(config->context, runnable, slot, n)) return;
    }
    if (config->pass == PASS_WEIGHT_HALF)
        collect_from_input_half(exec, graph, address, config, range);
}

/* --- replicas of one device that share statistics --- */

static const struct node *node_of(const struct lane *lane) {
    return &lane->runnable->plan->graph->nodes[lane->node];
}

static char *address_of(const struct lane *lane, int value) {
    return lane->runnable->slot[lane->slot].address[value];
}

/* Up to the next node that shares; false where there is none. Graphs of other sizes may have other
 * nodes between (reorders), but share the same things in the same order. */
static bool run_to_exchange(struct exec *exec, struct lane *lane) {
    const struct graph *graph = lane->runnable->plan->graph;
    void **address = lane->runnable->slot[lane->slot].address;
    for (; lane->node < lane->end; lane->node++) {
        const struct node *node = node_of(lane);
        if (!in_pass(node, &lane->config)) continue;
        if (op_def(node->op)->flags & OP_EXCHANGE) return true;
        run_node(exec, graph, node, address, &lane->config);
    }
    return false;
}

/* What comm_exchange does between ranks; replicas without samples give zeros. */
static void share(struct lane *lanes, int count) {
    for (int to = 0; to < count; to++) {
        const struct graph *graph = lanes[to].runnable->plan->graph;
        const struct node *node = node_of(&lanes[to]);
        char *all = address_of(&lanes[to], node->out[0]);
        memset(all, 0, tensor_type_bytes(&graph->values[node->out[0]].type));
        for (int from = 0; from < count; from++) {
            int value = node_of(&lanes[from])->in[0];
            size_t bytes =
                tensor_type_bytes(&lanes[from].runnable->plan->graph->values[value].type);
            memcpy(all + (size_t)lanes[from].replica * bytes, address_of(&lanes[from], value),
                   bytes);
        }
    }
    for (int i = 0; i < count; i++) lanes[i].node++;
}

void run_together(struct exec *exec, struct lane *lanes, int count) {
    int sharing = count;
    for (int i = 0; i < count; i++) {
        struct node_range range = range_of(lanes[i].runnable, &lanes[i].config);
        lanes[i].node = range.begin;
        lanes[i].end = range.end;
    }
    while (sharing > 0) {
        sharing = 0;
        for (int i = 0; i < count; i++) sharing += run_to_exchange(exec, &lanes[i]);
        CHECK(sharing == 0 || sharing == count, "%d of %d replicas share", sharing, count);
        if (sharing) share(lanes, count);
    }
}

void tally_add(const struct runnable *runnable, int slot, const struct micro_batch *samples,
               struct tally *tally) {
    const struct graph *graph = runnable->plan->graph;
    for (int i = 0; i < graph->loss_count; i++) {
        const struct loss *loss = &graph->losses[i];
        double sum, counts[3];
        memcpy(&sum, runnable->slot[slot].address[loss->sum], sizeof sum);
        tally->loss[i] += sum;
        tally->labels[i] += (double)samples->label_count[runnable->label_field[i]];
        if (loss->top_k == NO_VALUE) continue;
        memcpy(counts, runnable->slot[slot].address[loss->top_k], sizeof counts);
        tally->right1 += counts[0];
        tally->right5 += counts[1];
        tally->ranked += counts[2];
    }
}

double tally_loss(const struct tally *tally, int losses) {
    double sum = 0;
    for (int i = 0; i < losses; i++) {
        if (tally->labels[i] > 0) sum += tally->loss[i] / tally->labels[i];
    }
    return sum;
}

enum status share_all(struct exec *exec, const struct step_share *mine, struct tally *sum) {
    int ranks = comm_size(exec->comm);
    exec->shares[0] = *mine;
    if (ranks > 1) TRY(comm_exchange(comm_world(exec->comm), mine, sizeof *mine, exec->shares));
    struct tally total = {0};
    for (int r = 0; r < ranks; r++) {
        double *to = (double *)&total;
        const double *from = (const double *)&exec->shares[r].tally;
        for (size_t i = 0; i < sizeof total / sizeof(double); i++) to[i] += from[i];
    }
    *sum = total;
    return STATUS_OK;
}
