/* What the public library does with arguments that cannot be: refused with a text, never a crash.
 * The calls are rows of arguments.def; here is what they are called with, and the comparison of the
 * rows with the header, so that a function or an argument that is added gets its rows too. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/api.h"
#include "base/file.h"
#include "stretto.h"

enum { PIXELS = 12, CLASSES = 3, FIELDS = 3 };

enum kind { KIND_RUN, KIND_COUNT, KIND_MAIN, KIND_BUILD, KIND_ALONE, KIND_FINE, KIND_FINE_BUILD };

struct row {
    int line;
    enum kind kind;
    const char *function, *arguments;
};

#define RUN(function, ...) {__LINE__, KIND_RUN, #function, #__VA_ARGS__},
#define COUNT(function, ...) {__LINE__, KIND_COUNT, #function, #__VA_ARGS__},
#define MAIN(function, ...) {__LINE__, KIND_MAIN, #function, #__VA_ARGS__},
#define BUILD(function, ...) {__LINE__, KIND_BUILD, #function, #__VA_ARGS__},
#define ALONE(function, ...) {__LINE__, KIND_ALONE, #function, #__VA_ARGS__},
#define FINE(function, ...) {__LINE__, KIND_FINE, #function, #__VA_ARGS__},
#define FINE_BUILD(function, ...) {__LINE__, KIND_FINE_BUILD, #function, #__VA_ARGS__},
static const struct row rows[] = {
#include "arguments.def"
};
#undef RUN
#undef COUNT
#undef MAIN
#undef BUILD
#undef ALONE
#undef FINE
#undef FINE_BUILD
enum { ROWS = sizeof rows / sizeof rows[0] };

/* --- a model and a data set that are whole --- */

static int read_sample(void *context, int split, int64_t index, uint64_t key, void *const out[]) {
    (void)context, (void)split, (void)key;
    for (int i = 0; i < PIXELS; i++) ((float *)out[0])[i] = (float)((index + i) % 5);
    for (int i = 0; i < 2 * 4 * 4; i++) ((float *)out[1])[i] = 0;
    *(int32_t *)out[2] = (int32_t)(index % CLASSES);
    return 0;
}

static const struct stretto_field data_fields[FIELDS] = {
    {.name = "x", .dtype = STRETTO_F32, .rank = 1, .dim = {PIXELS}},
    {.name = "image", .dtype = STRETTO_F32, .rank = 3, .dim = {2, 4, 4}},
    {.name = "kind", .dtype = STRETTO_I32, .label = 1, .limit = CLASSES}};

#define DATA                                                                                       \
    .size = sizeof(struct stretto_data), .name = "whole", .fields = data_fields,                   \
    .field_count = FIELDS, .train_count = 40, .test_count = 10, .classes = CLASSES,                \
    .read = read_sample

static const struct stretto_data data = {DATA};

static int sum_shape(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out[0] = (struct stretto_type){.dtype = STRETTO_F64};
    return 0;
}

static int endless(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out[0] = (struct stretto_type){.rank = 2, .dim = {INT64_MAX, INT64_MAX}};
    return 0;
}

static int of_odd_rank(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out[0].rank = INT_MAX;
    return 0;
}

static int of_many_outputs(struct stretto_call *call, char *why, size_t bytes) {
    (void)why, (void)bytes;
    call->out_count = INT_MAX;
    return 0;
}

static void same(const struct stretto_call *call, const void *const in[], void *const out[]) {
    memcpy(out[0], in[0], (size_t)stretto_elements(&call->in[0]) * sizeof(float));
}

static void sum_of(const struct stretto_call *call, const void *const in[], void *const out[]) {
    (void)call, (void)in;
    *(double *)out[0] = 0;
}

static const struct stretto_op op = {.size = sizeof op, .name = "same", .forward = same},
                               sum_op = {.size = sizeof sum_op,
                                         .name = "sum",
                                         .shape = sum_shape,
                                         .forward = sum_of};

static float map(float x, float *slope) {
    *slope = 1;
    return x;
}

static float map_loss(float x, float wanted, float *slope) {
    *slope = 1;
    return x - wanted;
}

/* --- the rows, called --- */

struct values {
    stretto_value x, image, rows, kind, sum;
};

static const int64_t dims[] = {PIXELS};
static const int order[] = {1, 0};

/* A row's argument with one field other than it should be. */
#pragma GCC diagnostic ignored "-Woverride-init"
#define data_with(...) (&(struct stretto_data){DATA, __VA_ARGS__})
#define data_of(...)                                                                               \
    data_with(.name = "odd", .field_count = 1, .fields = &(struct stretto_field){__VA_ARGS__})
#define model_with(...) (&(struct stretto_model){MODEL, __VA_ARGS__})
#define op_with(...)                                                                               \
    (&(struct stretto_op){                                                                         \
        .size = sizeof(struct stretto_op), .name = "same", .forward = same, __VA_ARGS__})

static void build(struct stretto_graph *g, void *context);
#define MODEL .size = sizeof(struct stretto_model), .name = "whole", .build = build, .data = &data

#define IGNORE(...)
static void call_in_build(int line, struct stretto_graph *g, const struct values *v) {
    switch (line) {
#define CALL(function, ...)                                                                        \
    case __LINE__:                                                                                 \
        (void)function(__VA_ARGS__);                                                               \
        break;
#define RUN IGNORE
#define COUNT IGNORE
#define MAIN IGNORE
#define FINE IGNORE
#define BUILD CALL
#define ALONE CALL
#define FINE_BUILD CALL
#include "arguments.def"
    default: cr_assert_fail("line %d is no call of a build", line);
    }
}
#undef RUN
#undef COUNT
#undef MAIN
#undef FINE
#undef BUILD
#undef ALONE
#undef FINE_BUILD

/* What a row returns; 0 where that is not a number. */
static int64_t call_with_run(int line, struct stretto_run *r) {
    static const float values[64];
    static float output[CLASSES];
    const void *const fields[FIELDS] = {values, values, values};
    struct stretto_config config = {.size = sizeof config};
    struct stretto_run *other = NULL;
    switch (line) {
#define GIVES(function, ...)                                                                       \
    case __LINE__:                                                                                 \
        return function(__VA_ARGS__);
#define RUN GIVES
#define COUNT GIVES
#define MAIN GIVES
#define FINE(function, ...)                                                                        \
    case __LINE__:                                                                                 \
        (void)function(__VA_ARGS__);                                                               \
        return 0;
#define BUILD IGNORE
#define ALONE IGNORE
#define FINE_BUILD IGNORE
#include "arguments.def"
    default: cr_assert_fail("line %d is no call with a run", line);
    }
    (void)fields, (void)output, (void)config, (void)other;
    return 0;
}

/* The model, with the call of a row in it: the context is its line, 0: none. */
static void build(struct stretto_graph *g, void *context) {
    const int64_t parts[] = {stretto_batch(g), 4, 3};
    const int *line = context;
    struct values v = {.x = stretto_input(g, "x"),
                       .image = stretto_input(g, "image"),
                       .kind = stretto_input(g, "kind")};
    v.rows = stretto_reshape(g, "rows", v.x, 3, parts);
    v.sum = stretto_apply(g, "sum", &sum_op, NULL, 1, &v.x, NULL);
    if (line && *line) call_in_build(*line, g, &v);
    stretto_cross_entropy(g, "loss", stretto_linear(g, "fc", v.x, CLASSES), v.kind, 0);
}

static int open_model(const struct stretto_model *model, struct stretto_run **out) {
    struct stretto_config config = {.size = sizeof config,
                                    .words = "--device ref --threads 1 --batch 10 --steps 2",
                                    .model = model};
    return stretto_open(&config, out);
}

static void expect(const struct row *row, bool holds, int64_t code) {
    cr_expect(holds, "arguments.def:%d: %s(%s) gives %lld: \"%s\"", row->line, row->function,
              row->arguments, (long long)code, stretto_error());
}

static bool is_of_run(enum kind kind) {
    return kind == KIND_RUN || kind == KIND_COUNT || kind == KIND_MAIN || kind == KIND_FINE;
}

Test(run_arguments, calls_with_a_run_are_refused, .timeout = 120) {
    struct stretto_model model = {MODEL};
    struct stretto_run *run;
    struct stretto_step step = {.size = sizeof step};
    cr_assert_eq(open_model(&model, &run), 0, "%s", stretto_error());
    for (int i = 0; i < ROWS; i++) {
        if (!is_of_run(rows[i].kind)) continue;
        api_set_error("");
        int64_t code = call_with_run(rows[i].line, run);
        bool said = *stretto_error() || rows[i].kind == KIND_MAIN;
        if (rows[i].kind == KIND_COUNT)
            expect(&rows[i], code < 0 && said, code);
        else if (rows[i].kind != KIND_FINE)
            expect(&rows[i], code == STRETTO_USAGE && said, code);
    }
    cr_expect_eq(stretto_step(run, &step), 0, "the run goes on: %s", stretto_error());
    stretto_close(&run);
}

Test(run_arguments, calls_without_a_graph_are_refused) {
    const struct values v = {0};
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].kind != KIND_ALONE) continue;
        api_set_error("");
        call_in_build(rows[i].line, NULL, &v);
        expect(&rows[i], *stretto_error(), 0);
    }
}

Test(run_arguments, models_of_odd_calls_are_refused, .timeout = 300) {
    static int line;
    struct stretto_model model = {MODEL, .context = &line};
    for (int i = 0; i < ROWS; i++) {
        struct stretto_run *run = NULL;
        if (rows[i].kind != KIND_BUILD && rows[i].kind != KIND_FINE_BUILD) continue;
        line = rows[i].line;
        api_set_error("");
        int code = open_model(&model, &run);
        /* All calls were taken, and then nothing in the model reads what was made. */
        bool built = code == 0 || strstr(stretto_error(), "no influence on the loss");
        bool refused = code == STRETTO_USAGE && *stretto_error() && !built;
        expect(&rows[i], rows[i].kind == KIND_BUILD ? refused : built, code);
        stretto_close(&run);
    }
}

/* --- the rows, compared with the header --- */

/* The item-th part between commas that are in no bracket; false: there are fewer. */
static bool part_at(const char *list, int item, char *out, size_t bytes) {
    size_t used = 0;
    int depth = 0;
    if (!*list) return false;
    for (; *list && item >= 0; list++) {
        depth += strchr("({[", *list) != NULL;
        depth -= strchr(")}]", *list) != NULL;
        if (*list == ',' && depth == 0)
            item--;
        else if (item == 0 && used + 1 < bytes && (used || !isspace((unsigned char)*list)))
            out[used++] = *list;
    }
    out[used] = 0;
    return item <= 0;
}

static bool is_extreme(const char *text) {
    return *text == '-' || strstr(text, "_MAX") || strstr(text, "_MIN") ||
           strspn(text, "0123456789") > 9;
}

static bool has_row(const char *function, int item, bool pointer) {
    char part[256];
    for (int i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].function, function) != 0) continue;
        if (item < 0) return true;
        if (!part_at(rows[i].arguments, item, part, sizeof part)) continue;
        if (pointer ? strcmp(part, "NULL") == 0 : is_extreme(part)) return true;
    }
    return false;
}

static void compare(const char *function, const char *parameters) {
    char part[256];
    cr_expect(has_row(function, -1, false), "arguments.def has no row of %s", function);
    for (int i = 0; part_at(parameters, i, part, sizeof part); i++) {
        bool pointer = strpbrk(part, "*[") != NULL;
        if (strcmp(part, "void") == 0) continue;
        if (!pointer && (strstr(part, "float ") || strstr(part, "double "))) continue;
        cr_expect(has_row(function, i, pointer), "arguments.def has no row of %s with %s as \"%s\"",
                  function, pointer ? "NULL" : "the least or greatest value", part);
    }
}

/* Every declaration: STRETTO_API, a type, a name, parameters. Returns their number. */
static int compare_header(const char *path) {
    struct bytes text;
    int count = 0;
    cr_assert_eq(file_read(path, 1 << 20, &text), STATUS_OK);
    for (char *at = (char *)text.data; (at = strstr(at, "\nSTRETTO_API "));) {
        char function[64], parameters[1024];
        at = strstr(at, "stretto_");
        while (at[strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '(')
            at = strstr(at + 1, "stretto_");
        int length = (int)strcspn(at, "(");
        snprintf(function, sizeof function, "%.*s", length, at);
        snprintf(parameters, sizeof parameters, "%.*s", (int)(strstr(at, ");") - at - length - 1),
                 at + length + 1);
        compare(function, parameters);
        count++;
    }
    bytes_free(&text);
    return count;
}

Test(run_arguments, every_argument_of_the_header_has_its_rows) {
    int count = compare_header("include/stretto.h") + compare_header("include/stretto_own.h");
    cr_expect_geq(count, 58, "%d functions", count);
}
