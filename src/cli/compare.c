/* stretto compare A.safetensors B.safetensors.
 *
 * Equal means equal to the last bit: 0 and -0 differ, a NaN equals itself. The size of the
 * differences is shown where the type is one of ours, of floating point types first: counters
 * differ by much and mean little. A difference that has no size (NaN or infinity against anything
 * else) counts as infinite, so that it comes first. Other types are compared by bytes.
 * Tensors are read in pieces, so two files larger than memory can be compared. */
#include "cli/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/shown.h"
#include "base/text.h"
#include "cli/cli.h"
#include "exec/weights.h"
#include "tensor/shards.h"

enum { PIECE_BYTES = 1 << 20 }; /* a multiple of every element's size */

/* Two tensors of one name; either may be missing. */
struct pair {
    const struct safetensors_entry *a, *b;
    size_t index_a, index_b;
    uint64_t elements, differing;
    bool sized; /* the differences have a size: the four below are set */
    bool whole; /* of integers */
    double max_abs, max_rel;
    uint64_t place; /* element of the largest difference, or the first that differs */
    double value_a, value_b;
};

/* The findings, by kind; pairs of equal tensors are only counted. */
struct findings {
    const char *path_a, *path_b;
    struct pair *only_a, *only_b, *unlike, *differ;
    size_t only_a_count, only_b_count, unlike_count, differ_count, equal_count;
};

static bool is_whole(enum dtype dtype) {
    return dtype == DTYPE_I32 || dtype == DTYPE_I64 || dtype == DTYPE_U8;
}

/* Takes in one differing element. */
static void add_sized(struct pair *pair, uint64_t place, double a, double b) {
    bool strange = !isfinite(a) || !isfinite(b);
    double abs_difference = strange ? INFINITY : fabs(a - b);
    double larger = fmax(fabs(a), fabs(b));
    double relative = strange ? INFINITY : larger > 0 ? abs_difference / larger : 0;
    if (relative > pair->max_rel) pair->max_rel = relative;
    if (pair->differing > 1 && abs_difference <= pair->max_abs) return;
    pair->max_abs = abs_difference;
    pair->place = place;
    pair->value_a = a;
    pair->value_b = b;
}

static void compare_piece(struct pair *pair, enum dtype dtype, uint64_t first, size_t width,
                          const unsigned char *a, const unsigned char *b, size_t bytes) {
    if (memcmp(a, b, bytes) == 0) return;
    for (size_t at = 0; at < bytes; at += width) {
        if (memcmp(a + at, b + at, width) == 0) continue;
        uint64_t place = first + at / width;
        pair->differing++;
        if (pair->sized)
            add_sized(pair, place, dtype_value(dtype, a + at), dtype_value(dtype, b + at));
        else if (pair->differing == 1)
            pair->place = place;
    }
}

/* Compares the data of two tensors of the same type and shape. `piece` has room for a piece of
 * each. */
static enum status compare_data(const struct shards *a, const struct shards *b,
                                unsigned char *piece, struct pair *pair) {
    size_t width = pair->a->bits % 8 == 0 ? (size_t)pair->a->bits / 8 : 1;
    enum dtype dtype = DTYPE_COUNT;
    pair->elements = pair->a->bytes / width;
    pair->sized = dtype_from_safetensors(pair->a->type, &dtype);
    pair->whole = pair->sized && is_whole(dtype);
    for (uint64_t done = 0; done < pair->a->bytes; done += PIECE_BYTES) {
        uint64_t left = pair->a->bytes - done;
        size_t bytes = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        TRY(shards_read_part(a, pair->index_a, done, piece, bytes));
        TRY(shards_read_part(b, pair->index_b, done, piece + PIECE_BYTES, bytes));
        compare_piece(pair, dtype, done / width, width, piece, piece + PIECE_BYTES, bytes);
    }
    return STATUS_OK;
}

static bool alike(const struct safetensors_entry *a, const struct safetensors_entry *b) {
    return !strcmp(a->type, b->type) && a->rank == b->rank &&
           memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

/* Walks the tensors of A: each is equal, or goes to one of three lists. */
static enum status find_in_a(const struct shards *a, const struct shards *b, unsigned char *piece,
                             struct findings *found) {
    for (size_t i = 0; i < shards_count(a); i++) {
        struct pair pair = {.a = shards_at(a, i), .index_a = i};
        if (!shards_find(b, pair.a->name, &pair.index_b)) {
            found->only_a[found->only_a_count++] = pair;
            continue;
        }
        pair.b = shards_at(b, pair.index_b);
        if (!alike(pair.a, pair.b)) {
            found->unlike[found->unlike_count++] = pair;
            continue;
        }
        TRY(compare_data(a, b, piece, &pair));
        if (pair.differing > 0)
            found->differ[found->differ_count++] = pair;
        else
            found->equal_count++;
    }
    return STATUS_OK;
}

static void find_in_b(const struct shards *a, const struct shards *b, struct findings *found) {
    size_t index;
    for (size_t i = 0; i < shards_count(b); i++) {
        const struct safetensors_entry *entry = shards_at(b, i);
        if (!shards_find(a, entry->name, &index))
            found->only_b[found->only_b_count++] = (struct pair){.b = entry, .index_b = i};
    }
}

/* Largest difference first, of floats before integers; those without a size after them, the most
 * differing elements first. */
static int compare_pairs(const void *left, const void *right) {
    const struct pair *x = left, *y = right;
    if (x->sized != y->sized) return x->sized ? -1 : 1;
    if (x->whole != y->whole) return x->whole ? 1 : -1;
    if (x->sized && x->max_abs != y->max_abs) return x->max_abs > y->max_abs ? -1 : 1;
    if (x->differing != y->differing) return x->differing > y->differing ? -1 : 1;
    return strcmp(x->a->name, y->a->name);
}

static enum status find_all(const struct shards *a, const struct shards *b,
                            struct findings *found) {
    found->only_a = MEM_ARRAY(struct pair, shards_count(a) + 1);
    found->unlike = MEM_ARRAY(struct pair, shards_count(a) + 1);
    found->differ = MEM_ARRAY(struct pair, shards_count(a) + 1);
    found->only_b = MEM_ARRAY(struct pair, shards_count(b) + 1);
    unsigned char *piece = mem_new(2 * PIECE_BYTES);
    enum status status = find_in_a(a, b, piece, found);
    find_in_b(a, b, found);
    if (found->differ_count > 1)
        qsort(found->differ, found->differ_count, sizeof *found->differ, compare_pairs);
    free(piece);
    return status;
}

static void findings_free(struct findings *found) {
    free(found->only_a);
    free(found->only_b);
    free(found->unlike);
    free(found->differ);
}

static bool all_equal(const struct findings *found) {
    return found->only_a_count + found->only_b_count + found->unlike_count + found->differ_count ==
           0;
}

/* The row-major index of an element, [] for a scalar. Sub-byte types have no such thing: their
 * byte. */
static size_t unravel(const struct pair *pair, int64_t *index, size_t room) {
    if (pair->a->bits % 8 != 0 || pair->a->rank > room) {
        index[0] = (int64_t)pair->place;
        return 1;
    }
    uint64_t rest = pair->place;
    for (size_t i = pair->a->rank; i-- > 0; rest /= (uint64_t)pair->a->dim[i])
        index[i] = (int64_t)(rest % (uint64_t)pair->a->dim[i]);
    return pair->a->rank;
}

/* Text. */

enum { PLACE_RANK = 16 };

static const char *name_text(const char *name, char quoted[TEXT_QUOTED_BYTES]) {
    return text_is_clean(name) ? name : text_quoted(name, quoted);
}

static void print_list(FILE *out, const char *path, const struct pair *pairs, size_t count) {
    char quoted[TEXT_QUOTED_BYTES], shape[SHAPE_TEXT_BYTES];
    if (count == 0) return;
    shown_print(out, "only in %s:\n", path);
    SCOPED(text_table_free) struct text_table table = {.align = "lll"};
    for (size_t i = 0; i < count; i++) {
        const struct safetensors_entry *entry = pairs[i].a ? pairs[i].a : pairs[i].b;
        text_table_cell(&table, "%s", name_text(entry->name, quoted));
        text_table_cell(&table, "%s", entry->type);
        text_table_cell(&table, "%s", safetensors_shape_text(entry, shape));
    }
    text_table_print(&table, 2, out);
}

static void print_unlike(FILE *out, const struct findings *found) {
    char quoted[TEXT_QUOTED_BYTES], shape[SHAPE_TEXT_BYTES];
    if (found->unlike_count == 0) return;
    fputs("of another type or shape:\n", out);
    SCOPED(text_table_free) struct text_table table = {.align = "lll"};
    for (size_t i = 0; i < found->unlike_count; i++) {
        const struct pair *pair = &found->unlike[i];
        text_table_cell(&table, "%s", name_text(pair->a->name, quoted));
        text_table_cell(&table, "%s %s", pair->a->type, safetensors_shape_text(pair->a, shape));
        text_table_cell(&table, "%s %s", pair->b->type, safetensors_shape_text(pair->b, shape));
    }
    text_table_print(&table, 2, out);
}

static void add_place(struct text_table *table, const struct pair *pair) {
    int64_t index[PLACE_RANK];
    struct safetensors_entry place = {.dim = index, .rank = unravel(pair, index, PLACE_RANK)};
    char text[SHAPE_TEXT_BYTES];
    text_table_cell(table, "%s", safetensors_shape_text(&place, text));
}

/* Nine digits tell any two floats of up to 32 bits apart. */
static const char *value_text(const struct pair *pair, double value, char text[TEXT_BYTES]) {
    if (!pair->sized) return "-";
    if (pair->a->bits > 32) return text_real(value, text);
    snprintf(text, TEXT_BYTES, "%.9g", value);
    return text;
}

static void add_values(struct text_table *table, const struct pair *pair) {
    char number[TEXT_BYTES];
    if (pair->sized) {
        text_table_cell(table, "%.3g", pair->max_abs);
        text_table_cell(table, "%.3g", pair->max_rel);
    } else {
        text_table_cell(table, "-");
        text_table_cell(table, "-");
    }
    add_place(table, pair);
    text_table_cell(table, "%s", value_text(pair, pair->value_a, number));
    text_table_cell(table, "%s", value_text(pair, pair->value_b, number));
}

static void print_differ(FILE *out, const struct findings *found) {
    static const char *const titles[] = {"tensor",  "type", "shape", "differing", "max abs",
                                         "max rel", "at",   "a",     "b"};
    char quoted[TEXT_QUOTED_BYTES], shape[SHAPE_TEXT_BYTES];
    if (found->differ_count == 0) return;
    fputs("of other values, the largest difference first:\n", out);
    SCOPED(text_table_free) struct text_table table = {.align = "lllrrrlrr"};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++)
        text_table_cell(&table, "%s", titles[i]);
    for (size_t i = 0; i < found->differ_count; i++) {
        const struct pair *pair = &found->differ[i];
        text_table_cell(&table, "%s", name_text(pair->a->name, quoted));
        text_table_cell(&table, "%s", pair->a->type);
        text_table_cell(&table, "%s", safetensors_shape_text(pair->a, shape));
        text_table_cell(&table, "%" PRIu64 " of %" PRIu64, pair->differing, pair->elements);
        add_values(&table, pair);
    }
    text_table_print(&table, 2, out);
}

static void print_text(FILE *out, const struct findings *found) {
    char count[TEXT_BYTES];
    print_list(out, found->path_a, found->only_a, found->only_a_count);
    print_list(out, found->path_b, found->only_b, found->only_b_count);
    print_unlike(out, found);
    print_differ(out, found);
    if (all_equal(found)) {
        fprintf(out, "%s, equal to the last bit\n",
                text_count((int64_t)found->equal_count, "tensor", count));
        return;
    }
    fprintf(out, "%zu equal, %zu of other values", found->equal_count, found->differ_count);
    if (found->differ_count > 0 && found->differ[0].sized)
        fprintf(out, " (by up to %.3g)", found->differ[0].max_abs);
    fprintf(out, ", %zu of another type or shape, %zu only in the first, %zu only in the second\n",
            found->unlike_count, found->only_a_count, found->only_b_count);
}

/* JSON. */

static json_t *json_finite(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *json_shape(const int64_t *dim, size_t rank) {
    json_t *array = json_array();
    for (size_t i = 0; i < rank; i++) json_array_append_new(array, json_integer(dim[i]));
    return array;
}

static json_t *json_kind(const struct safetensors_entry *entry) {
    return json_pack("{s:s, s:o}", "dtype", entry->type, "shape",
                     json_shape(entry->dim, entry->rank));
}

static json_t *json_names(const struct pair *pairs, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_string((pairs[i].a ? pairs[i].a : pairs[i].b)->name));
    return array;
}

static json_t *json_unlike(const struct findings *found) {
    json_t *array = json_array();
    for (size_t i = 0; i < found->unlike_count; i++)
        json_array_append_new(array, json_pack("{s:s, s:o, s:o}", "name", found->unlike[i].a->name,
                                               "a", json_kind(found->unlike[i].a), "b",
                                               json_kind(found->unlike[i].b)));
    return array;
}

/* A size that was not measured, or is infinite, is null. */
static json_t *json_difference(const struct pair *pair) {
    int64_t index[PLACE_RANK];
    size_t rank = unravel(pair, index, PLACE_RANK);
    bool sized = pair->sized;
    json_t *object = json_kind(pair->a);
    json_object_set_new(object, "name", json_string(pair->a->name));
    json_object_set_new(object, "elements", json_integer((json_int_t)pair->elements));
    json_object_set_new(object, "differing", json_integer((json_int_t)pair->differing));
    json_object_set_new(object, "max_abs", sized ? json_finite(pair->max_abs) : json_null());
    json_object_set_new(object, "max_rel", sized ? json_finite(pair->max_rel) : json_null());
    json_object_set_new(object, "at", json_shape(index, rank));
    json_object_set_new(object, "a", sized ? json_finite(pair->value_a) : json_null());
    json_object_set_new(object, "b", sized ? json_finite(pair->value_b) : json_null());
    return object;
}

static void print_json(FILE *out, const struct findings *found) {
    json_t *differ = json_array();
    for (size_t i = 0; i < found->differ_count; i++)
        json_array_append_new(differ, json_difference(&found->differ[i]));
    json_auto_t *root = json_pack("{s:b, s:I, s:o, s:o, s:o, s:o}", "equal", all_equal(found),
                                  "equal_tensors", (json_int_t)found->equal_count, "only_a",
                                  json_names(found->only_a, found->only_a_count), "only_b",
                                  json_names(found->only_b, found->only_b_count),
                                  "other_type_or_shape", json_unlike(found), "differ", differ);
    json_print(root, JSON_COMPACT, out);
}

enum status compare_files(const char *path_a, const char *path_b, FILE *out,
                          enum compare_form form) {
    SCOPED(shards_close) struct shards *a = NULL, *b = NULL;
    SCOPED(findings_free) struct findings found = {.path_a = path_a, .path_b = path_b};
    TRY(shards_open(path_a, &a));
    TRY(shards_open(path_b, &b));
    TRY(find_all(a, b, &found));
    if (form == COMPARE_TEXT) print_text(out, &found);
    if (form == COMPARE_JSON) print_json(out, &found);
    return all_equal(&found) ? STATUS_OK : STATUS_NO;
}

enum status compare_run(const struct options *options) {
    enum compare_form form = options->json    ? COMPARE_JSON
                             : options->quiet ? COMPARE_SILENT
                                              : COMPARE_TEXT;
    SCOPED_FREE char *a = NULL, *b = NULL;
    TRY(weights_path(options->argument[0], &a));
    TRY(weights_path(options->argument[1], &b));
    return compare_files(a, b, stdout, form);
}
