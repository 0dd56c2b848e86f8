/* Pictures without labels, for who uses a trained model: all of a folder, or files by their names.
 * The `inputs` of data set folder's ops.
 *
 * They are framed as the pictures of the training data were: the centre is taken where those were
 * of several sizes. Of data sets whose images are of one size a picture of that size stays as it
 * is, and of others the centre is taken, too. A model of one channel gets Pillow's grey. */
#include "data/image_folder_inputs.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/image_folder_split.h"

struct inputs {
    struct image_folder_split split;
    struct image_folder_room room;
    struct augment whole, centre;
    bool centred; /* all of them */
    bool skip;
    int channels;
    float table[PICTURE_CHANNELS][256];
};

static const struct augment *augment_of(const struct inputs *inputs,
                                        const struct image_folder_sample *sample) {
    bool fits = sample->height == inputs->whole.out_height && //
                sample->width == inputs->whole.out_width;
    return fits && !inputs->centred ? &inputs->whole : &inputs->centre;
}

/* --- reading --- */

static size_t grey_bytes(const struct inputs *inputs) {
    size_t plane = (size_t)inputs->whole.out_height * (size_t)inputs->whole.out_width;
    return inputs->channels == 1 ? PICTURE_CHANNELS * plane * sizeof(float) : 0;
}

/* Of the resized picture: where colours are equal, as in a grey one, grey is that colour. */
static void to_grey(const struct inputs *inputs, const struct transform *transform, float *colours,
                    float *out) {
    float as_is[PICTURE_CHANNELS][256];
    int64_t plane = (int64_t)inputs->whole.out_height * inputs->whole.out_width;
    for (int v = 0; v < PICTURE_CHANNELS * 256; v++) as_is[v / 256][v % 256] = (float)(v % 256);
    transform_end(transform, as_is, PICTURE_CHANNELS, colours);
    for (int64_t p = 0; p < plane; p++) {
        int red = (int)colours[p], green = (int)colours[plane + p],
            blue = (int)colours[2 * plane + p];
        out[p] = inputs->table[0][(red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16];
    }
}

static void set_labels(const struct dataset *dataset, int32_t label, void *const out[]) {
    for (int f = 1; f < dataset->field_count; f++)
        for (int64_t i = 0; i < shape_count(&dataset->field[f].shape); i++)
            ((int32_t *)out[f])[i] = label;
}

/* A label tells a picture from a damaged one; which it is nobody asks. */
static enum status inputs_read(const struct dataset *dataset, enum split split, int64_t index,
                               uint64_t key, void *scratch, void *const out[]) {
    const struct inputs *inputs = dataset->state;
    struct image_folder_sample *sample = &inputs->split.sample[index];
    const struct augment *augment = augment_of(inputs, sample);
    struct picture_reading reading;
    (void)split, (void)key;
    set_labels(dataset, 0, out);
    if (!out[0]) return STATUS_OK;
    if (!image_folder_split_decode(&inputs->split, sample, augment, 0, &inputs->room, scratch,
                                   &reading)) {
        TRY(image_folder_split_damaged(&inputs->split, sample, inputs->skip, reading.why));
        memset(out[0], 0, dataset_field_bytes(dataset, 0));
        set_labels(dataset, LABEL_IGNORE, out);
    } else if (inputs->channels == 1) {
        float *colours = (float *)((char *)scratch + image_folder_room_bytes(&inputs->room));
        to_grey(inputs, &reading.transform, colours, out[0]);
    } else {
        transform_end(&reading.transform, (float(*)[256])inputs->table, PICTURE_CHANNELS, out[0]);
    }
    return STATUS_OK;
}

static char *inputs_file(const struct dataset *dataset, enum split split, int64_t index) {
    (void)split;
    return image_folder_split_file(&((const struct inputs *)dataset->state)->split, index);
}

static void free_state(struct inputs *inputs) {
    image_folder_split_free(&inputs->split);
    free(inputs);
}

static void inputs_close(struct dataset *dataset) {
    free_state(dataset->state);
}

static const struct dataset_ops ops = {.name = "pictures",
                                       .help = "pictures without labels",
                                       .read = inputs_read,
                                       .file = inputs_file,
                                       .close = inputs_close};

/* --- opening --- */

static enum status check_field(const char *paths, const struct field *field) {
    bool image = strcmp(field->name, "image") == 0;
    char shape[SHAPE_TEXT_BYTES];
    if (image && (field->shape.dim[0] == 1 || field->shape.dim[0] == PICTURE_CHANNELS))
        return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: a picture has 3 colours or is grey, the model takes %s %s\n"
                "  --input FILE.npy holds rows of them",
                paths, field->name, shape_text(&field->shape, shape));
}

static void set_table(const char *paths, const struct dataset *like, struct inputs *inputs) {
    if (!like->mean)
        log_warning("%s: the model was not trained on pixels: they become 0 to 1", paths);
    for (int c = 0; c < inputs->channels; c++)
        transform_table(like->mean ? like->mean[c] : 0, like->std ? like->std[c] : 1,
                        inputs->table[c]);
}

static uint64_t content_hash(const struct inputs *inputs) {
    uint64_t hash = hash64(HASH64_START, inputs->table, sizeof inputs->table);
    for (int64_t i = 0; i < inputs->split.count; i++) {
        const struct image_folder_sample *sample = &inputs->split.sample[i];
        int32_t size[] = {sample->height, sample->width};
        hash = hash64(hash, sample->path, strlen(sample->path));
        hash = hash64(hash, size, sizeof size);
    }
    return hash;
}

static enum status open_pictures(const char *paths, const struct dataset *like,
                                 const struct field *field, struct inputs *inputs) {
    const struct shape *image = &field->shape;
    TRY(check_field(paths, field));
    TRY(image_folder_loose_read(paths, &inputs->split.base, &inputs->split.files));
    TRY(image_folder_split_open(&inputs->split, inputs->skip, &inputs->room));
    inputs->channels = (int)image->dim[0];
    inputs->centred = like->frame == FRAME_CENTRE;
    inputs->whole = (struct augment){.policy = AUGMENT_NONE,
                                     .frame = FRAME_STRETCH,
                                     .out_height = (int)image->dim[1],
                                     .out_width = (int)image->dim[2]};
    inputs->centre = inputs->whole;
    inputs->centre.frame = FRAME_CENTRE;
    for (int64_t i = 0; i < inputs->split.count; i++)
        image_folder_room_transform(&inputs->room, &inputs->split.sample[i], &inputs->whole);
    set_table(paths, like, inputs);
    return STATUS_OK;
}

enum status image_folder_inputs_open(const char *paths, const struct dataset *like, bool skip,
                                     struct dataset *out) {
    struct inputs *inputs = MEM_NEW(struct inputs);
    inputs->skip = skip;
    enum status status = open_pictures(paths, like, &out->field[0], inputs);
    if (status != STATUS_OK) {
        free_state(inputs);
        return status;
    }
    out->ops = &ops;
    out->state = inputs;
    out->count[SPLIT_TRAIN] = out->count[SPLIT_TEST] = inputs->split.count;
    out->may_miss = skip ? 0 : 1; /* a damaged picture takes its label along */
    out->skips_damaged = skip;
    out->damaged = inputs->split.damaged;
    out->names = like->names;
    out->scratch_bytes = image_folder_room_bytes(&inputs->room) + grey_bytes(inputs);
    out->bytes = sizeof *inputs + inputs->split.files.count * (sizeof(struct image_folder_file) +
                                                               sizeof(struct image_folder_sample));
    out->content_hash = content_hash(inputs);
    return STATUS_OK;
}
