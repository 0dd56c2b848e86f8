/* The handlers of the list "save".
 *
 * Each rank writes the tensors that are its own (tensors.h), to files of its own; nobody gathers
 * the model. A rank that cannot write says so at the next meeting, so that all fail together and
 * the first member can clean up. Where one rank writes all of a part its file is
 * PART.safetensors; where several do, files are numbered and an index names the one of each
 * tensor, as Hugging Face does it. */
#include <stdlib.h>

#include <jansson.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/handlers.h"
#include "exec/saving.h"
#include "exec/state.h"

/* --- meetings --- */

static enum status meet(struct engine *engine, const struct instr *instr) {
    struct saving *saving = engine->saving;
    saving->meeting++;
    engine->awaiting = &engine->request;
    return comm_exchange_post(engine->group[instr->group], &saving->own, sizeof saving->own,
                              saving->all, &engine->request);
}

static int rank_of(const struct engine *engine, int group, int member) {
    const struct program *program = engine->plan->program;
    enum group_family family = program->group[group];
    return group_rank(&program->grid, family,
                      group_of(&program->grid, family, engine->plan->config.rank), member);
}

/* All fail with the first member that did. */
static enum status agreed(const struct engine *engine, const struct instr *instr) {
    const struct saving *saving = engine->saving;
    for (int m = 0; m < saving->members; m++) {
        if (saving->all[m].status == STATUS_OK) continue;
        comm_blame(engine->comm, rank_of(engine, instr->group, m));
        return (enum status)saving->all[m].status;
    }
    return STATUS_OK;
}

/* Ends an instruction of two meetings: `act` is what the first member does between them. */
static enum status meet_twice(struct engine *engine, const struct instr *instr,
                              enum status (*act)(struct engine *engine)) {
    struct saving *saving = engine->saving;
    if (saving->meeting == 0) return meet(engine, instr);
    TRY(agreed(engine, instr));
    if (saving->meeting == 1) {
        if (saving->member == 0) saving->own.status = (int32_t)act(engine);
        return meet(engine, instr);
    }
    saving->meeting = 0;
    return STATUS_OK;
}

/* --- before --- */

static int parts_of(const struct saving *saving) {
    if (saving->values) return PART_VERSIONS + 1; /* another plan begins with the mean */
    return saving->config ? PART_COUNT : PART_MODEL + 1;
}

static struct tensor_share share_of(const struct engine *engine) {
    const struct saving *saving = engine->saving;
    const struct grid_cell *cell = &engine->plan->config.cell;
    return (struct tensor_share){.first_replica =
                                     cell->role == GRID_STAGE && cell->first_replica == 0,
                                 .own_statistics = engine->own_statistics,
                                 .replica = cell->first_replica,
                                 .whole = saving->whole,
                                 .whole_count = saving->whole_count};
}

static enum status begin(struct engine *engine) {
    uint64_t bytes = 0;
    if (engine->saving->values) return STATUS_OK;
    for (int m = 0; m < engine->saving->members; m++)
        for (int p = 0; p < PART_COUNT; p++) bytes += engine->saving->all[m].bytes[p];
    return checkpoint_begin(engine->saving, bytes);
}

enum status run_OPEN(struct engine *engine, const struct instr *instr) {
    struct saving *saving = engine->saving;
    struct tensor_share share = share_of(engine);
    saving->member = comm_group_member(engine->group[instr->group]);
    saving->members = comm_group_count(engine->group[instr->group]);
    for (int p = 0; p < parts_of(saving) && saving->meeting == 0; p++)
        saving->own.tensors[p] = tensors_count(engine->store->layout, (enum tensor_part)p, &share,
                                               &saving->own.bytes[p]);
    return meet_twice(engine, instr, begin);
}

/* --- files --- */

/* Who writes a part: `count` in all, of whom `member` is number `number` (from 0; -1: it writes
 * nothing). Of a part without tensors the first member writes an empty file. */
struct writers {
    int count, number;
};

static struct writers writers_of(const struct saving *saving, int part, int member) {
    struct writers writers = {0, -1};
    for (int m = 0; m < saving->members; m++) {
        if (saving->all[m].tensors[part] == 0) continue;
        if (m == member) writers.number = writers.count;
        writers.count++;
    }
    if (writers.count == 0 && part < PART_VERSIONS)
        writers = (struct writers){1, member == 0 ? 0 : -1};
    return writers;
}

static char *file_name(int part, struct writers writers) {
    const char *name = tensors_part_names[part];
    if (writers.count == 1) return mem_format("%s.safetensors", name);
    return mem_format("%s-%05d-of-%05d.safetensors", name, writers.number + 1, writers.count);
}

static enum status write_part(struct engine *engine, int part, struct writers writers) {
    struct saving *saving = engine->saving;
    struct tensor_share share = share_of(engine);
    if (saving->values)
        return tensors_keep(engine->store, (enum tensor_part)part, &share, saving->values);
    SCOPED_FREE char *name = file_name(part, writers),
                     *path = mem_format("%s/%s", saving->temporary, name);
    if (!file_exists(saving->temporary))
        return fail(STATUS_DATA,
                    "%s: this rank writes a part of the checkpoint and does not see the folder "
                    "that rank 0 made\n  all ranks need the folder --out, on a disk they share",
                    saving->temporary);
    return tensors_write(engine->store, (enum tensor_part)part, &share, path,
                         &saving->own.mark[part]);
}

/* A failure is told at COMMIT's first meeting. */
enum status run_WRITE(struct engine *engine, const struct instr *instr) {
    struct saving *saving = engine->saving;
    (void)instr;
    for (int p = 0; p < parts_of(saving) && saving->own.status == STATUS_OK; p++) {
        struct writers writers = writers_of(saving, p, saving->member);
        if (writers.number >= 0) saving->own.status = (int32_t)write_part(engine, p, writers);
    }
    return STATUS_OK;
}

/* --- after --- */

/* The names of a file's tensors into the index. */
static enum status index_file(const char *folder, const char *name, json_t *map, uint64_t *bytes) {
    SCOPED_FREE char *path = mem_format("%s/%s", folder, name);
    SCOPED(safetensors_close) struct safetensors *file = NULL;
    TRY(safetensors_open(path, &file));
    for (size_t i = 0; i < safetensors_count(file); i++) {
        *bytes += safetensors_at(file, i)->bytes;
        json_object_set_new(map, safetensors_at(file, i)->name, json_string(name));
    }
    return STATUS_OK;
}

/* Which file has each tensor of a part, of which there are `count` files. */
static enum status write_index(const struct saving *saving, const struct manifest_file *files,
                               int count, struct manifest_file *out) {
    json_t *map = json_object();
    uint64_t bytes = 0;
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++)
        status = index_file(saving->temporary, files[i].name, map, &bytes);
    json_auto_t *root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)bytes, "weight_map", map);
    SCOPED_FREE char *text = json_dumps(root, JSON_INDENT(2) | JSON_SORT_KEYS),
                     *path = mem_format("%s/%s", saving->temporary, out->name);
    if (status == STATUS_OK) status = file_write_text(path, text);
    if (status == STATUS_OK) status = safetensors_checksum(path, &out->mark);
    return status;
}

/* All files of a part, and the index where there are several, behind the `count` files so far. */
static enum status list_part(const struct saving *saving, int part, struct manifest_file *files,
                             int *count) {
    int first = *count;
    for (int m = 0; m < saving->members; m++) {
        struct writers writers = writers_of(saving, part, m);
        if (writers.number < 0) continue;
        files[(*count)++] =
            (struct manifest_file){file_name(part, writers), saving->all[m].mark[part]};
    }
    int written = *count - first;
    if (written <= 1) return STATUS_OK;
    struct manifest_file *index = &files[(*count)++];
    index->name = mem_format("%s.safetensors.index.json", tensors_part_names[part]);
    return write_index(saving, files + first, written, index);
}

/* A model in one file and one in several exclude one another: what an earlier start left would be
 * read in place of this one. */
static enum status remove_other_form(const struct saving *saving, int count) {
    SCOPED_FREE char *path =
        mem_format("%s/%s.safetensors%s", saving->temporary, tensors_part_names[PART_MODEL],
                   count > 1 ? "" : ".index.json");
    return file_exists(path) ? folder_remove(path) : STATUS_OK;
}

static enum status commit(struct engine *engine) {
    const struct saving *saving = engine->saving;
    int count = 0;
    if (saving->values) return STATUS_OK;
    SCOPED_FREE struct manifest_file *files =
        MEM_ARRAY(struct manifest_file, PART_COUNT * (saving->members + 1));
    enum status status = STATUS_OK;
    for (int p = 0; p < parts_of(saving) && status == STATUS_OK; p++)
        status = list_part(saving, p, files, &count);
    if (status == STATUS_OK && !saving->config) status = remove_other_form(saving, count);
    if (status == STATUS_OK) status = checkpoint_commit(saving, files, count);
    for (int i = 0; i < count; i++) free((char *)(uintptr_t)files[i].name);
    return status;
}

enum status run_COMMIT(struct engine *engine, const struct instr *instr) {
    return meet_twice(engine, instr, commit);
}

enum status engine_save(struct engine *engine, struct saving *saving) {
    saving->all = MEM_ARRAY(struct save_report, comm_size(engine->comm));
    engine->saving = saving;
    enum status status = engine_run_list(engine, LIST_SAVE);
    engine->saving = NULL;
    for (int i = 0; i < saving->whole_count; i++) free(saving->whole[i].plain);
    free(saving->whole);
    free(saving->all);
    return status;
}
