/* See outputs.h. Files are compared by what they are on the disk, so that a symbolic or a hard link
 * to an input is that input; and by content, not by name, so that an older output may be replaced
 * and nothing else. Rejected: to ask for --overwrite whenever a file is there, for then scripts
 * that repeat a command would always name it, and it would protect nothing. */
#include "run/outputs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/checkpoint.h"
#include "planned/paths.h"
#include "record/draw.h"
#include "run/run_folder.h"

/* The options that name what is written, and the kind of it by how the name ends. */
static const struct row {
    enum option_id id;
    const char *ending;
    enum output_kind kind;
} rows[] = {
    {OPTION_save_program, "", OUTPUT_PROGRAM}, {OPTION_save_profile, "", OUTPUT_PROFILE},
    {OPTION_draw, ".svg", OUTPUT_SVG},         {OPTION_draw, ".html", OUTPUT_PAGE},
    {OPTION_write, "", OUTPUT_CONFIG},         {OPTION_output, ".json", OUTPUT_RESULTS},
    {OPTION_output, ".csv", OUTPUT_CLASSES},   {OPTION_output, ".npy", OUTPUT_ARRAY},
    {OPTION_output, ".jsonl", OUTPUT_LINES},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

bool outputs_are_written(enum option_id id) {
    bool is = id == OPTION_out;
    for (int i = 0; i < ROWS; i++) is |= rows[i].id == id;
    return is;
}

/* --- inputs --- */

struct search {
    const struct output *output;
    const char *folder; /* of the output */
};

static enum status refuse_input(const struct output *output, const char *label) {
    return fail(STATUS_USAGE, "%s %s: this file is an input (%s), which is not written over",
                output->label, output->path, label);
}

/* A folder of weights may be any program's: what it holds is not ours to replace. */
static enum status compare_input(void *context, const char *path, const char *label) {
    const struct search *search = context;
    const struct output *output = search->output;
    bool inside = output->kind == OUTPUT_TENSORS && file_is_same(path, search->folder) &&
                  strcmp(label, "--weights") == 0;
    return inside || file_is_same(path, output->path) ? refuse_input(output, label) : STATUS_OK;
}

static enum status check_inputs(const struct output *output, const struct options *options) {
    SCOPED_FREE char *folder = folder_of(output->path);
    struct search search = {output, folder};
    return paths_each_input(options, compare_input, &search);
}

/* --- files of a run --- */

static bool is_part_of(const char *folder, const char *name, const char *own) {
    if (run_folder_is_run_name(name) &&
        ((own && strcmp(own, folder) == 0) || run_folder_is_run(folder)))
        return true;
    return strncmp(name, "step-", 5) == 0 && checkpoint_is_ours(folder);
}

/* The run, or the folder of checkpoints, that a path lies in as one of its files; NULL: none, else
 * the caller frees it. `own` is the folder that this command will write; NULL: none. */
static char *owner_of(const char *path, const char *own) {
    char *whole = file_resolved(path);
    for (char *slash; (slash = strrchr(whole, '/')) && slash > whole;) {
        *slash = 0; /* what is behind ends at the slash before */
        if (is_part_of(whole, slash + 1, own)) return whole;
    }
    free(whole);
    return NULL;
}

static enum status refuse_owned(const char *path, const char *label, const char *own) {
    char *owner = owner_of(path, own), *target = owner ? NULL : realpath(path, NULL);
    if (target) owner = owner_of(target, own);
    free(target);
    if (!owner) return STATUS_OK;
    enum status status =
        fail(STATUS_USAGE, "%s %s: this is a file of the run in %s, which only the run writes",
             label, path, owner);
    free(owner);
    return status;
}

/* --- what is there --- */

static enum status check_kind(const struct output *output) {
    enum output_kind kind;
    TRY(outputs_kind_of(output->path, output->kind, &kind));
    if (kind == output->kind) return STATUS_OK;
    if (kind < OUTPUT_KINDS)
        return fail(STATUS_USAGE, "%s %s: the file there is %s, not %s, and is not written over",
                    output->label, output->path, outputs_words(kind), outputs_words(output->kind));
    return fail(STATUS_USAGE, "%s %s: the file there is not %s, and is not written over",
                output->label, output->path, outputs_words(output->kind));
}

static enum status check_existing(const struct output *output) {
    struct stat info;
    if (stat(output->path, &info) != 0) {
        if (!outputs_is_new(output->kind) || !file_exists(output->path)) return STATUS_OK;
        return fail(STATUS_USAGE, "%s %s: a link is there, and is not written over", output->label,
                    output->path);
    }
    if (S_ISDIR(info.st_mode))
        return fail(STATUS_USAGE, "%s %s: a folder, where a file is to be written", output->label,
                    output->path);
    if (outputs_is_new(output->kind))
        return fail(STATUS_USAGE, "%s %s: the file exists and is not written over", output->label,
                    output->path);
    /* what is no regular file is refused by whoever would write it */
    if (!S_ISREG(info.st_mode) || info.st_size == 0) return STATUS_OK;
    return check_kind(output);
}

/* As the writer will do it: a file beside it, which then takes its name. */
static enum status try_writing(const struct output *output) {
    char *folder = folder_of(output->path);
    bool later = output->folder_later && !file_exists(folder);
    free(folder);
    struct file_writer trial;
    if (later) return STATUS_OK;
    TRY(file_begin(output->path, &trial));
    file_abandon(&trial);
    return STATUS_OK;
}

static enum status judge(const struct output *output, const struct options *options,
                         const char *own) {
    if (!*output->path) return fail(STATUS_USAGE, "%s: no file was named", output->label);
    TRY(check_inputs(output, options));
    TRY(refuse_owned(output->path, output->label, own));
    TRY(check_existing(output));
    return try_writing(output);
}

enum status outputs_judge(const struct output *output, const struct options *options) {
    return judge(output, options, NULL);
}

/* --- those of a command --- */

/* The row of a name that is given; its command has refused names of other endings. */
static bool is_written(const struct options *options, const struct row *row) {
    return option_is_given(options, row->id) &&
           text_ends_in(option_string(options, row->id), row->ending);
}

/* Two outputs in one file. */
static enum status check_once(const struct options *options, int index) {
    SCOPED_FREE char *path = file_resolved(option_string(options, rows[index].id));
    for (int i = 0; i < index; i++) {
        if (!is_written(options, &rows[i])) continue;
        SCOPED_FREE char *other = file_resolved(option_string(options, rows[i].id));
        if (strcmp(path, other) == 0 || file_is_same(path, other))
            return fail(STATUS_USAGE, "--%s %s: --%s writes this file, too",
                        option_rows[rows[index].id].name, option_string(options, rows[index].id),
                        option_rows[rows[i].id].name);
    }
    return STATUS_OK;
}

/* The folder of the run, or one that it lies in, is made before the output is written. */
static enum status check_beside(const struct output *output, const char *own) {
    char *path = file_resolved(output->path);
    size_t length = strlen(path);
    bool taken = own && strncmp(own, path, length) == 0 && (own[length] == 0 || own[length] == '/');
    free(path);
    if (!taken) return STATUS_OK;
    return fail(STATUS_USAGE, "%s %s: the run makes a folder of this name", output->label,
                output->path);
}

static enum status check_row(const struct options *options, int index, const char *own) {
    const char *path = option_string(options, rows[index].id);
    SCOPED_FREE char *label = mem_format("--%s", option_rows[rows[index].id].name),
                     *folder = folder_of(path), *whole = file_resolved(folder);
    struct output output = {.kind = rows[index].kind,
                            .path = path,
                            .label = label,
                            .folder_later = own && strcmp(own, whole) == 0};
    TRY(judge(&output, options, own));
    TRY(check_beside(&output, own));
    return check_once(options, index);
}

/* What is there, and whether it can be written to, is for the rendezvous itself to say. */
static enum status check_rendezvous(const struct options *options, const char *own) {
    static const char scheme[] = "file://";
    bool file = option_is_given(options, OPTION_init) &&
                strncmp(options->init, scheme, sizeof scheme - 1) == 0;
    if (!file) return STATUS_OK;
    struct output output = {.path = options->init + sizeof scheme - 1, .label = "--init"};
    TRY(check_inputs(&output, options));
    return refuse_owned(output.path, output.label, own);
}

/* The folder that a link leads to; else where it will be. The caller frees it. */
static char *folder_behind(const char *name) {
    char *real = realpath(name, NULL);
    return real ? real : file_resolved(name);
}

/* The folder that the command will write, whose name may be a link to it; NULL: none. Without --out
 * it is a new one in "runs". */
static char *own_folder(const struct options *options) {
    if (!(options->command & (COMMAND_TRAIN | COMMAND_EXPLAIN))) return NULL;
    return folder_behind(option_is_set(options, OPTION_out) ? options->out : "runs/new");
}

/* Whether the rest of a spec of folder:DIR names this folder of DIR as one of pictures, or it is
 * one that is looked for. */
static bool is_split(const char *name, size_t length, const char *named) {
    static const char *const known[] = {"train", "val", "valid", "validation", "test"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]) == length && strncmp(name, known[i], length) == 0) return true;
    for (const char *at = named; (at = strchr(at, '='));) {
        size_t bytes = strcspn(++at, ",");
        if (bytes == length && strncmp(name, at, length) == 0) return true;
    }
    return false;
}

/* Folders among pictures are classes: a run there would be one from the next start on. */
static enum status check_classes(const struct options *options, const char *own) {
    static const char scheme[] = "folder:";
    bool is = own && options->data && strncmp(options->data, scheme, sizeof scheme - 1) == 0;
    if (!is) return STATUS_OK;
    const char *at = options->data + sizeof scheme - 1, *named = at + strcspn(at, ",");
    char *given = mem_format("%.*s", (int)(named - at), at), *whole = realpath(given, NULL);
    char *train = mem_format("%s/train", given);
    size_t length = whole ? strlen(whole) : 0;
    bool below = whole && strncmp(own, whole, length) == 0 && own[length] == '/';
    const char *name = below ? own + length + 1 : "";
    bool among =
        below && (is_split(name, strcspn(name, "/"), named) || (!*named && !file_exists(train)));
    free(given);
    free(whole);
    free(train);
    if (!among) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--out %s: a folder among the pictures of --data %s is a class\n"
                "  name one that is elsewhere",
                option_is_set(options, OPTION_out) ? options->out : "runs", options->data);
}

enum status outputs_check(const struct options *options) {
    SCOPED_FREE char *own = own_folder(options);
    TRY(check_classes(options, own));
    if (option_is_given(options, OPTION_draw)) TRY(draw_check(options->draw));
    for (int i = 0; i < ROWS; i++)
        if (is_written(options, &rows[i])) TRY(check_row(options, i, own));
    return check_rendezvous(options, own);
}

/* --- folders --- */

static bool is_home(const char *whole) {
    const char *home = getenv("HOME");
    return home && *home && file_is_same(home, whole);
}

/* By the standard of file systems; temporary files have a folder, runs a folder in it. */
static bool is_of_system(const char *whole) {
    static const char *const alone[] = {
        "/",    "/dev", "/dev/shm", "/home", "/media",     "/mnt",       "/opt", "/proc",   "/root",
        "/run", "/srv", "/tmp",     "/usr",  "/usr/local", "/usr/share", "/var", "/var/tmp"};
    static const char *const below[] = {"/bin",     "/boot",     "/etc",        "/lib", "/lib32",
                                        "/lib64",   "/libx32",   "/sbin",       "/sys", "/usr/bin",
                                        "/usr/lib", "/usr/sbin", "/usr/include"};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++)
        if (strcmp(whole, alone[i]) == 0) return true;
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        size_t length = strlen(below[i]);
        if (strncmp(whole, below[i], length) == 0 && (!whole[length] || whole[length] == '/'))
            return true;
    }
    return false;
}

enum status outputs_judge_folder(const char *path, const char *label) {
    struct stat info;
    SCOPED_FREE char *whole = folder_behind(path);
    if (!*path) return fail(STATUS_USAGE, "%s: no folder was named", label);
    if (is_of_system(whole) || is_home(whole))
        return fail(STATUS_USAGE, "%s %s: %s is not for the files of a run; name a folder in it",
                    label, path, is_home(whole) ? "the home folder" : "a folder of the system");
    if (stat(path, &info) == 0 && !S_ISDIR(info.st_mode))
        return fail(STATUS_USAGE, "%s %s: a file, where a folder is to be written", label, path);
    return refuse_owned(path, label, NULL);
}

/* What lies in the run as a file of it, or is the run. */
static enum status check_kept(void *context, const char *path, const char *label) {
    const char *folder = context;
    char *real = realpath(path, NULL);
    size_t length = strlen(folder);
    bool goes = real && strcmp(real, folder) == 0 && strcmp(label, "--weights") == 0;
    if (real && strncmp(real, folder, length) == 0 && real[length] == '/') {
        SCOPED_FREE char *name =
            mem_format("%.*s", (int)strcspn(real + length + 1, "/"), real + length + 1);
        goes = run_folder_is_run_name(name);
    }
    free(real);
    if (!goes) return STATUS_OK;
    return fail(STATUS_USAGE, "%s %s: --overwrite would remove this input", label, path);
}

enum status outputs_keep_inputs(const struct options *options, const char *folder) {
    SCOPED_FREE char *whole = realpath(folder, NULL);
    if (!whole) return STATUS_OK;
    return paths_each_input(options, check_kept, whole);
}
