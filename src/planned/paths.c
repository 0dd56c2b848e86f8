/* See paths.h. What is relative counts from the working folder, as everywhere on a command line; so
 * a run that writes its options down must say where that was. Links are kept: whoever names
 * data/latest means what it will point to. */
#include "planned/paths.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "cost/cluster.h"
#include "cost/hetero.h"
#include "data/dataset.h"
#include "data/input.h"

enum form { FORM_PATH, FORM_LIST, FORM_DATA, FORM_INPUT, FORM_LAWS, FORM_CLUSTER };

static const struct {
    enum option_id id;
    enum form form;
} rows[] = {
    {OPTION_input, FORM_INPUT}, /* before the data, for which it may stand */
    {OPTION_data, FORM_DATA},      {OPTION_weights, FORM_PATH},    {OPTION_placement, FORM_PATH},
    {OPTION_hostfile, FORM_PATH},  {OPTION_nodes_file, FORM_PATH}, {OPTION_key, FORM_PATH},
    {OPTION_program, FORM_PATH},   {OPTION_profile, FORM_LIST},    {OPTION_cluster, FORM_CLUSTER},
    {OPTION_deepspeed, FORM_PATH}, {OPTION_config, FORM_PATH},     {OPTION_hetero, FORM_LAWS},
    {OPTION_course, FORM_PATH},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int row_of(enum option_id id) {
    for (int i = 0; i < ROWS; i++)
        if (rows[i].id == id) return i;
    return -1;
}

bool paths_are_read(enum option_id id) {
    return row_of(id) >= 0;
}

/* --- what a text names --- */

struct each {
    enum status (*visit)(void *context, const char *path, const char *label);
    void *context;
    const char *label;
    enum status status;
};

static void visit_one(void *context, const char *path) {
    struct each *each = context;
    if (each->status == STATUS_OK && *path)
        each->status = each->visit(each->context, path, each->label);
}

static void visit_list(struct each *each, const char *text) {
    char *copy = mem_text(text), *rest = copy, *one;
    while ((one = strsep(&rest, ","))) visit_one(each, one);
    free(copy);
}

static void visit_laws(struct each *each, const char *text) {
    char *trace = hetero_trace_path(text);
    if (trace) visit_one(each, trace);
    free(trace);
}

static void visit_text(struct each *each, enum form form, const char *text) {
    if (form == FORM_INPUT) form = input_is_file(text) ? FORM_LIST : FORM_DATA;
    if (form == FORM_CLUSTER && cluster_is_word(text)) return;
    if (form == FORM_LIST)
        visit_list(each, text);
    else if (form == FORM_LAWS)
        visit_laws(each, text);
    else if (form == FORM_DATA)
        dataset_paths(text, visit_one, each);
    else
        visit_one(each, text);
}

/* Those that are no options: the last of tokens is where it writes. */
static void visit_arguments(struct each *each, const struct options *options) {
    int count = options->argument_count;
    if (options->command & COMMAND_TOKENS) count--;
    if (!(options->command & (COMMAND_TOKENS | COMMAND_EVAL | COMMAND_PREDICT | COMMAND_COMPARE)))
        return;
    each->label = option_commands[__builtin_ctz(options->command)].name;
    for (int i = 0; i < count; i++) visit_one(each, options->argument[i]);
}

enum status paths_each_input(const struct options *options,
                             enum status (*visit)(void *context, const char *path,
                                                  const char *label),
                             void *context) {
    struct each each = {.visit = visit, .context = context};
    for (int i = 0; i < ROWS && each.status == STATUS_OK; i++) {
        const char *text = option_string(options, rows[i].id);
        char *label = mem_format("--%s", option_rows[rows[i].id].name);
        each.label = label;
        if (text) visit_text(&each, rows[i].form, text);
        free(label);
    }
    visit_arguments(&each, options);
    return each.status;
}

/* --- from the root --- */

static char *absolute_list(const char *text) {
    char *copy = mem_text(text), *rest = copy, *one, *all = mem_text("");
    for (int i = 0; (one = strsep(&rest, ",")); i++) {
        char *path = file_absolute(one), *longer = mem_format("%s%s%s", all, i ? "," : "", path);
        free(path);
        free(all);
        all = longer;
    }
    free(copy);
    return all;
}

static char *absolute(enum form form, const char *text) {
    if (form == FORM_INPUT) form = input_is_file(text) ? FORM_LIST : FORM_DATA;
    if (form == FORM_CLUSTER && cluster_is_word(text)) return mem_text(text);
    if (form == FORM_LIST) return absolute_list(text);
    if (form == FORM_LAWS) return hetero_absolute(text);
    return form == FORM_DATA ? dataset_absolute(text) : file_absolute(text);
}

char *paths_text(const struct options *options, enum option_id id) {
    int row = row_of(id);
    const char *text = row >= 0 ? option_string(options, id) : NULL;
    return text && *text ? absolute(rows[row].form, text) : option_text(options, id);
}

void paths_make_absolute(struct options *options, struct arena *arena) {
    for (int i = 0; i < ROWS; i++) {
        const char *text = option_string(options, rows[i].id);
        if (!text || !*text) continue;
        SCOPED_FREE char *whole = absolute(rows[i].form, text);
        const char *kept = arena_text(arena, whole);
        memcpy((char *)options + option_rows[rows[i].id].field, &kept, sizeof kept);
    }
}

bool paths_same(const struct options *a, const struct options *b, enum option_id id) {
    SCOPED_FREE char *one = paths_text(a, id), *other = paths_text(b, id);
    return strcmp(one, other) == 0 || file_is_same(one, other);
}
