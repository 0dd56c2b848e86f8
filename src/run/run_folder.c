/* See run_folder.h. */
#include "run/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/checkpoint.h"
#include "record/summary.h"
#include "run/kept_costs.h"
#include "run/outputs.h"

/* Files a run writes; others are found by their names, checkpoints by src/exec. */
static const char *const run_files[] = {
    "config.yml",   "metrics.jsonl",     "program.txt",
    "trace.json",   "model.safetensors", "report.html",
    "summary.json", "history.jsonl",     "model.safetensors.index.json",
    "data.json",    "config.json"};
enum { RUN_FILES = sizeof run_files / sizeof run_files[0] };
static const char event_prefix[] = "events.out.tfevents.";
static const char mark[] = ".stretto-run";
static const char checkpoints[] = "checkpoints";

static bool has(const char *folder, const char *name) {
    SCOPED_FREE char *path = folder_path(folder, name);
    return file_exists(path);
}

/* Marked by a run as it began, or by what it left; a name like config.yml alone is anybody's. */
bool run_folder_is_run(const char *folder) {
    SCOPED_FREE char *summary = folder_path(folder, "summary.json"),
                     *saves = folder_path(folder, checkpoints);
    return has(folder, mark) || summary_is_ours(summary) || checkpoint_is_ours(saves);
}

/* What stands in a new run's way, or NULL. */
static const char *in_the_way(const char *folder) {
    for (int i = 0; i < RUN_FILES; i++) {
        if (has(folder, run_files[i])) return run_files[i];
    }
    return has(folder, checkpoints) ? checkpoints : NULL;
}

/* A part of a model that several ranks wrote. */
static bool is_shard(const char *name) {
    int number, count, end = 0;
    sscanf(name, "model-%d-of-%d.safetensors%n", &number, &count, &end);
    return end > 0 && !name[end];
}

static bool is_rank_log(const char *name) {
    int number, end = 0;
    sscanf(name, "rank-%d.log%n", &number, &end);
    return end > 0 && !name[end];
}

/* Files a run writes whose names it makes up: events, and those of each rank. */
static bool is_numbered(const char *name) {
    int number, end = 0;
    if (is_shard(name) || is_rank_log(name) || kept_costs_is_copy(name)) return true;
    sscanf(name, "rank-%d.safetensors%n", &number, &end);
    return strncmp(name, event_prefix, sizeof event_prefix - 1) == 0 || (end > 0 && !name[end]);
}

static bool is_listed(const char *name) {
    bool is = strcmp(name, mark) == 0;
    for (int i = 0; i < RUN_FILES; i++) is |= strcmp(name, run_files[i]) == 0;
    return is;
}

bool run_folder_is_run_name(const char *name) {
    return is_listed(name) || is_numbered(name) || strcmp(name, checkpoints) == 0 ||
           strcmp(name, ".stretto-lock") == 0;
}

/* NAME.tmp.PROCESS: what a write of ours that was killed leaves (base/file.c). Nobody writes now:
 * we hold the lock. */
static bool is_leftover(const char *name) {
    const char *end = strstr(name, ".tmp.");
    if (!end || !text_is_digits(end + 5)) return false;
    SCOPED_FREE char *whole = mem_format("%.*s", (int)(end - name), name);
    return is_listed(whole) || is_numbered(whole);
}

static bool is_in_parts(const char *name) {
    return is_shard(name) || strcmp(name, "model.safetensors.index.json") == 0;
}

enum status run_folder_remove_parts(const char *folder) {
    return folder_remove_named(folder, is_in_parts);
}

/* Shows that the folder can be written to, and marks it: a run that is killed before it leaves
 * anything else is one. */
static enum status leave_mark(const char *folder) {
    SCOPED_FREE char *path = folder_path(folder, mark);
    return file_write_text(path, "a run of stretto: --overwrite may remove what the "
                                 "run wrote in this folder\n");
}

/* The mark stays, so that one that was killed half way can be repeated. */
static enum status remove_run(const char *folder) {
    TRY(leave_mark(folder));
    char *saves = folder_path(folder, checkpoints);
    enum status status = checkpoint_remove_all(saves);
    free(saves);
    for (int i = 0; i < RUN_FILES && status == STATUS_OK; i++) {
        SCOPED_FREE char *path = folder_path(folder, run_files[i]);
        status = folder_remove(path);
    }
    return status == STATUS_OK ? folder_remove_named(folder, is_numbered) : status;
}

/* Writes a file of our own and takes it away again; `shown` is the folder as the user named it. */
static enum status try_write(const char *folder, const char *shown) {
    static const char text[] = "can this folder be written to?\n";
    SCOPED_FREE char *path = folder_path(folder, ".stretto-write-test");
    int code = 0;
    errno = 0; /* a short write sets none */
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, sizeof text - 1) != (ssize_t)sizeof text - 1 || fsync(fd) != 0)
        code = errno ? errno : ENOSPC;
    if (fd >= 0 && close(fd) != 0 && !code) code = errno;
    if (fd >= 0) unlink(path);
    return code ? fail(STATUS_DATA, "--out %s: cannot be written to: %s", shown, strerror(code))
                : STATUS_OK;
}

/* runs/MODEL-TIME, with a number behind it from the second try on. */
static char *default_folder(const struct options *options, int attempt) {
    char stamp[32];
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    if (attempt == 1) return mem_format("runs/%s-%s", options->model, stamp);
    return mem_format("runs/%s-%s-%d", options->model, stamp, attempt);
}

/* Several runs may begin in one second: whoever makes the folder has the name. */
static enum status make_default(const struct options *options, char **out) {
    bool made = false;
    TRY(folder_make("runs"));
    for (int i = 1; !made; i++) {
        char *path = default_folder(options, i);
        enum status status = folder_make_new(path, &made);
        if (status == STATUS_OK && made)
            *out = path;
        else
            free(path);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status make_named(const char *name, char **out) {
    TRY(folder_make(name));
    *out = mem_text(name);
    return STATUS_OK;
}

/* Where make_default would look: the first of its names that is free. */
static char *name_of(const struct options *options) {
    if (option_is_set(options, OPTION_out)) return mem_text(options->out);
    char *path = default_folder(options, 1);
    for (int i = 2; file_exists(path); i++) {
        free(path);
        path = default_folder(options, i);
    }
    return path;
}

/* Its name, once it is there. */
static enum status make(const struct options *options, char **out) {
    return option_is_set(options, OPTION_out) ? make_named(options->out, out)
                                              : make_default(options, out);
}

static enum status refuse_foreign(const char *folder, const char *name) {
    return fail(STATUS_USAGE,
                "--out %s holds %s, but nothing that shows a run of stretto\n"
                "  it is not written over, nor removed: name another folder",
                folder, name);
}

/* What others leave in a folder that is as good as empty: the system, and nodes of this run that
 * were faster. */
static bool counts_as_empty(const char *name) {
    static const char own[] = ".stretto-";
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, "lost+found") == 0 ||
           strncmp(name, own, sizeof own - 1) == 0 || is_rank_log(name);
}

static enum status find_any(void *context, const char *name) {
    char **found = context;
    if (counts_as_empty(name)) return STATUS_OK;
    *found = mem_text(name);
    return STATUS_NO;
}

/* A folder with anything in it, which is not a run's. */
static enum status refuse_filled(const char *folder) {
    SCOPED_FREE char *found = NULL;
    enum status status = folder_each(folder, find_any, &found);
    return found ? refuse_foreign(folder, found) : status;
}

/* What is in the folder and must not be written over; changes nothing. */
static enum status refuse_run(const struct options *options, const char *folder) {
    const char *name = in_the_way(folder);
    bool run = run_folder_is_run(folder);
    TRY(outputs_judge_folder(folder, "--out"));
    if (run && options->overwrite) TRY(outputs_keep_inputs(options, folder));
    if (run && (!name || options->resume || options->overwrite)) return STATUS_OK;
    if (!run) return name ? refuse_foreign(folder, name) : refuse_filled(folder);
    return fail(STATUS_USAGE,
                "--out %s holds a run already\n  --resume continues it, --overwrite starts "
                "anew",
                folder);
}

static enum status make_room(const struct options *options, const char *folder) {
    TRY(refuse_run(options, folder));
    if (!(options->resume || options->overwrite) || !run_folder_is_run(folder)) return STATUS_OK;
    TRY(folder_remove_named(folder, is_leftover));
    return options->overwrite ? remove_run(folder) : STATUS_OK;
}

enum status run_folder_open(const struct options *options, char **out, struct lock **lock) {
    char *folder;
    struct lock *taken = NULL;
    TRY(make(options, &folder));
    enum status status = lock_take(folder, &taken);
    if (status == STATUS_OK) status = make_room(options, folder);
    if (status == STATUS_OK) status = leave_mark(folder);
    if (status == STATUS_OK) {
        *out = folder;
        *lock = taken;
        return STATUS_OK;
    }
    lock_give_back(&taken);
    free(folder);
    return status;
}

enum status run_folder_follow(const struct options *options, char **out) {
    SCOPED_FREE char *folder = NULL;
    TRY(make(options, &folder));
    TRY(try_write(folder, folder));
    *out = folder;
    folder = NULL;
    return STATUS_OK;
}

static bool has_parent_part(const char *path) {
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
    SCOPED_FREE char *there = part_there(folder);
    const char *rest = folder + strlen(there);
    SCOPED_FREE char *own =
        mem_format("%s%s.stretto-trial-%d", there, *there ? "/" : "", (int)getpid());
    SCOPED_FREE char *path = mem_format("%s/%s", own, has_parent_part(rest) ? "" : rest);
    enum status status = STATUS_OK;
    if (!make_each(path, strlen(own)))
        status = fail(STATUS_DATA, "%s: cannot create folder: %s", folder, strerror(errno));
    if (status == STATUS_OK) status = try_write(path, folder);
    if (file_exists(own)) folder_remove(own);
    return status;
}

/* --overwrite gives room that is not known yet. */
static enum status check_space(const struct options *options, const char *folder, uint64_t bytes) {
    char *there = part_there(folder), needs[TEXT_BYTES], has[TEXT_BYTES];
    uint64_t room;
    bool known = folder_free_bytes(*there ? there : ".", &room);
    free(there);
    if (options->overwrite || !known || bytes <= room) return STATUS_OK;
    return fail(STATUS_DATA,
                "--out %s: %s: a checkpoint takes %s, %s are free\n"
                "  name another folder, or save none with --save-every never",
                folder, strerror(ENOSPC), text_size((int64_t)bytes, needs),
                text_size((int64_t)room, has));
}

enum status run_folder_check(const struct options *options, bool keeps, uint64_t bytes) {
    SCOPED_FREE char *folder = name_of(options);
    if (keeps) TRY(outputs_judge_folder(folder, "--out"));
    /* a name of our own choice that another run takes meanwhile is no obstacle */
    if (!option_is_set(options, OPTION_out) || !file_exists(folder)) {
        TRY(try_missing(folder));
    } else {
        TRY(folder_make(folder)); /* says so where it is none */
        if (keeps) TRY(lock_check(folder));
        if (keeps) TRY(refuse_run(options, folder));
        TRY(try_write(folder, folder));
    }
    return keeps ? check_space(options, folder, bytes) : STATUS_OK;
}
