/* See input.h. */
#include "data/input.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/transform.h"
#include "tensor/npy.h"

struct input {
    struct npy *file;
    struct npy_array array;
    bool channels_last;  /* in the file */
    float (*table)[256]; /* per channel: bytes to numbers; NULL: they are numbers */
};

static bool ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), end = strlen(ending);
    return length > end && strcasecmp(name + length - end, ending) == 0;
}

static bool is_array(const char *name) {
    return ends_in(name, ".npy");
}

/* What is called as a data set is one. A name that is nothing is a file that is missing. */
bool input_is_file(const char *name) {
    struct stat info;
    char *kind = mem_format("%.*s", (int)strcspn(name, ":"), name);
    bool known = dataset_find(kind), there = stat(name, &info) == 0;
    free(kind);
    if (known) return false;
    return is_array(name) || ends_in(name, ".jpg") || ends_in(name, ".jpeg") ||
           ends_in(name, ".png") || !there || S_ISDIR(info.st_mode);
}

/* --- reading --- */

/* Where value i of an image [C,H,W] is in the file's row. */
static int64_t place_of(const struct input *input, const struct field *field, int64_t i) {
    int64_t channels = field->shape.dim[0], plane = shape_count(&field->shape) / channels;
    return input->channels_last ? i % plane * channels + i / plane : i;
}

static enum status read_pixels(const struct input *input, const struct field *field, int64_t row,
                               float *out) {
    int64_t count = shape_count(&field->shape), plane = count / field->shape.dim[0];
    unsigned char *bytes = mem_new((size_t)count);
    enum status status = npy_read_rows(input->file, DTYPE_U8, row, 1, bytes);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++)
        out[i] = input->table[i / plane][bytes[place_of(input, field, i)]];
    free(bytes);
    return status;
}

static enum status read_numbers(const struct input *input, const struct field *field, int64_t row,
                                float *out) {
    if (!input->channels_last) return npy_read_rows(input->file, DTYPE_F32, row, 1, out);
    int64_t count = shape_count(&field->shape);
    SCOPED_FREE float *numbers = MEM_ARRAY(float, count);
    TRY(npy_read_rows(input->file, DTYPE_F32, row, 1, numbers));
    for (int64_t i = 0; i < count; i++) out[i] = numbers[place_of(input, field, i)];
    return STATUS_OK;
}

static enum status read_ids(const struct dataset *dataset, const struct field *field, int64_t row,
                            int32_t *out) {
    const struct input *input = dataset->state;
    int64_t count = shape_count(&field->shape), *ids = MEM_ARRAY(int64_t, count);
    enum status status = npy_read_rows(input->file, DTYPE_I64, row, 1, ids);
    for (int64_t i = 0; i < count && status == STATUS_OK; i++) {
        out[i] = (int32_t)ids[i];
        if (ids[i] < 0 || ids[i] >= field->limit)
            status =
                fail(STATUS_DATA, "%s: row %" PRId64 ": token %" PRId64 ", expected 0 to %" PRId64,
                     dataset->spec, row, ids[i], field->limit - 1);
    }
    free(ids);
    return status;
}

static enum status input_read(const struct dataset *dataset, enum split split, int64_t index,
                              uint64_t key, void *scratch, void *const out[]) {
    const struct input *input = dataset->state;
    (void)split, (void)key, (void)scratch;
    for (int f = 1; f < dataset->field_count; f++)
        for (int64_t i = 0; i < shape_count(&dataset->field[f].shape); i++)
            ((int32_t *)out[f])[i] = LABEL_IGNORE;
    const struct field *field = &dataset->field[0];
    if (field->dtype == DTYPE_I32) return read_ids(dataset, field, index, out[0]);
    if (input->table) return read_pixels(input, field, index, out[0]);
    return read_numbers(input, field, index, out[0]);
}

static void free_state(struct input *input) {
    npy_close(&input->file);
    free(input->table);
    free(input);
}

static void input_close(struct dataset *dataset) {
    free_state(dataset->state);
}

static const struct dataset_ops ops = {
    .name = "input", .help = "rows of a .npy file", .read = input_read, .close = input_close};

/* --- opening --- */

/* The one field that a file can stand for; the others are labels. */
static enum status take_fields(const char *path, const struct dataset *like, struct dataset *out) {
    static const char *const names[] = {"image", "features", "input_ids"};
    int found = -1, others = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names && found < 0; i++)
        found = dataset_field(like, names[i]);
    for (int f = 0; f < like->field_count; f++) others += f != found && !like->field[f].is_label;
    if (found < 0 || others)
        return fail(STATUS_USAGE,
                    "%s: a model of data %s reads several arrays, one file holds one\n"
                    "  name a data set that has them: --data SPEC",
                    path, like->spec);
    out->field[out->field_count++] = like->field[found];
    for (int f = 0; f < like->field_count; f++)
        if (like->field[f].is_label) out->field[out->field_count++] = like->field[f];
    return STATUS_OK;
}

/* A channel that is alone may be left out. */
static bool same_rows(const struct shape *array, const struct shape *row) {
    int alone = row->rank == 3 && row->dim[0] == 1 && array->rank == 3;
    if (array->rank != row->rank - alone + 1) return false;
    for (int i = alone; i < row->rank; i++)
        if (array->dim[i + 1 - alone] != row->dim[i]) return false;
    return true;
}

/* Where rows fit both ways the channels are first. */
static bool channels_are_last(const struct shape *array, const struct shape *row) {
    return array->rank == 4 && row->rank == 3 && array->dim[1] == row->dim[1] &&
           array->dim[2] == row->dim[2] && array->dim[3] == row->dim[0];
}

static enum status check_array(const char *path, const struct input *input,
                               const struct dataset *dataset) {
    const struct shape *row = &dataset->field[0].shape;
    char have[SHAPE_TEXT_BYTES], want[SHAPE_TEXT_BYTES];
    if (!npy_has_rows(input->file, &input->array))
        return fail(STATUS_DATA,
                    "%s: not an array of rows in row-major order\n  numpy.save of "
                    "numpy.ascontiguousarray(array) writes one",
                    path);
    if (!same_rows(&input->array.shape, row) && !input->channels_last)
        return fail(STATUS_DATA, "%s: its shape is %s, the model takes rows of %s%-s", path,
                    shape_text(&input->array.shape, have), shape_text(row, want),
                    shape_count(&input->array.shape) == shape_count(row)
                        ? "\n  of a single one: numpy.save(FILE, array[None])"
                        : "");
    if (input->array.shape.dim[0] == 0) return fail(STATUS_DATA, "%s: it has no rows", path);
    if (dataset->field[0].dtype != DTYPE_I32 || !input->array.real) return STATUS_OK;
    return fail(STATUS_DATA, "%s: type %s, expected whole numbers: tokens", path,
                input->array.type);
}

static void make_table(const struct dataset *like, const struct field *field, struct input *input) {
    if (strcmp(field->name, "image") != 0 || strcmp(input->array.type, "u1") != 0) return;
    int64_t channels = field->shape.dim[0];
    input->table = mem_array((size_t)channels, sizeof *input->table);
    for (int64_t c = 0; c < channels; c++)
        transform_table(like->mean ? like->mean[c] : 0, like->std ? like->std[c] : 1,
                        input->table[c]);
}

static enum status fill_array(const char *path, const struct dataset *like, struct input *input,
                              struct dataset *out) {
    TRY(npy_open(path, &input->file));
    if (npy_count(input->file) != 1) return fail(STATUS_DATA, "%s: not one array", path);
    TRY(npy_describe(input->file, 0, &input->array));
    const struct shape *row = &out->field[0].shape;
    input->channels_last =
        !same_rows(&input->array.shape, row) && channels_are_last(&input->array.shape, row);
    TRY(check_array(path, input, out));
    make_table(like, &out->field[0], input);
    out->names = like->names;
    out->count[SPLIT_TRAIN] = out->count[SPLIT_TEST] = input->array.shape.dim[0];
    out->content_hash = hash64(HASH64_START, &input->array.shape, sizeof input->array.shape);
    return STATUS_OK;
}

static enum status open_array(const char *path, const struct dataset *like, struct dataset *out) {
    struct input *input = MEM_NEW(struct input);
    enum status status = fill_array(path, like, input, out);
    out->ops = &ops;
    out->state = input;
    if (status != STATUS_OK) free_state(input);
    return status;
}

static enum status open_pictures(const char *paths, const struct dataset *like, bool skip,
                                 struct dataset *out) {
    const struct dataset_ops *folder = dataset_find("folder");
    if (folder->inputs) return folder->inputs(paths, like, skip, out);
    return fail(STATUS_USAGE, "%s: this build was made without %s\n  install it and build again",
                paths, folder->needs);
}

enum status input_open(const char *path, const struct dataset *like, bool skip,
                       struct dataset **out) {
    struct dataset *dataset = MEM_NEW(struct dataset);
    enum status status = take_fields(path, like, dataset);
    if (status == STATUS_OK)
        status = is_array(path) ? open_array(path, like, dataset)
                                : open_pictures(path, like, skip, dataset);
    if (status != STATUS_OK) {
        free(dataset);
        return status;
    }
    dataset->classes = like->classes;
    dataset->vocab = like->vocab;
    dataset->mean = like->mean;
    dataset->std = like->std;
    dataset->spec = mem_text(path);
    *out = dataset;
    return STATUS_OK;
}
