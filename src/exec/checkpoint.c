/* Saving and resuming: see checkpoint.h. The order of a save is the safety of it: files, their
 * sync, the manifest, the folder's sync, the rename, the parent's sync; then links and removals. */
#include "exec/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "exec/checkpoint_load.h"
#include "exec/manifest.h"
#include "exec/recorded.h"
#include "exec/saving.h"
#include "exec/state.h"
#include "exec/tensors.h"
#include "exec/train.h"
#include "exec/versions.h"
#include "exec/weights.h"

struct steps {
    int64_t *step; /* newest first; whoever listed them frees it */
    size_t count, room;
};

/* What ranks tell one another as they resume. */
struct resume_report {
    bool found; /* by the first rank: */
    struct checkpoint_state state;
    uint64_t tensors[PART_COUNT]; /* that this rank would write */
};

struct resumption {
    const struct checkpoint_config *config;
    struct engine *engine; /* NULL: only look */
    struct resume_report report;
    struct train_stale *stale; /* per rank, of a strategy that keeps the same versions; else 0 */
};

static bool is_first(const struct engine *engine) {
    return comm_rank(engine_comm(engine)) == 0;
}

static char *step_folder(const char *folder, int64_t step) {
    return mem_format("%s/step-%08lld", folder, (long long)step);
}

/* The step of a name that step_folder makes, else -1. */
static int64_t step_of(const char *name) {
    long long step;
    char again[32];
    if (sscanf(name, "step-%lld", &step) != 1 || step < 0) return -1;
    snprintf(again, sizeof again, "step-%08lld", step);
    return strcmp(name, again) == 0 ? step : -1;
}

static int newest_first(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? 1 : -(a > b);
}

static enum status list_step(void *context, const char *name) {
    struct steps *list = context;
    int64_t step = step_of(name);
    if (step < 0) return STATUS_OK;
    list->step = mem_grow(list->step, &list->room, list->count + 1, sizeof *list->step);
    list->step[list->count++] = step;
    return STATUS_OK;
}

/* Steps of the checkpoints in the folder; those under other names are not looked at. */
static enum status list_steps(const char *path, struct steps *out) {
    struct steps list = {0};
    *out = list;
    enum status status = folder_each(path, list_step, &list);
    if (list.count > 1) qsort(list.step, list.count, sizeof *list.step, newest_first);
    if (status == STATUS_OK)
        *out = list;
    else
        free(list.step);
    return status;
}

/* ".step-NNNNNNNN.tmp", ".step-best" */
static bool is_temporary(const char *name) {
    long long step;
    char again[32];
    if (strcmp(name, ".step-best") == 0) return true;
    if (sscanf(name, ".step-%lld", &step) != 1) return false;
    snprintf(again, sizeof again, ".step-%08lld.tmp", step);
    return strcmp(name, again) == 0;
}

/* "step-NNNNNNNN", also with ".damaged" or ".damaged-N" behind it; "best"; temporary ones. */
static bool is_any(const char *name) {
    const char *suffix = strstr(name, ".damaged");
    size_t length = suffix ? (size_t)(suffix - name) : strlen(name);
    char *bare = mem_format("%.*s", (int)length, name);
    bool is = step_of(bare) >= 0;
    free(bare);
    if (suffix && suffix[8]) is &= suffix[8] == '-' && text_is_digits(suffix + 9);
    return is || strcmp(name, "best") == 0 || is_temporary(name);
}

/* Those of later steps are not this run's: a resume passed over them. */
static enum status remove_old(const struct checkpoint_config *config,
                              const struct checkpoint_state *state) {
    struct steps list;
    int kept = 0;
    enum status status = list_steps(config->folder, &list);
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++) {
        int64_t step = list.step[i];
        if (step > state->step) continue;
        if (step == state->best_step || kept < config->keep) {
            kept += step != state->best_step;
            continue;
        }
        SCOPED_FREE char *path = step_folder(config->folder, step);
        status = folder_remove(path);
    }
    free(list.step);
    return status;
}

/* Not removed: whoever made it may still want to look, and it may be whole for another reader. */
static enum status set_aside(const char *path) {
    enum status status = STATUS_OK;
    char *name = mem_format("%s.damaged", path);
    for (int i = 2; file_exists(name); i++) {
        free(name);
        name = mem_format("%s.damaged-%d", path, i);
    }
    if (rename(path, name) == 0)
        log_warning("%s, which a resume passed over, is kept as %s", path, name);
    else
        status = fail(STATUS_DATA, "%s: cannot rename to %s: %s", path, name, strerror(errno));
    free(name);
    return status;
}

/* A run saves in the order of steps: what lies between its last checkpoint and this one is what a
 * resume passed over. */
static enum status set_aside_passed(const struct checkpoint_config *config,
                                    const struct checkpoint_state *state) {
    struct steps list;
    enum status status = list_steps(config->folder, &list);
    for (size_t i = 0; i < list.count && status == STATUS_OK; i++) {
        bool passed = list.step[i] > state->saved_step && list.step[i] < state->step;
        if (!passed && list.step[i] != state->step) continue;
        SCOPED_FREE char *path = step_folder(config->folder, list.step[i]);
        status = set_aside(path);
    }
    free(list.step);
    return status;
}

/* Made anew at each save, so that a link lost in a crash comes back. A link cannot be replaced in
 * place: a new one is renamed over it. */
static enum status link_best(const struct checkpoint_config *config, int64_t step) {
    SCOPED_FREE char *link = mem_format("%s/best", config->folder),
                     *temporary = mem_format("%s/.step-best", config->folder),
                     *folder = step_folder(config->folder, step);
    char target[32];
    snprintf(target, sizeof target, "step-%08lld", (long long)step);
    enum status status = STATUS_OK;
    if (file_exists(folder)) { /* the best may never have been saved, with --save-every never */
        unlink(temporary);
        if (symlink(target, temporary) != 0 || rename(temporary, link) != 0)
            status = fail(STATUS_DATA, "%s: cannot link to %s: %s", link, target, strerror(errno));
        if (status != STATUS_OK) unlink(temporary);
    }
    return status;
}

static enum status commit_folder(const char *temporary, const char *final, const char *parent) {
    if (rename(temporary, final) != 0)
        return fail(STATUS_DATA, "%s: cannot rename to %s: %s", temporary, final, strerror(errno));
    return folder_sync(parent);
}

/* The tensors alone, so that nothing is refused that would fit. */
static enum status check_space(const char *folder, uint64_t bytes, const char *what) {
    uint64_t room;
    char needs[TEXT_BYTES], has[TEXT_BYTES];
    if (!folder_free_bytes(folder, &room) || bytes <= room) return STATUS_OK;
    return fail(STATUS_DATA, "%s: %s: %s takes %s, %s are free\n  nothing was changed", folder,
                strerror(ENOSPC), what, text_size((int64_t)bytes, needs),
                text_size((int64_t)room, has));
}

uint64_t checkpoint_bytes(const struct plan *plan) {
    return tensors_bytes(plan->store, PART_MODEL) + tensors_bytes(plan->store, PART_OPTIMIZER);
}

enum status checkpoint_begin(const struct saving *saving, uint64_t bytes) {
    if (!saving->config) return check_space(saving->temporary, bytes, "the model");
    TRY(folder_make(saving->config->folder));
    TRY(check_space(saving->config->folder, bytes, "a checkpoint"));
    TRY(folder_remove(saving->temporary));
    return folder_make(saving->temporary);
}

static enum status seal(const struct saving *saving, const struct manifest_file *files, int count) {
    struct manifest manifest = {.state = *saving->state,
                                .next = saving->next,
                                .course = saving->course,
                                .facts = saving->config->facts,
                                .fact_count = saving->config->fact_count,
                                .files = files,
                                .file_count = count};
    const struct engine_clock *clock = saving->clock;
    SCOPED_FREE double *numbers = NULL;
    manifest.under_way = saving->under_way;
    manifest.stale = saving->stale;
    manifest.stale_ranks = saving->stale ? saving->members : 0;
    if (clock) {
        manifest.clock_count = clock->save(clock->context, NULL);
        manifest.clock = numbers = MEM_ARRAY(double, manifest.clock_count);
        clock->save(clock->context, numbers);
    }
    const struct engine_chooser *chooser = saving->chooser;
    SCOPED_FREE int64_t *groups = NULL;
    if (chooser) {
        manifest.group_count = (int)chooser->save(chooser->context, NULL);
        manifest.groups = groups = MEM_ARRAY(int64_t, manifest.group_count);
        chooser->save(chooser->context, groups);
    }
    SCOPED_FREE char *path = mem_format("%s/manifest.json", saving->temporary);
    TRY(manifest_write(&manifest, path));
    return folder_sync(saving->temporary);
}

enum status checkpoint_commit(const struct saving *saving, const struct manifest_file *files,
                              int count) {
    const struct checkpoint_config *config = saving->config;
    const struct checkpoint_state *state = saving->state;
    if (!config) return folder_sync(saving->temporary);
    TRY(seal(saving, files, count));
    TRY(set_aside_passed(config, state));
    char *final = step_folder(config->folder, state->step);
    enum status status = commit_folder(saving->temporary, final, config->folder);
    free(final);
    if (status == STATUS_OK && state->best_step >= 0) status = link_best(config, state->best_step);
    return status == STATUS_OK ? remove_old(config, state) : status;
}

/* The histograms of all ranks to the first, bar by bar: together they would take the square of the
 * number of ranks where these are threads of one process. */
static enum status gather_stale(struct engine *engine, struct saving *saving) {
    int ranks = comm_size(engine_comm(engine)), bars = engine->plan->program->grid.stages;
    if (engine->plan->program->ahead == 0) return STATUS_OK;
    SCOPED_FREE int64_t *all = MEM_ARRAY(int64_t, ranks);
    if (is_first(engine)) saving->stale = MEM_ARRAY(struct train_stale, ranks);
    for (int i = 0; i < bars && i <= STALE_MOST; i++) {
        TRY(comm_exchange(comm_world(engine_comm(engine)), &engine->state->stale.updates[i],
                          sizeof *all, all));
        for (int r = 0; r < ranks && saving->stale; r++) saving->stale[r].updates[i] = all[r];
    }
    return STATUS_OK;
}

enum status checkpoint_save(const struct checkpoint_config *config, struct engine *engine,
                            const struct checkpoint_state *state, enum status ready) {
    TRY(engine_gather_norms(engine));
    struct saving saving = {
        .config = config,
        .state = state,
        .next = engine->state->next,
        .course = recorded_course(engine->state),
        .clock = engine->meeting.clock,
        .chooser = engine->meeting.chooser,
        .under_way = overlap_under_way(engine),
        .temporary = mem_format("%s/.step-%08lld.tmp", config->folder, (long long)state->step),
        .own = {.status = (int32_t)ready}};
    enum status status = gather_stale(engine, &saving);
    if (status == STATUS_OK) status = engine_save(engine, &saving);
    if (status != STATUS_OK && is_first(engine)) folder_remove(saving.temporary);
    free(saving.temporary);
    free(saving.stale);
    return status;
}

enum status checkpoint_save_model(struct engine *engine, const char *folder) {
    struct saving saving = {.temporary = mem_text(folder)};
    enum status status = engine_save(engine, &saving);
    free(saving.temporary);
    return status;
}

static enum status check_file(const char *folder, const char *name,
                              const struct safetensors_mark *mark) {
    SCOPED_FREE char *path = mem_format("%s/%s", folder, name);
    struct safetensors_mark found;
    TRY(safetensors_checksum(path, &found));
    if (found.bytes != mark->bytes || found.crc32c != mark->crc32c)
        return fail(STATUS_DATA,
                    "%s: has %llu bytes with checksum %08x, its manifest says %llu and %08x", path,
                    (unsigned long long)found.bytes, found.crc32c, (unsigned long long)mark->bytes,
                    mark->crc32c);
    return STATUS_OK;
}

/* Reads manifest and checksums only: nothing of the engine is touched by a damaged checkpoint. */
static enum status check_whole(const char *folder, int64_t step, struct manifest *manifest) {
    SCOPED_FREE char *path = mem_format("%s/manifest.json", folder);
    TRY(manifest_read(path, manifest));
    enum status status = STATUS_OK;
    if (manifest->state.step != step)
        status = fail(STATUS_DATA, "%s: its manifest is of step %lld", folder,
                      (long long)manifest->state.step);
    for (int i = 0; i < manifest->file_count && status == STATUS_OK; i++)
        status = check_file(folder, manifest->files[i].name, &manifest->files[i].mark);
    if (status != STATUS_OK) manifest_free(manifest);
    return status;
}

/* With another number of versions updates are counted anew. */
static void take_stale(struct resumption *resumption, const struct manifest *manifest) {
    const struct checkpoint_config *config = resumption->config;
    int ranks = comm_size(engine_comm(resumption->engine));
    if (manifest->stale_ranks == ranks &&
        manifest_has_fact(manifest, config->facts, config->fact_count, "staleness"))
        memcpy(resumption->stale, manifest->stale, (size_t)ranks * sizeof *resumption->stale);
}

/* What the first rank has read of each rank, to all. */
static enum status share_stale(struct resumption *resumption) {
    struct engine *engine = resumption->engine;
    int rank = comm_rank(engine_comm(engine)), ranks = comm_size(engine_comm(engine));
    if (engine->plan->program->ahead == 0) return STATUS_OK;
    TRY(engine_share_bytes(engine, rank == 0, resumption->stale,
                           (size_t)ranks * sizeof *resumption->stale));
    engine->state->stale = resumption->stale[rank];
    return STATUS_OK;
}

static enum status load_checkpoint(struct resumption *resumption, const char *folder,
                                   const struct manifest *manifest) {
    const struct checkpoint_config *config = resumption->config;
    struct engine *engine = resumption->engine;
    TRY(manifest_compare(manifest, config->facts, config->fact_count, folder));
    const struct plan *plan = engine ? engine_plan(engine) : config->plan;
    if (manifest->next.epoch >= 0) TRY(engine_check_place(&manifest->next, plan));
    TRY(checkpoint_each_part(plan, NULL, folder, manifest));
    if (engine) TRY(checkpoint_load_files(engine, folder, manifest));
    if (engine) take_stale(resumption, manifest);
    resumption->report.state = manifest->state;
    resumption->report.state.saved_step = manifest->state.step;
    return STATUS_OK;
}

/* Tries one; *whole is false when it was damaged and is passed over. */
static enum status resume_from(struct resumption *resumption, int64_t step, bool *whole) {
    const struct checkpoint_config *config = resumption->config;
    SCOPED_FREE char *folder = step_folder(config->folder, step);
    struct manifest manifest;
    enum status status = check_whole(folder, step, &manifest);
    *whole = status == STATUS_OK;
    if (*whole) {
        status = load_checkpoint(resumption, folder, &manifest);
        manifest_free(&manifest);
    } else if (status == STATUS_DATA) {
        log_warning("%s is damaged and is passed over", folder);
        status = STATUS_OK;
    } else {
        log_warning("%s may be whole: no older one is taken\n  to resume from an older one "
                    "nevertheless, move it out of %s",
                    folder, config->folder);
    }
    return status;
}

/* The newest whole one, by the rank that finds it. */
static enum status find_newest(struct resumption *resumption) {
    const char *folder = resumption->config->folder;
    struct steps list;
    char count[TEXT_BYTES];
    bool whole = false;
    if (resumption->engine) /* leftovers of a save that was killed */
        TRY(folder_remove_named(folder, is_temporary));
    TRY(list_steps(folder, &list));
    resumption->report.found = list.count > 0;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < list.count && !whole && status == STATUS_OK; i++)
        status = resume_from(resumption, list.step[i], &whole);
    free(list.step);
    if (status != STATUS_OK || whole || list.count == 0) return status;
    return fail(STATUS_DATA, "%s: none of %s is whole\n  --overwrite starts anew", folder,
                text_count((int64_t)list.count, "checkpoint", count));
}

/* Whether a rank other than the first reads files: where nobody would give it what it holds; a rank
 * without a stage is in no broadcast, and learns from them at which step the run is. */
static bool reads_itself(const struct plan *plan) {
    if (plan->config.cell.role == GRID_DRIVER) return true;
    for (int i = 0; i < plan->store->array_count; i++)
        if (state_is_sliced(plan->store, i)) return true;
    if (program_is_apart(plan->program) && plan->config.cell.role == GRID_STAGE) return true;
    return plan->config.cell.role == GRID_STAGE && plan->config.cell.first_replica == 0;
}

/* The first rank has found it whole. */
static enum status read_own(struct resumption *resumption, int64_t step) {
    struct manifest manifest;
    SCOPED_FREE char *folder = step_folder(resumption->config->folder, step),
                     *path = mem_format("%s/manifest.json", folder);
    enum status status = manifest_read(path, &manifest);
    if (status == STATUS_OK) {
        status = checkpoint_load_files(resumption->engine, folder, &manifest);
        manifest_free(&manifest);
    }
    return status;
}

static uint64_t count_tensors(const struct plan *plan, int part, const struct tensor_share *share) {
    uint64_t bytes;
    return tensors_count(plan->store, (enum tensor_part)part, share, &bytes);
}

/* Each tensor of the files, which are the model's, has its rank: nothing is left over. */
static enum status check_all_read(const struct resumption *resumption,
                                  const struct resume_report *all, int ranks) {
    const struct tensor_share model = {.model = true};
    for (int p = 0; p < PART_VERSIONS; p++) {
        uint64_t held = 0, in_all = count_tensors(engine_plan(resumption->engine), p, &model);
        for (int r = 0; r < ranks; r++) held += all[r].tensors[p];
        if (held == in_all) continue;
        return fail(STATUS_DATA, "%s/step-%08lld: %s has %llu tensors, the ranks hold %llu",
                    resumption->config->folder, (long long)all[0].state.step, tensors_part_names[p],
                    (unsigned long long)in_all, (unsigned long long)held);
    }
    return STATUS_OK;
}

/* The first rank tells what it found; those that must read their own. */
static enum status resume_together(struct resumption *resumption, struct resume_report *all) {
    const struct plan *plan = engine_plan(resumption->engine);
    struct comm *comm = engine_comm(resumption->engine);
    struct resume_report *own = &resumption->report;
    struct tensor_share share = {.first_replica = plan->config.cell.role == GRID_STAGE &&
                                                  plan->config.cell.first_replica == 0};
    for (int p = 0; p < PART_COUNT; p++) own->tensors[p] = count_tensors(plan, p, &share);
    enum status status = is_first(resumption->engine) ? find_newest(resumption) : STATUS_OK;
    TRY(comm_agree(comm_world(comm), status));
    TRY(comm_exchange(comm_world(comm), own, sizeof *own, all));
    if (!all[0].found) return STATUS_OK;
    bool first = is_first(resumption->engine);
    if (first)
        status = check_all_read(resumption, all, comm_size(comm));
    else if (reads_itself(plan))
        status = read_own(resumption, all[0].state.step);
    TRY(comm_agree(comm_world(comm), status));
    TRY(share_stale(resumption));
    if (first)
        log_note("resuming from %s/step-%08lld", resumption->config->folder,
                 (long long)all[0].state.step);
    return STATUS_OK;
}

enum status checkpoint_resume(const struct checkpoint_config *config, struct engine *engine,
                              struct checkpoint_state *state, bool *found) {
    struct resumption resumption = {.config = config, .engine = engine, .report.state = *state};
    int ranks = engine ? comm_size(engine_comm(engine)) : 1;
    SCOPED_FREE struct resume_report *all = MEM_ARRAY(struct resume_report, ranks);
    SCOPED_FREE struct train_stale *stale = MEM_ARRAY(struct train_stale, ranks);
    resumption.stale = stale;
    enum status status = engine ? resume_together(&resumption, all) : find_newest(&resumption);
    const struct resume_report *first = engine ? &all[0] : &resumption.report;
    *found = first->found;
    if (status == STATUS_OK && first->found) *state = first->state;
    return status;
}

int64_t checkpoint_newest(const char *folder, struct arena *arena, struct train_course *course) {
    struct steps list = {0};
    int64_t newest = -1;
    char unsaid[1];
    log_capture(unsaid, sizeof unsaid);
    if (!file_exists(folder) || list_steps(folder, &list) != STATUS_OK) list.count = 0;
    for (size_t i = 0; i < list.count && newest < 0; i++) {
        SCOPED_FREE char *one = step_folder(folder, list.step[i]);
        struct manifest manifest;
        if (check_whole(one, list.step[i], &manifest) != STATUS_OK) continue;
        newest = list.step[i];
        recorded_copy(&manifest.course, arena, course);
        manifest_free(&manifest);
    }
    log_capture(NULL, 0);
    free(list.step);
    return newest;
}

bool checkpoint_is_ours(const char *folder) {
    struct steps list = {0};
    bool is = false;
    if (file_exists(folder) && list_steps(folder, &list) != STATUS_OK) return false;
    for (size_t i = 0; i < list.count && !is; i++) {
        char *one = step_folder(folder, list.step[i]), *path = mem_format("%s/manifest.json", one);
        is = manifest_is_one(path);
        free(path);
        free(one);
    }
    free(list.step);
    return is;
}

enum status checkpoint_remove_all(const char *folder) {
    TRY(folder_remove_named(folder, is_any));
    rmdir(folder); /* stays where something else is in it, or where it is a link to one */
    return STATUS_OK;
}

enum status checkpoint_write_model(struct engine *engine, const char *path,
                                   struct safetensors_mark *mark) {
    struct store *store = engine_store(engine);
    char *folder = folder_of(path);
    enum status status = check_space(folder, tensors_bytes(store->layout, PART_MODEL), path);
    free(folder);
    struct tensor_share all = {.all = true};
    return status == STATUS_OK ? tensors_write(store, PART_MODEL, &all, path, mark) : status;
}
