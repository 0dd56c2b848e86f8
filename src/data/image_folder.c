/* folder:DIR[,train=NAME,test=NAME]: pictures in folders, as ImageNet (train/CLASS, val/CLASS) and
 * CINIC-10 (train, valid, test) lie on disks, or of classes alone; decoded when a sample is read.
 *
 * A damaged picture stops the run, or with --damaged skip is left out where its header shows it.
 * What shows only while it is decoded becomes a sample without a label: no loss and no accuracy
 * counts it, on any rank. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/image.h"
#include "data/image_folder_inputs.h"
#include "data/image_folder_split.h"

static const float cinic_mean[] = {0.47889522f, 0.47227842f, 0.43047404f},
                   cinic_std[] = {0.24205776f, 0.23828046f, 0.25874835f};

enum {
    SIZE = 224, /* of images, where pictures are of several sizes */
    WARM = 8,   /* pictures read when it is opened */
    TENTH = 10
};

struct folder_state {
    struct image_folder_classes classes;
    struct image_folder_split split[SPLIT_COUNT];
    struct augment augment;
    bool skip;
    bool undivided; /* both splits are all pictures */
    struct image_folder_room room;
    float table[PICTURE_CHANNELS][256];
};

/* --- opening --- */

static enum status open_split(const char *root, const char *name, struct folder_state *state,
                              struct image_folder_split *split) {
    split->base = strcmp(name, FOLDER_HERE) == 0 ? mem_text(root) : mem_format("%s/%s", root, name);
    TRY(image_folder_files_read(root, name, &state->classes, &split->files));
    return image_folder_split_open(split, state->skip, &state->room);
}

/* All pictures are to train on and to test on. */
static enum status share(struct folder_state *state) {
    struct image_folder_split *train = &state->split[SPLIT_TRAIN],
                              *test = &state->split[SPLIT_TEST];
    test->base = mem_text(train->base);
    test->count = train->count;
    state->undivided = true;
    test->sample = MEM_ARRAY(struct image_folder_sample, test->count);
    memcpy(test->sample, train->sample, (size_t)test->count * sizeof *test->sample);
    log_note("folder: none of val, valid, validation and test is there: all %lld pictures are "
             "used\n  --split test: those that training would keep for testing",
             (long long)test->count);
    return STATUS_OK;
}

/* Without a folder to test on every tenth picture is for that, of fewer than ten the last: as of
 * arrays (arrays.c). They are sorted by class, so that each class has its share. */
static enum status divide(const char *root, struct folder_state *state) {
    struct image_folder_split *train = &state->split[SPLIT_TRAIN],
                              *test = &state->split[SPLIT_TEST];
    int64_t all = train->count, part = all < TENTH ? all : TENTH;
    if (all < 2) return fail(STATUS_DATA, "%s: one picture, and none to test with", train->base);
    test->base = mem_text(train->base);
    test->sample = MEM_ARRAY(struct image_folder_sample, all / part);
    train->count = 0;
    for (int64_t i = 0; i < all; i++) {
        struct image_folder_split *to = i % part == part - 1 ? test : train;
        to->sample[to->count++] = train->sample[i];
    }
    log_note("folder: none of val, valid, validation and test is there: %s picture is kept for "
             "testing, %lld of %lld\n  folder:%s,test=NAME tests on another folder",
             part < TENTH ? "the last" : "every tenth", (long long)test->count, (long long)all,
             root);
    return STATUS_OK;
}

/* Pictures of one size are used at that size, as CIFAR's are; others as ImageNet's. */
static bool of_one_size(const struct folder_state *state, int *height, int *width) {
    *height = state->split[0].sample[0].height, *width = state->split[0].sample[0].width;
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; i < state->split[s].count; i++)
            if (state->split[s].sample[i].height != *height ||
                state->split[s].sample[i].width != *width)
                return false;
    return true;
}

static enum status choose_size(const char *root, const struct dataset_config *config,
                               struct folder_state *state) {
    int height, width;
    bool same = of_one_size(state, &height, &width);
    int64_t size = config->image_size;
    if (size) TRY(image_size_check(root, size));
    if (same && !size && (height > IMAGE_MAX_SIZE || width > IMAGE_MAX_SIZE))
        return fail(STATUS_USAGE,
                    "%s: all pictures are %dx%d, images are at most %d\n"
                    "  say the size with --image-size",
                    root, width, height, IMAGE_MAX_SIZE);
    bool as_is = same && (!size || (size == height && size == width));
    enum augment_policy own = as_is ? AUGMENT_CROP : AUGMENT_RESIZED_CROP;
    if (!as_is) height = width = size ? (int)size : SIZE;
    state->augment = (struct augment){.policy = config->augment ? config->augment : own,
                                      .frame = as_is ? FRAME_STRETCH : FRAME_CENTRE,
                                      .out_height = height,
                                      .out_width = width};
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; i < state->split[s].count; i++)
            image_folder_room_transform(&state->room, &state->split[s].sample[i], &state->augment);
    return STATUS_OK;
}

/* CINIC-10 is known by its classes, CIFAR-10's. */
static bool is_cinic(const struct image_folder_classes *classes) {
    static const char *const names[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                        "dog",      "frog",       "horse", "ship", "truck"};
    enum { COUNT = sizeof names / sizeof names[0] };
    if (classes->count != COUNT || !classes->folder) return false;
    for (int c = 0; c < COUNT; c++)
        if (strcmp(classes->folder[c], names[c]) != 0) return false;
    return true;
}

static uint64_t content_hash(const struct folder_state *state) {
    int64_t shape[] = {state->classes.count,          state->augment.policy,
                       state->augment.frame,          state->augment.out_height,
                       state->augment.out_width,      state->split[SPLIT_TRAIN].count,
                       state->split[SPLIT_TEST].count};
    uint64_t hash = hash64(HASH64_START, shape, sizeof shape);
    hash = hash64(hash, state->table, sizeof state->table);
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (size_t i = 0; i < state->split[s].files.count; i++) {
            const struct image_folder_file *file = &state->split[s].files.file[i];
            int64_t facts[] = {file->label, file->bytes, file->why != NULL};
            hash = hash64(hash, facts, sizeof facts);
            hash = hash64(hash, file->path, strlen(file->path));
        }
    return hash;
}

static void describe(struct folder_state *state, struct dataset *out) {
    bool cinic = is_cinic(&state->classes);
    image_fields(PICTURE_CHANNELS, state->augment.out_height, state->augment.out_width,
                 state->classes.count, out);
    if (state->skip) out->may_miss = 0; /* a damaged picture takes its label along */
    out->skips_damaged = state->skip;
    out->names = state->classes.name;
    out->frame = state->augment.frame;
    out->mean = cinic ? cinic_mean : image_imagenet_mean;
    out->std = cinic ? cinic_std : image_imagenet_std;
    for (int c = 0; c < PICTURE_CHANNELS; c++)
        transform_table(out->mean[c], out->std[c], state->table[c]);
    out->bytes = sizeof *state;
    for (int s = 0; s < SPLIT_COUNT; s++) {
        out->count[s] = state->split[s].count;
        out->damaged += state->split[s].damaged;
        out->bytes += state->split[s].files.count *
                      (sizeof(struct image_folder_file) + sizeof(struct image_folder_sample));
    }
    out->undivided = state->undivided;
    if (state->undivided) out->bytes += out->count[SPLIT_TEST] * sizeof(struct image_folder_sample);
    out->scratch_bytes = image_folder_room_bytes(&state->room);
    out->content_hash = content_hash(state);
    out->state = state;
}

static void state_free(struct folder_state *state) {
    for (int s = 0; s < SPLIT_COUNT; s++) image_folder_split_free(&state->split[s]);
    image_folder_classes_free(&state->classes);
    free(state);
}

/* --- the argument --- */

struct place {
    char *root, *name[SPLIT_COUNT]; /* NULL: not given, none found */
};

static enum status set_key(const char *spec, char *item, struct place *place) {
    static const char *const keys[SPLIT_COUNT] = {"train", "test"};
    char *value = strchr(item, '=');
    if (value) *value++ = 0;
    for (int s = 0; s < SPLIT_COUNT; s++)
        if (value && *value && strcmp(item, keys[s]) == 0) {
            place->name[s] = value;
            return STATUS_OK;
        }
    return fail(STATUS_USAGE,
                "folder:%s: '%s' is not known\n  write folder:DIR,train=NAME,test=NAME", spec,
                item);
}

static bool is_there(const char *root, const char *name) {
    SCOPED_FREE char *folder = mem_format("%s/%s", root, name),
                     *list = mem_format("%s.txt", folder);
    return file_exists(folder) || file_exists(list);
}

/* What is for choosing comes before what is for the end; NULL: nothing is there. */
static char *find_test(const char *root) {
    static char names[][12] = {"val", "valid", "validation", "test"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is_there(root, names[i])) return names[i];
    return NULL;
}

/* The pictures to train on are in "train"; or, where no folder is called like a split, the classes
 * are right here. */
static enum status find_splits(struct place *place) {
    static char train[] = "train", here[] = FOLDER_HERE;
    char *test = find_test(place->root);
    bool no_train = !place->name[SPLIT_TRAIN] && !is_there(place->root, train);
    bool flat = no_train && !test && !place->name[SPLIT_TEST];
    if (flat && !image_folder_has_classes(place->root))
        return fail(
            STATUS_DATA,
            "%s: no folder in it holds pictures, one is needed for each class\n"
            "  as cat/1.jpg; or train/cat/1.jpg, val/cat/2.jpg; or DIR,train=NAME,test=NAME\n"
            "  pictures without a class: stretto predict RUN --input %s",
            place->root, place->root);
    if (!place->name[SPLIT_TRAIN]) place->name[SPLIT_TRAIN] = flat ? here : train;
    if (!place->name[SPLIT_TEST]) place->name[SPLIT_TEST] = test;
    return STATUS_OK;
}

/* `text` is cut up; *out points into it. */
static enum status parse(const char *spec, char *text, struct place *out) {
    char *rest = text;
    *out = (struct place){.root = strsep(&rest, ",")};
    for (char *item; (item = strsep(&rest, ","));) TRY(set_key(spec, item, out));
    struct stat info;
    if (stat(out->root, &info) != 0)
        return fail(STATUS_DATA, "%s: cannot open the folder of pictures: %s", out->root,
                    strerror(errno));
    if (!S_ISDIR(info.st_mode))
        return fail(STATUS_DATA, "%s: not a folder, which data set folder needs", out->root);
    return find_splits(out);
}

static enum status open_place(const struct place *place, const struct dataset_config *config,
                              struct folder_state *state) {
    state->skip = config->skip_damaged;
    TRY(image_folder_classes_read(place->root, place->name[SPLIT_TRAIN], &state->classes));
    for (int s = 0; s < SPLIT_COUNT && place->name[s]; s++)
        TRY(open_split(place->root, place->name[s], state, &state->split[s]));
    if (!place->name[SPLIT_TEST]) TRY(config->whole ? share(state) : divide(place->root, state));
    TRY(choose_size(place->root, config, state));
    log_note("folder: images [%d,%d,%d]%s, %lld classes, tested on %s", PICTURE_CHANNELS,
             state->augment.out_height, state->augment.out_width,
             state->augment.frame == FRAME_CENTRE ? " cut from pictures of other sizes" : "",
             (long long)state->classes.count, state->split[SPLIT_TEST].base);
    return STATUS_OK;
}

/* --- reading --- */

static bool read_picture(struct folder_state *state, const struct image_folder_split *split,
                         const struct image_folder_sample *sample, uint64_t key, char *scratch,
                         struct picture_reading *reading, float *out) {
    if (!image_folder_split_decode(split, sample, &state->augment, key, &state->room, scratch,
                                   reading))
        return false;
    transform_end(&reading->transform, state->table, PICTURE_CHANNELS, out);
    return true;
}

static enum status folder_read(const struct dataset *dataset, enum split which, int64_t index,
                               uint64_t key, void *scratch, void *const out[]) {
    struct folder_state *state = dataset->state;
    const struct image_folder_split *split = &state->split[which];
    struct image_folder_sample *sample = &split->sample[index];
    struct picture_reading reading;
    *(int32_t *)out[1] = sample->label;
    if (!out[0]) return STATUS_OK;
    if (read_picture(state, split, sample, key, scratch, &reading, out[0])) return STATUS_OK;
    TRY(image_folder_split_damaged(split, sample, state->skip, reading.why));
    memset(out[0], 0, dataset_field_bytes(dataset, 0));
    *(int32_t *)out[1] = LABEL_IGNORE;
    return STATUS_OK;
}

static char *image_folder_file(const struct dataset *dataset, enum split which, int64_t index) {
    const struct folder_state *state = dataset->state;
    return image_folder_split_file(&state->split[which], index);
}

/* A few pictures of each split, read once so that the libraries' code and tables are in memory:
 * what a run takes later is then what was planned. Damage shows again where it matters. */
static void warm_up(const struct dataset *dataset) {
    struct folder_state *state = dataset->state;
    SCOPED(region_free) struct region scratch = {0};
    if (region_map(dataset->scratch_bytes, "the reading of a sample", &scratch) != STATUS_OK)
        return;
    SCOPED_FREE float *image = mem_new(dataset_field_bytes(dataset, 0));
    for (int s = 0; s < SPLIT_COUNT; s++)
        for (int64_t i = 0; i < state->split[s].count && i < WARM; i++) {
            struct picture_reading reading;
            read_picture(state, &state->split[s], &state->split[s].sample[i], 0, scratch.base,
                         &reading, image);
        }
}

static enum status run_folder_open(const char *argument, const struct dataset_config *config,
                                   struct dataset *out) {
    char *text = mem_text(argument);
    struct place place;
    struct folder_state *state = MEM_NEW(struct folder_state);
    enum status status = parse(argument, text, &place);
    if (status == STATUS_OK) status = open_place(&place, config, state);
    free(text);
    if (status != STATUS_OK) {
        state_free(state);
        return status;
    }
    describe(state, out);
    warm_up(out);
    return STATUS_OK;
}

static void folder_close(struct dataset *dataset) {
    state_free(dataset->state);
}

extern const struct dataset_ops dataset_folder;
const struct dataset_ops dataset_folder = {
    .name = "folder",
    .argument = "DIR[,train=NAME,test=NAME]",
    .help = "JPEG and PNG pictures, in a folder for each class, below train and val or alone",
    .library = picture_libraries,
    .open = run_folder_open,
    .inputs = image_folder_inputs_open,
    .read = folder_read,
    .file = image_folder_file,
    .close = folder_close,
};
