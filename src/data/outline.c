/* See outline.h. */
#include "data/outline.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "data/image.h"

enum { FILE_LIMIT = 64 << 20 };

/* --- writing --- */

static json_t *field_json(const struct field *field) {
    json_t *shape = json_array();
    for (int d = 0; d < field->shape.rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)field->shape.dim[d]));
    return json_pack("{s:s, s:s, s:o, s:b, s:I}", "name", field->name, "type",
                     dtype_name(field->dtype), "shape", shape, "label", field->is_label, "limit",
                     (json_int_t)field->limit);
}

static json_t *numbers_json(const float *numbers, int64_t count) {
    json_t *list = json_array();
    for (int64_t i = 0; numbers && i < count; i++)
        json_array_append_new(list, json_real((double)numbers[i]));
    return list;
}

static json_t *names_json(const struct dataset *dataset) {
    json_t *list = json_array();
    for (int64_t c = 0; dataset->names && c < dataset->classes; c++) {
        SCOPED_FREE char *name = text_mended(dataset->names[c]);
        json_array_append_new(list, json_string(name));
    }
    return list;
}

/* Of images; pixels of other data are not normalised. */
static int64_t channels_of(const struct dataset *dataset) {
    int image = dataset_field(dataset, "image");
    return image < 0 ? 0 : dataset->field[image].shape.dim[0];
}

enum status outline_write(const struct dataset *dataset, const char *path) {
    json_t *fields = json_array();
    SCOPED_FREE char *spec = text_mended(dataset->spec);
    for (int f = 0; f < dataset->field_count; f++)
        json_array_append_new(fields, field_json(&dataset->field[f]));
    json_auto_t *root =
        json_pack("{s:s, s:o, s:I, s:I, s:o, s:o, s:b, s:o}", "data", spec, "fields", fields,
                  "classes", (json_int_t)dataset->classes, "vocabulary", (json_int_t)dataset->vocab,
                  "mean", numbers_json(dataset->mean, channels_of(dataset)), "std",
                  numbers_json(dataset->std, channels_of(dataset)), "centre",
                  dataset->frame == FRAME_CENTRE, "names", names_json(dataset));
    SCOPED_FREE char *text = json_dumps(root, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    CHECK(text, "%s: the outline of a data set is no JSON", path);
    return file_write_text(path, text);
}

/* --- reading --- */

struct outline {
    struct arena arena; /* of all texts and lists */
};

static void outline_close(struct dataset *dataset) {
    struct outline *outline = dataset->state;
    arena_free(&outline->arena);
    free(outline);
}

static const struct dataset_ops ops = {
    .name = "outline", .help = "a data set without its samples", .close = outline_close};

static size_t count_of(const struct json_place *list) {
    return json_array_size(list->value);
}

static enum status read_shape(const struct json_place *list, struct shape *out) {
    TRY(json_expect_list(list));
    if (count_of(list) > SHAPE_MAX_RANK) return json_refuse_value(list, "a shape");
    out->rank = (int)count_of(list);
    for (int d = 0; d < out->rank; d++) {
        struct json_place item = json_item(list, (size_t)d);
        TRY(json_get_int(&item, 1, INT32_MAX, &out->dim[d]));
    }
    return STATUS_OK;
}

static enum status read_type(const struct json_place *place, enum dtype *out) {
    const char *name;
    TRY(json_get_text(place, &name));
    for (int d = 0; d < DTYPE_COUNT; d++)
        if (strcmp(dtype_name((enum dtype)d), name) == 0) {
            *out = (enum dtype)d;
            return STATUS_OK;
        }
    return json_refuse_value(place, "the name of an element type");
}

static enum status read_field(const struct json_place *object, struct arena *arena,
                              struct field *out) {
    struct json_place name = json_member(object, "name"), type = json_member(object, "type"),
                      shape = json_member(object, "shape"), label = json_member(object, "label"),
                      limit = json_member(object, "limit");
    const char *text;
    TRY(json_expect_object(object));
    TRY(json_get_text(&name, &text));
    out->name = arena_text(arena, text);
    TRY(read_type(&type, &out->dtype));
    TRY(read_shape(&shape, &out->shape));
    TRY(json_get_flag(&label, &out->is_label));
    return json_get_int(&limit, 0, INT64_MAX, &out->limit);
}

static enum status read_fields(const struct json_place *list, struct arena *arena,
                               struct dataset *out) {
    TRY(json_expect_list(list));
    if (count_of(list) < 1 || count_of(list) > DATASET_MAX_FIELDS)
        return json_refuse(list, "%zu fields", count_of(list));
    for (size_t f = 0; f < count_of(list); f++) {
        struct json_place item = json_item(list, f);
        TRY(read_field(&item, arena, &out->field[out->field_count++]));
    }
    return STATUS_OK;
}

/* None, or one for each channel. */
static enum status read_numbers(const struct json_place *list, int64_t channels,
                                struct arena *arena, const float **out) {
    TRY(json_expect_list(list));
    size_t count = count_of(list);
    if (count == 0) return STATUS_OK;
    if ((int64_t)count != channels)
        return json_refuse(list, "%zu numbers, expected %lld", count, (long long)channels);
    float *numbers = arena_new(arena, count * sizeof *numbers);
    for (size_t i = 0; i < count; i++) {
        struct json_place item = json_item(list, i);
        double number;
        TRY(json_get_real(&item, -1e30, 1e30, &number));
        numbers[i] = (float)number;
    }
    *out = numbers;
    return STATUS_OK;
}

/* Names are those of folders, which may hold any character. */
static enum status read_names(const struct json_place *list, struct arena *arena,
                              struct dataset *out) {
    TRY(json_expect_list(list));
    size_t count = count_of(list);
    if (count == 0) return STATUS_OK;
    if ((int64_t)count != out->classes)
        return json_refuse(list, "%zu names of %lld classes", count, (long long)out->classes);
    const char **names = arena_new(arena, count * sizeof *names);
    for (size_t i = 0; i < count; i++) {
        struct json_place item = json_item(list, i);
        if (!json_is_string(item.value)) return json_refuse_value(&item, "a name");
        names[i] = arena_text(arena, json_string_value(item.value));
    }
    out->names = names;
    return STATUS_OK;
}

static enum status read_root(const struct json_file *file, struct dataset *out) {
    struct arena *arena = &((struct outline *)out->state)->arena;
    struct json_place root = json_root(file), spec = json_member(&root, "data"),
                      fields = json_member(&root, "fields"),
                      classes = json_member(&root, "classes"),
                      vocab = json_member(&root, "vocabulary"), mean = json_member(&root, "mean"),
                      std = json_member(&root, "std"), centre = json_member(&root, "centre"),
                      names = json_member(&root, "names");
    const char *text;
    bool centred;
    TRY(json_expect_object(&root));
    TRY(json_get_text(&spec, &text));
    out->spec = mem_text(text);
    TRY(read_fields(&fields, arena, out));
    TRY(json_get_int(&classes, 0, INT64_MAX, &out->classes));
    TRY(json_get_int(&vocab, 0, INT32_MAX, &out->vocab));
    TRY(read_numbers(&mean, channels_of(out), arena, &out->mean));
    TRY(read_numbers(&std, channels_of(out), arena, &out->std));
    TRY(json_get_flag(&centre, &centred));
    out->frame = centred ? FRAME_CENTRE : FRAME_STRETCH;
    return read_names(&names, arena, out);
}

enum status outline_read(const char *path, struct dataset **out) {
    SCOPED(bytes_free) struct bytes text = {0};
    SCOPED(json_file_free) struct json_file file = {0};
    TRY(file_read(path, FILE_LIMIT, &text));
    SCOPED(dataset_free) struct dataset *dataset = MEM_NEW(struct dataset);
    dataset->ops = &ops;
    dataset->state = MEM_NEW(struct outline);
    TRY(json_file_parse(path, (const char *)text.data, text.count, STATUS_DATA, &file));
    TRY(read_root(&file, dataset));
    *out = dataset;
    dataset = NULL;
    return STATUS_OK;
}

struct dataset *outline_of_pictures(int64_t side, int64_t classes) {
    struct dataset *dataset = MEM_NEW(struct dataset);
    dataset->ops = &ops;
    dataset->state = MEM_NEW(struct outline);
    dataset->spec = mem_text("pictures");
    image_fields(3, side, side, classes, dataset);
    dataset->mean = image_imagenet_mean;
    dataset->std = image_imagenet_std;
    dataset->frame = FRAME_CENTRE;
    return dataset;
}

/* --- comparing --- */

static enum status check_shape(const struct dataset *outline, const struct field *field,
                               const struct dataset *data) {
    int f = dataset_field(data, field->name);
    bool tokens = outline->vocab > 0 && field->dtype == DTYPE_I32;
    char want[SHAPE_TEXT_BYTES], have[SHAPE_TEXT_BYTES];
    if (f < 0 || tokens || shape_equal(&data->field[f].shape, &field->shape)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: %s is %s, of the data that the model was trained on %s\n  those were %s",
                data->spec, field->name, shape_text(&data->field[f].shape, have),
                shape_text(&field->shape, want), outline->spec);
}

static enum status check_name(const struct dataset *outline, const struct dataset *data,
                              int64_t class) {
    SCOPED_FREE char *name = text_mended(data->names[class]);
    enum status status = STATUS_OK;
    if (strcmp(name, outline->names[class]) != 0)
        status =
            fail(STATUS_USAGE,
                 "%s: class %lld is '%.40s', of the model '%.40s'\n"
                 "  classes.txt in a folder gives their order; predict needs none: --input DIR",
                 data->spec, (long long)class, name, outline->names[class]);
    return status;
}

/* "mean 0.49:0.48:0.45, std 0.2:0.2:0.2", as keys of arrays take them. */
static char *normalisation_text(const struct dataset *dataset) {
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out, "no memory for a text");
    const float *const numbers[] = {dataset->mean, dataset->std};
    for (int n = 0; n < 2; n++) {
        fputs(n ? ", std " : "mean ", out);
        for (int64_t c = 0; c < channels_of(dataset); c++)
            fprintf(out, "%s%.4g", c ? ":" : "", (double)numbers[n][c]);
    }
    fclose(out);
    return text;
}

static bool has_normalisation(const struct dataset *dataset) {
    return dataset->mean && dataset->std;
}

/* Other pixels than the model knows are no mistake that it can show: its answers are only worse.
 * Nobody knows how arrays of reals were normalised. */
static void compare_normalisation(const struct dataset *outline, const struct dataset *data) {
    if (!has_normalisation(outline) || !has_normalisation(data)) return;
    SCOPED_FREE char *trained = normalisation_text(outline), *now = normalisation_text(data);
    if (strcmp(trained, now) != 0)
        log_warning("%s: images are normalised by %s, those that the model was trained on by %s\n"
                    "  npy: and hdf5: take keys: mean=M,std=S",
                    data->spec, now, trained);
}

enum status outline_check(const struct dataset *outline, const struct dataset *data) {
    for (int f = 0; f < outline->field_count; f++)
        if (!outline->field[f].is_label) TRY(check_shape(outline, &outline->field[f], data));
    bool named = outline->names && data->names;
    for (int64_t c = 0; named && c < outline->classes && c < data->classes; c++)
        TRY(check_name(outline, data, c));
    compare_normalisation(outline, data);
    return STATUS_OK;
}
