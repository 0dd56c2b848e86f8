/* Outputs: which options name what is read and what is written, and what the functions of the
 * library that write refuse. tests/cli/outputs.sh has the commands. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/calls.h"
#include "../exec/kit.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "planned/paths.h"
#include "run/outputs.h"
#include "stretto.h"

TestSuite(run_outputs, .init = kit_enter, .fini = kit_leave);

/* A new option with a file is judged, or is kept from being written over: its row is here. */
Test(run_outputs, every_option_with_a_path_is_read_or_written) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        const char *holder = option_rows[id].placeholder;
        bool path = strncmp(holder, "FILE", 4) == 0 || strncmp(holder, "DIR", 3) == 0 ||
                    strcmp(holder, "SPEC") == 0 || strcmp(holder, "LAW,...") == 0;
        cr_expect_eq(path,
                     paths_are_read((enum option_id)id) + outputs_are_written((enum option_id)id),
                     "--%s %s", option_rows[id].name, holder);
    }
}

Test(run_outputs, paths_from_the_root) {
    static const char *const texts[][3] = {
        {"data", "digits", "digits"},
        {"data", "npy:arrays,x=a,layout=nchw", "npy:%s/arrays,x=a,layout=nchw"},
        {"data", "npy:./arrays", "npy:%s/arrays"},
        {"data", "npy:.", "npy:%s"},
        {"data", "npy:/arrays", "npy:/arrays"},
        {"data", "mnist:a,b", "mnist:%s/a,b"},
        {"data", "tokens:../words", "tokens:%s/../words"},
        {"data", "synthetic:count=64", "synthetic:count=64"},
        {"data", "unknown:here", "unknown:here"},
        {"weights", "w.safetensors", "%s/w.safetensors"},
        {"weights", "/w.safetensors", "/w.safetensors"},
        {"program", ".//p.txt", "%s/p.txt"},
        {"hetero", "slow=1:2,trace=t.csv:3", "slow=1:2,trace=%s/t.csv:3"},
        {"hetero", "slow=1:2", "slow=1:2"},
        {"profile", "/a.json,b.json", "/a.json,%s/b.json"},
        {"model", "mlp", "mlp"},
    };
    char *here = getcwd(NULL, 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct options options;
        enum option_id id;
        options_init(COMMAND_TRAIN, &options);
        cr_assert(option_find(texts[i][0], &id));
        cr_assert_eq(option_set(&options, id, texts[i][1], "test", OPTION_FROM_COMMAND_LINE),
                     STATUS_OK);
        const char *hole = strstr(texts[i][2], "%s");
        char *want = hole ? mem_format("%.*s%s%s", (int)(hole - texts[i][2]), texts[i][2], here,
                                       hole + 2)
                          : mem_text(texts[i][2]),
             *have = paths_text(&options, id);
        cr_expect_str_eq(have, want);
        free(want);
        free(have);
        options_free(&options);
    }
    free(here);
}

static void put(const char *path, const char *text) {
    cr_assert_eq(file_write_text(path, text), STATUS_OK);
}

static struct stretto_run *open_run(const char *words) {
    struct stretto_config config = {.size = sizeof config, .words = words};
    struct stretto_run *run;
    cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
    return run;
}

#define MLP "--model mlp --device ref --threads 1 --batch 500 --epochs 1 "

Test(run_outputs, a_file_of_the_library, .timeout = 60) {
    static const struct {
        const char *path;
        int code;
    } cases[] = {
        {"w.safetensors", STRETTO_USAGE},    /* the input itself */
        {"soft.safetensors", STRETTO_USAGE}, /* a link to it */
        {"hard.safetensors", STRETTO_USAGE},
        {"hub/other.safetensors", 0},
        {"run/model.safetensors", STRETTO_USAGE}, /* a file of a run */
        {"run/rank-7.safetensors", STRETTO_USAGE},
        {"run/checkpoints/mine", STRETTO_USAGE},
        {"run/mine.safetensors", 0},
        {"text", STRETTO_USAGE}, /* of another kind */
        {"hub", STRETTO_USAGE},  /* a folder */
        {"nowhere/x", STRETTO_DATA},
        {"", STRETTO_USAGE},
        {"old.safetensors", 0},
        {"empty", 0},
        {"new", 0},
    };
    struct stretto_run *run = open_run(MLP);
    cr_assert_eq(folder_make("run/checkpoints"), STATUS_OK);
    cr_assert_eq(folder_make("hub"), STATUS_OK);
    cr_assert_eq(stretto_save(run, "w.safetensors"), 0, "%s", stretto_error());
    cr_assert_eq(stretto_save(run, "old.safetensors"), 0, "%s", stretto_error());
    cr_assert_eq(symlink("w.safetensors", "soft.safetensors"), 0);
    cr_assert_eq(link("w.safetensors", "hard.safetensors"), 0);
    put("run/.stretto-run", "a run\n");
    put("text", "mine\n");
    put("empty", "");
    stretto_close(&run);
    run = open_run(MLP "--weights w.safetensors");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(stretto_save(run, cases[i].path), cases[i].code, "%s: %s", cases[i].path,
                     stretto_error());
    struct bytes text;
    cr_assert_eq(file_read("text", 100, &text), STATUS_OK);
    cr_expect_str_eq((char *)text.data, "mine\n");
    bytes_free(&text);
    cr_expect(!file_exists("run/model.safetensors"));
    stretto_close(&run);
    /* a file that was loaded is an older output */
    run = open_run(MLP);
    cr_expect_eq(stretto_load(run, "old.safetensors"), 0, "%s", stretto_error());
    cr_expect_eq(stretto_save(run, "old.safetensors"), 0, "%s", stretto_error());
    stretto_close(&run);
}

/* Files of weights that another program wrote, as a folder of them. */
Test(run_outputs, a_folder_of_weights, .timeout = 60) {
    struct stretto_run *run = open_run(MLP);
    cr_assert_eq(folder_make("hub"), STATUS_OK);
    cr_assert_eq(stretto_save(run, "hub/model.safetensors"), 0, "%s", stretto_error());
    stretto_close(&run);
    run = open_run(MLP "--weights hub");
    cr_expect_eq(stretto_save(run, "hub/model.safetensors"), STRETTO_USAGE);
    stretto_close(&run);
}

Test(run_outputs, checkpoints_of_the_library, .timeout = 60) {
    struct stretto_run *run = open_run(MLP);
    struct stretto_step step = {.size = sizeof step};
    cr_assert_eq(folder_make("run/checkpoints"), STATUS_OK);
    cr_assert_eq(folder_make("other/step-00000007"), STATUS_OK);
    put("run/.stretto-run", "a run\n");
    put("other/step-00000007/notes", "mine\n");
    put("text", "mine\n");
    cr_assert_eq(stretto_step(run, &step), 0);
    static const char *const refused[] = {"/", "/tmp", "text", "run/checkpoints", "other", ""};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_expect_eq(stretto_checkpoint(run, refused[i]), STRETTO_USAGE, "%s: %s", refused[i],
                     stretto_error());
    cr_expect(file_exists("other/step-00000007/notes") && !file_exists("/step-00000001"));
    cr_expect_eq(stretto_checkpoint(run, "mine"), 0, "%s", stretto_error());
    cr_expect_eq(stretto_save(run, "mine/step-00000001/model.safetensors"), STRETTO_USAGE);
    cr_assert_eq(stretto_step(run, &step), 0, "a refusal costs nothing else");
    cr_expect_eq(stretto_checkpoint(run, "mine"), 0, "%s", stretto_error());
    stretto_close(&run);
}

/* What it is cannot be seen: that is said once, and it is left alone. */
Test(run_outputs, a_file_that_cannot_be_read) {
    static char text[2000];
    struct options options = {.command = COMMAND_EXPLAIN};
    struct output output = {.kind = OUTPUT_SVG, .path = "old.svg", .label = "--draw"};
    put("old.svg", "mine\n");
    calls = (struct calls){.failing = CALL_OPEN, .path = "old.svg", .code = EACCES};
    log_capture(text, sizeof text);
    enum status status = outputs_judge(&output, &options);
    log_capture(NULL, 0);
    calls = (struct calls){0};
    cr_expect_eq(status_exit_code(status), 3);
    cr_expect(strstr(text, "old.svg") && !strchr(strchr(text, '\n') + 1, '\n'), "%s", text);
}
