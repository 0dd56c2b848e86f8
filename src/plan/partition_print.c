/* The table of a partition, as explain shows it. Layers go by the shortest names that --cut
 * understands, so that the column "from" can be edited and given back. */
#include <string.h>

#include "base/shown.h"
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

/* Both ends of a chunk where 80 columns have room, or 100 where no ranks are shown; the last layer
 * of one stands before the first of the next. */
static bool shows_last(const struct partition *partition, bool placed,
                       const struct layer_list *layers) {
    int most_columns = placed ? 10 : 34;
    int first = 0, last = 0;
    for (int c = 0; c < partition->count; c++) {
        const struct partition_chunk *chunk = &partition->chunks[c];
        int at = layers_at(layers, chunk->first_unit);
        int from = layers_brief_first(layers, at);
        int to = layers_brief_last(layers, at + chunk->layer_count - 1);
        if (from > first) first = from;
        if (to > last) last = to;
    }
    return first + last <= most_columns;
}

static void add_titles(const struct partition *partition, bool placed, bool ends,
                       struct text_table *table) {
    text_table_cell(table, "stage");
    if (placed) text_table_cell(table, "rank");
    text_table_cell(table, "from");
    if (ends) text_table_cell(table, "to");
    text_table_cell(table, "params");
    if (!placed) text_table_cell(table, "Mflop");
    text_table_cell(table, "%% %s", balance_name(partition->balance));
    text_table_cell(table, "kept");
    if (placed) text_table_cell(table, "slots");
    text_table_cell(table, "sent on");
    text_table_cell(table, "back");
}

static void add_chunk(const struct partition *partition, int c, const struct partition_place *place,
                      const struct layer_list *layers, bool ends, double all,
                      struct text_table *table) {
    const struct partition_chunk *chunk = &partition->chunks[c];
    int first = layers_at(layers, chunk->first_unit), last = first + chunk->layer_count - 1;
    char size[TEXT_BYTES];
    text_table_cell(table, "%d", c);
    if (place) text_table_cell(table, "%d", place->rank);
    text_table_cell(table, "%.*s", layers_brief_first(layers, first), chunk->first_layer);
    if (ends) text_table_cell(table, "%.*s", layers_brief_last(layers, last), chunk->last_layer);
    text_table_cell(table, "%lld", (long long)chunk->param_elements);
    if (!place) text_table_cell(table, "%.3f", chunk->flops[PHASE_FORWARD] * 1e-6);
    text_table_cell(table, "%.1f", all > 0 ? 100 * chunk->weight / all : 0);
    text_table_cell(table, "%s", text_size((int64_t)chunk->kept_bytes, size));
    if (place) text_table_cell(table, "%d", place->slots);
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        text_table_cell(table, "%s",
                        c < partition->count - 1
                            ? text_size((int64_t)chunk->crossing[phase].bytes, size)
                            : "-");
}

/* "the largest stage has 27.0% of all flops, 1.08 of an even share" */
static void print_balance(const struct partition *partition, FILE *out) {
    double largest, all = all_weight(partition, &largest);
    if (all <= 0) return;
    fprintf(out, "  %s: the largest stage has %.1f%% of all %s, %.2f times an even share\n",
            partition->rule != PIPE_OFF ? "cut by --auto-pipe"
            : partition->named          ? "cut by name"
                                        : "balance",
            100 * largest / all, balance_name(partition->balance),
            largest * partition->count / all);
}

static void print_tied(const struct partition *partition, const struct needs *needs, FILE *out) {
    const struct graph *graph = partition->graph;
    for (int p = 0; p < graph->param_count; p++) {
        int holders = 0;
        for (int c = 0; c < partition->count; c++)
            holders += needs_value(&needs[c], graph, graph->params[p].value);
        if (holders < 2) continue;
        shown_print(out, "  tied: %s is in stages", graph->params[p].name);
        for (int c = 0; c < partition->count; c++) {
            if (!needs_value(&needs[c], graph, graph->params[p].value)) continue;
            fprintf(out, " %d%s", c, --holders > 0 ? "," : "\n");
        }
    }
}

/* A long pipeline is shown by its ends. */
static bool is_shown(const struct partition *partition, int c) {
    enum { MOST = 20, LAST = 2 };
    return partition->count <= MOST || c < MOST - LAST - 1 || c >= partition->count - LAST;
}

static void add_chunks(const struct partition *partition, const struct partition_place *places,
                       const struct layer_list *layers, bool ends, struct text_table *table) {
    double largest, all = all_weight(partition, &largest);
    bool left_out = false;
    for (int c = 0; c < partition->count; c++) {
        if (is_shown(partition, c))
            add_chunk(partition, c, places ? &places[c] : NULL, layers, ends, all, table);
        else if (!left_out)
            for (size_t i = 0; i < strlen(table->align); i++)
                text_table_cell(table, "%s", i ? "" : "...");
        left_out |= !is_shown(partition, c);
    }
}

void partition_print(const struct partition *partition, const struct partition_place *places,
                     FILE *out) {
    struct layer_list layers = layers_of(partition->graph);
    SCOPED_FREE struct needs *needs = partition_needs(partition);
    bool ends = shows_last(partition, places != NULL, &layers);
    struct text_table table = {.align = places ? ends ? "rrllrrrrrr" : "rrlrrrrrr"
                                        : ends ? "rllrrrrrr"
                                               : "rlrrrrrr"};
    add_titles(partition, places != NULL, ends, &table);
    add_chunks(partition, places, &layers, ends, &table);
    text_table_print(&table, 2, out);
    text_table_free(&table);
    layers_free(&layers);
    print_balance(partition, out);
    if (places)
        fputs(
            "  kept: bytes of a micro-batch until its backward; slots: micro-batches kept\n"
            "  sent on: bytes of a micro-batch to the next stage; back: of gradients from there\n",
            out);
    print_tied(partition, needs, out);
    for (int c = 0; c < partition->count; c++) needs_free(&needs[c]);
}
