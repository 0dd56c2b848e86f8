/* Checkpoints: going on is as never having stopped, damage is found and passed over, a save that
 * fails or is killed costs nothing but itself. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "exec/manifest.h"
#include "exec/train.h"
#include "kit.h"
#include "saves.h"

#define ADAM MLP "--optimizer adamw --dropout 0.1 --steps 6 "

TestSuite(exec_checkpoint, .init = saves_begin, .fini = saves_end);

/* --- going on --- */

static void expect_resumes_at_every_step(const char *line, int steps) {
    struct kit_run *run = kit_open("%s", line);
    for (int k = 0; k < steps; k++) {
        save(run, 100, -1);
        kit_steps(run, 1);
    }
    uint64_t unbroken = kit_hash(run);
    kit_close(&run);
    for (int k = 0; k < steps; k++) {
        char *newer = mem_format("%s/step-%08d", folder, steps - k);
        folder_remove(newer);
        free(newer);
        run = kit_open("%s", line);
        cr_assert_eq(resume(run), steps - 1 - k, "%s", said);
        kit_steps(run, -1);
        cr_expect_eq(kit_hash(run), unbroken, "resumed at %d: %s", steps - 1 - k, line);
        kit_close(&run);
    }
}

Test(exec_checkpoint, resumed_at_any_step_the_end_is_the_same) {
    expect_resumes_at_every_step(ADAM, 6);
}

/* Over the end of an epoch and its short last step, with momentum. */
Test(exec_checkpoint, also_over_the_end_of_an_epoch) {
    expect_resumes_at_every_step(
        "--model mlp --data synthetic:count=20,test_count=4,size=8,channels=1,classes=10 "
        "--device ref --threads 1 --batch 8 --deal 2x2 --steps 7 --nesterov --clip 0.5",
        7);
}

Test(exec_checkpoint, also_with_batch_norm_in_other_layouts) {
    expect_resumes_at_every_step(
        "--model resnet8 --data digits --device cpu --threads 1 --batch 16 --steps 3", 3);
}

Test(exec_checkpoint, also_with_shared_weights) {
    expect_resumes_at_every_step(
        "--model bert-tiny --device cpu --threads 1 --batch 4 --steps 2 "
        "--data synthetic:count=8,test_count=4,seq=16,predictions=3,vocab=100",
        2);
}

Test(exec_checkpoint, an_empty_or_missing_folder_has_none) {
    struct kit_run *run = kit_open(ADAM);
    uint64_t fresh = kit_hash(run);
    cr_expect_eq(resume(run), -2);
    folder_remove(folder);
    cr_expect_eq(resume(run), -2);
    cr_expect_eq(kit_hash(run), fresh);
    kit_close(&run);
}

/* --- damage --- */

/* The older one is taken; or, where `harmless`, the newer one, with exactly its own values. */
static void expect_passed_over(const char *what, long at, bool harmless) {
    int64_t step = resume(victim);
    if (step == 4 && harmless) {
        cr_expect_eq(kit_hash(victim), hash_at[4]);
        return;
    }
    cr_expect_eq(step, 2, "%s at %ld: resumed at %d", what, at, (int)step);
    cr_expect_eq(kit_hash(victim), hash_at[2], "%s at %ld", what, at);
    cr_expect(strstr(said, "step-00000004") && strstr(said, "passed over"), "%s", said);
}

Test(exec_checkpoint, damaged_files_are_passed_over) {
    make_two();
    for (int f = 0; f < 3; f++) {
        char *path = path_of(4, files[f]);
        struct bytes whole;
        cr_assert_eq(file_read(path, 1 << 30, &whole), STATUS_OK);
        const size_t lengths[] = {0, 1, 7, 8, whole.count / 2, whole.count - 1};
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            write_whole(path, whole.data, lengths[i]);
            expect_passed_over("cut", (long)lengths[i], f == 2 && i == 5); /* a last newline */
        }
        /* Every byte of the manifest, some of the others; one bit each. */
        size_t stride = f == 2 ? 1 : whole.count / 60;
        for (size_t at = 0; at < whole.count; at += stride) {
            unsigned char bit = (unsigned char)(1 << rng_word(7, at) % 8);
            whole.data[at] ^= bit;
            write_whole(path, whole.data, whole.count);
            expect_passed_over(files[f], (long)at, f == 2); /* a space for a tab, say */
            whole.data[at] ^= bit;
        }
        unlink(path);
        expect_passed_over("missing", f, false);
        cr_assert_eq(mkdir(path, 0777), 0);
        expect_passed_over("a folder", f, false);
        rmdir(path);
        write_whole(path, whole.data, whole.count);
        cr_expect_eq(resume(victim), 4, "%s", said);
        bytes_free(&whole);
        free(path);
    }
    kit_close(&victim);
}

Test(exec_checkpoint, swapped_files_are_passed_over) {
    make_two();
    for (int f = 0; f < 3; f++) {
        char *a = path_of(2, files[f]), *b = path_of(4, files[f]), *t = path_of(4, "between");
        rename(a, t);
        rename(b, a);
        rename(t, b);
        uint64_t before = kit_hash(victim);
        cr_expect_eq(resume(victim), -1, "%s was swapped", files[f]);
        cr_expect_eq(kit_hash(victim), before, "something was loaded");
        cr_expect(strstr(said, "none of 2 checkpoints"), "%s", said);
        rename(a, t);
        rename(b, a);
        rename(t, b);
        free(a);
        free(b);
        free(t);
    }
    cr_expect_eq(resume(victim), 4);
    kit_close(&victim);
}

/* Whole folders under one another's names: what they say of themselves counts. */
Test(exec_checkpoint, a_folder_with_another_steps_content_is_passed_over) {
    make_two();
    char *two = mem_format("%s/step-00000002", folder),
         *nine = mem_format("%s/step-00000009", folder);
    rename(two, nine);
    cr_expect_eq(resume(victim), 4);
    cr_expect(strstr(said, "step-00000009") && strstr(said, "of step 2"), "%s", said);
    free(two);
    free(nine);
    kit_close(&victim);
}

Test(exec_checkpoint, an_empty_folder_is_passed_over) {
    make_two();
    char *path = mem_format("%s/step-00000007", folder);
    cr_assert_eq(mkdir(path, 0777), 0);
    cr_expect_eq(resume(victim), 4);
    cr_expect(strstr(said, "step-00000007"), "%s", said);
    free(path);
    kit_close(&victim);
}

Test(exec_checkpoint, where_none_is_whole_nothing_is_loaded) {
    make_two();
    for (int step = 2; step <= 4; step += 2) {
        char *path = path_of(step, "optimizer.safetensors");
        cr_assert_eq(truncate(path, 100), 0);
        free(path);
    }
    cr_expect_eq(resume(victim), -1);
    cr_expect_eq(kit_hash(victim), hash_at[0]);
    kit_close(&victim);
}

Test(exec_checkpoint, another_models_checkpoint_is_refused) {
    struct kit_run *run = kit_open(MLP "--steps 5"),
                   *other = kit_open(MLP "--steps 5 --classes 12");
    save(run, 2, -1);
    cr_expect_eq(resume(other), -1);
    cr_expect(strstr(said, "fc3.weight") && strstr(said, "[12,64]"), "%s", said);
    kit_close(&run);
    kit_close(&other);
}

/* --- keep, best, leftovers --- */

Test(exec_checkpoint, the_newest_and_the_best_are_kept) {
    struct kit_run *run = kit_open(ADAM);
    for (int k = 0; k < 6; k++) {
        save(run, 2, k < 1 ? -1 : 1);
        kit_steps(run, 1);
    }
    cr_expect(has("step-00000005") && has("step-00000004") && has("step-00000001"));
    cr_expect(!has("step-00000000") && !has("step-00000002") && !has("step-00000003"));
    char target[64] = "", *link = mem_format("%s/best", folder);
    cr_assert_gt(readlink(link, target, sizeof target - 1), 0);
    cr_expect_str_eq(target, "step-00000001");
    free(link);
    save(run, 1, 6); /* a new best; the old one is old now */
    cr_expect(has("step-00000006") && has("step-00000005") && !has("step-00000001"));
    kit_close(&run);
}

/* Killed between making the new link and renaming it: the best one must survive the tidying. */
Test(exec_checkpoint, a_leftover_link_takes_nothing_with_it) {
    struct kit_run *run = kit_open(ADAM);
    save(run, 2, 0);
    uint64_t hash = kit_hash(run);
    char *link = mem_format("%s/.step-best", folder);
    cr_assert_eq(symlink("step-00000000", link), 0);
    kit_steps(run, 1);
    cr_expect_eq(resume(run), 0, "%s", said);
    cr_expect_eq(kit_hash(run), hash);
    cr_expect(!has(".step-best"));
    free(link);
    kit_close(&run);
}

/* --- saves that fail --- */

/* A disk that is full after `limit` bytes of a file: the system refuses to write on. */
static enum status save_on_full_disk(struct kit_run *run, rlim_t limit) {
    struct rlimit full = {limit, RLIM_INFINITY}, whole;
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = {
        .step = engine_next_step(run->engine), .best_step = -1, .saved_step = 4};
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &whole);
    setrlimit(RLIMIT_FSIZE, &full);
    said[0] = 0;
    log_capture(said, sizeof said);
    enum status status = checkpoint_save(&config, run->engine, &state, STATUS_OK);
    log_capture(NULL, 0);
    setrlimit(RLIMIT_FSIZE, &whole);
    return status;
}

Test(exec_checkpoint, a_save_that_fails_leaves_the_older_ones) {
    make_two();
    struct kit_run *run = kit_open(MLP "--steps 5");
    cr_assert_eq(resume(run), 4);
    kit_steps(run, 1);
    static const rlim_t limits[] = {0, 100, 5000, 60000};
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(save_on_full_disk(run, limits[i]), STATUS_DATA, "%d bytes", (int)limits[i]);
        cr_expect(strstr(said, "error") && strstr(said, ".tmp/"), "%s", said);
        cr_expect(!has("step-00000005") && !has(".step-00000005.tmp"), "%d", (int)limits[i]);
        cr_expect_eq(resume(victim), 4);
        cr_expect_eq(kit_hash(victim), hash_at[4]);
    }
    /* And a place that cannot hold folders. */
    struct checkpoint_config config = {
        .folder = mem_format("%s/step-00000004/manifest.json/x", folder), .keep = 2};
    struct checkpoint_state state = {.step = 5, .best_step = -1, .saved_step = 4};
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_save(&config, run->engine, &state, STATUS_OK), STATUS_DATA);
    log_capture(NULL, 0);
    free((char *)config.folder);
    save(run, 2, -1); /* with room again it works */
    cr_expect_eq(resume(victim), 5);
    kit_close(&run);
    kit_close(&victim);
}

/* --- kill -9 --- */

/* Resumes, trains on to the end, saves at each step; its hash goes into the pipe. Runs in a child:
 * nothing here may use OpenMP before the fork. */
static void child(int pipe) {
    struct kit_run *run = kit_open(ADAM);
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = train_fresh().done;
    bool found;
    log_quiet(true);
    if (checkpoint_resume(&config, run->engine, &state, &found) != STATUS_OK) _exit(3);
    while (engine_next_step(run->engine) < 6) {
        struct step_result result;
        if (engine_step(run->engine, &result) != STATUS_OK) _exit(4);
        state.step = engine_next_step(run->engine);
        if (state.step == 2) state.best_step = 2, state.best_score = 1;
        if (checkpoint_save(&config, run->engine, &state, STATUS_OK) != STATUS_OK) _exit(5);
        state.saved_step = state.step;
    }
    uint64_t hash = kit_hash(run);
    _exit(write(pipe, &hash, sizeof hash) == sizeof hash ? 0 : 6);
}

/* Exit code of the child, -1 when it was killed after `us` microseconds (0: never). */
static int train_in_child(useconds_t us, uint64_t *hash) {
    int pipes[2], code;
    cr_assert_eq(pipe(pipes), 0);
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) child(pipes[1]);
    close(pipes[1]);
    if (us) {
        usleep(us);
        kill(pid, SIGKILL);
    }
    waitpid(pid, &code, 0);
    ssize_t got = read(pipes[0], hash, sizeof *hash);
    close(pipes[0]);
    if (!WIFEXITED(code)) return -1;
    cr_assert_eq(got, (ssize_t)sizeof *hash);
    return WEXITSTATUS(code);
}

/* Twenty kills; after every fifth the run may end, which must be the unbroken one's end. */
Test(exec_checkpoint, killed_at_any_moment_it_goes_on) {
    uint64_t unbroken, hash;
    int killed = 0;
    cr_assert_eq(train_in_child(0, &unbroken), 0);
    for (int round = 0; round < 20; round++) {
        if (round % 5 == 0) folder_remove(folder);
        useconds_t us = 1 + rng_word(3, (uint64_t)round) % 150000;
        int code = train_in_child(us, &hash);
        cr_assert(code == -1 || code == 0, "round %d: exit %d", round, code);
        killed += code == -1;
        if (round % 5 != 4) continue;
        cr_assert_eq(train_in_child(0, &hash), 0, "round %d", round);
        cr_expect_eq(hash, unbroken, "round %d", round);
        cr_expect(has("step-00000006") && has("best"));
    }
    cr_expect_gt(killed, 3);
}

/* --- what the run was told --- */

static enum status resume_with(struct kit_run *run, const char *value, enum fact_kind kind) {
    struct checkpoint_fact fact = {"lr", value, kind};
    struct checkpoint_config config = {
        .folder = folder, .keep = 2, .facts = &fact, .fact_count = 1};
    struct checkpoint_state state;
    bool found;
    said[0] = 0;
    log_capture(said, sizeof said);
    enum status status = checkpoint_resume(&config, run->engine, &state, &found);
    log_capture(NULL, 0);
    return status;
}

Test(exec_checkpoint, facts_are_compared) {
    struct kit_run *run = kit_open(ADAM);
    struct checkpoint_fact fact = {"lr", "0.1", FACT_TOLD};
    struct checkpoint_config config = {
        .folder = folder, .keep = 2, .facts = &fact, .fact_count = 1};
    struct checkpoint_state state = train_fresh().done;
    cr_assert_eq(checkpoint_save(&config, run->engine, &state, STATUS_OK), STATUS_OK);
    cr_expect_eq(resume_with(run, "0.1", FACT_FIXED), STATUS_OK);
    cr_expect_null(strstr(said, "warning"), "%s", said);
    cr_expect_eq(resume_with(run, "0.2", FACT_FIXED), STATUS_USAGE);
    cr_expect(strstr(said, "lr was 0.1") && strstr(said, "0.2"), "%s", said);
    cr_expect_eq(resume_with(run, "0.2", FACT_TOLD), STATUS_OK);
    cr_expect(strstr(said, "warning") && !strstr(said, "bits"), "%s", said);
    cr_expect_eq(resume_with(run, "0.2", FACT_RAN_ON), STATUS_OK);
    cr_expect(strstr(said, "bits may differ"), "%s", said);
    kit_close(&run);
}

/* Where steps overlap: clocks, what is under way by them, and how stale updates were on each rank.
 */
Test(exec_checkpoint, a_manifest_keeps_what_is_under_way) {
    struct train_stale stale[2] = {{{2, 0, 5}}, {{0}}};
    struct checkpoint_fact facts[] = {{"seed", "7", FACT_FIXED}, {"staleness", "1,0", FACT_RAN_ON}};
    struct manifest_file file = {"model.safetensors", {5, 6}};
    struct manifest manifest = {.state = {.step = 9, .best_step = -1},
                                .clock = (const double[]){0.1, 2e15},
                                .clock_count = 2,
                                .under_way = 3,
                                .stale = stale,
                                .stale_ranks = 2,
                                .facts = facts,
                                .fact_count = 2,
                                .files = &file,
                                .file_count = 1};
    struct manifest again;
    char *text = manifest_print(&manifest);
    cr_assert_eq(manifest_parse("here", text, strlen(text), &again), STATUS_OK);
    cr_assert_eq(again.clock_count, 2);
    cr_expect(again.clock[0] == 0.1 && again.clock[1] == 2e15);
    cr_expect_eq(again.under_way, 3);
    cr_assert_eq(again.stale_ranks, 2);
    cr_expect_eq(memcmp(again.stale, stale, sizeof stale), 0);
    cr_expect(manifest_has_fact(&again, facts, 2, "staleness"));
    facts[1].value = "2,0";
    cr_expect_not(manifest_has_fact(&again, facts, 2, "staleness"));
    manifest_free(&again);
    free(text);
}

Test(exec_checkpoint, a_manifest_reads_back) {
    struct checkpoint_fact facts[] = {{"seed", "7", FACT_FIXED},
                                      {"text", "a \"quote\"\n\\ é", FACT_TOLD}};
    struct manifest_file saved[] = {{"model-00001-of-00002.safetensors", {1ull << 40, 0xdeadbeef}},
                                    {"model-00002-of-00002.safetensors", {3, 0}}};
    struct manifest manifest = {.state = {.step = 123456789012,
                                          .best_step = 42,
                                          .best_score = -0.12345678901234567,
                                          .saved_step = -1,
                                          .scale = {4096, 17, 3}},
                                .next = {7, 98765432109},
                                .facts = facts,
                                .fact_count = 2,
                                .files = saved,
                                .file_count = 2};
    struct manifest again;
    char *path = mem_format("%s/manifest.json", folder);
    cr_assert_eq(manifest_write(&manifest, path), STATUS_OK);
    cr_assert_eq(manifest_read(path, &again), STATUS_OK);
    cr_expect_eq(again.state.step, 123456789012);
    cr_expect_eq(again.state.best_step, 42);
    cr_expect_eq(again.state.scale.scale, 4096);
    cr_expect_eq(again.state.scale.good, 17);
    cr_expect_eq(again.state.scale.skipped, 3);
    cr_expect_eq(again.state.best_score, manifest.state.best_score);
    cr_expect(again.next.epoch == 7 && again.next.sample == 98765432109);
    cr_assert_eq(again.file_count, 2);
    for (int i = 0; i < 2; i++) {
        cr_expect_str_eq(again.files[i].name, saved[i].name);
        cr_expect_eq(again.files[i].mark.bytes, saved[i].mark.bytes);
        cr_expect_eq(again.files[i].mark.crc32c, saved[i].mark.crc32c);
    }
    cr_assert_eq(again.fact_count, 2);
    cr_expect_eq(manifest_compare(&again, facts, 2, "here"), STATUS_OK);
    struct checkpoint_fact later = {"later", "1", FACT_TOLD}, fixed = {"later", "1", FACT_FIXED};
    log_capture(said, sizeof said);
    cr_expect_eq(manifest_compare(&again, &later, 1, "here"), STATUS_OK);
    cr_expect_str_eq(said, "", "a fact that the checkpoint does not have is reported");
    cr_expect_eq(manifest_compare(&again, &fixed, 1, "here"), STATUS_USAGE);
    struct checkpoint_fact left = {"untie", "off", FACT_FIXED}, used = {"untie", "on", FACT_FIXED};
    cr_expect_eq(manifest_compare(&again, &left, 1, "here"), STATUS_OK, "%s", said);
    cr_expect_eq(manifest_compare(&again, &used, 1, "here"), STATUS_USAGE);
    log_capture(NULL, 0);
    manifest_free(&again);
    static const char *const outside[] = {"../model.safetensors", "a/model.safetensors", "..", ""};
    for (int i = 0; i < 4; i++) {
        saved[1].name = outside[i];
        cr_assert_eq(manifest_write(&manifest, path), STATUS_OK);
        log_capture(said, sizeof said);
        cr_expect_eq(manifest_read(path, &again), STATUS_USAGE, "\"%s\" was taken", outside[i]);
        log_capture(NULL, 0);
    }
    free(path);
}
