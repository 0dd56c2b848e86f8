/* Checkpoints whose checksums are right, and whose files are not those of the model: who reads the
 * message must know the folder and the file. Looking (explain) gives the answer of resuming. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "exec/manifest.h"
#include "exec/train.h"
#include "kit.h"
#include "saves.h"

TestSuite(exec_other_files, .init = saves_begin, .fini = saves_end);

static void add_file(struct manifest *manifest, struct manifest_file *files, const char *name) {
    char *path = path_of(4, name);
    files[manifest->file_count].name = name;
    cr_assert_eq(safetensors_checksum(path, &files[manifest->file_count].mark), STATUS_OK);
    manifest->file_count++;
    free(path);
}

/* Step 4 has these files and no others: names with blanks between them. */
static void state_files(const char *names) {
    struct manifest_file files[4];
    struct manifest manifest = {.state = {.step = 4, .best_step = -1, .saved_step = -1},
                                .files = files};
    char *copy = mem_text(names), *rest = NULL, *path = path_of(4, "manifest.json");
    for (char *one = strtok_r(copy, " ", &rest); one; one = strtok_r(NULL, " ", &rest))
        add_file(&manifest, files, one);
    cr_assert_eq(manifest_write(&manifest, path), STATUS_OK);
    free(copy);
    free(path);
}

/* A file of the model with one tensor more or none at all, or of one of its tensors. */
static void write_tensors(const char *name, const char *tensor, struct shape shape) {
    static const float zeros[1 << 16];
    struct tensor_item item = {.name = tensor, .dtype = DTYPE_F32, .shape = shape, .data = zeros};
    struct safetensors_content content = {.items = &item, .item_count = 1};
    char *path = path_of(4, name);
    cr_assert_eq(safetensors_write(path, &content, NULL), STATUS_OK);
    free(path);
}

static void expect_refused(const char *files, const char *message) {
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = train_fresh().done;
    char *words = mem_format("%s/step-00000004%s", folder, message);
    bool found;
    state_files(files);
    cr_expect_eq(resume(victim), -1, "%s", files);
    cr_expect(strstr(said, words), "\"%s\" is not in: %s", words, said);
    cr_expect(!strstr(said, "resuming from"), "%s", said);
    config.plan = victim->planned.plan;
    said[0] = 0;
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_resume(&config, NULL, &state, &found), STATUS_DATA, "%s", files);
    log_capture(NULL, 0);
    cr_expect(strstr(said, words), "\"%s\" is not in: %s", words, said);
    free(words);
}

Test(exec_other_files, messages_name_folder_and_file) {
    make_two();
    write_tensors("model-extra.safetensors", "nobody.weight", SHAPE(3));
    write_tensors("model-twice.safetensors", "fc1.bias", SHAPE(128));
    expect_refused("model.safetensors", "/manifest.json: names no file optimizer*.safetensors");
    expect_refused("optimizer.safetensors", "/manifest.json: names no file model*.safetensors");
    expect_refused("model.safetensors model-extra.safetensors optimizer.safetensors",
                   "/model-extra.safetensors: tensor nobody.weight is none of the model's");
    expect_refused("model.safetensors model-twice.safetensors optimizer.safetensors",
                   "/model.safetensors: tensor fc1.bias is in model-twice.safetensors too");
    expect_refused("model-twice.safetensors optimizer.safetensors",
                   ": none of its files model*.safetensors has tensor fc");
    state_files("model.safetensors optimizer.safetensors");
    cr_expect_eq(resume(victim), 4, "%s", said);
    cr_expect(strstr(said, "resuming from"));
    kit_close(&victim);
}

/* A folder has the name of the link. */
Test(exec_other_files, a_link_that_fails_leaves_nothing) {
    struct kit_run *run = kit_open(MLP "--steps 5");
    struct checkpoint_config config = config_of(2);
    struct checkpoint_state state = {.step = 0, .best_step = 0, .saved_step = -1};
    char *link = mem_format("%s/best", folder);
    cr_assert_eq(mkdir(link, 0700), 0);
    log_capture(said, sizeof said);
    cr_expect_neq(checkpoint_save(&config, run->engine, &state, STATUS_OK), STATUS_OK);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "cannot link"), "%s", said);
    char *left = mem_format("%s/.step-best", folder);
    struct stat info;
    cr_expect_neq(lstat(left, &info), 0, "%s is left behind", left);
    free(left);
    free(link);
    kit_close(&run);
}
