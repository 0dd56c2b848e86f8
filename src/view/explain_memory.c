/* See explain_memory.h. */
#include "view/explain_memory.h"

#include <stdlib.h>

#include "base/text.h"
#include "view/explain.h"

#define row(out, name, ...) text_row(out, name, EXPLAIN_NAME_COLUMNS, __VA_ARGS__)

static int by_bytes(const void *a, const void *b) {
    size_t one = ((const struct memory_part *)a)->bytes,
           other = ((const struct memory_part *)b)->bytes;
    return (one < other) - (one > other);
}

/* Keys of JSON have no spaces. */
static const char *part_name(const struct memory_part *part, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", part->name);
    for (char *c = text; *c; c++)
        if (*c == '_') *c = ' ';
    return text;
}

/* Of the rank that needs most. The largest first; what is less than a hundredth together. */
static void print_memory(const struct planned_run *planned, FILE *out) {
    enum { MOST_PARTS = 32 };
    struct memory_part part[MOST_PARTS];
    char size[TEXT_BYTES], name[TEXT_BYTES], parts[1024] = "", of[TEXT_BYTES] = "";
    int count = 0, used = 0, rank;
    const struct memory_estimate *estimate = planned_largest(planned, &rank);
    while (count < MOST_PARTS && memory_part(estimate, count, &part[count])) count++;
    qsort(part, (size_t)count, sizeof part[0], by_bytes);
    size_t all = memory_sum(estimate), rest = all;
    for (int i = 0; i < count && part[i].bytes >= all / 100; rest -= part[i++].bytes)
        used += snprintf(parts + used, sizeof parts - (size_t)used, "%s %s %s", i ? "," : "",
                         part_name(&part[i], name, sizeof name),
                         text_size((int64_t)part[i].bytes, size));
    if (rest > 0)
        snprintf(parts + used, sizeof parts - (size_t)used, ", other %s",
                 text_size((int64_t)rest, size));
    if (planned->position)
        snprintf(of, sizeof of, " of rank %d", rank);
    else if (planned->plan->config.ranks > 1)
        snprintf(of, sizeof of, " of a rank");
    row(out, "memory", "%s predicted peak%s:%s", text_size((int64_t)all, size), of, parts);
}

/* Ranks that train are on this machine, whatever --cluster describes. */
static void print_machine(const struct planned_run *planned, FILE *out) {
    char size[TEXT_BYTES];
    bool here = !planned->costs->cluster || planned->costs->simulated ||
                planned->options.command == COMMAND_TRAIN;
    if (planned->local_ranks > 1 && here)
        row(out, "machine", "%s for the %d ranks of this machine",
            text_size((int64_t)planned_machine_bytes(planned), size), planned->local_ranks);
}

/* Of ranks that are not alike. */
static void print_positions(const struct planned_run *planned, FILE *out) {
    enum { SHOWN = 16 };
    int positions = planned->plan->config.grid.stages;
    char text[SHOWN * (TEXT_BYTES + 24)] = "", size[TEXT_BYTES];
    if (!planned->position) return;
    for (int p = 0, used = 0; p < positions && p < SHOWN; p++)
        used += snprintf(text + used, sizeof text - (size_t)used, "%s rank %d %s", p ? "," : "",
                         group_rank(&planned->plan->config.grid, GROUP_PIPELINE, 0, p),
                         text_size((int64_t)planned_position_bytes(planned, p), size));
    char driver[TEXT_BYTES + 16] = "";
    if (planned->plan->config.grid.drivers > 0)
        snprintf(driver, sizeof driver, "; of the driver %s",
                 text_size((int64_t)planned_position_bytes(planned, positions), size));
    row(out, "peaks", "predicted, of the ranks of a pipeline:%s%s%s", text,
        positions > SHOWN ? " ..." : "", driver);
}

void explain_print_memory(const struct planned_run *planned, FILE *out) {
    print_memory(planned, out);
    print_positions(planned, out);
    print_machine(planned, out);
}

json_t *explain_memory_json(const struct planned_run *planned) {
    struct memory_part part;
    int rank;
    const struct memory_estimate *estimate = planned_largest(planned, &rank);
    json_t *parts = json_object();
    for (int i = 0; memory_part(estimate, i, &part); i++)
        json_object_set_new(parts, part.name, json_integer((json_int_t)part.bytes));
    return parts;
}

/* Every part of the peak, and their sum. */
static void show_estimate(const struct planned_run *planned, FILE *out) {
    SCOPED(text_table_free) struct text_table table = {.align = "lrl"};
    struct memory_part part;
    char size[TEXT_BYTES], name[64];
    int rank;
    const struct memory_estimate *estimate = planned_largest(planned, &rank);
    for (int i = 0; memory_part(estimate, i, &part); i++) {
        text_table_cell(&table, "%s", part_name(&part, name, sizeof name));
        text_table_cell(&table, "%s", text_size((int64_t)part.bytes, size));
        text_table_cell(&table, "%s", part.doc);
    }
    text_table_cell(&table, "predicted peak");
    text_table_cell(&table, "%s", text_size((int64_t)memory_sum(estimate), size));
    text_table_cell(&table, "the sum, of rank %d", rank);
    text_table_print(&table, 2, out);
}

void explain_show_memory(const struct planned_run *planned, FILE *out) {
    const struct plan *plan = planned->plan;
    enum { MEMORY_LINES = 40 };
    char arena[TEXT_BYTES], shared[TEXT_BYTES], live[TEXT_BYTES];
    show_estimate(planned, out);
    if (plan->chunk_count == 0) return; /* a driver has no activations */
    const struct placement *placement = plan_placement(plan, &plan->micro[0], 0, 0);
    if (plan->config.ranks > 1) fprintf(out, "  activations of rank %d:\n", plan->config.rank);
    fprintf(out, "  arena of a slot %s%s%s; most bytes of a micro-batch alive at once %s\n",
            text_size((int64_t)placement->slot_bytes, arena),
            plan->shared_bytes ? ", shared by all slots " : "",
            plan->shared_bytes ? text_size((int64_t)plan->shared_bytes, shared) : "",
            text_size((int64_t)placement->live_bytes, live));
    placement_print(placement, out, MEMORY_LINES);
}
