/* Options from YAML: files that are read, files that are refused, and the resolved dump that reads
 * back. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"

static char message[8192];

static enum status parse_bytes(const void *data, size_t count, struct options *options) {
    log_capture(message, sizeof message);
    enum status status = options_parse_yaml("c.yml", data, count, options);
    log_capture(NULL, 0);
    return status;
}

static enum status parse(const char *text, struct options *options) {
    return parse_bytes(text, strlen(text), options);
}

Test(base_option_yaml, flat_and_grouped) {
    static const char text[] = "# a comment\n"
                               "model: lenet\n"
                               "batch: 128\n"
                               "drop-last: yes\n"
                               "optimizer:\n"
                               "  optimizer: sgd\n"
                               "  lr: 5e-2\n"
                               "  no-decay: [bias, norm]\n"
                               "  warmup: 10%\n"
                               "length: {epochs: 3, eval-every: 2epochs, time-limit: 10m}\n"
                               "out: \"runs/a b\"\n"
                               "cut: [blocks.1, blocks.2]\n"
                               "deal: 2x4\n";
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    cr_assert_eq(parse(text, &options), STATUS_OK, "%s", message);
    cr_expect_eq(options.cut.count, 2);
    cr_expect_str_eq(options.model, "lenet");
    cr_expect_eq(options.batch, 128);
    cr_expect(options.drop_last);
    cr_expect_str_eq(options.optimizer, "sgd");
    cr_expect_eq(options.lr, 0.05);
    cr_expect_eq(options.no_decay.count, 2);
    cr_expect_eq(options.warmup.fraction, 0.1);
    cr_expect_eq(options.epochs, 3);
    cr_expect_eq(options.eval_every.epochs, 2);
    cr_expect_eq(options.time_limit_s, 600);
    cr_expect_str_eq(options.out, "runs/a b");
    cr_expect_eq(options.deal.replicas, 2);
    cr_expect_eq(options.source[OPTION_lr], OPTION_FROM_FILE);
    options_free(&options);
}

Test(base_option_yaml, nothing_is_fine) {
    static const char *const texts[] = {"", "# only a comment\n", "---\n{}\n", "{}",
                                        "no-decay: []\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct options options;
        options_init(COMMAND_TRAIN, &options);
        cr_expect_eq(parse(texts[i], &options), STATUS_OK, "'%s': %s", texts[i], message);
        options_free(&options);
    }
}

struct refusal {
    const char *text, *part[2];
};

static void expect_refused(const struct refusal *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct options options;
        options_init(COMMAND_TRAIN, &options);
        cr_expect_eq(parse(cases[i].text, &options), STATUS_USAGE, "'%s' was read", cases[i].text);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, cases[i].part[part]), "'%s': '%s' not in: %s", cases[i].text,
                      cases[i].part[part], message);
        int lines = 0;
        for (const char *c = message; *c; c++) lines += *c == '\n';
        cr_expect(lines >= 1 && lines <= 3, "%s", message);
        options_free(&options);
    }
}

Test(base_option_yaml, refused) {
    static const struct refusal cases[] = {
        {"lr: 0.1\nbacth: 3\n", {"c.yml:2:1: 'bacth'", "did you mean batch?"}},
        {"lr: 0.1\nlr: 0.2\n", {"c.yml:2:1: lr is given twice", "line 1"}},
        {"lr: 0.1\noptimizer: {lr: 0.2}\n", {"c.yml:2:13: lr is given twice", "line 1"}},
        {"batch:\n  lr: 1\n",
         {"c.yml:2:3: lr is an option of the group optimizer", "not of batch"}},
        {"lr: fast\n", {"c.yml:1:5: lr: 'fast' is not allowed", "a number"}},
        {"lr: [1, 2]\n", {"c.yml:1:5: lr takes one value", "not a list"}},
        {"lr: {a: 1}\n", {"c.yml:1:5: lr takes one value", "not a mapping"}},
        {"lr:\n", {"c.yml:1:4: lr has no value", "remove"}},
        {"lr: ~\n", {"lr has no value", ""}},
        {"lr: null\n", {"lr has no value", ""}},
        {"no-decay: [bias, [norm]]\n", {"c.yml:1:18:", "short list"}},
        {"no-decay: [bias, nrom]\n", {"c.yml:1:11: no-decay: 'bias,nrom'", "bias, norm"}},
        {"resume: on\n", {"resume is not allowed in a file", "--resume"}},
        {"config: other.yml\n", {"config is not allowed in a file", ""}},
        {"lr: 0.1\n  batch: 3\n", {"c.yml:1:5: lr: '0.1 batch' is not allowed", ""}},
        {"lr: 0.1\n batch\nseed: 3\n", {"c.yml:1:5: lr: '0.1 batch'", ""}},
        {"lr: 'open\n", {"c.yml:", "not valid YAML"}},
        {"no-decay: [bias\n", {"c.yml:2:1:", "not valid YAML"}},
        {"\tlr: 1\n", {"c.yml:1:", "not valid YAML"}},
        {"just words\n", {"c.yml:1:1:", "option: value"}},
        {"- lr\n- batch\n", {"c.yml:1:1:", "option: value"}},
        {"? [a]\n: 1\n", {"c.yml:1:3:", "name of an option"}},
        {"lr: 1\n---\nlr: 2\n", {"c.yml:2:1:", "second document"}},
        {"a: &a [x,x]\nb: *a\n", {"c.yml:1:4:", "anchors and aliases"}},
        {"lr: &x 1\nmomentum: *x\n", {"c.yml:1:5:", "anchors and aliases"}},
        {"<<: {lr: 1}\n", {"'<<'", "unknown option"}},
        {"lr: !!float 1\n", {"c.yml:1:5:", "tags"}},
        {"lr: !!python/object:os.system 1\n", {"c.yml:1:5:", "tags"}},
        {"weights: \"a\\0b\"\n", {"c.yml:1:10:", "zero byte"}},
        {"weights: \"a\\nb\"\n", {"c.yml:1:10: weights: 'a\\x0ab'", "control"}},
        {"weights: \xff\xfe\n", {"c.yml: byte 9", "not YAML text"}},
        {"plan: 3\n", {"c.yml:1:1:", "group of options"}},
        {"optimizer: {optimizer: {lr: 1}}\n", {"optimizer takes one value", "not a mapping"}},
        {"[[[[[[[[[[[[[[[[[[[[[[", {"c.yml:1:1:", "option: value"}},
    };
    expect_refused(cases, sizeof cases / sizeof cases[0]);
}

/* A file names the program that has its model: one that has none says which to use, of names that
 * it knows it says nothing. */
Test(base_option_yaml, names_of_another_program_are_its_own) {
    static const struct refusal cases[] = {
        {"# program: /opt/mine\nmodel: surface\n",
         {"c.yml:2:8: model 'surface' is of the program /opt/mine", "use that program"}},
        {"# all\n# program: /opt/my own\ndata: rows:x\n",
         {"data 'rows:x' is of the program /opt/my own", ""}},
        {"# program:\nmodel: surface\n", {"'surface' is not allowed", ""}},
        {"# program: /opt/mine\nlr: fast\n", {"lr: 'fast' is not allowed", ""}},
        {"model: surface\n", {"'surface' is not allowed", ""}},
    };
    struct options options;
    expect_refused(cases, sizeof cases / sizeof cases[0]);
    options_init(COMMAND_TRAIN, &options);
    cr_expect_eq(parse("# program: /opt/mine\nmodel: mlp\ndata: npy:x.npz\nseed: 3\n", &options),
                 STATUS_OK, "%s", message);
    options_free(&options);
}

Test(base_option_yaml, words_of_other_systems_are_answered) {
    static const struct refusal cases[] = {
        {"learning_rate: 0.1\n", {"c.yml:1:1: 'learning_rate'", "did you mean lr?"}},
        {"optimizer: {learning_rate: 0.1}\n", {"c.yml:1:13: 'learning_rate'", "mean lr?"}},
        {"{\"batch_size\": 3}\n", {"'batch_size'", "did you mean batch?"}},
        {"fsdp: {min_params: 1}\n", {"'fsdp'", "did you mean strategy: zero3?"}},
        {"strategy: fsdp\n", {"c.yml:1:11: strategy: 'fsdp'", "did you mean zero3?"}},
        {"dtype: fp16\n", {"c.yml:1:8: dtype: 'fp16'", "did you mean bf16?"}},
        {"tensor_parallel: 2\n", {"'tensor_parallel'", "there is no tensor parallelism"}},
        {"n: 2\n", {"'n'", "did you mean local-ranks?"}},
        {"gpus: 2\n", {"'gpus'", "docs/gpu.md"}},
    };
    expect_refused(cases, sizeof cases / sizeof cases[0]);
}

/* Any beginning of a good file is either read or refused with one message; nothing else happens. */
Test(base_option_yaml, cut_anywhere) {
    static const char text[] =
        "model: lenet\noptimizer: {lr: 0.1, no-decay: [bias, 'norm']}\nout: \"a\\u00fcb\"\n";
    for (size_t count = 0; count < sizeof text; count++) {
        struct options options;
        options_init(COMMAND_TRAIN, &options);
        enum status status = parse_bytes(text, count, &options);
        cr_expect(status == STATUS_OK ? !message[0] : status == STATUS_USAGE && message[0],
                  "cut at %zu", count);
        options_free(&options);
    }
}

static void expect_same(const struct options *a, const struct options *b) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        char *left = option_text(a, id), *right = option_text(b, id);
        cr_expect_eq(option_is_set(a, id), option_is_set(b, id), "%s", option_rows[id].name);
        cr_expect_str_eq(left, right, "%s: %s became %s", option_rows[id].name, left, right);
        free(left);
        free(right);
    }
}

Test(base_option_yaml, dump_reads_back) {
    static const char *const lines[][8] = {
        {NULL},
        {"--lr=0.3333333333333333", "--micro-batches=4", "--micro-batch-size=8", "--steps=20",
         NULL},
        {"--micro-batch-size=16", "--warmup=0.7%", "--no-decay=none", NULL},
        {"--deal=2x2", "--time-limit=90m", "--memory-limit=1.5GiB", "--trace=3-9",
         "--eval-every=never", NULL},
        {"--out=a: b # \"c\" \\ d", "--weights=-x", "--data=mnist:/a,b c", "--program=~", NULL},
        {"--out=gr\xc3\xbcn \xe4\xbd\xa0", "--weights=&a", "--data=!x", "--program=: ", NULL},
        {"--weights=x:", "--program=- a", NULL},
        {"--out=null", "--weights=*a", "--data='", NULL},
        {"--out= x ", "--weights=[a]", "--data={a: b}", "--program=% a", NULL},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        int argc = 0;
        while (lines[i][argc]) argc++;
        struct options first, again;
        cr_assert_eq(options_parse(COMMAND_TRAIN, argc, (char *const *)lines[i], &first), STATUS_OK,
                     "line %zu", i);
        cr_assert_eq(options_solve_batch(&first, 1), STATUS_OK);
        char *text = options_write_yaml(&first);
        options_init(COMMAND_TRAIN, &again);
        cr_assert_eq(parse(text, &again), STATUS_OK, "%s in\n%s", message, text);
        cr_assert_eq(options_check(&again), STATUS_OK);
        cr_assert_eq(options_solve_batch(&again, 1), STATUS_OK);
        expect_same(&first, &again);
        free(text);
        options_free(&first);
        options_free(&again);
    }
}

Test(base_option_yaml, dump_keeps_what_was_resolved) {
    struct options options, again;
    cr_assert_eq(options_parse(COMMAND_TRAIN, 0, NULL, &options), STATUS_OK);
    options.lr = 0.125;
    options.optimizer = "adamw";
    option_resolve(&options, OPTION_lr);
    option_resolve(&options, OPTION_optimizer);
    cr_assert_eq(options_solve_batch(&options, 1), STATUS_OK);
    char *text = options_write_yaml(&options);
    options_init(COMMAND_TRAIN, &again);
    cr_assert_eq(parse(text, &again), STATUS_OK, "%s", message);
    cr_expect_eq(again.lr, 0.125);
    cr_expect_str_eq(again.optimizer, "adamw");
    cr_expect(strstr(text, "# micro-batch-size: 64"), "derived values are comments: %s", text);
    cr_expect(strstr(text, "# comm: auto (of this start"), "so is what --resume forgets: %s", text);
    free(text);
    options_free(&options);
    options_free(&again);
}

/* How ranks are started may stand in a file, for all nodes alike; the rank of a process may not. */
Test(base_option_yaml, ranks_by_file) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    cr_assert_eq(
        parse("comm: ucx\nranks: {restarts: 2, hostfile: hosts, stall-after: 2m}\n", &options),
        STATUS_OK, "%s", message);
    cr_expect_str_eq(options.comm, "ucx");
    cr_expect_eq(options.restarts, 2);
    cr_expect_eq(options.stall_after_s, 120);
    cr_expect(option_is_given(&options, OPTION_hostfile));
    options_free(&options);
    options_init(COMMAND_TRAIN, &options);
    cr_expect_eq(parse("node-rank: 1\n", &options), STATUS_USAGE);
    cr_expect(strstr(message, "node-rank is not allowed in a file"), "%s", message);
    options_free(&options);
}

/* The words of a list that repeats itself are right: none of them is suggested. */
Test(base_option_yaml, no_suggestion_of_what_was_said) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    cr_expect_eq(parse("no-decay: [bias, bias]\n", &options), STATUS_USAGE);
    cr_expect_null(strstr(message, "did you mean"), "%s", message);
    cr_expect_eq(parse("no-decay: [bais]\n", &options), STATUS_USAGE);
    cr_expect(strstr(message, "did you mean bias?"), "%s", message);
    options_free(&options);
}
