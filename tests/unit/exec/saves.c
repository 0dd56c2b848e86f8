/* See saves.h. */
#include "saves.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/train.h"

char *folder;
static int64_t saved = -1; /* the newest checkpoint that this test saved or resumed from */

void saves_begin(void) {
    folder = kit_folder();
}

void saves_end(void) {
    folder_remove(folder);
    free(folder);
}

struct checkpoint_config config_of(int keep) {
    return (struct checkpoint_config){.folder = folder, .keep = keep};
}

void save(struct kit_run *run, int keep, int64_t best) {
    struct checkpoint_config config = config_of(keep);
    struct checkpoint_state state = {.step = engine_next_step(run->engine),
                                     .best_step = best,
                                     .best_score = 0.5,
                                     .saved_step = saved};
    cr_assert_eq(checkpoint_save(&config, run->engine, &state, STATUS_OK), STATUS_OK);
    saved = state.step;
}

char said[1 << 20];

int64_t resume(struct kit_run *run) {
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = train_fresh().done;
    bool found = false;
    said[0] = 0;
    log_capture(said, sizeof said);
    enum status status = checkpoint_resume(&config, run->engine, &state, &found);
    log_capture(NULL, 0);
    if (status != STATUS_OK) return -1;
    if (found) cr_assert_eq(engine_next_step(run->engine), state.step);
    cr_assert_eq(state.saved_step, found ? state.step : -1);
    saved = state.saved_step;
    return found ? state.step : -2;
}

bool has(const char *name) {
    char *path = mem_format("%s/%s", folder, name);
    bool there = file_exists(path);
    free(path);
    return there;
}

uint64_t hash_at[5];
struct kit_run *victim;
const char *const files[] = {"model.safetensors", "optimizer.safetensors", "manifest.json"};

void make_two(void) {
    struct kit_run *run = kit_open(MLP "--steps 5");
    for (int k = 0; k < 5; k++) {
        hash_at[k] = kit_hash(run);
        if (k == 2 || k == 4) save(run, 2, -1);
        kit_steps(run, 1);
    }
    kit_close(&run);
    victim = kit_open(MLP "--steps 5");
}

char *path_of(int step, const char *name) {
    return mem_format("%s/step-%08d/%s", folder, step, name);
}

void write_whole(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}
