/* See folder.h. */
#include "cli/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

/* Everything a run writes; others are found by their names. */
static const char *const run_files[] = {"config.yml",  "summary.json",  "metrics.jsonl",
                                        "program.txt", "trace.json",    "model.safetensors",
                                        "report.html", "history.jsonl", "checkpoints"};
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

static char *name_of(const struct options *options) {
    bool named = option_is_set(options, OPTION_out);
    return named ? mem_text(options->out) : default_folder(options);
}

/* Its name, once it is there. */
static enum status make(const struct options *options, char **out) {
    char *folder = name_of(options);
    enum status status = folder_make(folder);
    if (status == STATUS_OK)
        *out = folder;
    else
        free(folder);
    return status;
}

static enum status refuse_run(const struct options *options, const char *folder) {
    if (options->resume || options->overwrite || !holds_run(folder)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--out %s holds a run already\n  --resume goes on with it, --overwrite starts anew",
                folder);
}

static enum status make_room(const struct options *options, const char *folder) {
    TRY(refuse_run(options, folder));
    return options->overwrite && holds_run(folder) ? remove_run(folder) : STATUS_OK;
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

static bool goes_up(const char *path) {
    for (const char *at = path; (at = strstr(at, "..")); at += 2) {
        if ((at == path || at[-1] == '/') && (at[2] == 0 || at[2] == '/')) return true;
    }
    return false;
}

/* The part of the path that is there; "" is the working folder. The rest follows it. */
static char *part_there(const char *path) {
    char *there = mem_text(path);
    while (*there && !file_exists(there)) {
        char *slash = strrchr(there, '/');
        if (slash == there && there[1])
            there[1] = 0; /* the root */
        else
            *(slash ? slash : there) = 0;
    }
    return there;
}

/* Makes each folder of a path, from its byte `from` on. False, and errno, when one cannot be made.
 */
static bool make_each(char *path, size_t from) {
    bool made = true;
    for (char *at = path + from; made; at++) {
        if (*at != '/' && *at != 0) continue;
        char kept = *at;
        *at = 0;
        made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *at = kept;
        if (!kept) break;
    }
    return made;
}

/* A folder that is not there yet: the same names are made below one of our own beside the first
 * that is missing. Not in their place: a run that starts meanwhile may need them. */
static enum status try_missing(const char *folder) {
    char *there = part_there(folder);
    const char *rest = folder + strlen(there);
    char *own = mem_format("%s%s.stretto-trial-%d", there, *there ? "/" : "", (int)getpid());
    char *path = mem_format("%s/%s", own, goes_up(rest) ? "" : rest);
    enum status status = STATUS_OK;
    if (!make_each(path, strlen(own)))
        status = fail(STATUS_DATA, "%s: cannot create folder: %s", folder, strerror(errno));
    if (status == STATUS_OK) status = try_write(path);
    if (file_exists(own)) folder_remove(own);
    free(there);
    free(own);
    free(path);
    return status;
}

enum status folder_check(const struct options *options, bool keeps) {
    char *folder = name_of(options);
    enum status status;
    if (!file_exists(folder)) {
        status = try_missing(folder);
    } else {
        status = folder_make(folder); /* says so where it is none */
        if (status == STATUS_OK && keeps) status = lock_check(folder);
        if (status == STATUS_OK && keeps) status = refuse_run(options, folder);
        if (status == STATUS_OK) status = try_write(folder);
    }
    free(folder);
    return status;
}
