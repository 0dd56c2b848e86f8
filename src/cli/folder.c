/* See folder.h. */
#include "cli/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

/* Everything a run writes; others are found by their names. */
static const char *const run_files[] = {"config.yml",  "summary.json", "metrics.jsonl",
                                        "program.txt", "trace.json",   "model.safetensors",
                                        "report.html", "checkpoints"};
static const char event_prefix[] = "events.out.tfevents.";

char *folder_path(const char *folder, const char *name) {
    return mem_format("%s/%s", folder, name);
}

static bool holds_run(const char *folder) {
    bool holds = false;
    const char *const signs[] = {"metrics.jsonl", "checkpoints", "summary.json", "config.yml"};
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        char *path = folder_path(folder, signs[i]);
        holds |= file_exists(path);
        free(path);
    }
    return holds;
}

/* Files a run writes whose names it makes up: events, and those of each rank. */
static bool is_numbered(const char *name) {
    int number, tensors = 0, log = 0;
    sscanf(name, "rank-%d.safetensors%n", &number, &tensors);
    sscanf(name, "rank-%d.log%n", &number, &log);
    return strncmp(name, event_prefix, sizeof event_prefix - 1) == 0 ||
           (tensors > 0 && !name[tensors]) || (log > 0 && !name[log]);
}

static enum status remove_numbered(const char *folder) {
    DIR *entries = opendir(folder);
    enum status status = STATUS_OK;
    for (struct dirent *entry; entries && status == STATUS_OK && (entry = readdir(entries));) {
        if (!is_numbered(entry->d_name)) continue;
        char *path = folder_path(folder, entry->d_name);
        status = folder_remove(path);
        free(path);
    }
    if (entries) closedir(entries);
    return status;
}

static enum status remove_run(const char *folder) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < sizeof run_files / sizeof run_files[0] && status == STATUS_OK; i++) {
        char *path = folder_path(folder, run_files[i]);
        status = folder_remove(path);
        free(path);
    }
    return status == STATUS_OK ? remove_numbered(folder) : status;
}

static enum status try_write(const char *folder) {
    char *path = folder_path(folder, ".stretto-write-test");
    enum status status = file_write_text(path, "can this folder be written to?\n");
    unlink(path);
    free(path);
    return status;
}

static char *default_folder(const struct options *options) {
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    char *path = mem_format("runs/%s-%s", options->model, stamp);
    for (int i = 2; file_exists(path); i++) { /* several runs in one second */
        free(path);
        path = mem_format("runs/%s-%s-%d", options->model, stamp, i);
    }
    return path;
}

/* Its name, once it is there. */
static enum status make(const struct options *options, char **out) {
    bool named = option_is_set(options, OPTION_out);
    char *folder = named ? mem_text(options->out) : default_folder(options);
    enum status status = folder_make(folder);
    if (status == STATUS_OK)
        *out = folder;
    else
        free(folder);
    return status;
}

static enum status make_room(const struct options *options, const char *folder) {
    if (options->resume || !holds_run(folder)) return STATUS_OK;
    if (options->overwrite) return remove_run(folder);
    return fail(STATUS_USAGE,
                "--out %s holds a run already\n  --resume goes on with it, --overwrite starts anew",
                folder);
}

enum status folder_open(const struct options *options, char **out, struct lock **lock) {
    char *folder;
    struct lock *taken = NULL;
    TRY(make(options, &folder));
    enum status status = lock_take(folder, &taken);
    if (status == STATUS_OK) status = make_room(options, folder);
    if (status == STATUS_OK) status = try_write(folder);
    if (status == STATUS_OK) {
        *out = folder;
        *lock = taken;
        return STATUS_OK;
    }
    lock_give_back(&taken);
    free(folder);
    return status;
}

enum status folder_follow(const struct options *options, char **out) {
    char *folder;
    TRY(make(options, &folder));
    enum status status = try_write(folder);
    if (status == STATUS_OK)
        *out = folder;
    else
        free(folder);
    return status;
}
