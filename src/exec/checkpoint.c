/* Saving and resuming: see checkpoint.h. The order of a save is the safety of it: files, their
 * sync, the manifest, the folder's sync, the rename, the parent's sync; then links and removals. */
#include "exec/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/manifest.h"
#include "exec/tensors.h"
#include "exec/weights.h"

enum { MAX_LISTED = 4096 };

static char *step_folder(const struct checkpoint_config *config, int64_t step) {
    return mem_format("%s/step-%08lld", config->folder, (long long)step);
}

/* Steps of the checkpoints in the folder, newest first; temporary ones are not looked at. */
static int list_steps(const struct checkpoint_config *config, int64_t steps[MAX_LISTED]) {
    DIR *folder = opendir(config->folder);
    if (!folder) return 0;
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) && count < MAX_LISTED;) {
        long long step;
        char rest;
        if (sscanf(entry->d_name, "step-%lld%c", &step, &rest) != 1 || step < 0) continue;
        int at = count++;
        for (; at > 0 && steps[at - 1] < step; at--) steps[at] = steps[at - 1];
        steps[at] = step;
    }
    closedir(folder);
    return count;
}

/* Leftovers of a save that was killed. */
static void remove_temporaries(const struct checkpoint_config *config) {
    DIR *folder = opendir(config->folder);
    if (!folder) return;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (strncmp(entry->d_name, ".step-", 6) != 0) continue;
        char *path = mem_format("%s/%s", config->folder, entry->d_name);
        folder_remove(path);
        free(path);
    }
    closedir(folder);
}

/* Checkpoints of later steps than this one are damaged ones that a resume passed over. */
static enum status remove_old(const struct checkpoint_config *config,
                              const struct checkpoint_state *state) {
    int64_t steps[MAX_LISTED];
    int count = list_steps(config, steps), kept = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++) {
        bool wanted = steps[i] == state->best_step || kept < config->keep;
        if (steps[i] <= state->step && wanted) {
            kept += steps[i] != state->best_step;
            continue;
        }
        char *path = step_folder(config, steps[i]);
        status = folder_remove(path);
        free(path);
    }
    return status;
}

/* Made anew at each save, so that a link lost in a crash comes back. A link cannot be replaced in
 * place: a new one is renamed over it. */
static enum status link_best(const struct checkpoint_config *config, int64_t step) {
    char *link = mem_format("%s/best", config->folder),
         *temporary = mem_format("%s/.step-best", config->folder),
         *folder = step_folder(config, step);
    char target[32];
    snprintf(target, sizeof target, "step-%08lld", (long long)step);
    enum status status = STATUS_OK;
    if (file_exists(folder)) { /* the best may never have been saved, with --save-every never */
        unlink(temporary);
        if (symlink(target, temporary) != 0 || rename(temporary, link) != 0)
            status = fail(STATUS_DATA, "%s: cannot link to %s: %s", link, target, strerror(errno));
    }
    free(link);
    free(temporary);
    free(folder);
    return status;
}

static enum status write_files(const struct checkpoint_config *config, struct exec *exec,
                               const struct checkpoint_state *state, const char *folder) {
    struct manifest manifest = {
        .state = *state, .facts = config->facts, .fact_count = config->fact_count};
    const enum tensor_part parts[MANIFEST_FILES] = {PART_MODEL, PART_OPTIMIZER};
    for (int i = 0; i < MANIFEST_FILES; i++) {
        char *path = mem_format("%s/%s", folder, manifest_file_names[i]);
        enum status status = tensors_write(exec_store(exec), parts[i], path, &manifest.files[i]);
        free(path);
        TRY(status);
    }
    char *path = mem_format("%s/manifest.json", folder);
    enum status status = manifest_write(&manifest, path);
    free(path);
    TRY(status);
    return folder_sync(folder);
}

static enum status commit_folder(const char *temporary, const char *final, const char *parent) {
    TRY(folder_remove(
        final)); /* the same step saved before, by a run that was resumed from an older one */
    if (rename(temporary, final) != 0)
        return fail(STATUS_DATA, "%s: cannot rename to %s: %s", temporary, final, strerror(errno));
    return folder_sync(parent);
}

enum status checkpoint_save(const struct checkpoint_config *config, struct exec *exec,
                            const struct checkpoint_state *state) {
    TRY(folder_make(config->folder));
    char *temporary = mem_format("%s/.step-%08lld.tmp", config->folder, (long long)state->step);
    char *final = step_folder(config, state->step);
    enum status status = folder_remove(temporary);
    if (status == STATUS_OK) status = folder_make(temporary);
    if (status == STATUS_OK) status = write_files(config, exec, state, temporary);
    if (status == STATUS_OK) status = commit_folder(temporary, final, config->folder);
    if (status != STATUS_OK) folder_remove(temporary);
    if (status == STATUS_OK && state->best_step >= 0) status = link_best(config, state->best_step);
    if (status == STATUS_OK) status = remove_old(config, state);
    free(temporary);
    free(final);
    return status;
}

static enum status check_file(const char *folder, const char *name,
                              const struct safetensors_mark *mark) {
    char *path = mem_format("%s/%s", folder, name);
    struct safetensors_mark found;
    enum status status = safetensors_checksum(path, &found);
    if (status == STATUS_OK && (found.bytes != mark->bytes || found.crc32c != mark->crc32c))
        status = fail(STATUS_DATA,
                      "%s: has %llu bytes with checksum %08x, its manifest says %llu and %08x",
                      path, (unsigned long long)found.bytes, found.crc32c,
                      (unsigned long long)mark->bytes, mark->crc32c);
    free(path);
    return status;
}

/* Reads manifest and checksums only: nothing of the executor is touched by a damaged checkpoint. */
static enum status check_whole(const char *folder, int64_t step, struct manifest *manifest) {
    char *path = mem_format("%s/manifest.json", folder);
    enum status status = manifest_read(path, manifest);
    free(path);
    TRY(status);
    if (manifest->state.step != step)
        status = fail(STATUS_DATA, "%s: its manifest is of step %lld", folder,
                      (long long)manifest->state.step);
    for (int i = 0; i < MANIFEST_FILES && status == STATUS_OK; i++)
        status = check_file(folder, manifest_file_names[i], &manifest->files[i]);
    if (status != STATUS_OK) manifest_free(manifest);
    return status;
}

static enum status load_files(struct exec *exec, const char *folder) {
    const enum tensor_part parts[MANIFEST_FILES] = {PART_MODEL, PART_OPTIMIZER};
    for (int i = 0; i < MANIFEST_FILES; i++) {
        char *path = mem_format("%s/%s", folder, manifest_file_names[i]);
        enum status status = tensors_read(exec_store(exec), parts[i], path);
        free(path);
        TRY(status);
    }
    return STATUS_OK;
}

static enum status load_checkpoint(const struct checkpoint_config *config, struct exec *exec,
                                   const char *folder, struct manifest *manifest,
                                   struct checkpoint_state *state) {
    TRY(manifest_compare(manifest, config->facts, config->fact_count, folder));
    TRY(load_files(exec, folder));
    exec_seek(exec, manifest->state.step);
    *state = manifest->state;
    log_note("resuming from %s", folder);
    return STATUS_OK;
}

enum status checkpoint_resume(const struct checkpoint_config *config, struct exec *exec,
                              struct checkpoint_state *state, bool *found) {
    int64_t steps[MAX_LISTED];
    remove_temporaries(config);
    int count = list_steps(config, steps);
    *found = count > 0;
    for (int i = 0; i < count; i++) {
        char *folder = step_folder(config, steps[i]);
        struct manifest manifest;
        enum status status = check_whole(folder, steps[i], &manifest);
        bool whole = status == STATUS_OK;
        if (whole) {
            status = load_checkpoint(config, exec, folder, &manifest, state);
            manifest_free(&manifest);
        } else {
            log_warning("%s is damaged and is passed over", folder);
        }
        free(folder);
        if (whole) return status;
    }
    if (count == 0) return STATUS_OK;
    return fail(STATUS_DATA, "%s: none of the %d checkpoint(s) is whole\n  --overwrite starts anew",
                config->folder, count);
}

enum status checkpoint_write_model(struct exec *exec, const char *path,
                                   struct safetensors_mark *mark) {
    return tensors_write(exec_store(exec), PART_MODEL, path, mark);
}

enum status checkpoint_load_weights(struct exec *exec, const char *path) {
    return weights_load(exec_store(exec), path);
}
