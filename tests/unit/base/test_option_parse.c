/* Command lines: what is read, what is refused and how. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "base/option_print.h"

static char message[4096];

/* Splits at spaces; a "_" stands for a space inside an argument. */
static enum status parse(enum option_command command, const char *line, struct options *out) {
    char copy[512], *rest = copy, *argv[32];
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word; (word = strsep(&rest, " "));) {
        if (!*word) continue;
        argv[argc++] = word;
        for (char *c = word; *c; c++) *c = *c == '_' ? ' ' : *c;
    }
    log_capture(message, sizeof message);
    enum status status = options_parse(command, argc, argv, out);
    log_capture(NULL, 0);
    return status;
}

Test(base_option_parse, forms) {
    struct options options;
    cr_assert_eq(parse(COMMAND_TRAIN,
                       "--lr 0.5 --batch=32 -n 1 --drop-last --out=--odd --weights a_b "
                       "--seed 1 --seed 2 --nesterov=on",
                       &options),
                 STATUS_OK, "%s", message);
    cr_expect_eq(options.lr, 0.5);
    cr_expect_eq(options.batch, 32);
    cr_expect_eq(options.seed, 2, "the last one counts");
    cr_expect(options.drop_last && options.nesterov);
    cr_expect_str_eq(options.out, "--odd");
    cr_expect_str_eq(options.weights, "a b");
    cr_expect(option_is_given(&options, OPTION_lr) && !option_is_given(&options, OPTION_momentum));
    cr_expect_eq(options.command, COMMAND_TRAIN);
    options_free(&options);
    cr_assert_eq(parse(COMMAND_TRAIN, "-n1", &options), STATUS_OK);
    cr_expect_eq(options.local_ranks, 1);
    options_free(&options);
}

Test(base_option_parse, arguments) {
    struct options options;
    cr_assert_eq(parse(COMMAND_COMPARE, "--json a.safetensors -- -b", &options), STATUS_OK, "%s",
                 message);
    cr_expect_eq(options.argument_count, 2);
    cr_expect_str_eq(options.argument[0], "a.safetensors");
    cr_expect_str_eq(options.argument[1], "-b");
    cr_expect(options.json);
    options_free(&options);
}

Test(base_option_parse, help_wins_over_missing_arguments) {
    struct options options;
    cr_assert_eq(parse(COMMAND_COMPARE, "-h", &options), STATUS_OK);
    cr_expect(options.help);
    options_free(&options);
    cr_assert_eq(parse(COMMAND_TRAIN, "--config /nonexistent --help", &options), STATUS_OK);
    options_free(&options);
}

static const struct {
    enum option_command command;
    const char *line;
    enum status status;
    const char *part[2];
} refused[] = {
    {COMMAND_TRAIN, "--bacth 3", STATUS_USAGE, {"'--bacth'", "did you mean --batch?"}},
    {COMMAND_TRAIN, "--micro_batches=2", STATUS_USAGE, {"unknown option", ""}},
    {COMMAND_TRAIN, "--zzzzzzzzz", STATUS_USAGE, {"unknown option", "stretto train --help"}},
    {COMMAND_TRAIN, "-x", STATUS_USAGE, {"'-x'", "unknown option"}},
    {COMMAND_TRAIN, "-hx", STATUS_USAGE, {"'-hx'", "unknown option"}},
    {COMMAND_TRAIN, "--stage 2", STATUS_USAGE, {"'--stage'", "did you mean --stages?"}},
    {COMMAND_TRAIN, "-np 2", STATUS_USAGE, {"'-np'", "did you mean -n, --local-ranks?"}},
    {COMMAND_TRAIN, "--n 2", STATUS_USAGE, {"'--n'", "did you mean -n, --local-ranks?"}},
    {COMMAND_TRAIN, "--learning-rate=0.1", STATUS_USAGE, {"did you mean --lr?", ""}},
    {COMMAND_TRAIN, "--batch-size 8", STATUS_USAGE, {"did you mean --batch?", "of all ranks"}},
    {COMMAND_TRAIN, "--fsdp", STATUS_USAGE, {"'--fsdp'", "did you mean --strategy zero3?"}},
    {COMMAND_TRAIN, "--strategy FSDP", STATUS_USAGE, {"'FSDP'", "did you mean zero3?"}},
    {COMMAND_TRAIN, "--strategy fp16", STATUS_USAGE, {"'fp16'", "did you mean --dtype bf16?"}},
    {COMMAND_TRAIN, "--dtype fp16", STATUS_USAGE, {"'fp16'", "did you mean bf16?"}},
    {COMMAND_TRAIN, "--tp 2", STATUS_USAGE, {"'--tp'", "there is no tensor parallelism here"}},
    {COMMAND_EXPLAIN, "--gpus=2", STATUS_USAGE, {"'--gpus=2'", "docs/gpu.md"}},
    {COMMAND_EXPLAIN, "--device gpu", STATUS_USAGE, {"'gpu'", "--device"}},
    {COMMAND_EVAL, "run --learning-rate 1", STATUS_USAGE, {"unknown option", "eval --help"}},
    {COMMAND_TRAIN, "--lr", STATUS_USAGE, {"--lr needs a value", "a number"}},
    {COMMAND_SIMULATE, "--costs", STATUS_USAGE, {"--costs needs a value: --costs f=1,...", ""}},
    {COMMAND_TRAIN, "--lr --batch 3", STATUS_USAGE, {"--lr needs a value", ""}},
    {COMMAND_TRAIN, "--lr -1", STATUS_USAGE, {"--lr: '-1' is not allowed", "at least 0"}},
    {COMMAND_TRAIN, "--lr=", STATUS_USAGE, {"--lr: '' is not allowed", ""}},
    {COMMAND_TRAIN, "-n 2000", STATUS_USAGE, {"-n: '2000' is not allowed", "1024"}},
    {COMMAND_TRAIN, "--drop-last=maybe", STATUS_USAGE, {"--drop-last: 'maybe'", "on or off"}},
    {COMMAND_TRAIN, "--strategy gpip", STATUS_USAGE, {"--strategy: 'gpip'", "did you mean gpipe?"}},
    {COMMAND_TRAIN, "--show graph", STATUS_USAGE, {"--show is not an option of train", "explain"}},
    {COMMAND_TRAIN, "extra", STATUS_USAGE, {"'extra'", "unexpected argument"}},
    {COMMAND_TRAIN, "--drop-last no", STATUS_USAGE, {"'no'", "unexpected argument"}},
    {COMMAND_COMPARE, "a", STATUS_USAGE, {"compare needs", "A.safetensors B.safetensors"}},
    {COMMAND_COMPARE, "a b c", STATUS_USAGE, {"'c'", "unexpected argument"}},
    {COMMAND_TRAIN,
     "--config /nonexistent/x.yml",
     STATUS_DATA,
     {"/nonexistent/x.yml", "No such file"}},
    {COMMAND_TRAIN, "--config /", STATUS_DATA, {"/:", "regular file"}},
    {COMMAND_TRAIN, "--resume --overwrite", STATUS_USAGE, {"--resume and --overwrite", ""}},
    {COMMAND_TRAIN, "--nesterov --momentum 0", STATUS_USAGE, {"--nesterov", "--momentum"}},
    {COMMAND_TRAIN,
     "--lr-step 5",
     STATUS_USAGE,
     {"--lr-step has no effect with --lr-policy cosine", "step"}},
    {COMMAND_TRAIN,
     "--optimizer adam --momentum 0.5",
     STATUS_USAGE,
     {"--momentum has no effect", "sgd"}},
    {COMMAND_TRAIN, "--node-rank 1", STATUS_USAGE, {"--node-rank", "--nodes"}},
    {COMMAND_TRAIN,
     "--optimizer sgd --beta1 0.5",
     STATUS_USAGE,
     {"--beta1 has no effect", "adam|adamw"}},
};

Test(base_option_parse, refused) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct options options = {.batch = -7};
        enum status status = parse(refused[i].command, refused[i].line, &options);
        cr_expect_eq(status, refused[i].status, "%s: status %d: %s", refused[i].line, status,
                     message);
        cr_expect_eq(options.batch, -7, "%s: outputs are written on success only", refused[i].line);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, refused[i].part[part]), "%s: '%s' not in: %s",
                      refused[i].line, refused[i].part[part], message);
        int lines = 0;
        for (const char *c = message; *c; c++) lines += *c == '\n';
        cr_expect(lines >= 1 && lines <= 3, "%s: %s", refused[i].line, message);
    }
}

Test(base_option_parse, batch_is_solved) {
    static const struct {
        const char *line;
        int64_t batch, micro_batches, micro_batch_size;
    } cases[] = {
        {"", 64, 1, 64},
        {"--micro-batches 4", 64, 4, 16},
        {"--micro-batch-size 16", 64, 4, 16},
        {"--deal 2x2", 64, 2, 16},
        {"--deal 2x2 --micro-batch-size 4", 16, 2, 4},
        {"--batch 12 --deal 1x4", 12, 4, 3},
        {"--micro-batches 3 --micro-batch-size 5", 15, 3, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        cr_assert_eq(parse(COMMAND_TRAIN, cases[i].line, &options), STATUS_OK, "%s: %s",
                     cases[i].line, message);
        cr_assert_eq(options_solve_batch(&options, 1), STATUS_OK, "%s: %s", cases[i].line, message);
        cr_expect_eq(options.batch, cases[i].batch, "%s", cases[i].line);
        cr_expect_eq(options.micro_batches, cases[i].micro_batches, "%s", cases[i].line);
        cr_expect_eq(options.micro_batch_size, cases[i].micro_batch_size, "%s", cases[i].line);
        cr_expect_eq(options_solve_batch(&options, 1), STATUS_OK, "again changes nothing");
        cr_expect_eq(options.batch, cases[i].batch, "%s", cases[i].line);
        options_free(&options);
    }
}

/* How many ranks there are is known late, so these pass the parser. */
Test(base_option_parse, batch_without_solution) {
    static const struct {
        const char *line;
        int64_t ranks;
        const char *part[2];
    } cases[] = {
        {"--batch 60 --micro-batches 4 --micro-batch-size 16", 1, {"60", "= 64"}},
        {"--batch 6 --micro-batches 1 --micro-batch-size 1", 2, {"batch 6", "= 2"}},
        {"--batch 64 --deal 3x1", 1, {"batch 64", "63 and 66"}},
        {"--deal 2x2 --micro-batches 4", 1, {"--deal 2x2", "--micro-batches is 4"}},
        {"--deal 2x2", 4, {"--deal 2x2 replays 2", "4 ranks"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct options options;
        cr_assert_eq(parse(COMMAND_TRAIN, cases[i].line, &options), STATUS_OK, "%s", message);
        message[0] = 0;
        log_capture(message, sizeof message);
        cr_expect_eq(options_solve_batch(&options, cases[i].ranks), STATUS_USAGE);
        log_capture(NULL, 0);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, cases[i].part[part]), "%s: %s", cases[i].line, message);
        options_free(&options);
    }
    struct options options;
    cr_assert_eq(parse(COMMAND_TRAIN, "--batch 6 --micro-batches 1 --micro-batch-size 1", &options),
                 STATUS_OK);
    cr_expect_eq(options_solve_batch(&options, 6), STATUS_OK, "six ranks, whoever started them");
    options_free(&options);
}

Test(base_option_parse, steps_replace_the_default_epochs) {
    struct options options;
    cr_assert_eq(parse(COMMAND_TRAIN, "--steps 5", &options), STATUS_OK);
    cr_expect_not(option_is_set(&options, OPTION_epochs));
    options_free(&options);
    cr_assert_eq(parse(COMMAND_TRAIN, "--steps 5 --epochs 3", &options), STATUS_OK);
    cr_expect_eq(options.epochs, 3);
    options_free(&options);
}

Test(base_option_parse, command_line_wins_over_file) {
    char path[] = "/tmp/stretto-option-XXXXXX", line[256];
    close(mkstemp(path));
    cr_assert_eq(file_write_text(path, "lr: 0.25\nseed: 7\nmodel: lenet\n"), STATUS_OK);
    snprintf(line, sizeof line, "--seed 8 --config %s", path);
    struct options options;
    cr_assert_eq(parse(COMMAND_TRAIN, line, &options), STATUS_OK, "%s", message);
    cr_expect_eq(options.lr, 0.25);
    cr_expect_eq(options.seed, 8);
    cr_expect_str_eq(options.model, "lenet");
    cr_expect_eq(options.source[OPTION_lr], OPTION_FROM_FILE);
    cr_expect_eq(options.source[OPTION_seed], OPTION_FROM_COMMAND_LINE);
    options_free(&options);
    unlink(path);
}

static char *help_of(enum option_command command) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    options_print_help(command, out);
    fclose(out);
    return text;
}

Test(base_option_parse, help_lists_every_option_of_the_command_and_no_other) {
    for (int command = 0; command < COMMAND_COUNT; command++) {
        char *text = help_of(1 << command);
        for (int id = 0; id < OPTION_COUNT; id++) {
            char *name = mem_format(" --%s ", option_rows[id].name);
            bool listed = strstr(text, name);
            bool wanted = option_rows[id].commands & (1u << command);
            cr_expect(!wanted || listed, "%s --help does not list%s", option_commands[command].name,
                      name);
            char *line = mem_format("\n      --%s ", option_rows[id].name);
            cr_expect(wanted || !strstr(text, line), "%s --help lists%s",
                      option_commands[command].name, name);
            free(name);
            free(line);
        }
        for (const char *line = text; line && *line;
             line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
            cr_expect_leq(strcspn(line, "\n"), 110u, "%.60s", line);
        free(text);
    }
}

/* Where the entry of an option begins, which is there once. */
static size_t place_of(const char *text, const char *option) {
    char *entry = mem_format("\n      --%s ", option), *at = strstr(text, entry);
    bool once = at && !strstr(at + 1, entry);
    free(entry);
    cr_assert(once, "--%s is not there once: %s", option, text);
    return (size_t)(at - text);
}

/* What one looks up a command for stands first: before the first option that train has, too. */
Test(base_option_parse, help_begins_with_the_options_of_the_command) {
    static const struct {
        enum option_command command;
        const char *own[5], *shared;
    } cases[] = {
        {COMMAND_PREDICT, {"split", "input", "output", "as", "top"}, "model"},
        {COMMAND_EVAL, {"split", "output"}, "model"},
        {COMMAND_LAUNCH, {"emit"}, "model"},
        {COMMAND_EXPLAIN, {"show", "draw"}, "model"},
        {COMMAND_CHECK, {"numeric"}, "model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *text = help_of(cases[i].command);
        size_t behind = place_of(text, cases[i].shared);
        for (int k = 0; k < 5 && cases[i].own[k]; k++)
            cr_expect_lt(place_of(text, cases[i].own[k]), behind, "%s: --%s",
                         option_commands[__builtin_ctz(cases[i].command)].name, cases[i].own[k]);
        free(text);
    }
    char *train = help_of(COMMAND_TRAIN);
    cr_expect_null(strstr(train, "options of train"), "%s", train);
    free(train);
}
