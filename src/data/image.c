/* Pixels stay 8-bit in memory, a quarter of their size as reals; each read transforms one sample.
 * Order of transforms in training: shift and mirror at the data's own size, resize, table to
 * normalised reals. */
#include "data/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/transform.h"

struct image_state {
    struct image_set set[SPLIT_COUNT];
    struct image_recipe recipe;
    int size_y, size_x;    /* of what is read */
    struct resize *resize; /* NULL: as stored */
    float table[IMAGE_MAX_CHANNELS][256];
};

static int64_t pixel_count(const struct image_set *set) {
    return (int64_t)set->channels * set->height * set->width;
}

static uint64_t content_hash(const struct image_state *state) {
    const struct image_recipe *recipe = &state->recipe;
    int64_t shape[] = {state->set[0].channels, state->size_y,    state->size_x,
                       recipe->classes,        recipe->crop_pad, recipe->flip};
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
    out->field[1] = (struct field){.name = "label",
                                   .dtype = DTYPE_I32,
                                   .shape = SHAPE_SCALAR,
                                   .is_label = true,
                                   .limit = classes};
    out->classes = classes;
}

static void describe(struct image_state *state, struct dataset *out) {
    const struct image_set *set = state->set;
    image_fields(set->channels, state->size_y, state->size_x, state->recipe.classes, out);
    out->names = state->recipe.names;
    out->mean = state->recipe.mean;
    out->std = state->recipe.std;
    out->bytes = sizeof *state;
    out->scratch_bytes = (size_t)set->height * (size_t)(set->width + state->size_x) +
                         (size_t)state->size_y * (size_t)state->size_x;
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
    state->size_y = size ? (int)size : set->height;
    state->size_x = size ? (int)size : set->width;
    if (state->size_y != set->height || state->size_x != set->width)
        state->resize = resize_new(set->height, set->width, state->size_y, state->size_x);
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

/* What is drawn for one sample; all zero without augmentation. */
struct draw {
    bool any, flip;
    int top, left;
};

static struct draw draw_transforms(const struct image_recipe *recipe, uint64_t key) {
    struct draw draw = {0};
    if (key == 0) return draw;
    uint32_t span = 2 * (uint32_t)recipe->crop_pad + 1;
    draw.top = (int)(rng_word(key, 0) % span) - recipe->crop_pad;
    draw.left = (int)(rng_word(key, 1) % span) - recipe->crop_pad;
    draw.flip = recipe->flip && (rng_word(key, 2) & 1);
    draw.any = draw.top || draw.left || draw.flip;
    return draw;
}

static void read_pixels(const struct image_state *state, const struct image_set *set, int64_t index,
                        uint64_t key, unsigned char *work, float *out) {
    struct draw draw = draw_transforms(&state->recipe, key);
    size_t plane = (size_t)set->height * (size_t)set->width;
    size_t out_plane = (size_t)state->size_y * (size_t)state->size_x;
    size_t line = (size_t)set->height * (size_t)state->size_x;
    for (int c = 0; c < set->channels; c++, out += out_plane) {
        const unsigned char *pixels =
            set->pixels + ((size_t)index * (size_t)set->channels + (size_t)c) * plane;
        if (draw.any) {
            transform_shift(pixels, set->height, set->width, draw.top, draw.left, draw.flip, work);
            pixels = work;
        }
        if (state->resize) {
            resize_run(state->resize, pixels, work + plane, work + plane + line);
            pixels = work + plane + line;
        }
        const float *table = state->table[c];
        for (size_t i = 0; i < out_plane; i++) out[i] = table[pixels[i]];
    }
}

enum status image_read(const struct dataset *dataset, enum split split, int64_t index, uint64_t key,
                       void *scratch, void *const out[]) {
    const struct image_state *state = dataset->state;
    const struct image_set *set = &state->set[split];
    read_pixels(state, set, index, key, scratch, out[0]);
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
    resize_free(&state->resize);
    free(state);
}
