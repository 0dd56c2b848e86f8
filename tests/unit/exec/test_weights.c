/* --weights: what is taken from a safetensors file by name, and what is said of the rest. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "kit.h"
#include "tensor/safetensors.h"

#define MLP "--model mlp --data digits --device ref --threads 1 --steps 2 "

static char said[2048];

TestSuite(exec_weights, .init = kit_files_begin, .fini = kit_files_end);

static void write_items(const struct tensor_item *items, size_t count) {
    struct safetensors_content content = {.items = items, .item_count = count};
    cr_assert_eq(safetensors_write(kit_files.weights, &content, NULL), STATUS_OK);
}

static enum status load(struct kit_run *run) {
    said[0] = 0;
    log_capture(said, sizeof said);
    enum status status = checkpoint_load_weights(run->engine, kit_files.weights);
    log_capture(NULL, 0);
    return status;
}

static void expect_bias(const struct kit_run *run, const char *name, float want) {
    int64_t count;
    float *plain = kit_param(run, name, &count);
    for (int64_t i = 0; i < count; i++) cr_expect_eq(plain[i], want + (float)i);
    free(plain);
}

static float rising[256];

static const float *rising_from(float first) {
    for (int i = 0; i < 256; i++) rising[i] = first + (float)i;
    return rising;
}

Test(exec_weights, a_model_reads_what_it_wrote) {
    struct kit_run *a = kit_open(MLP), *b = kit_open(MLP "--seed 9");
    kit_steps(a, -1);
    cr_assert_neq(kit_hash(a), kit_hash(b));
    cr_assert_eq(checkpoint_write_model(a->engine, kit_files.weights, NULL), STATUS_OK);
    cr_assert_eq(load(b), STATUS_OK);
    cr_expect_eq(kit_hash(a), kit_hash(b));
    cr_expect(strstr(said, "6 of the model's 6") && !strstr(said, "warning"), "%s", said);
    kit_close(&a);
    kit_close(&b);
}

/* Layouts of the backend and running statistics go through plain order. */
Test(exec_weights, also_on_cpu_with_batch_norm) {
    const char *line =
        "--model resnet8 --data digits --device cpu --threads 1 --batch 16 --steps 1";
    struct kit_run *a = kit_open("%s", line), *b = kit_open("%s --seed 9", line);
    kit_steps(a, -1);
    cr_assert_eq(checkpoint_write_model(a->engine, kit_files.weights, NULL), STATUS_OK);
    cr_assert_eq(load(b), STATUS_OK);
    cr_expect_eq(kit_hash(a), kit_hash(b));
    kit_close(&a);
    kit_close(&b);
}

Test(exec_weights, missing_extra_and_misshapen_are_reported) {
    const struct tensor_item items[] = {
        {"fc1.bias", DTYPE_F32, SHAPE(128), rising_from(3)},
        {"fc2.bias", DTYPE_F32, SHAPE(32), rising},
        {"fc3.bias", DTYPE_I32, SHAPE(10), rising},
        {"head.bias", DTYPE_F32, SHAPE(4), rising},
    };
    struct kit_run *run = kit_open(MLP), *fresh = kit_open(MLP);
    write_items(items, 4);
    cr_assert_eq(load(run), STATUS_OK);
    expect_bias(run, "fc1.bias", 3);
    cr_expect(strstr(said, "1 of the model's 6"), "%s", said);
    cr_expect(strstr(said, "3 tensors missing") && strstr(said, "fc1.weight, fc2.weight"), "%s",
              said);
    cr_expect(strstr(said, "2 tensors of another shape or type") &&
                  strstr(said, "fc2.bias: F32 [32] in the file, F32 [64] in the model") &&
                  strstr(said, "fc3.bias: I32 [10] in the file, F32 [10] in the model"),
              "%s", said);
    cr_expect(strstr(said, "1 tensor that the model does not have") && strstr(said, "head.bias"),
              "%s", said);
    int64_t count;
    float *kept = kit_param(run, "fc2.bias", &count),
          *initial = kit_param(fresh, "fc2.bias", &count);
    cr_expect_arr_eq(kept, initial, (size_t)count * sizeof *kept);
    free(kept);
    free(initial);
    kit_close(&run);
    kit_close(&fresh);
}

Test(exec_weights, names_of_a_wrapped_model_are_found) {
    const struct tensor_item items[] = {{"module.fc1.bias", DTYPE_F32, SHAPE(128), rising_from(7)}};
    struct kit_run *run = kit_open(MLP);
    write_items(items, 1);
    cr_assert_eq(load(run), STATUS_OK);
    expect_bias(run, "fc1.bias", 7);
    cr_expect_null(strstr(said, "does not have"), "%s", said);
    kit_close(&run);
}

Test(exec_weights, a_file_without_anything_that_fits_is_refused) {
    const struct tensor_item items[] = {{"conv.weight", DTYPE_F32, SHAPE(4), rising_from(0)}};
    struct kit_run *run = kit_open(MLP);
    uint64_t hash = kit_hash(run);
    write_items(items, 1);
    cr_expect_eq(load(run), STATUS_DATA);
    cr_expect(strstr(said, "none of its 1 tensors") && strstr(said, "fc1.weight"), "%s", said);
    cr_assert_eq(file_write_text(kit_files.weights, "this is no safetensors file"), STATUS_OK);
    cr_expect_eq(load(run), STATUS_DATA);
    const struct tensor_item wrong = {"fc1.bias", DTYPE_F16, SHAPE(64), rising};
    write_items(&wrong, 1);
    cr_expect_eq(load(run), STATUS_DATA);
    cr_expect(strstr(said, "fc1.bias: F16 [64] in the file, F32 [128] in the model"), "%s", said);
    cr_expect_eq(kit_hash(run), hash);
    kit_close(&run);
}

/* 128 numbers from `first` on, as a file of another type holds them. */
static const void *rising_as(enum dtype dtype, double first) {
    static union {
        uint16_t half[128];
        double wide[128];
    } data;
    for (int i = 0; i < 128; i++) {
        float value = (float)(first + i);
        if (dtype == DTYPE_F64)
            data.wide[i] = first + i;
        else
            data.half[i] = dtype == DTYPE_F16 ? f16_from_f32(value) : bf16_from_f32(value);
    }
    return &data;
}

Test(exec_weights, other_floating_point_types_are_converted_and_said) {
    static const struct {
        enum dtype dtype;
        float first;
        const char *said;
    } rows[] = {{DTYPE_F16, 3, "converted to F32: 1 from F16"},
                {DTYPE_BF16, 5, "converted to F32: 1 from BF16"},
                {DTYPE_F64, 1e6f, "converted to F32: 1 from F64"}};
    struct kit_run *run = kit_open(MLP);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        const struct tensor_item item = {"fc1.bias", rows[r].dtype, SHAPE(128),
                                         rising_as(rows[r].dtype, (double)rows[r].first)};
        write_items(&item, 1);
        cr_assert_eq(load(run), STATUS_OK, "%s", said);
        expect_bias(run, "fc1.bias", rows[r].first);
        cr_expect(strstr(said, rows[r].said), "%s", said);
    }
    kit_close(&run);
}

/* A value that is not finite is the file's fault, and nothing of such a file is taken. */
static void refuse_value(enum dtype dtype, const void *data, const char *message) {
    const struct tensor_item items[] = {{"fc1.bias", dtype, SHAPE(128), data},
                                        {"fc2.bias", DTYPE_F32, SHAPE(64), rising_from(0)}};
    struct kit_run *run = kit_open(MLP);
    uint64_t hash = kit_hash(run);
    write_items(items, 2);
    cr_expect_eq(load(run), STATUS_DATA);
    cr_expect(strstr(said, message) && strstr(said, kit_files.weights) && !strstr(said, "--lr"),
              "%s", said);
    cr_expect_eq(kit_hash(run), hash, "%s: some of it was taken", message);
    kit_close(&run);
}

Test(exec_weights, values_that_are_not_finite_are_refused) {
    float data[128] = {[7] = NAN};
    double wide[128] = {[9] = -1e300};
    uint16_t half[128] = {[127] = 0x7c00}; /* infinity */
    refuse_value(DTYPE_F32, data, "element 7 of tensor fc1.bias is nan");
    refuse_value(DTYPE_F64, wide, "element 9 of tensor fc1.bias is -1e+300, beyond what F32");
    refuse_value(DTYPE_F16, half, "element 127 of tensor fc1.bias is inf");
}

Test(exec_weights, the_folder_of_a_run_stands_for_its_model) {
    struct kit_run *a = kit_open(MLP), *b = kit_open(MLP "--seed 9");
    char *model = mem_format("%s/model.safetensors", kit_files.folder);
    free(kit_files.weights);
    kit_files.weights = mem_text(kit_files.folder);
    cr_expect_eq(load(b), STATUS_DATA);
    cr_expect(strstr(said, "no model.safetensors"), "%s", said);
    cr_assert_eq(checkpoint_write_model(a->engine, model, NULL), STATUS_OK);
    cr_expect_eq(load(b), STATUS_OK, "%s", said);
    cr_expect_eq(kit_hash(a), kit_hash(b));
    free(model);
    kit_close(&a);
    kit_close(&b);
}
