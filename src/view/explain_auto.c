/* See explain_auto.h. */
#include "view/explain_auto.h"

#include "base/text.h"

static const char *time_text(const struct choice *choice, double time, char text[TEXT_BYTES]) {
    if (!choice->units) return text_duration(time * 1e-9, text);
    snprintf(text, TEXT_BYTES, "%.6g", time);
    return text;
}

static void print_row(const struct choice *choice, const struct choice_row *row, const char *note,
                      struct text_table *table) {
    char text[TEXT_BYTES];
    text_table_cell(table, "%s", row->name);
    text_table_cell(table, "%d%s", row->chunks, row->v_shape ? " in a V" : "");
    text_table_cell(table, "%s", time_text(choice, row->step_ns, text));
    text_table_cell(table, "%.1f%%", 100 * row->bubble);
    text_table_cell(table, "%s", text_size(row->peak_bytes, text));
    text_table_cell(table, "%s", note);
}

void explain_auto_print(const struct choice *choice, FILE *out) {
    static const char *const titles[] = {"schedule", "stages a rank", "step",
                                         "bubble",   "activations",   "result"};
    enum { SHOWN = 8 };
    struct text_table table = {.align = "lrrrrl"};
    char others[TEXT_BYTES];
    if (!choice->row_count) return;
    text_row(out, "auto", 11,
             "the fastest of %d orders that fits, by the costs of stages and messages",
             choice->row_count);
    for (int i = 0; i < 6; i++) text_table_cell(&table, "%s", titles[i]);
    for (int i = 0; i < choice->row_count && i < SHOWN; i++) {
        const struct choice_row *row = &choice->row[i];
        print_row(choice, row, i == 0 ? "taken" : row->fits ? "fits" : "does not fit", &table);
    }
    text_table_print(&table, 2, out);
    text_table_free(&table);
    if (choice->row_count > SHOWN)
        fprintf(out, "  and %s, slower: --json lists all\n",
                text_count(choice->row_count - SHOWN, "other", others));
}

json_t *explain_auto_json(const struct choice *choice) {
    json_t *list = json_array();
    for (int i = 0; i < choice->row_count; i++) {
        const struct choice_row *row = &choice->row[i];
        json_array_append_new(list, json_pack("{s:s, s:i, s:b, s:b, s:f, s:f, s:I}", "schedule",
                                              row->name, "chunks", row->chunks, "v_shape",
                                              row->v_shape, "fits", row->fits, "step", row->step_ns,
                                              "bubble", row->bubble, "activation_bytes",
                                              (json_int_t)row->peak_bytes));
    }
    return list;
}
