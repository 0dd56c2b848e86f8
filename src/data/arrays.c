/* See arrays.h. Images become [C,H,W] at the start, and reals are normalised then. Pixels stay
 * bytes, which the transforms of image.h read; of more channels than those know they become reals.
 */
#include "data/arrays.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "data/image.h"

enum { FEATURES_MOST = 1 << 24, CLASSES_MOST = 1 << 20, TENTH = 10 };

/* 8-bit images without keys end up in -1 to 1. */
static const float usual_mean = 0.5f, usual_std = 0.5f;

struct split_of {
    struct array x;
    int32_t *label; /* [count], owned */
    int64_t count;
    /* Sample i is row i + i / part * skip + first of x: a split of its own, or a part of one. */
    int64_t part, skip, first;
    bool borrowed; /* x and labels are the other split's */
};

struct arrays {
    struct split_of split[SPLIT_COUNT];
    struct shape sample;    /* [D] or [C,H,W], as stored */
    struct augment augment; /* of pixels */
    float *mean, *std;      /* per channel, owned; NULL: none */
    float (*table)[256];    /* per channel, owned; NULL: values are reals */
    int64_t classes;
    bool undivided; /* both splits are all samples */
};

/* --- arrays --- */

static enum status fail_shape(const char *label, const struct shape *shape, const char *expected) {
    return fail(STATUS_DATA, "%s: shape %s, expected %-s", label,
                shape_text(shape, (char[SHAPE_TEXT_BYTES]){0}), expected);
}

static bool is_x(enum array_role role) {
    return role == ARRAY_X || role == ARRAY_TEST_X;
}

enum status array_new(const char *label, enum array_role role, enum dtype dtype,
                      const struct shape *shape, struct array *out) {
    for (int d = 0; d < shape->rank; d++)
        if (shape->dim[d] == 0) return fail_shape(label, shape, "one sample or more");
    if (is_x(role) && (shape->rank < 2 || shape->rank > 4))
        return fail_shape(label, shape, "[N,D], [N,H,W], [N,C,H,W] or [N,H,W,C]");
    if (!is_x(role) && shape->rank != 1 && (shape->rank != 2 || shape->dim[1] != 1))
        return fail_shape(label, shape,
                          "[N]: one label a sample\n"
                          "  rows of a 1 among zeros become labels by array.argmax(1)");
    *out = (struct array){.label = mem_text(label), .dtype = dtype, .shape = *shape};
    return STATUS_OK;
}

size_t array_bytes(const struct array *array) {
    return (size_t)shape_count(&array->shape) * dtype_bytes(array->dtype);
}

void array_free(struct array *array) {
    free(array->label);
    free(array->values);
    *array = (struct array){0};
}

/* Bytes become reals: those of rows as numbers (scale 1), pixels of many channels from 0 to 1. */
static enum status widen(struct array *x, float scale) {
    size_t count = array_bytes(x);
    const unsigned char *from = x->values;
    float *to = malloc(count * sizeof *to);
    if (!to)
        return fail(STATUS_MEMORY, "%s: out of memory: %zu bytes", x->label, count * sizeof *to);
    for (size_t i = 0; i < count; i++) to[i] = (float)from[i] / scale;
    free(x->values);
    x->values = to;
    x->dtype = DTYPE_F32;
    return STATUS_OK;
}

/* --- checks --- */

static enum status check_pair(const struct array *x, const struct array *y) {
    if (!y->label || x->shape.dim[0] == y->shape.dim[0]) return STATUS_OK;
    return fail(STATUS_DATA, "%s has %lld samples but %s %lld labels", x->label,
                (long long)x->shape.dim[0], y->label, (long long)y->shape.dim[0]);
}

static enum status check_arrays(const struct array array[ARRAY_ROLES], bool unlabelled) {
    const struct array *x = &array[ARRAY_X], *tx = &array[ARRAY_TEST_X], *ty = &array[ARRAY_TEST_Y];
    TRY(check_pair(x, &array[ARRAY_Y]));
    if (!tx->label && !ty->label) return STATUS_OK;
    if (!tx->label || (!ty->label && !unlabelled))
        return fail(STATUS_DATA, "%s is there, but not the %s of the test split",
                    tx->label ? tx->label : ty->label, tx->label ? "labels" : "samples");
    TRY(check_pair(tx, ty));
    struct shape expected = x->shape;
    expected.dim[0] = tx->shape.dim[0];
    if (shape_equal(&expected, &tx->shape) && x->dtype == tx->dtype) return STATUS_OK;
    char ours[SHAPE_TEXT_BYTES], theirs[SHAPE_TEXT_BYTES];
    return fail(STATUS_DATA,
                "%s is %s of %s but %s %s of %s\n  training and test samples must be alike",
                x->label, shape_text(&x->shape, ours), dtype_name(x->dtype), tx->label,
                shape_text(&tx->shape, theirs), dtype_name(tx->dtype));
}

static enum status check_finite(const struct array *x) {
    if (x->dtype != DTYPE_F32) return STATUS_OK;
    const float *value = x->values;
    size_t count = (size_t)shape_count(&x->shape), width = count / (size_t)x->shape.dim[0];
    for (size_t i = 0; i < count; i++)
        if (!isfinite(value[i]))
            return fail(STATUS_DATA,
                        "%s: sample %zu: value %zu is %g%s\n"
                        "  only finite numbers can be trained on",
                        x->label, i / width, i % width, (double)value[i],
                        isinf(value[i]) ? ", or beyond the range of f32" : "");
    return STATUS_OK;
}

/* --- shapes --- */

static bool is_channels(int64_t dim) {
    return dim == 1 || dim == 3 || dim == 4;
}

/* The last dimension is taken for channels where it looks like them and the second does not. */
static bool is_nhwc(const struct shape *x, enum array_order layout) {
    if (x->rank != 4 || layout != LAYOUT_AUTO) return x->rank == 4 && layout == LAYOUT_NHWC;
    return is_channels(x->dim[3]) && !is_channels(x->dim[1]);
}

static struct shape sample_shape(const struct shape *x, bool nhwc) {
    if (x->rank == 2) return SHAPE(x->dim[1]);
    if (x->rank == 3) return SHAPE(1, x->dim[1], x->dim[2]);
    return nhwc ? SHAPE(x->dim[3], x->dim[1], x->dim[2]) : SHAPE(x->dim[1], x->dim[2], x->dim[3]);
}

/* [H,W,C] to [C,H,W], sample by sample in place. */
static void transpose(struct array *x) {
    size_t bytes = dtype_bytes(x->dtype), channels = (size_t)x->shape.dim[3],
           plane = (size_t)(x->shape.dim[1] * x->shape.dim[2]), sample = channels * plane * bytes;
    unsigned char *at = x->values, *kept = mem_new(sample);
    for (int64_t i = 0; i < x->shape.dim[0] && channels > 1; i++, at += sample) {
        memcpy(kept, at, sample);
        for (size_t p = 0; p < plane; p++)
            for (size_t c = 0; c < channels; c++)
                memcpy(at + (c * plane + p) * bytes, kept + (p * channels + c) * bytes, bytes);
    }
    free(kept);
}

static enum status check_sample(const struct array *x, const struct shape *sample) {
    bool image = sample->rank == 3;
    int64_t most = image ? IMAGE_MAX_SIZE : FEATURES_MOST;
    for (int d = 0; d < sample->rank; d++)
        if (sample->dim[d] > most)
            return fail(STATUS_DATA, "%s: shape %s: %lld is above %lld", x->label,
                        shape_text(&x->shape, (char[SHAPE_TEXT_BYTES]){0}),
                        (long long)sample->dim[d], (long long)most);
    return STATUS_OK;
}

static enum status set_shapes(const char *kind, struct array array[ARRAY_ROLES],
                              const struct array_spec *spec, struct arrays *state) {
    struct array *x = &array[ARRAY_X];
    bool nhwc = is_nhwc(&x->shape, spec->layout);
    state->sample = sample_shape(&x->shape, nhwc);
    TRY(check_sample(x, &state->sample));
    char classes[TEXT_BYTES];
    log_note("%s: %s %s%s, %s", kind, state->sample.rank == 1 ? "rows" : "images",
             shape_text(&state->sample, (char[SHAPE_TEXT_BYTES]){0}),
             nhwc ? " (channels last in the file)" : "",
             array[ARRAY_Y].label ? text_count(state->classes, "class", classes) : "no labels");
    if (nhwc) transpose(x);
    if (nhwc && array[ARRAY_TEST_X].label) transpose(&array[ARRAY_TEST_X]);
    return STATUS_OK;
}

enum { SAMPLE_TEXT_BYTES = 96 };

static const char *sample_text(const struct shape *sample, char text[SAMPLE_TEXT_BYTES]) {
    if (sample->rank == 3)
        snprintf(text, SAMPLE_TEXT_BYTES, "images of reals of %lldx%lld", (long long)sample->dim[1],
                 (long long)sample->dim[2]);
    else
        snprintf(text, SAMPLE_TEXT_BYTES, "rows of %lld numbers", (long long)sample->dim[0]);
    return text;
}

/* What --image-size and --augment ask for acts on pixels alone. */
static enum status set_augment(const char *kind, const struct array *x,
                               const struct dataset_config *config, struct arrays *state) {
    const struct shape *sample = &state->sample;
    int64_t size = config->image_size;
    bool image = sample->rank == 3;
    bool resized = size != 0 && !(image && sample->dim[1] == size && sample->dim[2] == size),
         drawn = config->augment != AUGMENT_STANDARD && config->augment != AUGMENT_NONE;
    if (size != 0) TRY(image_size_check(kind, size));
    if (resized && config->size_of_model && x->dtype != DTYPE_U8)
        return fail(STATUS_USAGE,
                    "%s holds %s, the model was trained on images of %lldx%lld\n"
                    "  only images of 8 bits are resized; save others in that size",
                    x->label, sample_text(sample, (char[SAMPLE_TEXT_BYTES]){0}), (long long)size,
                    (long long)size);
    if ((resized || drawn) && x->dtype != DTYPE_U8)
        return fail(STATUS_USAGE, "--%s: %s holds %s, only images of 8 bits are %s",
                    resized ? "image-size" : "augment", x->label,
                    image ? "images of reals" : "rows of numbers",
                    resized ? "resized" : "augmented");
    state->augment = (struct augment){.policy = config->augment ? config->augment : AUGMENT_NONE,
                                      .frame = FRAME_STRETCH,
                                      .out_height = (int)(resized ? size : sample->dim[1]),
                                      .out_width = (int)(resized ? size : sample->dim[2])};
    return STATUS_OK;
}

/* --- normalisation --- */

/* One number holds for all channels; of rows every column is a channel. */
static enum status spread(const char *label, const char *key, const float *given, int count,
                          float usual, int64_t channels, float **out) {
    if (count > 1 && count != channels)
        return fail(STATUS_USAGE, "%s: %s has %d numbers for %lld channels", label, key, count,
                    (long long)channels);
    *out = MEM_ARRAY(float, channels);
    for (int64_t c = 0; c < channels; c++)
        (*out)[c] = count == 0 ? usual : given[count == 1 ? 0 : c];
    return STATUS_OK;
}

static void normalise(const struct arrays *state, struct array *x) {
    float *at = x->values;
    int64_t channels = state->sample.dim[0],
            plane = shape_span(&state->sample, 1, state->sample.rank);
    for (int64_t i = 0; i < x->shape.dim[0] * channels; i++, at += plane)
        for (int64_t p = 0; p < plane; p++)
            at[p] = (at[p] - state->mean[i % channels]) / state->std[i % channels];
}

/* Pixels that were saved as reals or as large integers: nobody trains on those as they are. */
static void warn_of_pixels(const struct array *x) {
    const float *value = x->values;
    float most = 0;
    for (int64_t i = 0, count = shape_count(&x->shape); i < count; i++) {
        if (value[i] < 0 || value[i] > 255 || value[i] != floorf(value[i])) return;
        if (value[i] > most) most = value[i];
    }
    if (most > 1)
        log_warning("%s: values of 0 to %g look like pixels, and are taken as they are\n"
                    "  array.astype('uint8') makes them pixels; or mean=127.5,std=127.5",
                    x->label, (double)most);
}

static enum status set_normalisation(struct array array[ARRAY_ROLES], const struct array_spec *spec,
                                     struct arrays *state) {
    const char *label = array[ARRAY_X].label;
    int64_t channels = state->sample.dim[0];
    bool pixels = array[ARRAY_X].dtype == DTYPE_U8 && state->sample.rank == 3,
         bytes = pixels && channels <= IMAGE_MAX_CHANNELS;
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (array[2 * s].dtype == DTYPE_U8 && array[2 * s].label && !bytes)
            TRY(widen(&array[2 * s], pixels ? 255 : 1));
    if (!pixels && !spec->mean && !spec->std) {
        if (state->sample.rank == 3) warn_of_pixels(&array[ARRAY_X]);
        return STATUS_OK;
    }
    TRY(spread(label, "mean", spec->mean, spec->mean_count, pixels ? usual_mean : 0, channels,
               &state->mean));
    TRY(spread(label, "std", spec->std, spec->std_count, pixels ? usual_std : 1, channels,
               &state->std));
    for (int s = 0; s < SPLIT_COUNT && !bytes; s++)
        if (array[2 * s].label) normalise(state, &array[2 * s]);
    if (!bytes) return STATUS_OK;
    state->table = mem_array((size_t)channels, sizeof *state->table);
    for (int64_t c = 0; c < channels; c++)
        transform_table(state->mean[c], state->std[c], state->table[c]);
    return STATUS_OK;
}

/* --- labels --- */

static int32_t *no_labels(int64_t count) {
    int32_t *label = MEM_ARRAY(int32_t, count);
    for (int64_t i = 0; i < count; i++) label[i] = LABEL_IGNORE;
    return label;
}

static enum status read_labels(const struct array *y, int64_t limit, int64_t *most, int32_t **out) {
    int32_t *label = MEM_ARRAY(int32_t, y->shape.dim[0]);
    for (int64_t i = 0; i < y->shape.dim[0]; i++) {
        int64_t value = y->dtype == DTYPE_I32 ? ((const int32_t *)y->values)[i]
                                              : ((const int64_t *)y->values)[i];
        if (value < 0 || value >= limit) {
            free(label);
            return fail(STATUS_DATA,
                        "%s: label %" PRId64 " of sample %" PRId64 ", expected 0 to %" PRId64 "%-s",
                        y->label, value, i, limit - 1,
                        value < 0 ? "\n  classes are numbered from 0: "
                                    "numpy.unique(array, return_inverse=True)[1]"
                                  : "");
        }
        if (value > *most) *most = value;
        label[i] = (int32_t)value;
    }
    *out = label;
    return STATUS_OK;
}

/* Labels that begin at 1 make a class too many: nothing is of class 0. Training does not show it.
 */
static void warn_of_labels_from_1(const struct array *y, const int32_t *label) {
    for (int64_t i = 0; i < y->shape.dim[0]; i++)
        if (label[i] == 0) return;
    log_warning("%s: no sample has label 0; classes are numbered from 0", y->label);
}

/* The classes are what the key says, or those up to the largest label of the training split, to
 * which the test split must keep; of the test split where the other has none. */
static enum status set_labels(const struct array array[ARRAY_ROLES], const struct array_spec *spec,
                              struct arrays *state) {
    const struct array *y = &array[ARRAY_Y], *test = &array[ARRAY_TEST_Y];
    int32_t **label = &state->split[SPLIT_TRAIN].label, **tested = &state->split[SPLIT_TEST].label;
    int64_t most = 0, ignored = 0, limit = spec->classes ? spec->classes : CLASSES_MOST;
    if (y->label) {
        TRY(read_labels(y, limit, &most, label));
        warn_of_labels_from_1(y, *label);
        if (!spec->classes) limit = most + 1;
    } else {
        *label = no_labels(array[ARRAY_X].shape.dim[0]);
    }
    if (test->label)
        TRY(read_labels(test, limit, y->label ? &ignored : &most, tested));
    else if (array[ARRAY_TEST_X].label)
        *tested = no_labels(array[ARRAY_TEST_X].shape.dim[0]);
    state->classes = spec->classes ? spec->classes : most + 1;
    return STATUS_OK;
}

/* --- splits --- */

/* All samples are to train on and to test on. */
static enum status share(const char *kind, struct arrays *state) {
    struct split_of *test = &state->split[SPLIT_TEST];
    *test = state->split[SPLIT_TRAIN];
    test->borrowed = true;
    state->undivided = true;
    log_note("%s: no test split: all %lld samples are used\n"
             "  --split test: those that training would keep for testing",
             kind, (long long)test->count);
    return STATUS_OK;
}

/* Without a test split every tenth sample is one; of fewer than ten the last. Neighbours go into
 * different splits, so that arrays sorted by class can be divided, too. */
static enum status divide(const char *kind, struct arrays *state) {
    struct split_of *train = &state->split[SPLIT_TRAIN], *test = &state->split[SPLIT_TEST];
    int64_t all = train->count, part = all < TENTH ? all : TENTH;
    if (all < 2)
        return fail(STATUS_DATA,
                    "%s: one sample, and no test split\n"
                    "  a second one is needed to test with",
                    train->x.label);
    *test = *train;
    test->borrowed = true;
    test->count = all / part;
    test->part = 1, test->skip = part - 1, test->first = part - 1;
    train->count = all - test->count;
    train->part = part - 1, train->skip = 1;
    log_note("%s: no test split: %s sample is kept for testing, %lld of %lld", kind,
             part < TENTH ? "the last" : "every tenth", (long long)test->count, (long long)all);
    return STATUS_OK;
}

static enum status set_splits(const char *kind, struct array array[ARRAY_ROLES], bool whole,
                              struct arrays *state) {
    bool divided = !array[ARRAY_TEST_X].label;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        struct split_of *split = &state->split[s];
        split->x = array[2 * s]; /* the data set's from here on */
        array[2 * s] = (struct array){0};
        split->count = split->x.shape.dim[0];
        split->part = 1;
    }
    if (!divided) return STATUS_OK;
    return whole ? share(kind, state) : divide(kind, state);
}

static void free_state(struct arrays *state) {
    for (int s = 0; s < SPLIT_COUNT; s++) {
        if (state->split[s].borrowed) continue;
        array_free(&state->split[s].x);
        free(state->split[s].label);
    }
    free(state->mean);
    free(state->std);
    free(state->table);
    free(state);
}

/* --- the data set --- */

static uint64_t content_hash(const struct arrays *state) {
    int64_t kept[] = {state->classes, state->augment.out_height, state->augment.out_width,
                      state->augment.policy};
    uint64_t hash = hash64(HASH64_START, &state->sample, sizeof state->sample);
    hash = hash64(hash, kept, sizeof kept);
    if (state->table)
        hash = hash64(hash, state->table, (size_t)state->sample.dim[0] * sizeof *state->table);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const struct split_of *split = &state->split[s];
        hash = hash64(hash, &split->count, sizeof split->count);
        if (split->borrowed) continue;
        hash = hash64(hash, split->x.values, array_bytes(&split->x));
        hash = hash64(hash, split->label, (size_t)split->x.shape.dim[0] * sizeof *split->label);
    }
    return hash;
}

static struct image_set pixels_of(const struct arrays *state, enum split split) {
    return (struct image_set){.pixels = state->split[split].x.values,
                              .channels = (int)state->sample.dim[0],
                              .height = (int)state->sample.dim[1],
                              .width = (int)state->sample.dim[2]};
}

static void describe(struct arrays *state, struct dataset *out) {
    struct image_set set = pixels_of(state, SPLIT_TRAIN);
    image_fields(set.channels, state->augment.out_height, state->augment.out_width, state->classes,
                 out);
    if (state->sample.rank == 1)
        out->field[0] =
            (struct field){.name = "features", .dtype = DTYPE_F32, .shape = state->sample};
    out->scratch_bytes = state->table ? image_scratch_bytes(&set, &state->augment) : 0;
    out->mean = state->table ? state->mean : NULL;
    out->std = state->table ? state->std : NULL;
    out->bytes = sizeof *state;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const struct split_of *split = &state->split[s];
        out->count[s] = split->count;
        if (!split->borrowed)
            out->bytes += array_bytes(&split->x) + (size_t)split->x.shape.dim[0] * sizeof(int32_t);
    }
    out->undivided = state->undivided;
    out->content_hash = content_hash(state);
    out->state = state;
}

static enum status fill(const char *kind, struct array array[ARRAY_ROLES],
                        const struct array_spec *spec, const struct dataset_config *config,
                        struct arrays *state) {
    TRY(check_arrays(array, config->unlabelled));
    TRY(check_finite(&array[ARRAY_X]));
    if (array[ARRAY_TEST_X].label) TRY(check_finite(&array[ARRAY_TEST_X]));
    TRY(set_labels(array, spec, state));
    TRY(set_shapes(kind, array, spec, state));
    TRY(set_normalisation(array, spec, state));
    TRY(set_augment(kind, &array[ARRAY_X], config, state));
    return set_splits(kind, array, config->whole, state);
}

enum status arrays_open(const char *kind, array_reader *reader, const char *argument,
                        const struct dataset_config *config, struct dataset *out) {
    SCOPED(array_spec_free) struct array_spec spec = {0};
    struct array array[ARRAY_ROLES] = {0};
    TRY(array_spec_parse(kind, argument, config->unlabelled, &spec));
    struct arrays *state = MEM_NEW(struct arrays);
    enum status status = reader(&spec, array);
    if (status == STATUS_OK) status = fill(kind, array, &spec, config, state);
    if (status == STATUS_OK)
        describe(state, out);
    else
        free_state(state);
    for (int role = 0; role < ARRAY_ROLES; role++) array_free(&array[role]);
    return status;
}

enum status arrays_read(const struct dataset *dataset, enum split split, int64_t index,
                        uint64_t key, void *scratch, void *const out[]) {
    const struct arrays *state = dataset->state;
    const struct split_of *from = &state->split[split];
    int64_t row = index + index / from->part * from->skip + from->first;
    size_t bytes = (size_t)shape_count(&state->sample) * sizeof(float);
    const char *values = from->x.values;
    struct image_set set = pixels_of(state, split);
    if (out[0] && state->table)
        image_transform(&set, row, &state->augment, state->table, key, scratch, out[0]);
    else if (out[0])
        memcpy(out[0], values + (size_t)row * bytes, bytes);
    *(int32_t *)out[1] = from->label[row];
    return STATUS_OK;
}

void arrays_close(struct dataset *dataset) {
    free_state(dataset->state);
}
