/* See layers.h. Lists are short (some hundred layers), so names are looked for one by one. */
#include "graph/layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "graph/range.h"

/* --- which units a layer has --- */

static bool stays_behind(const struct node *node, const struct node *layer) {
    unsigned flags = op_def(node->op)->flags;
    return flags & (OP_VIEW | OP_SIDE_EFFECT | OP_TRAILS) ||
           (layer && strcmp(node->name, layer->name) == 0);
}

struct layer_list layers_of(const struct graph *graph) {
    int units = graph_unit_count(graph);
    struct layer_list layers = {.graph = graph,
                                .first_unit = MEM_ARRAY(int, units + 1),
                                .name = MEM_ARRAY(const char *, units + 1)};
    const struct node *last = NULL; /* that begins a layer */
    int unit = -1;
    for (int n = 0; n < graph->forward_count; n++) {
        const struct node *node = &graph->nodes[n];
        if (node->op == OP_REORDER || node->unit == unit) continue;
        unit = node->unit;
        if (stays_behind(node, last)) continue;
        layers.first_unit[layers.count] = last ? unit : 0;
        layers.name[layers.count++] = node->name;
        last = node;
    }
    layers.first_unit[layers.count] = units;
    return layers;
}

void layers_free(struct layer_list *layers) {
    free(layers->first_unit);
    free(layers->name);
    *layers = (struct layer_list){0};
}

int layers_at(const struct layer_list *layers, int unit) {
    int layer = 0;
    while (layer < layers->count - 1 && layers->first_unit[layer + 1] <= unit) layer++;
    return layer;
}

/* --- names --- */

/* "layer2" begins "layer2" and "layer2.0", not "layer20". */
static bool begins(const char *name, const char *with) {
    size_t length = strlen(with);
    return length && strncmp(name, with, length) == 0 && (!name[length] || name[length] == '.');
}

static int find_name(const struct layer_list *layers, const char *name, bool whole) {
    for (int i = 0; i < layers->count; i++)
        if (whole ? strcmp(layers->name[i], name) == 0 : begins(layers->name[i], name)) return i;
    return -1;
}

/* The layer that reads a value first. */
static int first_reader(const struct layer_list *layers, int value) {
    const struct graph *graph = layers->graph;
    for (int n = 0; n < graph->forward_count; n++)
        for (int i = 0; i < graph->nodes[n].in_count; i++)
            if (graph->nodes[n].in[i] == value) return layers_at(layers, graph->nodes[n].unit);
    return -1;
}

static int find_param(const struct layer_list *layers, const char *name) {
    const struct graph *graph = layers->graph;
    for (int p = 0; p < graph->param_count; p++)
        if (begins(graph->params[p].name, name))
            return first_reader(layers, graph->params[p].value);
    return -1;
}

/* Characters before `part` where it stands inside `name` between dots; -1: it does not. */
static int words_before(const char *name, const char *part) {
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (begins(dot + 1, part)) return (int)(dot + 1 - name);
    return -1;
}

/* -1: none; `*other` is a layer where it stands behind other words, or -1. */
static int find_inside(const struct layer_list *layers, const char *name, int *other) {
    int first = -1, before = 0;
    *other = -1;
    for (int i = 0; i < layers->count; i++) {
        int at = words_before(layers->name[i], name);
        if (at < 0) continue;
        if (first < 0) first = i, before = at;
        if (at == before && strncmp(layers->name[i], layers->name[first], (size_t)at) == 0)
            continue;
        *other = i;
        return first;
    }
    return first;
}

/* The layer that makes a value of this name: what was fused into it, or stays with it. */
static int find_part(const struct layer_list *layers, const char *name) {
    const struct graph *graph = layers->graph;
    for (int n = 0; n < graph->forward_count; n++)
        for (int k = 0; k < graph->nodes[n].out_count; k++)
            if (strcmp(graph->values[graph->nodes[n].out[k]].name, name) == 0)
                return layers_at(layers, graph->nodes[n].unit);
    return -1;
}

/* --- brief names --- */

static int last_with(const struct layer_list *layers, const char *name) {
    int last = -1;
    for (int i = 0; i < layers->count; i++)
        if (begins(layers->name[i], name)) last = i;
    return last;
}

/* The shortest beginning of a layer's name, up to a dot, that `leads` to it. */
static int brief(const struct layer_list *layers, int layer,
                 int (*leads)(const struct layer_list *layers, const char *name)) {
    SCOPED_FREE char *text = mem_text(layers->name[layer]);
    int length = (int)strlen(text);
    for (char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.')) {
        *dot = 0;
        bool found = leads(layers, text) == layer;
        *dot = '.';
        if (!found) continue;
        length = (int)(dot - text);
        break;
    }
    return length;
}

static int find_layer(const struct layer_list *layers, const char *name) {
    int found = find_name(layers, name, true);
    return found >= 0 ? found : find_name(layers, name, false);
}

int layers_brief_first(const struct layer_list *layers, int layer) {
    return brief(layers, layer, find_layer);
}

int layers_brief_last(const struct layer_list *layers, int layer) {
    return brief(layers, layer, last_with);
}

/* --- what is said of names that fit nowhere --- */

/* Names, and what they begin with: "layer2.0.conv1", "layer2", "layer2.0". */
static const char *nearest(const struct layer_list *layers, const char *name, struct arena *arena) {
    SCOPED_FREE const char **words = NULL;
    size_t count = 0, capacity = 0;
    for (int i = 0; i < layers->count; i++) {
        char *text = arena_text(arena, layers->name[i]);
        words = mem_grow(words, &capacity, count + 1, sizeof *words);
        words[count++] = text;
        for (const char *dot = strchr(text, '.'); dot; dot = strchr(dot + 1, '.')) {
            char *begin = arena_text(arena, text);
            begin[dot - text] = 0;
            words = mem_grow(words, &capacity, count + 1, sizeof *words);
            words[count++] = begin;
        }
    }
    return text_nearest(name, words, (int)count);
}

static enum status fail_unknown(const struct layer_list *layers, const char *name) {
    char quoted[TEXT_QUOTED_BYTES];
    SCOPED(arena_free) struct arena arena = {0};
    const char *near = nearest(layers, name, &arena);
    return near ? fail(STATUS_USAGE, "--cut %s: the model has no such layer\n  did you mean %s?",
                       text_quoted(name, quoted), near)
                : fail(STATUS_USAGE,
                       "--cut %s: the model has no such layer\n  its first is %s, its last %s; "
                       "explain --show graph lists them",
                       text_quoted(name, quoted), layers->name[0], layers->name[layers->count - 1]);
}

static enum status fail_part(const struct layer_list *layers, const char *name, int part) {
    return fail(
        STATUS_USAGE, "--cut %s: it is part of layer %s, which no cut divides\n  %s %s", name,
        layers->name[part], part + 1 < layers->count ? "the next layer is" : "the layer before is",
        part + 1 < layers->count ? layers->name[part + 1] : layers->name[part ? part - 1 : 0]);
}

enum status layers_find(const struct layer_list *layers, const char *name, int *out) {
    int other, found = find_layer(layers, name);
    if (found < 0) found = find_param(layers, name);
    if (found < 0) {
        int part = find_part(layers, name);
        if (part >= 0) return fail_part(layers, name, part);
        found = find_inside(layers, name, &other);
        if (found >= 0 && other >= 0)
            return fail(STATUS_USAGE, "--cut %s: %s or %s?\n  give more of the name", name,
                        layers->name[found], layers->name[other]);
    }
    if (found < 0) return fail_unknown(layers, name);
    *out = found;
    return STATUS_OK;
}

/* --- cuts --- */

static enum status check_after(const struct layer_list *layers, const char *name, int layer,
                               const char *before_name, int before) {
    if (!before_name && layer == 0)
        return fail(STATUS_USAGE,
                    "--cut %s: the model begins with layer %s, so the first chunk would be empty\n"
                    "  name the first layer of the second chunk, of the third and so on",
                    name, layers->name[0]);
    if (!before_name || layer > before) return STATUS_OK;
    if (layer == before)
        return fail(STATUS_USAGE,
                    "--cut %s,%s: both are layer %s, so the chunk between would be empty\n"
                    "  name each layer once",
                    before_name, name, layers->name[layer]);
    return fail(STATUS_USAGE,
                "--cut %s,%s: layer %s stands before layer %s in the model\n"
                "  name them in its order",
                before_name, name, layers->name[layer], layers->name[before]);
}

enum status layers_cut(const struct layer_list *layers, const char *const *names, int count,
                       int *cuts) {
    SCOPED_FREE int *units = MEM_ARRAY(int, count + 1);
    for (int i = 0, before = 0, layer; i < count; i++, before = layer) {
        TRY(layers_find(layers, names[i], &layer));
        TRY(check_after(layers, names[i], layer, i ? names[i - 1] : NULL, before));
        units[i] = layers->first_unit[layer];
    }
    memcpy(cuts, units, (size_t)count * sizeof units[0]);
    return STATUS_OK;
}

/* --- from graph to graph --- */

/* The first layer of `to` among those of `from` from `layer` on; -1: it has none of them. */
static int counterpart(const struct layer_list *from, int layer, const struct layer_list *to) {
    for (; layer < from->count; layer++) {
        int found = find_name(to, from->name[layer], true);
        if (found >= 0) return found;
    }
    return -1;
}

enum status layers_translate(const struct layer_list *from, const int *cuts, int count,
                             const struct layer_list *to, int *out) {
    SCOPED_FREE int *units = MEM_ARRAY(int, count + 1);
    int before = 0;
    for (int i = 0; i < count; i++) {
        int layer = layers_at(from, cuts[i]);
        CHECK(from->first_unit[layer] == cuts[i], "a cut at unit %d, inside layer %s", cuts[i],
              from->name[layer]);
        int found = counterpart(from, layer, to);
        if (found <= before)
            return fail(STATUS_USAGE,
                        "chunk %d, up to layer %s, is empty in the graph of %s\n"
                        "  cut elsewhere",
                        i, from->name[layer], to->graph->training ? "training" : "evaluation");
        units[i] = to->first_unit[found];
        before = found;
    }
    memcpy(out, units, (size_t)count * sizeof units[0]);
    return STATUS_OK;
}
