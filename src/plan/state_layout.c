/* See state_layout.h. */
#include "plan/state_layout.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"

enum { HEAP_ALIGN = 64, BUFFER_ALIGN = 64 };

int64_t state_param_span(const struct graph *graph, int param) {
    const struct layout *layout = graph->values[graph->params[param].value].layout;
    int64_t elements = (int64_t)(layout->bytes / dtype_bytes(layout->type.dtype));
    return (elements + NORM_BLOCK - 1) / NORM_BLOCK * NORM_BLOCK;
}

int64_t state_param_elements(const struct graph *graph, const int *params, int count) {
    int64_t elements = 0;
    for (int p = 0; p < count; p++) elements += state_param_span(graph, params ? params[p] : p);
    return elements;
}

/* --- what lies where --- */

static void describe_uses(struct state_layout *layout, const struct state_config *config, int index,
                          int64_t *tail) {
    const struct param *param = &config->graph->params[index];
    const struct state_item *item = &layout->params[index];
    int number = 0;
    for (int u = param->first_use; u < param->first_use + param->use_count; u++) {
        bool here = !config->uses || config->uses[u];
        layout->uses[u] = here ? (struct state_use){index, number, number ? *tail : item->begin}
                               : (struct state_use){index, -1, -1};
        if (here && number++ > 0) *tail += item->count;
    }
}

static void describe_param(struct state_layout *layout, const struct state_config *config,
                           int index, int64_t begin) {
    const struct graph *graph = config->graph;
    const struct param *param = &graph->params[index];
    const struct value *value = &graph->values[param->value];
    CHECK(value->type.dtype == STORE_DTYPE, "parameter %s is %s", param->name,
          dtype_name(value->type.dtype));
    layout->params[index] = (struct state_item){.name = param->name,
                                                .type = value->type,
                                                .layout = value->layout,
                                                .begin = begin,
                                                .count = state_param_span(graph, index),
                                                .decay = config->decay[param->class],
                                                .copy = config->copies && config->copies[index]};
}

static struct state_item not_held(const struct graph *graph, int param) {
    return (struct state_item){.name = graph->params[param].name,
                               .type = graph->values[graph->params[param].value].type,
                               .begin = -1,
                               .position = -1,
                               .frozen = graph->params[param].frozen};
}

/* The numbers of a graph's parameters that are trained, or those that are frozen, or those that a
 * rank was given of them. The caller frees the list. */
static int *list_params(const struct graph *graph, const int *given, int given_count, bool frozen,
                        int *count) {
    int *list = MEM_ARRAY(int, graph->param_count + 1);
    *count = 0;
    for (int i = 0; given && i < given_count; i++) list[(*count)++] = given[i];
    for (int p = 0; !given && p < graph->param_count; p++)
        if (graph->params[p].frozen == frozen) list[(*count)++] = p;
    return list;
}

static void describe_frozen(struct state_layout *layout, const struct state_config *config) {
    const struct graph *graph = config->graph;
    int count;
    SCOPED_FREE int *held = list_params(graph, config->frozen, config->frozen_count, true, &count);
    for (int p = 0; p < graph->param_count; p++) layout->frozen[p] = not_held(graph, p);
    for (int i = 0; i < count; i++) {
        struct state_item *item = &layout->frozen[held[i]];
        item->layout = graph->values[graph->params[held[i]].value].layout;
        item->begin = layout->frozen_elements;
        item->count = state_param_span(graph, held[i]);
        item->copy = config->copies && config->copies[held[i]];
        layout->frozen_elements += item->count;
    }
}

static void describe_params(struct state_layout *layout, const struct state_config *config) {
    const struct graph *graph = config->graph;
    int held;
    SCOPED_FREE int *params = list_params(graph, config->params, config->param_count, false, &held);
    int64_t begin = 0, tail = state_param_elements(graph, params, held);
    for (int p = 0; p < graph->param_count; p++) layout->params[p] = not_held(graph, p);
    for (int i = 0; i < held; i++) {
        int index = layout->order[i] = params[i];
        describe_param(layout, config, index, begin);
        layout->params[index].position = i;
        describe_uses(layout, config, index, &tail);
        begin += layout->params[index].count;
    }
    layout->held_count = held;
    layout->param_elements = begin;
    layout->gradient_elements = tail;
}

static void describe_buffers(struct state_layout *layout, const struct state_config *config) {
    const struct graph *graph = config->graph;
    for (int b = 0; b < graph->buffer_count; b++) {
        const struct value *value = &graph->values[graph->buffers[b].value];
        bool held = !config->holds_buffer || config->holds_buffer[b];
        layout->buffers[b] = (struct state_item){.name = graph->buffers[b].name,
                                                 .type = value->type,
                                                 .layout = value->layout,
                                                 .begin = held ? layout->buffer_bytes : -1,
                                                 .position = -1,
                                                 .count = held ? (int64_t)value->layout->bytes : 0};
        layout->buffer_bytes +=
            (layout->buffers[b].count + BUFFER_ALIGN - 1) / BUFFER_ALIGN * BUFFER_ALIGN;
    }
}

static void take_owned(struct state_layout *layout, const struct state_config *config) {
    struct slice all = {0, layout->param_elements};
    const struct slice *owned = config->owned ? config->owned : &all;
    layout->owned_count = config->owned ? config->owned_count : 1;
    layout->owned = MEM_ARRAY(struct slice, layout->owned_count + 1);
    for (int i = 0; i < layout->owned_count; i++) {
        int64_t before = i ? owned[i - 1].begin + owned[i - 1].count : 0;
        CHECK(owned[i].begin >= before && owned[i].count >= 0 && owned[i].begin % NORM_BLOCK == 0 &&
                  owned[i].count % NORM_BLOCK == 0 &&
                  owned[i].begin + owned[i].count <= layout->param_elements,
              "slice %d is elements %lld to %lld of %lld", i, (long long)owned[i].begin,
              (long long)(owned[i].begin + owned[i].count), (long long)layout->param_elements);
        layout->owned[i] = owned[i];
    }
}

/* What of an owned slice lies between copies. */
static void count_slice(struct state_layout *layout, const struct slice *owned) {
    int64_t begin = owned->begin, end = owned->begin + owned->count;
    for (int p = 0; p <= layout->held_count; p++) {
        const struct state_item *copy =
            p < layout->held_count ? &layout->params[layout->order[p]] : NULL;
        if (copy && !copy->copy) continue;
        int64_t stop = copy && copy->begin < end ? copy->begin : end;
        if (stop > begin)
            layout->counted[layout->counted_count++] = (struct slice){begin, stop - begin};
        if (copy && copy->begin + copy->count > begin) begin = copy->begin + copy->count;
    }
}

static void take_counted(struct state_layout *layout) {
    layout->counted = MEM_ARRAY(struct slice, layout->owned_count + layout->held_count + 1);
    for (int i = 0; i < layout->owned_count; i++) count_slice(layout, &layout->owned[i]);
}

static int64_t *copy_shift(const struct state_window *window, int count) {
    int64_t *shift = window->shift ? MEM_ARRAY(int64_t, count + 1) : NULL;
    for (int i = 0; shift && i < count; i++) shift[i] = window->shift[i];
    return shift;
}

static void take_windows(struct state_layout *layout, const struct state_config *config) {
    const struct state_window *grads = &config->windows[ARRAY_GRAD],
                              *params = &config->windows[ARRAY_PARAM];
    layout->grad_shift = copy_shift(grads, layout->held_count);
    layout->param_shift = copy_shift(params, layout->held_count);
    layout->grad_window = grads->elements;
    layout->param_window = params->elements;
}

/* --- arrays --- */

static int kind_count(const struct state_config *config, enum array_kind kind) {
    switch (kind) {
    case ARRAY_VERSION: return config->versions;
    case ARRAY_GRAD: return config->grads;
    case ARRAY_STATE: return config->forward ? 0 : config->optimizer->state_count;
    case ARRAY_COMMON: return config->common;
    case ARRAY_OUTER: return config->outer;
    case ARRAY_GRAD_WINDOW: return config->windows[ARRAY_GRAD].shift ? config->grad_windows : 0;
    case ARRAY_PARAM_WINDOW: return config->windows[ARRAY_PARAM].shift != NULL;
    default: return 1;
    }
}

/* Windows of gradients have the further uses behind them, as a whole gradient array has. */
static int64_t whole_of(const struct state_layout *layout, enum array_kind kind) {
    switch (kind) {
    case ARRAY_GRAD: return layout->gradient_elements;
    case ARRAY_FROZEN: return layout->frozen_elements;
    case ARRAY_BUFFER: return layout->buffer_bytes;
    case ARRAY_GRAD_WINDOW:
        return layout->grad_window + layout->gradient_elements - layout->param_elements;
    case ARRAY_PARAM_WINDOW: return layout->param_window;
    default: return layout->param_elements;
    }
}

static void add_array(struct state_layout *layout, const struct state_config *config,
                      enum array_kind kind, int index) {
    bool sliced = config->array[kind].sliced;
    CHECK(!sliced || (kind != ARRAY_BUFFER && kind != ARRAY_FROZEN), "array kind %d is not sliced",
          (int)kind);
    struct array_layout *array = &layout->arrays[layout->array_count++];
    *array = (struct array_layout){.kind = kind,
                                   .index = index,
                                   .dtype = kind == ARRAY_BUFFER ? DTYPE_U8 : STORE_DTYPE,
                                   .memory = config->array[kind].memory,
                                   .whole = {0, whole_of(layout, kind)}};
    if (kind == ARRAY_GRAD_WINDOW || kind == ARRAY_PARAM_WINDOW) array->memory = MEMORY_COMM;
    array->slices = sliced ? layout->owned : &array->whole;
    array->slice_count = sliced ? layout->owned_count : 1;
    for (int i = 0; i < array->slice_count; i++) array->held += array->slices[i].count;
}

static void describe_arrays(struct state_layout *layout, const struct state_config *config) {
    int count = 0;
    for (int k = 0; k < ARRAY_KIND_COUNT; k++) count += kind_count(config, (enum array_kind)k);
    layout->arrays = MEM_ARRAY(struct array_layout, count);
    for (int k = 0; k < ARRAY_KIND_COUNT; k++) {
        layout->first[k] = layout->array_count;
        for (int i = 0; i < kind_count(config, (enum array_kind)k); i++)
            add_array(layout, config, (enum array_kind)k, i);
    }
}

struct state_layout *state_layout_new(const struct state_config *config) {
    const struct graph *graph = config->graph;
    struct state_layout *layout = MEM_NEW(struct state_layout);
    *layout = (struct state_layout){.optimizer = config->optimizer,
                                    .apart = config->apart,
                                    .params = MEM_ARRAY(struct state_item, graph->param_count),
                                    .frozen = MEM_ARRAY(struct state_item, graph->param_count),
                                    .buffers = MEM_ARRAY(struct state_item, graph->buffer_count),
                                    .uses = MEM_ARRAY(struct state_use, graph->use_count),
                                    .order = MEM_ARRAY(int, graph->param_count + 1),
                                    .param_count = graph->param_count,
                                    .buffer_count = graph->buffer_count,
                                    .use_count = graph->use_count};
    describe_params(layout, config);
    describe_frozen(layout, config);
    describe_buffers(layout, config);
    take_owned(layout, config);
    take_counted(layout);
    take_windows(layout, config);
    describe_arrays(layout, config);
    return layout;
}

void state_layout_free(struct state_layout **layout) {
    if (!*layout) return;
    free((*layout)->params);
    free((*layout)->frozen);
    free((*layout)->buffers);
    free((*layout)->uses);
    free((*layout)->order);
    free((*layout)->grad_shift);
    free((*layout)->param_shift);
    free((*layout)->owned);
    free((*layout)->counted);
    free((*layout)->arrays);
    free(*layout);
    *layout = NULL;
}

/* --- questions --- */

int state_array(const struct state_layout *layout, enum array_kind kind, int index) {
    int array = layout->first[kind] + index;
    CHECK(index >= 0 && array < layout->array_count && layout->arrays[array].kind == kind,
          "array %d of kind %d", index, (int)kind);
    return array;
}

const struct state_item *state_items(const struct state_layout *layout, int array, int *count) {
    enum array_kind kind = layout->arrays[array].kind;
    *count = kind == ARRAY_BUFFER ? layout->buffer_count : layout->param_count;
    if (kind == ARRAY_FROZEN) return layout->frozen;
    return kind == ARRAY_BUFFER ? layout->buffers : layout->params;
}

int state_param_array(const struct state_layout *layout, int param) {
    bool frozen = layout->params[param].frozen;
    return state_array(layout, frozen ? ARRAY_FROZEN : ARRAY_PARAM, 0);
}

int64_t state_place(const struct state_layout *layout, int array, int64_t begin, int64_t count) {
    const struct array_layout *of = &layout->arrays[array];
    int64_t before = 0;
    for (int i = 0; i < of->slice_count; i++) {
        const struct slice *slice = &of->slices[i];
        if (begin >= slice->begin && begin + count <= slice->begin + slice->count)
            return before + begin - slice->begin;
        before += slice->count;
    }
    return -1;
}

int64_t state_window_place(const struct state_layout *layout, enum array_kind kind, int position,
                           int64_t x) {
    const int64_t *shift = kind == ARRAY_GRAD ? layout->grad_shift : layout->param_shift;
    CHECK(shift && position >= 0, "no window");
    return shift[position] + x;
}

int64_t state_window_use(const struct state_layout *layout, const struct state_use *use) {
    if (use->number > 0) return layout->grad_window + use->begin - layout->param_elements;
    const struct state_item *item = &layout->params[use->param];
    return state_window_place(layout, ARRAY_GRAD, item->position, item->begin);
}

bool state_is_sliced(const struct state_layout *layout, int array) {
    return layout->arrays[array].slices != &layout->arrays[array].whole;
}

bool state_holds_part(const struct state_layout *layout, int array, const struct state_item *item) {
    const struct array_layout *of = &layout->arrays[array];
    for (int i = 0; i < of->slice_count; i++) {
        const struct slice *slice = &of->slices[i];
        if (slice->begin < item->begin + item->count && item->begin < slice->begin + slice->count)
            return true;
    }
    return false;
}

static bool holds_first(const struct state_layout *layout, int array,
                        const struct state_item *item) {
    return state_place(layout, array, item->begin, 1) >= 0;
}

bool state_writes(const struct state_layout *layout, int array, const struct state_item *item,
                  bool first_replica) {
    if (!state_answers(item)) return false;
    return state_is_sliced(layout, array) ? holds_first(layout, array, item) : first_replica;
}

bool state_collects(const struct state_layout *layout, int array, const struct state_item *item) {
    return state_is_sliced(layout, array) && holds_first(layout, array, item) &&
           state_place(layout, array, item->begin, item->count) < 0;
}

static size_t held_bytes(const struct array_layout *array) {
    return (size_t)array->held * dtype_bytes(array->dtype);
}

size_t state_kind_bytes(const struct state_layout *layout, enum array_kind kind) {
    size_t bytes = 0;
    for (int i = 0; i < layout->array_count; i++)
        if (layout->arrays[i].kind == kind) bytes += held_bytes(&layout->arrays[i]);
    return bytes;
}

size_t state_param_bytes(const struct state_layout *layout) {
    return state_kind_bytes(layout, ARRAY_PARAM) + state_kind_bytes(layout, ARRAY_FROZEN);
}

size_t state_heap_bytes(const struct state_layout *layout) {
    size_t bytes = 0;
    for (int i = 0; i < layout->array_count; i++)
        if (layout->arrays[i].memory == MEMORY_COMM)
            bytes += (held_bytes(&layout->arrays[i]) + HEAP_ALIGN - 1) / HEAP_ALIGN * HEAP_ALIGN;
    return bytes;
}
