/* See trained.h. */
#include "run/trained.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "data/input.h"
#include "data/outline.h"
#include "model/model.h"
#include "plan/resolve.h"
#include "run/option_files.h"
#include "run/resume.h"

/* The folder of the run that `path` belongs to: itself, or two above a checkpoint. The caller frees
 * it; NULL: none. */
static char *run_folder(const char *path) {
    char *folder = mem_text(path);
    for (int up = 0; up < 2; up++) {
        char *config = mem_format("%s/config.yml", folder);
        bool found = file_exists(config);
        free(config);
        if (found) return folder;
        char *above = mem_format("%s/../..", folder);
        free(folder);
        folder = above;
    }
    free(folder);
    return NULL;
}

/* What the run noted of its data; NULL: it is no run, or of a version that noted nothing. */
static enum status read_outline(const char *path, struct dataset **out) {
    SCOPED_FREE char *folder = run_folder(path),
                     *file = folder ? folder_path(folder, "data.json") : NULL;
    enum status status = STATUS_OK;
    *out = NULL;
    if (file && file_exists(file)) status = outline_read(file, out);
    return status;
}

static bool is_named_now(const struct options *options, enum option_id id) {
    return options->source[id] == OPTION_FROM_COMMAND_LINE;
}

/* The images of the run; NULL: there are none. */
static struct shape *image_of(struct dataset *outline) {
    int image = outline ? dataset_field(outline, "image") : -1;
    return image < 0 ? NULL : &outline->field[image].shape;
}

/* A size that is named now is wanted, whatever the run's was. */
static enum status outline_now(const struct options *options, struct dataset **out) {
    TRY(read_outline(options->argument[0], out));
    struct shape *image = image_of(*out);
    if (image && is_named_now(options, OPTION_image_size))
        image->dim[1] = image->dim[2] = options->image_size;
    return STATUS_OK;
}

/* Whether nothing says what the data were: weights without a run, and pictures or rows to predict.
 */
static bool is_like_pictures(const struct options *options, const struct model *model) {
    return !option_is_given(options, OPTION_data) && options->command == COMMAND_PREDICT &&
           option_is_given(options, OPTION_input) && input_is_file(options->input) &&
           option_is_given(options, OPTION_classes) && model->side > 0;
}

enum status trained_like(const struct options *options, struct dataset **out) {
    *out = NULL;
    if (!is_named_now(options, OPTION_data)) TRY(outline_now(options, out));
    if (*out) return STATUS_OK;
    const struct model *model = model_find(options->model);
    CHECK(model, "no model is called %s", options->model);
    if (!is_like_pictures(options, model)) return resolve_data(options, model, out);
    int64_t side = option_is_given(options, OPTION_image_size) ? options->image_size : model->side;
    *out = outline_of_pictures(side, options->classes);
    return STATUS_OK;
}

enum status trained_check(const struct options *options, const struct dataset *data) {
    SCOPED(dataset_free) struct dataset *outline = NULL;
    TRY(outline_now(options, &outline));
    if (!outline) return STATUS_OK;
    return outline_check(outline, data);
}

/* What says which model it is, of which data, and how it computes: all of these groups, also what
 * this command does not take; of others what it takes. */
static bool is_of_model(enum option_id id, enum option_command command) {
    const struct option_row *row = &option_rows[id];
    bool whole = row->group == OPTION_GROUP_MODEL || row->group == OPTION_GROUP_NUMERICS,
         part = row->group == OPTION_GROUP_OPTIMIZER || row->group == OPTION_GROUP_LENGTH;
    return (whole || (part && row->commands & (unsigned)command)) &&
           !(row->commands & OPTION_NOT_IN_FILE);
}

static enum status set_number(struct options *options, enum option_id id, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return option_set(options, id, text, option_rows[id].name, OPTION_FROM_FILE);
}

/* The summary of a run that ended says it, whatever version wrote it; 0: it does not. */
static int64_t size_of_summary(const char *folder) {
    char *path = mem_format("%s/summary.json", folder);
    json_auto_t *summary = json_load_file(path, 0, NULL);
    free(path);
    json_int_t batch = json_integer_value(json_object_get(summary, "batch")),
               replicas = json_integer_value(json_object_get(summary, "replicas")),
               micro = json_integer_value(json_object_get(summary, "micro_batches"));
    return batch > 0 && replicas > 0 && micro > 0 ? batch / replicas / micro : 0;
}

/* Without a summary it follows from the options, if they tell how many ranks there were. */
static int64_t micro_batch_size(const char *folder, struct options *kept) {
    int64_t size = size_of_summary(folder);
    int replicas;
    if (size > 0) return size;
    if (resolve_replicas(kept, (int)kept->local_ranks, &replicas) == STATUS_OK &&
        options_solve_batch(kept, replicas) == STATUS_OK)
        return kept->micro_batch_size;
    return kept->batch;
}

/* An input that is no file names a data set. */
static bool names_data(const struct options *given) {
    return option_is_given(given, OPTION_input) && !input_is_file(given->input);
}

/* Other data are seen at the size of the run's own, where nothing says another. */
static enum status take_size(const struct options *given, struct options *out) {
    SCOPED(dataset_free) struct dataset *outline = NULL;
    if (!names_data(given) && !option_is_given(given, OPTION_data)) return STATUS_OK;
    TRY(read_outline(given->argument[0], &outline));
    const struct shape *image = image_of(outline);
    if (image && image->dim[1] == image->dim[2] && !option_is_given(out, OPTION_image_size))
        TRY(set_number(out, OPTION_image_size, image->dim[1]));
    return STATUS_OK;
}

static enum status take_run(const char *folder, struct options *out) {
    char *path = mem_format("%s/config.yml", folder);
    SCOPED(options_free) struct options kept = {0};
    options_init(COMMAND_TRAIN, &kept);
    enum status status = resume_read_config(path, &kept);
    free(path);
    for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++) {
        if (!is_of_model((enum option_id)id, out->command) ||
            !option_is_given(&kept, (enum option_id)id))
            continue;
        SCOPED_FREE char *text = option_text(&kept, (enum option_id)id);
        status = option_set(out, (enum option_id)id, text, option_rows[id].name, OPTION_FROM_FILE);
    }
    if (status == STATUS_OK)
        status = set_number(out, OPTION_micro_batch_size, micro_batch_size(folder, &kept));
    return status;
}

static enum status refuse_nameless(const char *path, bool folder) {
    if (folder)
        return fail(STATUS_USAGE,
                    "%s holds no run: it has no config.yml\n  is the name right? Of other weights, "
                    "name --model and --data",
                    path);
    return fail(STATUS_USAGE,
                "%s: weights do not say which model they are of\n  name --model and --data, or "
                "give the folder of the run",
                path);
}

/* To predict, a number of classes is enough for a model of images. */
static enum status check_data_named(const char *path, const struct options *given) {
    const struct model *model = model_find(given->model);
    bool images = given->command == COMMAND_PREDICT && model && model->side > 0;
    if (option_is_given(given, OPTION_data) || names_data(given)) return STATUS_OK;
    if (!images)
        return fail(STATUS_USAGE,
                    "%s: weights do not say which data they are for\n  name --data too; "
                    "synthetic:size=N,classes=N tells shapes alone",
                    path);
    if (!option_is_given(given, OPTION_input))
        return fail(STATUS_USAGE,
                    "%s: there is nothing to predict\n  name --input, pictures or rows of a .npy "
                    "file; or --data, a data set",
                    path);
    if (!option_is_given(given, OPTION_classes))
        return fail(STATUS_USAGE,
                    "%s: weights do not say of how many classes they are\n  name --classes N; or "
                    "--data, a data set that has them",
                    path);
    return STATUS_OK;
}

/* Whether two specs, "KIND:PATH,...", name one file or folder; keys behind the path may differ. */
static bool is_same_data(const char *a, const char *b) {
    const char *const spec[] = {a, b};
    struct stat info[2];
    if (strcspn(a, ":") != strcspn(b, ":") || strncmp(a, b, strcspn(a, ":")) != 0) return false;
    for (int i = 0; i < 2; i++) {
        const char *argument = spec[i] + strcspn(spec[i], ":");
        argument += *argument == ':';
        char *path = mem_format("%.*s", (int)strcspn(argument, ","), argument);
        int found = stat(path, &info[i]);
        free(path);
        if (found != 0) return false;
    }
    return info[0].st_dev == info[1].st_dev && info[0].st_ino == info[1].st_ino;
}

/* Where the run's own data are named again, a split of them is meant, as in training. */
static enum status know_own(const char *own, const struct options *given, struct options *out) {
    bool named = option_is_given(given, OPTION_data) && !names_data(given),
         same = named && (strcmp(own, out->data) == 0 || is_same_data(own, out->data));
    if (!same || option_is_given(out, OPTION_split)) return STATUS_OK;
    return option_set(out, OPTION_split, out->split, "--split", OPTION_FROM_FILE);
}

static enum status merge(const struct options *given, struct options *out) {
    const char *path = given->argument[0];
    struct stat info;
    if (stat(path, &info) != 0) return fail(STATUS_DATA, "%s: %s", path, strerror(errno));
    char *folder = S_ISDIR(info.st_mode) ? run_folder(path) : NULL;
    const char *own = "";
    enum status status = STATUS_OK;
    if (folder) {
        status = take_run(folder, out);
        own = out->data;
        if (status == STATUS_OK) status = take_size(given, out);
    } else if (!option_is_given(given, OPTION_model))
        status = refuse_nameless(path, S_ISDIR(info.st_mode));
    else
        status = check_data_named(path, given);
    if (status == STATUS_OK && !folder)
        status = set_number(out, OPTION_micro_batch_size, out->batch);
    free(folder);
    TRY(status);
    TRY(set_number(out, OPTION_micro_batches, 1));
    TRY(resume_apply_given(given, out));
    if (names_data(given))
        TRY(option_set(out, OPTION_data, given->input, "--input", OPTION_FROM_COMMAND_LINE));
    TRY(know_own(own, given, out));
    return run_option_files_apply(out, out);
}

enum status trained_with(const struct options *given, enum status (*run)(const struct options *)) {
    SCOPED(options_free) struct options merged = {0};
    options_init(given->command, &merged);
    merged.argument = given->argument;
    merged.argument_count = given->argument_count;
    TRY(merge(given, &merged));
    return run(&merged);
}
