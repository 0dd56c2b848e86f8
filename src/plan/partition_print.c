/* The table of a partition, as explain shows it. Layers go by the shortest names that --cut
 * understands, so that the column "from" can be edited and given back. */
#include <stdlib.h>

#include "base/text.h"
#include "graph/needs.h"
#include "plan/partition.h"

static double all_weight(const struct partition *partition, double *largest) {
    double sum = 0;
    *largest = 0;
    for (int c = 0; c < partition->count; c++) {
        double weight = partition->chunks[c].weight;
        sum += weight;
        if (weight > *largest) *largest = weight;
    }
    return sum;
}

/* Both ends of a chunk where 100 columns have room; the last layer of one stands before the first
 * of the next. */
static bool shows_last(const struct partition *partition, const struct layer_list *layers) {
    enum { MOST_COLUMNS = 34 };
    int first = 0, last = 0;
    for (int c = 0; c < partition->count; c++) {
        const struct partition_chunk *chunk = &partition->chunks[c];
        int at = layers_at(layers, chunk->first_unit);
        int from = layers_brief_first(layers, at);
        int to = layers_brief_last(layers, at + chunk->layer_count - 1);
        if (from > first) first = from;
        if (to > last) last = to;
    }
    return first + last <= MOST_COLUMNS;
}

static void add_titles(const struct partition *partition, bool ends, struct text_table *table) {
    text_table_cell(table, "chunk");
    text_table_cell(table, "from");
    if (ends) text_table_cell(table, "to");
    text_table_cell(table, "params");
    text_table_cell(table, "Mflop forward");
    text_table_cell(table, "%% %s", balance_name(partition->balance));
    text_table_cell(table, "kept");
    text_table_cell(table, "sends on");
    text_table_cell(table, "sent back");
}

static void add_chunk(const struct partition *partition, int c, const struct layer_list *layers,
                      bool ends, double all, struct text_table *table) {
    const struct partition_chunk *chunk = &partition->chunks[c];
    int first = layers_at(layers, chunk->first_unit), last = first + chunk->layer_count - 1;
    char size[TEXT_BYTES];
    text_table_cell(table, "%d", c);
    text_table_cell(table, "%.*s", layers_brief_first(layers, first), chunk->first_layer);
    if (ends) text_table_cell(table, "%.*s", layers_brief_last(layers, last), chunk->last_layer);
    text_table_cell(table, "%lld", (long long)chunk->param_elements);
    text_table_cell(table, "%.3f", chunk->flops[PHASE_FORWARD] * 1e-6);
    text_table_cell(table, "%.1f", all > 0 ? 100 * chunk->weight / all : 0);
    text_table_cell(table, "%s", text_size((int64_t)chunk->kept_bytes, size));
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        text_table_cell(table, "%s",
                        c < partition->count - 1
                            ? text_size((int64_t)chunk->crossing[phase].bytes, size)
                            : "-");
}

/* "the largest chunk has 27.0% of all flops, 1.08 of an even share" */
static void print_balance(const struct partition *partition, FILE *out) {
    double largest, all = all_weight(partition, &largest);
    if (all <= 0) return;
    fprintf(out, "  %s: the largest chunk has %.1f%% of all %s, %.2f of an even share\n",
            partition->named ? "cut by name" : "balanced", 100 * largest / all,
            balance_name(partition->balance), largest * partition->count / all);
}

static void print_tied(const struct partition *partition, const struct needs *needs, FILE *out) {
    const struct graph *graph = partition->graph;
    for (int p = 0; p < graph->param_count; p++) {
        int holders = 0;
        for (int c = 0; c < partition->count; c++)
            holders += needs_value(&needs[c], graph, graph->params[p].value);
        if (holders < 2) continue;
        fprintf(out, "  tied: %s is in chunks", graph->params[p].name);
        for (int c = 0; c < partition->count; c++) {
            if (!needs_value(&needs[c], graph, graph->params[p].value)) continue;
            fprintf(out, " %d%s", c, --holders > 0 ? "," : "\n");
        }
    }
}

void partition_print(const struct partition *partition, FILE *out) {
    struct layer_list layers = layers_of(partition->graph);
    struct needs *needs = partition_needs(partition);
    bool ends = shows_last(partition, &layers);
    struct text_table table = {.align = ends ? "rllrrrrrr" : "rlrrrrrr"};
    double largest, all = all_weight(partition, &largest);
    add_titles(partition, ends, &table);
    for (int c = 0; c < partition->count; c++) add_chunk(partition, c, &layers, ends, all, &table);
    text_table_print(&table, 2, out);
    text_table_free(&table);
    layers_free(&layers);
    print_balance(partition, out);
    print_tied(partition, needs, out);
    for (int c = 0; c < partition->count; c++) needs_free(&needs[c]);
    free(needs);
}
