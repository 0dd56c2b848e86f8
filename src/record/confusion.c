/* See confusion.h. */
#include "record/confusion.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { SCREEN_CLASSES = 20, SHOWN = 10, NAME_WIDTH = 24, SHORT_NAME = 8 };

int64_t confusion_count(int64_t classes) {
    return 3 * classes + (classes <= CONFUSION_MOST ? classes * classes : 0);
}

void confusion_new(int64_t classes, const char *const *names, int64_t named,
                   struct confusion *out) {
    int64_t *numbers = MEM_ARRAY(int64_t, confusion_count(classes));
    *out = (struct confusion){.classes = classes,
                              .samples = numbers,
                              .taken = numbers + classes,
                              .right = numbers + 2 * classes,
                              .pairs = classes <= CONFUSION_MOST ? numbers + 3 * classes : NULL,
                              .names = names,
                              .named = names ? named : 0};
}

void confusion_free(struct confusion *confusion) {
    free(confusion->samples);
    *confusion = (struct confusion){0};
}

void confusion_add(struct confusion *confusion, int64_t label, int64_t taken) {
    confusion->samples[label]++;
    confusion->taken[taken]++;
    confusion->right[label] += label == taken;
    if (confusion->pairs) confusion->pairs[label * confusion->classes + taken]++;
}

int64_t *confusion_numbers(const struct confusion *confusion) {
    return confusion->samples;
}

static double share(int64_t part, int64_t whole) {
    return whole > 0 ? (double)part / (double)whole : NAN;
}

static double recall_of(const struct confusion *confusion, int64_t class) {
    return share(confusion->right[class], confusion->samples[class]);
}

static double precision_of(const struct confusion *confusion, int64_t class) {
    return share(confusion->right[class], confusion->taken[class]);
}

/* "7", or its name. */
static const char *name_of(const struct confusion *confusion, int64_t class, int width,
                           char text[2 * NAME_WIDTH]) {
    if (class < confusion->named)
        snprintf(text, 2 * NAME_WIDTH, "%.*s", width, confusion->names[class]);
    else
        snprintf(text, 2 * NAME_WIDTH, "%lld", (long long)class);
    return text;
}

static void share_cell(struct text_table *table, double value) {
    if (isnan(value))
        text_table_cell(table, "-");
    else
        text_table_cell(table, "%.2f%%", value * 100);
}

static void class_row(const struct confusion *confusion, int64_t class, struct text_table *table) {
    char name[2 * NAME_WIDTH];
    text_table_cell(table, "%s", name_of(confusion, class, NAME_WIDTH, name));
    text_table_cell(table, "%lld", (long long)confusion->samples[class]);
    text_table_cell(table, "%lld", (long long)confusion->right[class]);
    share_cell(table, recall_of(confusion, class));
    share_cell(table, precision_of(confusion, class));
}

static void class_heads(struct text_table *table) {
    static const char *const heads[] = {"class", "samples", "right", "recall", "precision"};
    for (int i = 0; i < 5; i++) text_table_cell(table, "%s", heads[i]);
}

static void print_classes(const struct confusion *confusion, FILE *out) {
    SCOPED(text_table_free) struct text_table table = {.align = "lrrrr"};
    class_heads(&table);
    for (int64_t c = 0; c < confusion->classes; c++) class_row(confusion, c, &table);
    text_table_print(&table, 0, out);
}

static void print_pairs(const struct confusion *confusion, FILE *out) {
    char align[SCREEN_CLASSES + 2] = "l", name[2 * NAME_WIDTH];
    memset(align + 1, 'r', (size_t)confusion->classes);
    align[confusion->classes + 1] = 0;
    SCOPED(text_table_free) struct text_table table = {.align = align};
    fputs("\nconfusion: rows are the labels, columns what they were taken for\n", out);
    text_table_cell(&table, "%s", "");
    for (int64_t c = 0; c < confusion->classes; c++)
        text_table_cell(&table, "%s", name_of(confusion, c, SHORT_NAME, name));
    for (int64_t l = 0; l < confusion->classes; l++) {
        text_table_cell(&table, "%s", name_of(confusion, l, NAME_WIDTH, name));
        for (int64_t c = 0; c < confusion->classes; c++) {
            int64_t count = confusion->pairs[l * confusion->classes + c];
            if (count)
                text_table_cell(&table, "%lld", (long long)count);
            else
                text_table_cell(&table, ".");
        }
    }
    text_table_print(&table, 0, out);
}

/* --- of many classes --- */

/* The next by `worse` among those not shown yet; -1: there is none. */
static int64_t next_of(const struct confusion *confusion, int64_t count, const bool *shown,
                       double (*figure)(const struct confusion *, int64_t)) {
    int64_t best = -1;
    for (int64_t i = 0; i < count; i++) {
        double value = shown[i] ? NAN : figure(confusion, i);
        if (!isnan(value) && (best < 0 || value > figure(confusion, best))) best = i;
    }
    return best;
}

static double missed(const struct confusion *confusion, int64_t class) {
    return 1 - recall_of(confusion, class); /* NaN: it has no samples */
}

static double mistaken(const struct confusion *confusion, int64_t pair) {
    bool right = pair / confusion->classes == pair % confusion->classes;
    return right || confusion->pairs[pair] == 0 ? NAN : (double)confusion->pairs[pair];
}

static void print_worst(const struct confusion *confusion, FILE *out) {
    SCOPED(text_table_free) struct text_table table = {.align = "lrrrr"};
    SCOPED_FREE bool *shown = MEM_ARRAY(bool, confusion->classes);
    fprintf(out, "\nthe %d classes with the lowest recall, of %lld\n", SHOWN,
            (long long)confusion->classes);
    class_heads(&table);
    for (int i = 0; i < SHOWN; i++) {
        int64_t class = next_of(confusion, confusion->classes, shown, missed);
        if (class < 0) break;
        shown[class] = true;
        class_row(confusion, class, &table);
    }
    text_table_print(&table, 0, out);
}

static void print_mistakes(const struct confusion *confusion, FILE *out) {
    SCOPED(text_table_free) struct text_table table = {.align = "llr"};
    int64_t count = confusion->classes * confusion->classes;
    SCOPED_FREE bool *shown = MEM_ARRAY(bool, count);
    char name[2 * NAME_WIDTH];
    fputs("\nthe most frequent mistakes\n", out);
    text_table_cell(&table, "label"), text_table_cell(&table, "taken for"),
        text_table_cell(&table, "samples");
    for (int i = 0; i < SHOWN; i++) {
        int64_t pair = next_of(confusion, count, shown, mistaken);
        if (pair < 0) break;
        shown[pair] = true;
        int64_t label = pair / confusion->classes, taken = pair % confusion->classes;
        text_table_cell(&table, "%s", name_of(confusion, label, NAME_WIDTH, name));
        text_table_cell(&table, "%s", name_of(confusion, taken, NAME_WIDTH, name));
        text_table_cell(&table, "%lld", (long long)confusion->pairs[pair]);
    }
    text_table_print(&table, 0, out);
}

void confusion_print(const struct confusion *confusion, FILE *out) {
    if (confusion->classes <= SCREEN_CLASSES) {
        print_classes(confusion, out);
        print_pairs(confusion, out);
        return;
    }
    print_worst(confusion, out);
    if (confusion->pairs) print_mistakes(confusion, out);
}

/* --- whole --- */

static json_t *share_json(double value) {
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *class_json(const struct confusion *confusion, int64_t class) {
    json_t *one = json_pack("{s:I, s:I, s:I, s:I}", "class", (json_int_t) class, "samples",
                            (json_int_t)confusion->samples[class], "predicted",
                            (json_int_t)confusion->taken[class], "right",
                            (json_int_t)confusion->right[class]);
    json_t *name = class < confusion->named ? json_string(confusion->names[class]) : NULL;
    json_object_set_new(one, "name", name ? name : json_null());
    json_object_set_new(one, "recall", share_json(recall_of(confusion, class)));
    json_object_set_new(one, "precision", share_json(precision_of(confusion, class)));
    return one;
}

json_t *confusion_json(const struct confusion *confusion) {
    json_t *classes = json_array(), *rows = confusion->pairs ? json_array() : json_null();
    for (int64_t c = 0; c < confusion->classes; c++) {
        json_array_append_new(classes, class_json(confusion, c));
        json_t *row = confusion->pairs ? json_array() : NULL;
        for (int64_t i = 0; row && i < confusion->classes; i++)
            json_array_append_new(row, json_integer(confusion->pairs[c * confusion->classes + i]));
        if (row) json_array_append_new(rows, row);
    }
    return json_pack("{s:o, s:o}", "classes", classes, "confusion", rows);
}

/* Quoted where a comma or a quote would be taken for our own. */
static void csv_text(const char *text, FILE *out) {
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
    fputc('"', out);
}

static void csv_share(double value, FILE *out) {
    if (isnan(value))
        fputc(',', out);
    else
        fprintf(out, ",%.17g", value);
}

void confusion_csv(const struct confusion *confusion, FILE *out) {
    fputs("class,name,samples,right,recall,precision", out);
    for (int64_t c = 0; confusion->pairs && c < confusion->classes; c++)
        fprintf(out, ",predicted_%lld", (long long)c);
    fputc('\n', out);
    for (int64_t l = 0; l < confusion->classes; l++) {
        fprintf(out, "%lld,", (long long)l);
        csv_text(l < confusion->named ? confusion->names[l] : "", out);
        fprintf(out, ",%lld,%lld", (long long)confusion->samples[l],
                (long long)confusion->right[l]);
        csv_share(recall_of(confusion, l), out);
        csv_share(precision_of(confusion, l), out);
        for (int64_t c = 0; confusion->pairs && c < confusion->classes; c++)
            fprintf(out, ",%lld", (long long)confusion->pairs[l * confusion->classes + c]);
        fputc('\n', out);
    }
}
