/* See kit.h. */
#include "kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/copy.h"
#include "base/rng.h"
#include "graph/needs.h"

struct device *ref, *twist;

void kit_open_devices(void) {
    twist = twist_open();
    cr_assert_eq(device_open("ref", 0, 1, &ref), STATUS_OK);
}

void kit_close_devices(void) {
    device_close(&twist);
    device_close(&ref);
}

int kit_weight(struct graph *graph, const char *name, struct shape shape) {
    return graph_param(graph, name, shape, PARAM_WEIGHT, INIT_ZERO, 0);
}

static struct graph *build(const char *name, int64_t batch, bool training, int stats_ranks) {
    const struct model *model = model_find(name);
    cr_assert_not_null(model, "no model %s", name);
    struct model_config config = {.batch = batch,
                                  .training = training,
                                  .stats_ranks = stats_ranks,
                                  .channels = 1,
                                  .height = 12,
                                  .width = 12,
                                  .classes = 10,
                                  .sequence = 8,
                                  .predictions = 3,
                                  .vocabulary = 40,
                                  .dropout = 0.25f};
    struct graph *graph = NULL;
    cr_assert_eq(model_build(model, &config, &graph), STATUS_OK);
    return graph;
}

struct graph *kit_model(const char *name, int64_t batch, bool training) {
    return build(name, batch, training, 1);
}

struct graph *kit_sharing_model(const char *name, int64_t batch, int ranks) {
    return build(name, batch, true, ranks);
}

void kit_compile(struct graph *graph, struct device *device,
                 const struct layout *const *param_layouts) {
    graph_fuse(graph);
    if (graph->training) cr_assert_eq(graph_gradient(graph), STATUS_OK);
    cr_assert_eq(graph_lower(graph, device, param_layouts), STATUS_OK);
}

struct placement kit_identity(const struct graph *graph, const struct placement_config *config) {
    struct ranges ranges;
    cr_assert_eq(ranges_new(graph, NULL, 0, &ranges), STATUS_OK);
    struct placement placement = graph_place(&ranges, 0, config);
    ranges_free(&ranges);
    return placement;
}

/* --- contents --- */

static int64_t integer_of(const char *name, int64_t at) {
    if (strcmp(name, "input_mask") == 0) return 1;
    if (strcmp(name, "label") == 0) return at * 7 % 10;
    if (strcmp(name, "input_ids") == 0) return at * 11 % 40;
    if (strcmp(name, "masked_labels") == 0) return at % 5 == 4 ? LABEL_IGNORE : at * 13 % 40;
    if (strcmp(name, "sample_key") == 0) return at * 1000003 + 17;
    return at % 2;
}

static float real_of(const struct value *value, uint64_t key, int64_t at) {
    if (strncmp(value->name, "seed.", 5) == 0) return 0.25f;
    float draw = rng_normal(key, (uint64_t)at);
    if (value->kind == VALUE_BUFFER) return draw * draw + 0.5f; /* running variances are positive */
    return value->kind == VALUE_PARAM ? draw * 0.2f : draw;
}

/* The plain content of a value that the graph does not make. */
static void *content_of(const struct graph *graph, int id, const struct kit_nudge *nudge) {
    const struct value *value = &graph->values[id];
    int64_t count = shape_count(&value->type.shape);
    uint64_t key = rng_key_text(1, value->name);
    char *plain = mem_new(tensor_type_bytes(&value->type) + 1);
    for (int64_t i = 0; i < count; i++) {
        if (value->type.dtype == DTYPE_F32) ((float *)plain)[i] = real_of(value, key, i);
        if (value->type.dtype == DTYPE_I32)
            ((int32_t *)plain)[i] = (int32_t)integer_of(value->name, i);
        if (value->type.dtype == DTYPE_I64) ((int64_t *)plain)[i] = integer_of(value->name, i);
    }
    if (nudge && value->kind == VALUE_PARAM && value->index == nudge->param)
        ((float *)plain)[nudge->at] += nudge->by;
    return plain;
}

/* --- running --- */

struct runner {
    const struct graph *graph;
    const struct placement *placement;
    const struct needs *needs;   /* of a stage, which has nothing else; NULL: everything */
    unsigned char *arena, **own; /* own: per value, NULL where it has none */
    void **address;
    unsigned char **gradient; /* per use, kept when it is made, in the value's layout */
    unsigned char **loss;     /* per value that is read behind forward: what it was there; NULL */
    void *scratch;
};

static void *poisoned(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    memset(memory, 0xff, bytes + 1);
    return memory;
}

/* The shared arena lies behind the slot's. */
static size_t place_of(const struct placement *placement, int value) {
    return placement->offset[value] + (placement->in_shared[value] ? placement->slot_bytes : 0);
}

static bool is_placed(const struct runner *run, int root) {
    return run->placement && run->graph->values[root].kind == VALUE_LOCAL &&
           run->placement->offset[root] != PLACED_ELSEWHERE;
}

/* A stage's plan has a place for all it touches, but for gradients that go elsewhere. */
static bool has_own(const struct runner *run, int id) {
    const struct value *value = &run->graph->values[id];
    if (value->root != id || !value->layout || is_placed(run, id)) return false;
    if (!run->needs) return true;
    if (value->kind == VALUE_LOCAL) return !run->placement || value->use >= 0;
    return needs_value(run->needs, run->graph, id);
}

static void bind(struct runner *run, const struct kit_nudge *nudge) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->value_count; i++) {
        const struct value *value = &graph->values[i];
        if (!has_own(run, i)) continue;
        run->own[i] = poisoned(value->layout->bytes);
        if (value->kind == VALUE_LOCAL) continue;
        void *plain = content_of(graph, i, nudge);
        cr_assert_eq(layout_from_plain(graph->device, value->layout, plain, run->own[i]),
                     STATUS_OK);
        free(plain);
    }
    for (int i = 0; i < graph->value_count; i++) {
        int root = graph->values[i].root;
        run->address[i] =
            is_placed(run, root) ? run->arena + place_of(run->placement, root) : run->own[root];
    }
}

static void run_node(struct runner *run, const struct node *node, bool keep) {
    const struct graph *graph = run->graph;
    void *in[OP_MAX_IN], *out[OP_MAX_OUT];
    for (int i = 0; i < node->in_count; i++) in[i] = run->address[node->in[i]];
    for (int i = 0; i < node->out_count; i++) out[i] = run->address[node->out[i]];
    if (node->kernel)
        cr_assert_eq(kernel_run(node->kernel, in, out, run->scratch, NULL), STATUS_OK);
    for (int i = 0; keep && i < node->out_count; i++) {
        const struct value *value = &graph->values[node->out[i]];
        if (value->use >= 0) memcpy(run->gradient[value->use], out[i], value->layout->bytes);
    }
}

/* Run apart, gradients made by I are taken at the end of W. */
static void take_late(struct runner *run, int use) {
    int gradient = run->graph->uses[use].gradient;
    const struct value *value = &run->graph->values[gradient];
    if (run->graph->nodes[value->producer].half == OP_HALF_I)
        memcpy(run->gradient[use], run->address[gradient], value->layout->bytes);
}

static void take_loss(struct runner *run, int value, struct node_range nodes) {
    int maker = value == NO_VALUE ? -1 : run->graph->values[value].producer;
    if (maker < nodes.begin || maker >= nodes.end) return;
    size_t bytes = run->graph->values[value].layout->bytes;
    run->loss[value] = mem_new(bytes);
    memcpy(run->loss[value], run->address[value], bytes);
}

/* As the executor does, behind forward: of the whole graph, or of the nodes of a stage. */
static void take_losses(struct runner *run, struct node_range nodes) {
    const struct graph *graph = run->graph;
    for (int i = 0; i < graph->loss_count; i++) {
        take_loss(run, graph->losses[i].sum, nodes);
        take_loss(run, graph->losses[i].top_k, nodes);
    }
}

static void run_nodes(struct runner *run, enum kit_order order) {
    const struct graph *graph = run->graph;
    struct node_range all = {0, graph->node_count};
    for (int pass = 0; pass < (order == KIT_SPLIT ? 2 : 1); pass++) {
        for (int n = 0; n < graph->node_count; n++) {
            const struct node *node = &graph->nodes[n];
            bool weight = node->phase == PHASE_BACKWARD && node->half == OP_HALF_W;
            if (order == KIT_SPLIT && weight != (pass == 1)) continue;
            run_node(run, node, order == KIT_TOGETHER || weight);
        }
    }
    take_losses(run, all);
    for (int u = 0; order == KIT_SPLIT && u < graph->use_count; u++) take_late(run, u);
}

/* --- results --- */

static void add_result(struct kit_result *result, const void *data, size_t bytes) {
    result->data = mem_grow(result->data, &result->capacity, result->bytes + bytes, 1);
    memcpy(result->data + result->bytes, data, bytes);
    result->bytes += bytes;
}

static void add_plain(struct kit_result *result, const struct graph *graph, int value,
                      const void *data) {
    const struct layout *layout = graph->values[value].layout;
    void *plain = mem_new(tensor_type_bytes(&layout->type) + 1);
    cr_assert_eq(layout_to_plain(graph->device, layout, data, plain), STATUS_OK);
    add_result(result, plain, tensor_type_bytes(&layout->type));
    free(plain);
}

/* Evaluation leaves some buffers alone. */
static bool is_read(const struct graph *graph, int value) {
    for (int n = 0; n < graph->node_count; n++)
        for (int i = 0; i < graph->nodes[n].in_count; i++)
            if (graph->nodes[n].in[i] == value) return true;
    return false;
}

static struct kit_result collect(struct runner *run) {
    const struct graph *graph = run->graph;
    struct kit_result result = {0};
    for (int i = 0; i < graph->loss_count; i++) {
        const struct loss *loss = &graph->losses[i];
        double sum;
        memcpy(&sum, run->loss[loss->sum], sizeof sum);
        result.loss += sum;
        add_plain(&result, graph, loss->sum, run->loss[loss->sum]);
        if (loss->top_k != NO_VALUE) add_plain(&result, graph, loss->top_k, run->loss[loss->top_k]);
    }
    for (int u = 0; u < graph->use_count; u++)
        add_plain(&result, graph, graph->uses[u].gradient, run->gradient[u]);
    for (int b = 0; b < graph->buffer_count; b++)
        if (is_read(graph, graph->buffers[b].value))
            add_plain(&result, graph, graph->buffers[b].value,
                      run->address[graph->buffers[b].value]);
    return result;
}

static struct runner runner_new(const struct graph *graph, const struct placement *placement,
                                const struct needs *needs, const struct kit_nudge *nudge) {
    struct runner run = {.graph = graph,
                         .placement = placement,
                         .needs = needs,
                         .arena = placement ? poisoned(placement_bytes(placement, 1)) : NULL,
                         .own = MEM_ARRAY(unsigned char *, graph->value_count),
                         .address = MEM_ARRAY(void *, graph->value_count),
                         .gradient = MEM_ARRAY(unsigned char *, graph->use_count + 1),
                         .loss = MEM_ARRAY(unsigned char *, graph->value_count),
                         .scratch = poisoned(graph_scratch_bytes(graph, 0, graph->node_count))};
    for (int u = 0; u < graph->use_count; u++)
        run.gradient[u] = poisoned(graph->values[graph->uses[u].gradient].layout->bytes);
    bind(&run, nudge);
    return run;
}

static void runner_free(struct runner *run) {
    for (int i = 0; i < run->graph->value_count; i++) free(run->own[i]), free(run->loss[i]);
    for (int u = 0; u < run->graph->use_count; u++) free(run->gradient[u]);
    free(run->own);
    free(run->address);
    free(run->gradient);
    free(run->loss);
    free(run->arena);
    free(run->scratch);
}

struct kit_result kit_run(const struct graph *graph, const struct placement *placement,
                          enum kit_order order, const struct kit_nudge *nudge) {
    struct runner run = runner_new(graph, placement, NULL, nudge);
    run_nodes(&run, order);
    struct kit_result result = collect(&run);
    runner_free(&run);
    return result;
}

/* --- stages --- */

struct stage {
    struct runner run;
    struct placement placement;
    struct needs needs;
};

/* What runs in a stage without a break; B is I and W op by op. After a light F what it made is
 * gone.
 */
enum pass { PASS_F, PASS_LIGHT_F, PASS_B, PASS_I, PASS_W };

static bool is_forward(enum pass pass) {
    return pass == PASS_F || pass == PASS_LIGHT_F;
}

static bool in_pass(const struct node *node, enum pass pass) {
    if (node->phase == PHASE_FORWARD) return is_forward(pass);
    return pass == PASS_B || pass == (node->half == OP_HALF_W ? PASS_W : PASS_I);
}

/* Will a node of the stage still run after this pass? */
static bool runs_after(const struct node *node, enum pass pass) {
    if (node->phase == PHASE_FORWARD)
        return pass == PASS_LIGHT_F && !(op_def(node->op)->flags & (OP_SIDE_EFFECT | OP_EXCHANGE));
    return is_forward(pass) || (pass == PASS_I && node->half == OP_HALF_W);
}

static void mark_crossing(const struct ranges *ranges, int cut, enum phase phase, bool *live) {
    if (cut < 0 || cut >= ranges->stage_count - 1) return;
    struct crossing crossing = ranges_crossing(ranges, cut, phase);
    for (int i = 0; i < crossing.count; i++) live[crossing.values[i]] = true;
    free(crossing.values);
}

/* What must outlive a pass, told from the nodes alone: what is there and will be read, by nodes,
 * by whom it is sent to, or by the executor. */
static bool *live_after(const struct ranges *ranges, int stage, enum pass pass) {
    const struct graph *graph = ranges->graph;
    bool *live = MEM_ARRAY(bool, graph->value_count + 1);
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (ranges_stage(ranges, node) != stage || !runs_after(node, pass)) continue;
        for (int i = 0; i < node->in_count; i++) {
            int root = graph->values[node->in[i]].root, maker = graph->values[root].producer;
            live[root] = maker >= 0 && !(ranges_stage(ranges, &graph->nodes[maker]) == stage &&
                                         runs_after(&graph->nodes[maker], pass));
        }
    }
    mark_crossing(ranges, is_forward(pass) ? stage : stage - 1,
                  is_forward(pass) ? PHASE_FORWARD : PHASE_BACKWARD, live);
    for (int u = 0; pass == PASS_I && u < graph->use_count; u++) {
        int maker = graph->values[graph->uses[u].gradient].producer;
        live[graph->uses[u].gradient] |= graph->nodes[maker].half == OP_HALF_I;
    }
    return live;
}

/* NaN wherever nothing lives; the arena that slots share is another's now. */
static void poison_rest(struct stage *stage, const bool *live) {
    const struct graph *graph = stage->run.graph;
    size_t bytes = placement_bytes(&stage->placement, 1);
    bool *used = MEM_ARRAY(bool, bytes + 1);
    for (int v = 0; v < graph->value_count; v++)
        if (live[v] && graph->values[v].root == v && is_placed(&stage->run, v) &&
            !stage->placement.in_shared[v])
            memset(used + place_of(&stage->placement, v), true, graph->values[v].layout->bytes);
    for (size_t i = 0; i < bytes; i++)
        if (!used[i]) stage->run.arena[i] = 0xff;
    free(used);
}

static void run_pass(struct stage *stage, const struct ranges *ranges, int index, enum pass pass) {
    const struct graph *graph = ranges->graph;
    enum phase phase = is_forward(pass) ? PHASE_FORWARD : PHASE_BACKWARD;
    struct node_range nodes = ranges_find(ranges, index, SEGMENT_ALL, phase);
    for (int n = nodes.begin; n < nodes.end; n++)
        if (in_pass(&graph->nodes[n], pass))
            run_node(&stage->run, &graph->nodes[n], pass != PASS_I);
    for (int u = 0; pass == PASS_W && u < graph->use_count; u++) {
        int maker = graph->values[graph->uses[u].gradient].producer;
        if (ranges_stage(ranges, &graph->nodes[maker]) == index) take_late(&stage->run, u);
    }
    if (is_forward(pass)) take_losses(&stage->run, nodes);
    if (!stage->run.placement) return;
    bool *live = live_after(ranges, index, pass);
    poison_rest(stage, live);
    free(live);
}

/* The nodes of forward that run again; nothing comes between them and backward. */
static void run_again(struct stage *stage, const struct ranges *ranges, int index) {
    struct recompute recompute = graph_recompute_of(ranges, index, false);
    for (int n = 0; n < ranges->graph->node_count; n++)
        if (recompute.again[n]) run_node(&stage->run, &ranges->graph->nodes[n], false);
    graph_recompute_free(&recompute);
}

static void send(const struct ranges *ranges, int cut, enum phase phase, const struct runner *from,
                 struct runner *to) {
    struct crossing crossing = ranges_crossing(ranges, cut, phase);
    for (int i = 0; i < crossing.count; i++) {
        int value = crossing.values[i];
        memcpy(to->address[value], from->address[value],
               ranges->graph->values[value].layout->bytes);
    }
    free(crossing.values);
}

/* What a stage leaves behind goes to the first one, whose results are collected: buffers where they
 * differ from what they were, gradients and losses. */
static void hand_over(const struct ranges *ranges, int stage, struct runner *from,
                      struct runner *to) {
    const struct graph *graph = ranges->graph;
    const struct stage_range *range = &ranges->stages[stage];
    struct node_range nodes = range->phase[PHASE_FORWARD].nodes;
    for (int n = nodes.begin; n < nodes.end; n++) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; i < node->in_count; i++)
            if (graph->values[node->in[i]].kind == VALUE_BUFFER)
                to->address[node->in[i]] = from->address[node->in[i]];
        for (int i = 0; i < graph->loss_count; i++)
            for (int k = 0; k < node->out_count; k++)
                if (node->out[k] == graph->losses[i].sum || node->out[k] == graph->losses[i].top_k)
                    to->loss[node->out[k]] = from->loss[node->out[k]],
                    from->loss[node->out[k]] = NULL;
    }
    for (int u = 0; u < graph->use_count; u++) {
        const struct value *gradient = &graph->values[graph->uses[u].gradient];
        if (ranges_stage(ranges, &graph->nodes[gradient->producer]) == stage)
            memcpy(to->gradient[u], from->gradient[u], gradient->layout->bytes);
    }
}

/* In place: the runner points into the stage. */
static void stage_open(struct stage *stage, const struct ranges *ranges, int index,
                       const struct placement_config *config) {
    stage->needs = needs_of(ranges, index);
    if (config) stage->placement = graph_place(ranges, index, config);
    stage->run = runner_new(ranges->graph, config ? &stage->placement : NULL, &stage->needs, NULL);
}

static void stage_close(struct stage *stage) {
    runner_free(&stage->run);
    placement_free(&stage->placement);
    needs_free(&stage->needs);
}

struct kit_result kit_run_stages(const struct ranges *ranges, const struct placement_config *config,
                                 enum kit_order order) {
    int count = ranges->stage_count;
    bool again = order == KIT_AGAIN || order == KIT_AGAIN_SPLIT,
         split = order == KIT_SPLIT || order == KIT_AGAIN_SPLIT;
    struct stage *stages = MEM_ARRAY(struct stage, count);
    for (int s = 0; s < count; s++) stage_open(&stages[s], ranges, s, config);
    for (int s = 0; s < count; s++) {
        if (s > 0) send(ranges, s - 1, PHASE_FORWARD, &stages[s - 1].run, &stages[s].run);
        run_pass(&stages[s], ranges, s, again ? PASS_LIGHT_F : PASS_F);
    }
    for (int s = count - 1; s >= 0; s--) {
        if (s < count - 1) send(ranges, s, PHASE_BACKWARD, &stages[s + 1].run, &stages[s].run);
        if (again) run_again(&stages[s], ranges, s);
        run_pass(&stages[s], ranges, s, split ? PASS_I : PASS_B);
        if (split) run_pass(&stages[s], ranges, s, PASS_W);
    }
    for (int s = 1; s < count; s++) hand_over(ranges, s, &stages[s].run, &stages[0].run);
    struct kit_result result = collect(&stages[0].run);
    for (int s = 0; s < count; s++) stage_close(&stages[s]);
    free(stages);
    return result;
}

void kit_result_free(struct kit_result *result) {
    free(result->data);
    *result = (struct kit_result){0};
}

/* --- blocks --- */

/* The first node of a phase whose block is beyond `block`, as the phase goes. */
static int block_edge(const struct ranges *ranges, int stage, enum phase phase, const int *block_of,
                      int block) {
    struct node_range nodes = ranges_find(ranges, stage, SEGMENT_ALL, phase);
    int n = nodes.begin;
    while (n < nodes.end &&
           (block_of[ranges->graph->nodes[n].unit] >= block) != (phase == PHASE_FORWARD))
        n++;
    return n;
}

int kit_cut_blocks(struct ranges *ranges, int stage) {
    int *block_of = ranges_unit_blocks(ranges->graph), ends[64];
    const struct stage_range *of = &ranges->stages[stage];
    int first = block_of[of->first_unit], count = block_of[of->end_unit - 1] - first + 1;
    for (int i = 0; i < count; i++)
        ends[i] = block_edge(ranges, stage, PHASE_FORWARD, block_of, first + i + 1);
    ranges_cut_segments(ranges, stage, PHASE_FORWARD, ends, count);
    for (int i = 0; i < count; i++)
        ends[i] = block_edge(ranges, stage, PHASE_BACKWARD, block_of, first + count - 1 - i);
    ranges_cut_segments(ranges, stage, PHASE_BACKWARD, ends, count);
    free(block_of);
    return count;
}
