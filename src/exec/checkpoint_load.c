/* What a checkpoint has, back into an engine: see checkpoint_load.h. */
#include "exec/checkpoint_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/overlap.h"
#include "exec/state.h"
#include "exec/tensors.h"
#include "exec/versions.h"

static bool is_first(const struct engine *engine) {
    return comm_rank(engine_comm(engine)) == 0;
}

/* The files of a part, and how many. */
static char **part_paths(const char *folder, const struct manifest *manifest, int part,
                         int *count) {
    char **paths = MEM_ARRAY(char *, manifest->file_count + 1);
    *count = 0;
    for (int i = 0; i < manifest->file_count; i++)
        if (exec_tensor_part(manifest->files[i].name) == part)
            paths[(*count)++] = mem_format("%s/%s", folder, manifest->files[i].name);
    return paths;
}

/* The whole model is in the files (engine NULL); or loads what this rank holds of it. */
enum status checkpoint_each_part(const struct plan *plan, struct engine *engine, const char *folder,
                                 const struct manifest *manifest) {
    enum status status = STATUS_OK;
    for (int p = 0; p < PART_COMMON && status == STATUS_OK; p++) {
        int count;
        SCOPED_FREE char **paths = part_paths(folder, manifest, p, &count);
        enum tensor_part part = (enum tensor_part)p;
        status = engine ? tensors_read(engine_store(engine), part, folder, paths, count)
                        : tensors_check(plan->store, part, folder, paths, count);
        for (int i = 0; i < count; i++) free(paths[i]);
    }
    return status;
}

/* Where replicas train apart: what all had after the last average, and what this one has. With
 * another number of replicas all begin with the model that was saved, which is the mean. */
static enum status load_apart(struct engine *engine, const char *folder,
                              const struct manifest *manifest) {
    const struct run_config *config = &engine->plan->config;
    int common, own, found = 0;
    if (!program_is_apart(engine->plan->program)) return STATUS_OK;
    SCOPED_FREE char **common_paths = part_paths(folder, manifest, PART_COMMON, &common),
                     **own_paths = part_paths(folder, manifest, PART_REPLICAS, &own);
    enum status status = STATUS_OK;
    if (common > 0)
        status = tensors_read(engine_store(engine), PART_COMMON, folder, common_paths, common);
    if (status == STATUS_OK && own > 0)
        status = tensors_read_replica(engine_store(engine), config->cell.first_replica,
                                      config->replicas, folder, own_paths, own, &found);
    engine->common_read = common > 0;
    engine->own_read = found == config->replicas;
    if (status == STATUS_OK && !engine->own_read && is_first(engine))
        log_note("%s has %d replicas that trained apart, this run has %d: all begin with the saved "
                 "model, the mean, and with the optimizer state of the first one",
                 folder, found, config->replicas);
    for (int i = 0; i < common; i++) free(common_paths[i]);
    for (int i = 0; i < own; i++) free(own_paths[i]);
    return status;
}

/* A pipeline that has fewer steps under way than it would have by now, since --steps were fewer
 * then, is filled anew: all clocks begin at the latest one, as with another program. */
static void load_clock(struct engine *engine, const struct manifest *manifest) {
    const struct engine_clock *clock = engine->meeting.clock;
    int64_t step = manifest->state.step, under_way = manifest->under_way;
    bool full = under_way > 0 && under_way == overlap_under_way(engine);
    if (!clock && manifest->clock_count > 0)
        log_note("the checkpoint was made in virtual time: its clocks are not gone on with");
    if (clock && manifest->clock_count == 0)
        log_note("the checkpoint was made on the wall clock: virtual time begins at 0");
    if (!clock) return;
    clock->load(clock->context, manifest->clock, manifest->clock_count,
                full             ? step
                : under_way == 0 ? CLOCK_EMPTY
                                 : CLOCK_LATEST);
}

/* With other replicas all go on from the same step, and groups form as at the begin. */
static enum status load_groups(struct engine *engine, const struct manifest *manifest) {
    const struct engine_chooser *chooser = engine->meeting.chooser;
    int64_t step = manifest->state.step;
    if (!chooser) return STATUS_OK;
    if (engine->own_read && manifest->group_count == chooser->save(chooser->context, NULL))
        return chooser->load(chooser->context, manifest->groups, manifest->group_count);
    chooser->place(chooser->context, step * engine->plan->config.replicas, step);
    return STATUS_OK;
}

enum status checkpoint_load_files(struct engine *engine, const char *folder,
                                  const struct manifest *manifest) {
    bool placed = manifest->next.epoch >= 0;
    versions_set(engine_store(engine), manifest->state.step);
    TRY(checkpoint_each_part(NULL, engine, folder, manifest));
    TRY(load_apart(engine, folder, manifest));
    engine_seek(engine, manifest->state.step, placed ? &manifest->next : NULL);
    if (!is_first(engine)) return STATUS_OK;
    load_clock(engine, manifest);
    return load_groups(engine, manifest);
}
