/* What is kept: a checkpoint that nobody could judge, or that a resume passed over, is never taken
 * away; a save leaves nothing half done, also where the system fails (calls.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/calls.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/manifest.h"
#include "kit.h"
#include "saves.h"

TestSuite(exec_kept, .init = saves_begin, .fini = saves_end);

/* What a resume passed over is no checkpoint of this run: it is not counted, and not removed. */
Test(exec_kept, a_damaged_one_does_not_push_the_newest_out) {
    make_two();
    char *path = path_of(4, "manifest.json");
    unlink(path);
    free(path);
    cr_expect_eq(resume(victim), 2);
    kit_steps(victim, 1);
    save(victim, 1, -1);
    cr_expect(has("step-00000003") && has("step-00000004") && !has("step-00000002"));
    cr_expect_eq(resume(victim), 3);
    kit_close(&victim);
}

/* Its step is reached, or passed by: it gives its name up and stays, also a second time. */
Test(exec_kept, a_damaged_one_is_renamed_when_its_step_is_reached) {
    make_two();
    for (int round = 0; round < 2; round++) {
        char *path = path_of(4, files[0]);
        cr_assert_eq(truncate(path, 100), 0);
        free(path);
        cr_assert_eq(resume(victim), 2, "%s", said);
        kit_steps(victim, 2);
        save(victim, 2, -1);
        cr_expect_eq(resume(victim), 4, "%s", said);
    }
    cr_expect(has("step-00000004.damaged/manifest.json"));
    cr_expect(has("step-00000004.damaged-2/manifest.json"));
    char *path = path_of(4, files[0]);
    cr_assert_eq(truncate(path, 100), 0);
    free(path);
    cr_assert_eq(resume(victim), 2, "%s", said);
    kit_steps(victim, 3);
    save(victim, 1, -1); /* at step 5: this run never had a checkpoint of step 4 */
    cr_expect(has("step-00000005") && !has("step-00000004") && !has("step-00000002"));
    cr_expect(has("step-00000004.damaged-3/optimizer.safetensors"));
    cr_expect_eq(resume(victim), 5);
    kit_close(&victim);
}

/* --- what may be whole --- */

static void expect_stops(const char *what, const char *path) {
    uint64_t before = kit_hash(victim);
    cr_expect_eq(resume(victim), -1, "%s: %s", what, said);
    cr_expect(strstr(said, path) && !strstr(said, "damaged"), "%s: %s", what, said);
    cr_expect_eq(kit_hash(victim), before, "%s: something was loaded", what);
    cr_expect(has("step-00000004") && has("step-00000002"), "%s", what);
}

/* Nobody knows what is in it: no older one is taken. */
Test(exec_kept, one_that_cannot_be_read_stops_a_resume) {
    static const struct {
        enum call call;
        int code;
        const char *text;
    } rows[] = {{CALL_OPEN, EACCES, "Permission denied"},
                {CALL_OPEN, EMFILE, "Too many open files"},
                {CALL_PREAD, EIO, "Input/output error"}};
    make_two();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int f = 0; f < 3; f++) {
            char *path = mem_format("step-00000004/%s", files[f]);
            calls = (struct calls){.failing = rows[i].call, .path = path, .code = rows[i].code};
            expect_stops(rows[i].text, path);
            cr_expect(strstr(said, rows[i].text) && strstr(said, "may be whole"), "%s", said);
            free(path);
        }
    }
    const enum call whole_folder[] = {CALL_OPENDIR, CALL_READDIR};
    for (int i = 0; i < 2; i++) {
        calls = (struct calls){.failing = whole_folder[i], .path = folder, .code = EIO};
        expect_stops("the folder", folder);
    }
    calls = (struct calls){0};
    cr_expect_eq(resume(victim), 4, "%s", said);
    kit_close(&victim);
}

/* A newer format may form its check in another way, so a wrong check tells nothing. */
Test(exec_kept, a_newer_format_stops_a_resume) {
    make_two();
    char *path = path_of(4, "manifest.json");
    struct bytes text;
    cr_assert_eq(file_read(path, 1 << 20, &text), STATUS_OK);
    char *format = strstr((char *)text.data, "\"format\": 1");
    cr_assert_not_null(format);
    format[10] = '2';
    write_whole(path, text.data, text.count);
    expect_stops("a newer format", "manifest.json: format 2, this version reads 1");
    format[10] = '0'; /* an older one has our check, and it is wrong */
    write_whole(path, text.data, text.count);
    cr_expect_eq(resume(victim), 2, "%s", said);
    bytes_free(&text);
    free(path);
    kit_close(&victim);
}

/* Written so, by another version: the check is right, and a field is not what we know. */
Test(exec_kept, a_right_check_is_no_damage) {
    make_two();
    struct checkpoint_fact many[CHECKPOINT_MAX_FACTS + 1];
    char keys[CHECKPOINT_MAX_FACTS + 1][16];
    for (int i = 0; i <= CHECKPOINT_MAX_FACTS; i++) {
        snprintf(keys[i], sizeof keys[i], "fact-%d", i);
        many[i] = (struct checkpoint_fact){keys[i], "1", FACT_TOLD};
    }
    struct manifest manifest = {.state = {.step = 4, .best_step = -1, .saved_step = -1},
                                .facts = many,
                                .fact_count = CHECKPOINT_MAX_FACTS + 1};
    char *path = path_of(4, "manifest.json");
    cr_assert_eq(manifest_write(&manifest, path), STATUS_OK);
    expect_stops("many facts", "manifest.json: facts");
    free(path);
    kit_close(&victim);
}

/* More folders than a fixed table holds. */
Test(exec_kept, every_checkpoint_of_a_folder_is_listed) {
    enum { MANY = 5000 };
    make_two();
    for (int i = 0; i < MANY; i++) {
        char *path = mem_format("%s/step-%08d", folder, 100 + i);
        cr_assert_eq(mkdir(path, 0777), 0);
        free(path);
    }
    cr_expect_eq(resume(victim), 2 + 2, "%.500s", said);
    for (int step = 2; step <= 4; step += 2) {
        char *path = path_of(step, "manifest.json");
        cr_assert_eq(unlink(path), 0);
        free(path);
    }
    cr_expect_eq(resume(victim), -1);
    cr_expect(strstr(said, "none of 5002"), "%s", said + strlen(said) - 200);
    kit_close(&victim);
}

/* Names that only look like ours are not looked at, and stay. */
Test(exec_kept, other_names_are_left_alone) {
    static const char *const names[] = {"step-9", "step-00000009.damaged", "step-00000009x",
                                        ".step-00000009.tmpx", ".step-notes"};
    make_two();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = mem_format("%s/%s", folder, names[i]);
        cr_assert_eq(mkdir(path, 0777), 0);
        free(path);
    }
    cr_expect_eq(resume(victim), 4, "%s", said);
    cr_expect_null(strstr(said, "passed over"), "%s", said);
    kit_steps(victim, 1);
    save(victim, 1, -1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_expect(has(names[i]), "%s is gone", names[i]);
    kit_close(&victim);
}

/* --- what a crash of the machine would forget --- */

static char synced[64][256];
static int sync_count;

static void note_sync(const char *path) {
    if (sync_count < 64) snprintf(synced[sync_count++], sizeof synced[0], "%s", path);
}

static bool was_synced(const char *path) {
    for (int i = 0; i < sync_count; i++) {
        if (strcmp(synced[i], path) == 0) return true;
    }
    return false;
}

/* A folder is an entry of its parent: each new one is synced there, as is each new file. */
Test(exec_kept, new_folders_are_synced_in_their_parents) {
    struct kit_run *run = kit_open(MLP "--steps 5");
    char *outer = mem_format("%s/run", folder), *inner = mem_format("%s/run/checkpoints", folder);
    struct checkpoint_config config = {.folder = inner, .keep = 2};
    struct checkpoint_state state = {.step = 0, .best_step = -1, .saved_step = -1};
    calls = (struct calls){.synced = note_sync};
    cr_assert_eq(checkpoint_save(&config, run->engine, &state, STATUS_OK), STATUS_OK);
    cr_expect(was_synced(folder), "%s", folder);
    cr_expect(was_synced(outer), "%s", outer);
    cr_expect(was_synced(inner), "%s", inner);
    free(outer);
    free(inner);
    kit_close(&run);
}

/* --- room --- */

static void expect_no_folder(const char *path) {
    cr_expect_null(strstr(path, "/."), "%s was made", path);
}

/* Room is looked at before anything is written. */
Test(exec_kept, a_save_without_room_does_not_begin) {
    make_two();
    cr_assert_eq(resume(victim), 4);
    kit_steps(victim, 1);
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = {.step = 5, .best_step = -1, .saved_step = 4};
    char *model = mem_format("%s/model.safetensors", folder);
    calls = (struct calls){.full = true, .free_bytes = 1000, .making = expect_no_folder};
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_save(&config, victim->engine, &state, STATUS_OK), STATUS_DATA);
    cr_expect(strstr(said, "No space left") && strstr(said, "1000 B are free"), "%s", said);
    cr_expect_eq(checkpoint_write_model(victim->engine, model, NULL), STATUS_DATA);
    log_capture(NULL, 0);
    calls.free_bytes = 1 << 30;
    calls.making = NULL;
    cr_expect_eq(checkpoint_save(&config, victim->engine, &state, STATUS_OK), STATUS_OK);
    cr_expect(has("step-00000005") && !has("model.safetensors"));
    free(model);
    kit_close(&victim);
}
