/* Pixels stay 8-bit in memory, a quarter of their size as reals; each read transforms one sample.
 */
#include "data/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/transform.h"

const float image_imagenet_mean[3] = {0.485f, 0.456f, 0.406f},
            image_imagenet_std[3] = {0.229f, 0.224f, 0.225f};

struct image_state {
    struct image_set set[SPLIT_COUNT];
    struct image_recipe recipe;
    struct augment augment;
    float table[IMAGE_MAX_CHANNELS][256];
};

static int64_t pixel_count(const struct image_set *set) {
    return (int64_t)set->channels * set->height * set->width;
}

/* Whole lines of the cache, so that what follows is aligned. */
static size_t row_bytes(const struct image_set *set) {
    return ((size_t)set->width * PIXEL_BYTES + 63) / 64 * 64;
}

size_t image_scratch_bytes(const struct image_set *set, const struct augment *augment) {
    return row_bytes(set) +
           transform_bytes(set->height, set->width, augment->out_height, augment->out_width);
}

static uint64_t content_hash(const struct image_state *state) {
    const struct image_recipe *recipe = &state->recipe;
    int64_t shape[] = {state->set[0].channels, state->augment.out_height, state->augment.out_width,
                       recipe->classes, state->augment.policy};
    uint64_t hash = hash64(HASH64_START, shape, sizeof shape);
    hash = hash64(hash, state->table, sizeof state->table);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        const struct image_set *set = &state->set[s];
        hash = hash64(hash, set->pixels, (size_t)(set->count * pixel_count(set)));
        hash = hash64(hash, set->labels, (size_t)set->count);
    }
    return hash;
}

enum status image_size_check(const char *name, int64_t size) {
    if (size >= 1 && size <= IMAGE_MAX_SIZE) return STATUS_OK;
    return fail(STATUS_USAGE, "%s: image size %lld, must be 1 to %d", name, (long long)size,
                IMAGE_MAX_SIZE);
}

static enum status check_sets(const char *name, const struct image_recipe *recipe,
                              const struct image_set set[SPLIT_COUNT]) {
    const struct image_set *train = &set[SPLIT_TRAIN], *test = &set[SPLIT_TEST];
    CHECK(train->channels >= 1 && train->channels <= IMAGE_MAX_CHANNELS, "%d channels",
          train->channels);
    CHECK(recipe->classes <= 256, "%d classes", recipe->classes);
    if (train->channels == test->channels && train->height == test->height &&
        train->width == test->width)
        return STATUS_OK;
    return fail(STATUS_DATA,
                "%s: training images are %dx%d but test images %dx%d\n  they are of two data sets",
                name, train->height, train->width, test->height, test->width);
}

void image_fields(int64_t channels, int64_t height, int64_t width, int64_t classes,
                  struct dataset *out) {
    out->field_count = 2;
    out->field[0] = (struct field){
        .name = "image", .dtype = DTYPE_F32, .shape = SHAPE(channels, height, width)};
    out->may_miss = 1u << 0;
    out->field[1] = (struct field){.name = "label",
                                   .dtype = DTYPE_I32,
                                   .shape = SHAPE_SCALAR,
                                   .is_label = true,
                                   .limit = classes};
    out->classes = classes;
}

static void describe(struct image_state *state, struct dataset *out) {
    const struct image_set *set = state->set;
    image_fields(set->channels, state->augment.out_height, state->augment.out_width,
                 state->recipe.classes, out);
    out->names = state->recipe.names;
    out->mean = state->recipe.mean;
    out->std = state->recipe.std;
    out->bytes = sizeof *state;
    out->scratch_bytes = image_scratch_bytes(set, &state->augment);
    for (int s = 0; s < SPLIT_COUNT; s++) {
        out->count[s] = set[s].count;
        out->bytes += (size_t)(set[s].count * (pixel_count(&set[s]) + 1));
    }
    out->content_hash = content_hash(state);
    out->state = state;
}

/* The sets become the data set's on success and stay the caller's on failure. */
static enum status from_sets(const char *name, const struct image_recipe *recipe,
                             const struct image_set set[SPLIT_COUNT],
                             const struct dataset_config *config, struct dataset *out) {
    TRY(check_sets(name, recipe, set));
    int64_t size = config->image_size;
    if (size != 0) TRY(image_size_check(name, size));
    struct image_state *state = MEM_NEW(struct image_state);
    memcpy(state->set, set, sizeof state->set);
    state->recipe = *recipe;
    state->augment = (struct augment){.policy = config->augment ? config->augment : recipe->augment,
                                      .frame = FRAME_STRETCH,
                                      .out_height = size ? (int)size : set->height,
                                      .out_width = size ? (int)size : set->width};
    for (int c = 0; c < set->channels; c++)
        transform_table(recipe->mean[c], recipe->std[c], state->table[c]);
    describe(state, out);
    return STATUS_OK;
}

enum status image_open(const char *name, const char *argument, const struct image_recipe *recipe,
                       const struct dataset_config *config, struct dataset *out) {
    struct image_set set[SPLIT_COUNT] = {0};
    enum status status = STATUS_OK;
    for (int s = 0; s < SPLIT_COUNT && status == STATUS_OK; s++)
        status = recipe->split(argument, (enum split)s, &set[s]);
    if (status == STATUS_OK) status = from_sets(name, recipe, set, config, out);
    if (status != STATUS_OK) image_sets_free(set);
    return status;
}

/* Planes to pixels of four bytes; those of channels that do not exist are never read again. */
static void pack_row(const unsigned char *from, size_t plane, int channels, int width,
                     unsigned char *to) {
    for (int c = 0; c < channels; c++)
        for (int x = 0; x < width; x++)
            to[x * PIXEL_BYTES + c] = from[(size_t)c * plane + (size_t)x];
}

void image_transform(const struct image_set *set, int64_t index, const struct augment *augment,
                     float (*table)[256], uint64_t key, void *scratch, float *out) {
    struct view view = augment_view(augment, set->height, set->width, key);
    struct transform transform;
    unsigned char *row = scratch;
    size_t plane = (size_t)set->height * (size_t)set->width;
    const unsigned char *pixels = set->pixels + (size_t)index * (size_t)set->channels * plane;
    transform_begin(&view, set->height, set->width, row + row_bytes(set), &transform);
    for (int y = transform.first_row; y < transform.end_row; y++) {
        pack_row(pixels + (size_t)y * (size_t)set->width, plane, set->channels, set->width, row);
        transform_row(&transform, row + transform.first_column * PIXEL_BYTES);
    }
    transform_end(&transform, table, set->channels, out);
}

enum status image_read(const struct dataset *dataset, enum split split, int64_t index, uint64_t key,
                       void *scratch, void *const out[]) {
    struct image_state *state = dataset->state;
    const struct image_set *set = &state->set[split];
    if (out[0]) image_transform(set, index, &state->augment, state->table, key, scratch, out[0]);
    *(int32_t *)out[1] = set->labels[index];
    return STATUS_OK;
}

void image_sets_free(struct image_set set[SPLIT_COUNT]) {
    for (int s = 0; s < SPLIT_COUNT; s++) {
        free(set[s].pixels);
        free(set[s].labels);
        set[s] = (struct image_set){0};
    }
}

void image_close(struct dataset *dataset) {
    struct image_state *state = dataset->state;
    image_sets_free(state->set);
    free(state);
}
