/* DeepSpeed files: the options they become, the batch identity, and what is refused. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "plan/deepspeed.h"

static char message[4096];

static enum status parse(const char *text, int64_t replicas, struct deepspeed *out) {
    log_capture(message, sizeof message);
    enum status status = deepspeed_parse("ds.json", text, strlen(text), replicas, out);
    log_capture(NULL, 0);
    return status;
}

/* "--batch 256 --clip 1": all options in order. */
static char *line_of(const struct deepspeed *deepspeed) {
    char *line = mem_text("");
    for (size_t i = 0; i < deepspeed->count; i++) {
        char *longer = mem_format("%s%s--%s %s", line, *line ? " " : "",
                                  deepspeed->option[i].option, deepspeed->option[i].value);
        free(line);
        line = longer;
    }
    return line;
}

/* What the command line knows already takes each value. */
static void expect_accepted(const struct deepspeed *deepspeed) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    for (size_t i = 0; i < deepspeed->count; i++) {
        const struct deepspeed_option *option = &deepspeed->option[i];
        enum option_id id;
        if (option_find(option->option, &id))
            cr_expect_eq(option_set(&options, id, option->value, option->from, OPTION_FROM_FILE),
                         STATUS_OK, "--%s %s", option->option, option->value);
    }
    options_free(&options);
}

static void expect_line(const char *text, int64_t replicas, const char *line, const char *note) {
    struct deepspeed deepspeed;
    cr_assert_eq(parse(text, replicas, &deepspeed), STATUS_OK, "%s: %s", text, message);
    char *found = line_of(&deepspeed);
    cr_expect_str_eq(found, line, "%s\n gave %s\n not  %s", text, found, line);
    cr_expect(note ? deepspeed.note && strstr(deepspeed.note, note) : !deepspeed.note, "%s: %s",
              text, deepspeed.note ? deepspeed.note : "no note");
    expect_accepted(&deepspeed);
    free(found);
    deepspeed_free(&deepspeed);
}

Test(plan_deepspeed, documented_example) {
    struct bytes doc;
    cr_assert_eq(file_read("docs/deepspeed.md", 1 << 20, &doc), STATUS_OK);
    char *begin = strstr((char *)doc.data, "```json\n") + strlen("```json\n"),
         *end = strstr(begin, "```"), *text = mem_format("%.*s", (int)(end - begin), begin);
    char *line = strstr(end, "`--batch") + 1;
    *strchr(line, '`') = 0;
    for (char *at = line; *at; at++)
        if (*at == '\n') *at = ' ';
    expect_line(text, 4, line, "ds.json: keys without effect here: zero_optimization.overlap_comm");
    free(text);
    bytes_free(&doc);
}

/* Every key of the table stands in the documentation. */
Test(plan_deepspeed, keys_are_documented) {
    static const char *const paths[] = {
#define KEY(path, kind, off) path,
#include "plan/deepspeed.def"
    };
    struct bytes doc;
    cr_assert_eq(file_read("docs/deepspeed.md", 1 << 20, &doc), STATUS_OK);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        const char *dot = strrchr(paths[i], '.'), *key = dot ? dot + 1 : paths[i];
        cr_expect(strstr((char *)doc.data, key), "docs/deepspeed.md: %s is missing", paths[i]);
    }
    bytes_free(&doc);
}

Test(plan_deepspeed, batch) {
    expect_line("{}", 4, "", NULL);
    expect_line("{\"train_batch_size\": 32}", 4,
                "--batch 32 --micro-batch-size 8 --micro-batches 1", NULL);
    expect_line("{\"train_micro_batch_size_per_gpu\": 8}", 4,
                "--batch 32 --micro-batch-size 8 --micro-batches 1", NULL);
    expect_line("{\"gradient_accumulation_steps\": 8}", 4, "--micro-batches 8", NULL);
    expect_line("{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 8}", 4,
                "--batch 64 --micro-batch-size 8 --micro-batches 2", NULL);
    expect_line("{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 4}", 2,
                "--batch 64 --micro-batch-size 8 --micro-batches 4", NULL);
    expect_line("{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}", 5,
                "--batch 30 --micro-batch-size 2 --micro-batches 3", NULL);
    expect_line("{\"train_batch_size\": 3e1, \"train_micro_batch_size_per_gpu\": 2, "
                "\"gradient_accumulation_steps\": 3}",
                5, "--batch 30 --micro-batch-size 2 --micro-batches 3", NULL);
    expect_line("{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
                "\"gradient_accumulation_steps\": null}",
                4, "", NULL);
}

#define ADAM "--beta1 0.9 --beta2 0.999 --eps 1e-08 --weight-decay 0 --lr 0.001"

Test(plan_deepspeed, optimizers) {
    expect_line("{\"optimizer\": {\"type\": \"Adam\"}}", 1, "--optimizer adamw " ADAM, NULL);
    expect_line("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}}}", 1,
                "--optimizer adam " ADAM, NULL);
    expect_line("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}}", 1,
                "--optimizer adamw " ADAM, NULL);
    expect_line("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}}}", 1,
                "--optimizer adamw --beta1 0.9 --beta2 0.999 --eps 1e-08 --weight-decay 0.01 --lr "
                "0.001",
                NULL);
    expect_line("{\"optimizer\": {\"type\": \"adamw\", \"params\": {\"lr\": \"auto\", \"betas\": "
                "\"auto\", \"eps\": \"auto\", \"weight_decay\": \"auto\"}}}",
                1, "--optimizer adamw", NULL);
    expect_line(
        "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.9, "
        "\"nesterov\": true, \"weight_decay\": 1e-4, \"dampening\": 0.0}}}",
        1,
        "--optimizer sgd --momentum 0.9 --nesterov on --weight-decay 0.0001 --no-decay none "
        "--lr 0.1",
        NULL);
    expect_line("{\"optimizer\": {\"type\": \"SGD\"}}", 1,
                "--optimizer sgd --momentum 0 --weight-decay 0 --lr 0.001", NULL);
    expect_line("{\"optimizer\": null}", 1, "", NULL);
}

#define SCHEDULER(type, params)                                                                    \
    "{\"scheduler\": {\"type\": \"" type "\", \"params\": {\"warmup_type\": \"linear\"" params "}" \
    "}"                                                                                            \
    "}"

Test(plan_deepspeed, schedulers) {
    expect_line("{\"scheduler\": {\"type\": \"WarmupLR\"}}", 1,
                "--lr-policy const --warmup-type log --warmup 1000", NULL);
    expect_line(
        "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"auto\"}}}", 1,
        "--lr-policy const --warmup 1000", NULL);
    expect_line(SCHEDULER("WarmupLR", ""), 1,
                "--lr-policy const --warmup-type linear --warmup 1000", NULL);
    expect_line(SCHEDULER("WarmupLR", ", \"warmup_max_lr\": 0.01, \"warmup_min_lr\": 0.0, "
                                      "\"warmup_num_steps\": 0"),
                1, "--lr-policy const --warmup-type linear --warmup 2 --lr 0.01", NULL);
    expect_line(SCHEDULER("WarmupDecayLR", ", \"total_num_steps\": 5e3, \"warmup_num_steps\": 50"),
                1, "--lr-policy linear --warmup-type linear --warmup 50 --steps 5000", NULL);
    expect_line(SCHEDULER("WarmupDecayLR", ", \"total_num_steps\": \"auto\", "
                                           "\"warmup_num_steps\": \"auto\""),
                1, "--lr-policy linear --warmup-type linear", NULL);
    expect_line(SCHEDULER("WarmupCosineLR", ", \"total_num_steps\": 5000, \"cos_min_ratio\": 0, "
                                            "\"warmup_min_ratio\": 0.0"),
                1, "--lr-policy cosine --warmup-type linear --warmup 1000 --steps 5000", NULL);
    expect_line("{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}, \"scheduler\": "
                "{\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"linear\", "
                "\"warmup_max_lr\": 0.25}}}",
                1,
                "--optimizer sgd --momentum 0 --weight-decay 0 --lr-policy const --warmup-type "
                "linear --warmup 1000 --lr "
                "0.25",
                "optimizer.params.lr");
}

Test(plan_deepspeed, zero_and_the_rest) {
    expect_line("{\"zero_optimization\": true}", 1, "--zero-stage 1", NULL);
    expect_line("{\"zero_optimization\": false}", 1, "", NULL);
    expect_line("{\"zero_optimization\": {\"stage\": 0, \"reduce_bucket_size\": 5e8}}", 1, "",
                "here: zero_optimization.reduce_bucket_size");
    expect_line("{\"zero_optimization\": {\"stage\": 2, \"reduce_bucket_size\": 5e8, "
                "\"stage3_prefetch_bucket_size\": 1}}",
                1, "--zero-stage 2 --bucket-size 2000000000",
                "here: zero_optimization.stage3_prefetch_bucket_size");
    expect_line("{\"zero_optimization\": {\"stage\": 3, \"stage3_prefetch_bucket_size\": 5e7, "
                "\"stage3_param_persistence_threshold\": 100000, \"mics_shard_size\": -1, "
                "\"zero_hpz_partition_size\": 1, \"zero_quantized_weights\": false}}",
                1, "--zero-stage 3 --zero-prefetch 200000000 --zero-keep 400000", NULL);
    expect_line("{\"gradient_clipping\": 0, \"steps_per_print\": 50, \"dataloader_drop_last\": "
                "true, \"fp16\": {\"enabled\": false, \"loss_scale\": 0}, \"bf16\": {\"enabled\": "
                "\"auto\"}, \"wandb\": {\"enabled\": true}, \"elasticity\": {\"enabled\": false}}",
                1, "--clip 0 --log-every 50 --drop-last on",
                "keys without effect here: fp16.loss_scale, wandb");
}

Test(plan_deepspeed, element_type) {
    expect_line("{\"bf16\": {\"enabled\": true}}", 1, "--dtype bf16", NULL);
    expect_line("{\"bf16\": {\"enabled\": true, \"immediate_grad_update\": false}, \"data_types\": "
                "{\"grad_accum_dtype\": \"fp32\"}}",
                1, "--dtype bf16", "here: bf16.immediate_grad_update");
    expect_line("{\"bf16\": {\"enabled\": false}, \"fp16\": {\"enabled\": false}}", 1, "", NULL);
    expect_line("{\"bf16\": {}}", 1, "", NULL);
    expect_line("{\"bf16\": {\"enabled\": null}}", 1, "", NULL);
    expect_line("{\"bf16\": null}", 1, "", NULL);
}

Test(plan_deepspeed, sources_name_the_line) {
    struct deepspeed deepspeed;
    cr_assert_eq(parse("{\n \"zero_optimization\": {\n  \"stage\": 1}}", 1, &deepspeed), STATUS_OK);
    cr_expect_str_eq(deepspeed.option[0].from, "ds.json:3: zero_optimization.stage");
    deepspeed_free(&deepspeed);
}

#define IN(section, rest) "{\"" section "\": {" rest "}}"
#define PARAMS(section, type, rest) IN(section, "\"type\": \"" type "\", \"params\": {" rest "}")

static const struct {
    const char *text, *part[2];
} wrong[] = {
    {"", {"ds.json:1:0: not valid JSON", ""}},
    {"[]", {"ds.json:1: [] is not allowed", "an object"}},
    {"{\"train_batch_size\": 1,\n\"train_batch_size\": 1}", {"ds.json:2:", "duplicate"}},
    {"{\n\"train_batchsize\": 1}",
     {"ds.json:2: train_batchsize: unknown key", "did you mean train_batch_size?"}},
    {IN("zero_optimization", "\"stages\": 1"),
     {"zero_optimization.stages: unknown key", "did you mean stage?"}},
    {IN("optimizer", "\"type\": \"Adam\", \"params\": {\"beta\": 1}"),
     {"optimizer.params.beta: unknown key", "did you mean betas?"}},
    {"{\"quux\": 1}", {"quux: unknown key", ""}},
    {"{\"train_batch_size\": 0}", {"train_batch_size: 0 is not allowed", "from 1"}},
    {"{\"train_batch_size\": \"64\"}", {"train_batch_size: '64' is not allowed", "whole number"}},
    {"{\"train_batch_size\": 10}", {"train_batch_size: 10 = ? x 1 x 4 does not hold", "ranks"}},
    {"{\"train_batch_size\": 2}", {"2 = ? x 1 x 4 does not hold", ""}},
    {"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 5}",
     {"64 = 5 x ? x 4 does not hold", ""}},
    {"{\"train_batch_size\": 64, \"train_micro_batch_size_per_gpu\": 8, "
     "\"gradient_accumulation_steps\": 4}",
     {"64 = 8 x 4 x 4 does not hold", "data-parallel ranks"}},
    {"{\"train_batch_size\": 256, \"train_micro_batch_size_per_gpu\": 8, "
     "\"gradient_accumulation_steps\": 4}",
     {"256 = 8 x 4 x 4 does not hold", ""}},
    {"{\"train_batch_size\": 64, \"gradient_accumulation_steps\": 3}",
     {"64 = ? x 3 x 4 does not hold", ""}},
    {"{\"train_micro_batch_size_per_gpu\": 16777216, \"gradient_accumulation_steps\": 16777216}",
     {"? = 16777216 x 16777216 x 4 does not hold", ""}},
    {"{\"gradient_clipping\": -1}", {"gradient_clipping: -1 is not allowed", ""}},
    {"{\"steps_per_print\": 0}", {"steps_per_print: 0 is not allowed", ""}},
    {"{\"dataloader_drop_last\": 1}", {"dataloader_drop_last: 1 is not allowed", "true or false"}},
    {"{\"sparse_gradients\": true}", {"sparse_gradients: true is not supported", "false"}},
    {"{\"communication_data_type\": \"fp16\"}", {"'fp16' is not supported", "\"fp32\""}},
    {IN("fp16", "\"enabled\": true"), {"fp16.enabled: true is not supported", "false"}},
    {IN("fp16", "\"enabled\": true"), {"did you mean --dtype bf16?", "loss scaling"}},
    {IN("bf16", "\"enabled\": 1"), {"bf16.enabled: 1 is not allowed", "true or false"}},
    {IN("data_types", "\"grad_accum_dtype\": \"bf16\""), {"'bf16' is not supported", "\"fp32\""}},
    {IN("amp", "\"enabled\": true"), {"amp: is not supported", "\"enabled\": false"}},
    {IN("amp", "\"enabled\": true"), {"did you mean --dtype bf16?", ""}},
    {IN("tensor_parallel", "\"autotp_size\": 4"), {"unknown key; there is no tensor par", ""}},
    {"{\"learning_rate\": 0.1}", {"learning_rate: unknown key; did you mean --lr?", ""}},
    {"{\"fsdp\": true}", {"fsdp: unknown key; did you mean --strategy zero3?", ""}},
    {IN("zero_optimization", "\"cpu_offload\": true"), {"nothing is moved off a device here", ""}},
    {IN("elasticity", "\"max_train_batch_size\": 3"), {"elasticity: is not supported", ""}},
    {"{\"aio\": 3}", {"aio: 3 is not allowed", "an object"}},
    {"{\"optimizer\": 3}", {"optimizer: 3 is not allowed", "an object"}},
    {IN("optimizer", ""), {"optimizer.type: is missing", ""}},
    {PARAMS("optimizer", "Lamb", ""), {"'Lamb' is not allowed", "Adam, AdamW or SGD"}},
    {PARAMS("optimizer", "SGD", "\"betas\": [0.9, 0.9]"),
     {"optimizer.params.betas: SGD has no such parameter", ""}},
    {PARAMS("optimizer", "Adam", "\"momentum\": 0.9"), {"Adam has no such parameter", ""}},
    {PARAMS("optimizer", "Adam", "\"betas\": [0.9]"), {"betas: [0.9] is not allowed", "two"}},
    {PARAMS("optimizer", "Adam", "\"betas\": [0.9, \"x\"]"), {"betas[1]: 'x' is not allowed", ""}},
    {PARAMS("optimizer", "Adam", "\"lr\": -1"), {"optimizer.params.lr: -1 is not allowed", ""}},
    {PARAMS("optimizer", "Adam", "\"amsgrad\": true"), {"amsgrad: true is not supported", ""}},
    {PARAMS("optimizer", "Adam", "\"adam_w_mode\": 1"), {"adam_w_mode: 1 is not allowed", ""}},
    {PARAMS("optimizer", "Adam", "\"bias_correction\": false"), {"false is not supported", "true"}},
    {PARAMS("optimizer", "SGD", "\"dampening\": 0.5"), {"dampening: 0.5 is not supported", "0"}},
    {PARAMS("optimizer", "SGD", "\"nesterov\": 1"), {"nesterov: 1 is not allowed", ""}},
    {PARAMS("optimizer", "SGD", "\"weight_decay\": \"x\""), {"weight_decay: 'x' is not", ""}},
    {IN("scheduler", "\"params\": {}"), {"scheduler.type: is missing", ""}},
    {PARAMS("scheduler", "OneCycle", ""), {"'OneCycle' is not allowed", "WarmupLR"}},
    {PARAMS("scheduler", "WarmupLR", "\"warmup_type\": \"cosine\""),
     {"scheduler.params.warmup_type: 'cosine' is not allowed", "linear or log"}},
    {SCHEDULER("WarmupLR", ", \"warmup_min_lr\": 0.1"), {"warmup_min_lr: 0.1 is not supp", "0"}},
    {SCHEDULER("WarmupLR", ", \"total_num_steps\": 9"), {"WarmupLR has no such parameter", ""}},
    {SCHEDULER("WarmupDecayLR", ""), {"total_num_steps: is missing", ""}},
    {SCHEDULER("WarmupDecayLR", ", \"total_num_steps\": 1000"),
     {"total_num_steps: 1000 is not above warmup_num_steps, 1000", ""}},
    {SCHEDULER("WarmupDecayLR", ", \"cos_min_ratio\": 0.1"), {"has no such parameter", ""}},
    {SCHEDULER("WarmupCosineLR", ", \"total_num_steps\": 2000"),
     {"cos_min_ratio: 0.0001, the default, is not supported", "ends at 0"}},
    {SCHEDULER("WarmupCosineLR", ", \"warmup_max_lr\": 1"), {"has no such parameter", ""}},
    {SCHEDULER("WarmupLR", ", \"last_batch_iteration\": 5"), {"5 is not supported", "-1"}},
    {IN("zero_optimization", "\"stage\": 4"), {"stage: 4 is not allowed", "from 0 to 3"}},
    {"{\"zero_optimization\": 2}", {"zero_optimization: 2 is not allowed", ""}},
    {IN("zero_optimization", "\"stage\": 1, \"reduce_bucket_size\": 1.5"),
     {"reduce_bucket_size: 1.5 is not allowed", "whole"}},
    {IN("zero_optimization", "\"offload_optimizer\": {\"device\": \"cpu\"}"),
     {"zero_optimization.offload_optimizer.device: 'cpu' is not supported", "\"none\""}},
    {IN("zero_optimization", "\"offload_param\": {\"device\": \"nvme\"}"), {"'nvme' is not", ""}},
    {IN("zero_optimization", "\"cpu_offload\": true"), {"cpu_offload: true is not", ""}},
    {IN("zero_optimization", "\"zero_hpz_partition_size\": 8"), {"8 is not supported", "1"}},
    {IN("zero_optimization", "\"zero_quantized_weights\": true"), {"true is not supported", ""}},
    {IN("zero_optimization", "\"mics_shard_size\": 4"), {"mics_shard_size: 4 is not", "-1"}},
};

Test(plan_deepspeed, refused) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct deepspeed deepspeed = {.count = 77};
        cr_expect_eq(parse(wrong[i].text, 4, &deepspeed), STATUS_USAGE, "'%s' was read",
                     wrong[i].text);
        cr_expect_eq(deepspeed.count, 77);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, wrong[i].part[part]), "'%s': '%s' not in: %s", wrong[i].text,
                      wrong[i].part[part], message);
        int lines = 0;
        for (const char *c = message; *c; c++) lines += *c == '\n';
        cr_expect(lines >= 1 && lines <= 3, "%s", message);
    }
}
