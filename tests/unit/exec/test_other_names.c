/* --weights: files of other programs. Their names and shapes are lists that these programs made
 * (names.py); the values are made up here, so that each tensor tells where it came from. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/rng.h"
#include "kit.h"
#include "tensor/resize.h"
#include "tensor/safetensors.h"

static char said[4096];

TestSuite(exec_other_names, .init = kit_files_begin, .fini = kit_files_end);

static const struct {
    const char *list, *name;
    enum dtype dtype;
    struct shape shape;
} tensors[] = {
#define TENSOR(list, name, dtype, ...) {list, name, DTYPE_##dtype, __VA_ARGS__},
#include "names.def"
#undef TENSOR
};
enum { TENSOR_COUNT = sizeof tensors / sizeof tensors[0], MOST = 512 };

/* What the values of a tensor are made from. The second name of a tied one has those of the first.
 */
static uint64_t key_of(const char *name) {
    static const char *const same[][2] = {{"lm_head.weight", "wte.weight"},
                                          {"decoder.weight", "word_embeddings.weight"},
                                          {"decoder.bias", "cls.predictions.bias"}};
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (strstr(name, same[i][0]) || strstr(name, same[i][1])) name = same[i][1];
    return rng_key_text(1, name);
}

static float value_of(uint64_t key, int64_t i) {
    return (float)((key + (uint64_t)i) % 8191);
}

/* "h.#.ln_1.bias" of block 3 is "h.3.ln_1.bias"; the caller frees it. */
static char *name_of(const char *name, int block) {
    size_t before = strcspn(name, "#");
    if (!name[before]) return mem_text(name);
    return mem_format("%.*s%d%s", (int)before, name, block, name + before + 1);
}

static struct tensor_item made(const char *name, int block, enum dtype dtype, struct shape shape) {
    struct tensor_item item = {name_of(name, block), dtype, shape, NULL};
    int64_t count = shape_count(&shape);
    uint64_t key = key_of(item.name);
    float *values = MEM_ARRAY(float, 2 * count); /* room for I64 */
    for (int64_t i = 0; i < count && dtype == DTYPE_F32; i++) values[i] = value_of(key, i);
    item.data = values;
    return item;
}

/* The file of a list, with as many blocks as the model has. */
static void write_list(const char *list, int blocks) {
    struct tensor_item items[MOST];
    size_t count = 0;
    for (int t = 0; t < TENSOR_COUNT; t++) {
        if (strcmp(tensors[t].list, list) != 0) continue;
        int times = strchr(tensors[t].name, '#') ? blocks : 1;
        for (int block = 0; block < times; block++) {
            cr_assert_lt(count, MOST);
            items[count++] = made(tensors[t].name, block, tensors[t].dtype, tensors[t].shape);
        }
    }
    cr_assert_gt(count, 0, "no list %s", list);
    struct safetensors_content content = {.items = items, .item_count = count};
    cr_assert_eq(safetensors_write(kit_files.weights, &content, NULL), STATUS_OK);
    for (size_t i = 0; i < count; i++) {
        free((void *)items[i].name);
        free((void *)items[i].data);
    }
}

#define COMMON " --device ref --threads 1 --batch 2 --steps 1"
#define VIT "--model vit-micro --data synthetic:size=8,channels=1,count=8,test_count=2" COMMON
#define BERT                                                                                       \
    "--model bert-tiny --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3,count=8,"       \
    "test_count=2" COMMON
#define GPT2                                                                                       \
    "--model gpt2-nano --data synthetic:kind=text,seq=16,vocab=200,count=8,test_count=2" COMMON

/* Each list, the model it is for, and what is said of tensors that only one side has. */
static const struct {
    const char *list, *line;
    int blocks, tensors, missing;
    const char *extra; /* NULL: none */
} lists[] = {
    {"vit timm", VIT, 4, 56, 0, NULL},
    {"vit torchvision", VIT, 4, 56, 0, NULL},
    {"vit transformers", VIT, 4, 56, 0, NULL},
    {"vit transformers modules", VIT, 4, 56, 0, NULL},
    {"vit transformers headless", VIT, 4, 56, 2, "pooler.dense"},
    {"vit jax", VIT, 4, 56, 0, NULL},
    {"bert transformers", BERT, 2, 46, 0, NULL},
    {"bert ddp", BERT, 2, 46, 0, NULL},
    {"bert headless", BERT, 2, 46, 7, NULL},
    {"bert old", BERT, 2, 46, 0, NULL},
    {"gpt2 transformers", GPT2, 4, 52, 0, NULL},
    {"gpt2 safetensors", GPT2, 4, 52, 0, NULL},
    {"gpt2 compiled", GPT2, 4, 52, 0, NULL},
    {"gpt2 old", GPT2, 4, 52, 0, NULL},
};
enum { FILE_COUNT = sizeof lists / sizeof lists[0] };

static struct kit_run *load(const char *list) {
    int i = 0;
    while (i < FILE_COUNT && strcmp(lists[i].list, list) != 0) i++;
    cr_assert_lt(i, FILE_COUNT, "%s", list);
    write_list(list, lists[i].blocks);
    struct kit_run *run = kit_open("%s", lists[i].line);
    said[0] = 0;
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_load_weights(run->engine, kit_files.weights), STATUS_OK, "%s", list);
    log_capture(NULL, 0);
    return run;
}

Test(exec_other_names, all_tensors_are_found, .timeout = 120) {
    for (int i = 0; i < FILE_COUNT; i++) {
        struct kit_run *run = load(lists[i].list);
        char *taken = mem_format("%d of the model's %d tensors loaded",
                                 lists[i].tensors - lists[i].missing, lists[i].tensors);
        cr_expect(strstr(said, taken), "%s: not '%s' but %s", lists[i].list, taken, said);
        const char *extra = strstr(said, "that the model does not have");
        cr_expect(lists[i].extra ? extra && strstr(extra, lists[i].extra) : !extra, "%s: %s",
                  lists[i].list, said);
        cr_expect_null(strstr(said, "of another shape"), "%s: %s", lists[i].list, said);
        free(taken);
        kit_close(&run);
    }
}

/* Element [o,i] of a part of [outputs,inputs] is `at`[o * per_output + i * per_input] of theirs. */
static void expect(const struct kit_run *run, const char *ours, int part, const char *theirs,
                   int64_t outputs, int64_t inputs, int64_t per_output, int64_t per_input) {
    int64_t count, wrong = 0;
    float *plain = kit_param(run, ours, &count);
    uint64_t key = key_of(theirs);
    cr_assert_leq((part + 1) * outputs * inputs, count, "%s", ours);
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            wrong += plain[(part * outputs + o) * inputs + i] !=
                     value_of(key, o * per_output + i * per_input);
    cr_expect_eq(wrong, 0, "%s is not %s: %d elements differ", ours, theirs, (int)wrong);
    free(plain);
}

Test(exec_other_names, queries_keys_and_values_become_one) {
    static const char *const names[] = {"query", "key", "value"};
    struct kit_run *run = load("vit transformers");
    for (int part = 0; part < 3; part++) {
        char *weight = mem_format("vit.encoder.layer.2.attention.attention.%s.weight", names[part]),
             *bias = mem_format("vit.encoder.layer.2.attention.attention.%s.bias", names[part]);
        expect(run, "blocks.2.attn.qkv.weight", part, weight, 64, 64, 64, 1);
        expect(run, "blocks.2.attn.qkv.bias", part, bias, 64, 1, 1, 0);
        free(weight);
        free(bias);
    }
    expect(run, "blocks.3.mlp.fc2.weight", 0, "vit.encoder.layer.3.output.dense.weight", 64, 128,
           128, 1);
    kit_close(&run);
}

Test(exec_other_names, weights_of_jax_are_turned) {
#define BLOCK "Transformer/encoderblock_1/"
    struct kit_run *run = load("vit jax");
    expect(run, "blocks.1.attn.qkv.weight", 1, BLOCK "MultiHeadDotProductAttention_1/key/kernel",
           64, 64, 1, 64);
    expect(run, "blocks.1.attn.qkv.bias", 2, BLOCK "MultiHeadDotProductAttention_1/value/bias", 64,
           1, 1, 0);
    expect(run, "blocks.1.attn.proj.weight", 0, BLOCK "MultiHeadDotProductAttention_1/out/kernel",
           64, 64, 1, 64);
    expect(run, "blocks.1.mlp.fc1.weight", 0, BLOCK "MlpBlock_3/Dense_0/kernel", 128, 64, 1, 128);
    expect(run, "head.weight", 0, "head/kernel", 10, 64, 1, 10);
    /* [2,2,1,64]: a window of 4 pixels */
    expect(run, "patch_embed.proj.weight", 0, "embedding/kernel", 64, 4, 1, 64);
    kit_close(&run);
#undef BLOCK
}

Test(exec_other_names, a_tied_tensor_under_its_second_name) {
    struct kit_run *run = load("gpt2 safetensors");
    expect(run, "transformer.wte.weight", 0, "lm_head.weight", 200, 128, 128, 1);
    kit_close(&run);
}

/* A second tensor of other values is not the model's: it is not passed over in silence. */
Test(exec_other_names, a_head_that_is_not_tied_is_named) {
    struct tensor_item items[] = {
        made("transformer.wte.weight", 0, DTYPE_F32, SHAPE(200, 128)),
        made("lm_head.weight", 0, DTYPE_F32, SHAPE(200, 128)),
    };
    struct safetensors_content content = {.items = items, .item_count = 2};
    struct kit_run *run = kit_open(GPT2);
    for (int other = 0; other < 2; other++) {
        ((float *)items[1].data)[5] += (float)other;
        cr_assert_eq(safetensors_write(kit_files.weights, &content, NULL), STATUS_OK);
        said[0] = 0;
        log_capture(said, sizeof said);
        cr_expect_eq(checkpoint_load_weights(run->engine, kit_files.weights), STATUS_OK);
        log_capture(NULL, 0);
        bool named = strstr(said, "does not have, passed over: lm_head.weight");
        cr_expect_eq(named, other == 1, "%s", said);
    }
    for (int i = 0; i < 2; i++) free((void *)items[i].name), free((void *)items[i].data);
    kit_close(&run);
}

/* --- positions --- */

/* What resizing gives is another test's; here it must meet the grid and spare the class token. */
Test(exec_other_names, positions_follow_the_grid) {
    enum { SIDE = 8, WIDTH = 64, OURS = 4 };
    struct kit_run *run = kit_open(VIT);
    struct tensor_item item = made("pos_embed", 0, DTYPE_F32, SHAPE(1, 1 + SIDE * SIDE, WIDTH));
    const float *values = item.data;
    float want[OURS * OURS * WIDTH];
    resize_bicubic(values + WIDTH, (struct resize_grid){SIDE, SIDE}, want,
                   (struct resize_grid){OURS, OURS}, WIDTH);
    struct safetensors_content content = {.items = &item, .item_count = 1};
    cr_assert_eq(safetensors_write(kit_files.weights, &content, NULL), STATUS_OK);
    said[0] = 0;
    log_capture(said, sizeof said);
    cr_expect_eq(checkpoint_load_weights(run->engine, kit_files.weights), STATUS_OK);
    log_capture(NULL, 0);
    cr_expect(strstr(said, "positions of 8 x 8 patches resized to 4 x 4"), "%s", said);
    int64_t count;
    float *plain = kit_param(run, "pos_embed", &count);
    cr_assert_eq(count, (1 + OURS * OURS) * WIDTH);
    cr_expect_arr_eq(plain, values, WIDTH * sizeof *plain);
    cr_expect_arr_eq(plain + WIDTH, want, sizeof want);
    free(plain);
    free((void *)item.name);
    free((void *)values);
    kit_close(&run);
}
