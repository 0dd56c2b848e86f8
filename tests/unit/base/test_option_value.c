/* Each type of value: what is read, what is refused, and that text and value go both ways. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/option.h"

static char message[4096];

static enum status set(struct options *options, enum option_id id, const char *text) {
    log_capture(message, sizeof message);
    enum status status = option_set(options, id, text, "--x", OPTION_FROM_COMMAND_LINE);
    log_capture(NULL, 0);
    return status;
}

/* NULL as `canonical`: refused, with a message of at most three lines that holds `text`. */
static const struct {
    enum option_id id;
    const char *text, *canonical;
} cases[] = {
    {OPTION_batch, "64", "64"},
    {OPTION_batch, "064", "64"},
    {OPTION_batch, "0", NULL},
    {OPTION_batch, "-1", NULL},
    {OPTION_batch, "", NULL},
    {OPTION_batch, " 5", NULL},
    {OPTION_batch, "5 ", NULL},
    {OPTION_batch, "+5", NULL},
    {OPTION_batch, "0x10", NULL},
    {OPTION_batch, "1e3", NULL},
    {OPTION_batch, "6.0", NULL},
    {OPTION_batch, "99999999999999999999", NULL},
    {OPTION_seed, "9223372036854775807", "9223372036854775807"},
    {OPTION_seed, "9223372036854775808", NULL},
    {OPTION_local_ranks, "0", NULL},
    {OPTION_lr, "0.1", "0.1"},
    {OPTION_lr, ".5", "0.5"},
    {OPTION_lr, "1e-3", "0.001"},
    {OPTION_lr, "0", "0"},
    {OPTION_lr, "-0.1", NULL},
    {OPTION_lr, "nan", NULL},
    {OPTION_lr, "inf", NULL},
    {OPTION_lr, "1e999", NULL},
    {OPTION_lr, "0x1p3", NULL},
    {OPTION_lr, "0.1f", NULL},
    {OPTION_lr, "1,5", NULL},
    {OPTION_dropout, "0", "0"},
    {OPTION_dropout, "0.999", "0.999"},
    {OPTION_dropout, "1", NULL},
    {OPTION_eps, "0", NULL},
    {OPTION_eps, "1e-8", "1e-08"},
    {OPTION_lr_gamma, "1", "1"},
    {OPTION_lr_gamma, "1.01", NULL},
    {OPTION_weights, "resnet8", "resnet8"},
    {OPTION_weights, "", NULL},
    {OPTION_weights, "a\nb", NULL},
    {OPTION_out, "runs/a b", "runs/a b"},
    {OPTION_out, "\xff", NULL},
    {OPTION_drop_last, "on", "on"},
    {OPTION_drop_last, "yes", "on"},
    {OPTION_drop_last, "false", "off"},
    {OPTION_drop_last, "1", NULL},
    {OPTION_drop_last, "On", NULL},
    {OPTION_optimizer, "adamw", "adamw"},
    {OPTION_optimizer, "adam|adamw", NULL},
    {OPTION_optimizer, "ada", NULL},
    {OPTION_optimizer, "", NULL},
    {OPTION_dtype, "bf16", "bf16"},
    {OPTION_dtype, "f16", "f16"},
    {OPTION_dtype, "f8", NULL},
    {OPTION_device, "cuda", "cuda"},
    {OPTION_device, "cuda:0", "cuda:0"},
    {OPTION_device, "cuda:0,12,3", "cuda:0,12,3"},
    {OPTION_device, "cuda:", NULL},
    {OPTION_device, "cuda:,0", NULL},
    {OPTION_device, "cuda:0,", NULL},
    {OPTION_device, "cuda:-1", NULL},
    {OPTION_device, "cuda:12345", NULL},
    {OPTION_device, "cuda0", NULL},
    {OPTION_device, "", NULL},
    {OPTION_no_decay, "bias", "bias"},
    {OPTION_no_decay, "norm,bias", "norm,bias"},
    {OPTION_no_decay, "none", "none"},
    {OPTION_no_decay, "bias,bias", NULL},
    {OPTION_no_decay, "bias,", NULL},
    {OPTION_no_decay, "", NULL},
    {OPTION_no_decay, "biases", NULL},
    {OPTION_cut, "conv1", "conv1"},
    {OPTION_cut, "blocks.3,blocks.7", "blocks.3,blocks.7"},
    {OPTION_cut, "none", "none"},
    {OPTION_cut, "a,a", NULL},
    {OPTION_cut, "a,", NULL},
    {OPTION_cut, ",a", NULL},
    {OPTION_cut, "a, b", NULL},
    {OPTION_cut, "a\tb", NULL},
    {OPTION_cut, "", NULL},
    {OPTION_memory_limit_bytes, "512M", "512MiB"},
    {OPTION_memory_limit_bytes, "1.5GiB", "1536MiB"},
    {OPTION_memory_limit_bytes, "2GB", "1953125KiB"},
    {OPTION_memory_limit_bytes, "1000", "1000"},
    {OPTION_memory_limit_bytes, "9007199254740993", "9007199254740993"},
    {OPTION_memory_limit_bytes, "0", NULL},
    {OPTION_memory_limit_bytes, "0.5", NULL},
    {OPTION_memory_limit_bytes, "-1G", NULL},
    {OPTION_memory_limit_bytes, "1Q", NULL},
    {OPTION_memory_limit_bytes, "1 G", NULL},
    {OPTION_memory_limit_bytes, "1e30T", NULL},
    {OPTION_time_limit_s, "90", "90"},
    {OPTION_time_limit_s, "10m", "600"},
    {OPTION_time_limit_s, "1.5h", "5400"},
    {OPTION_time_limit_s, "500ms", "0.5"},
    {OPTION_time_limit_s, "20us", "2e-05"},
    {OPTION_time_limit_s, "0ns", NULL},
    {OPTION_time_limit_s, "5mS", NULL},
    {OPTION_time_limit_s, "2d", "172800"},
    {OPTION_time_limit_s, "0", NULL},
    {OPTION_time_limit_s, "10 m", NULL},
    {OPTION_time_limit_s, "1w", NULL},
    {OPTION_eval_every, "100", "100"},
    {OPTION_eval_every, "epoch", "epoch"},
    {OPTION_eval_every, "1epoch", "epoch"},
    {OPTION_eval_every, "3epochs", "3epochs"},
    {OPTION_eval_every, "never", "never"},
    {OPTION_eval_every, "0", NULL},
    {OPTION_eval_every, "epochs", NULL},
    {OPTION_eval_every, "3never", NULL},
    {OPTION_eval_every, "-3", NULL},
    {OPTION_warmup, "100", "100"},
    {OPTION_warmup, "0", "0"},
    {OPTION_warmup, "5%", "5%"},
    {OPTION_warmup, "0.7%", "0.7%"},
    {OPTION_warmup, "101%", NULL},
    {OPTION_warmup, "-5%", NULL},
    {OPTION_warmup, "0.5", NULL},
    {OPTION_deal, "2x4", "2x4"},
    {OPTION_deal, "2x", NULL},
    {OPTION_deal, "x2", NULL},
    {OPTION_deal, "0x2", NULL},
    {OPTION_deal, "2X4", NULL},
    {OPTION_deal, "2x4x1", NULL},
    {OPTION_trace, "10-20", "10-20"},
    {OPTION_trace, "7-7", "7-7"},
    {OPTION_trace, "1-1", "1-1"},
    {OPTION_trace, "0-1", NULL}, /* steps count from 1 */
    {OPTION_trace, "20-10", NULL},
    {OPTION_trace, "10", NULL},
    {OPTION_trace, "1--2", NULL},
};

static int lines_in(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

Test(base_option_value, read_or_refused) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum option_id id = cases[i].id;
        char *before = option_text(&options, id);
        enum status status = set(&options, id, cases[i].text);
        char *after = option_text(&options, id);
        if (cases[i].canonical) {
            cr_expect_eq(status, STATUS_OK, "%s '%s': %s", option_rows[id].name, cases[i].text,
                         message);
            cr_expect_str_eq(after, cases[i].canonical, "%s '%s' gave %s", option_rows[id].name,
                             cases[i].text, after);
        } else {
            cr_expect_eq(status, STATUS_USAGE, "%s '%s' gave %s", option_rows[id].name,
                         cases[i].text, after);
            cr_expect_str_eq(before, after, "a refused value is not stored");
            cr_expect(strstr(message, "--x") && strstr(message, "allowed: "), "%s", message);
            cr_expect_leq(lines_in(message), 3, "%s", message);
        }
        free(before);
        free(after);
    }
    options_free(&options);
}

Test(base_option_value, typed_fields) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    cr_assert_eq(set(&options, OPTION_deal, "2x4"), STATUS_OK);
    cr_assert_eq(set(&options, OPTION_warmup, "5%"), STATUS_OK);
    cr_assert_eq(set(&options, OPTION_eval_every, "3epochs"), STATUS_OK);
    cr_assert_eq(set(&options, OPTION_memory_limit_bytes, "2GiB"), STATUS_OK);
    cr_assert_eq(set(&options, OPTION_no_decay, "norm,bias"), STATUS_OK);
    cr_assert_eq(set(&options, OPTION_trace, "3-9"), STATUS_OK);
    cr_expect(options.deal.replicas == 2 && options.deal.micro_batches == 4);
    cr_expect(options.warmup.fraction == 0.05 && options.warmup.steps == 0);
    cr_expect(options.eval_every.epochs == 3 && options.eval_every.steps == 0);
    cr_expect_eq(options.memory_limit_bytes, 2147483648);
    cr_expect(options.no_decay.count == 2 && !strcmp(options.no_decay.item[1], "bias"));
    cr_expect(options.trace.first == 3 && options.trace.last == 9);
    options_free(&options);
}

/* Every percentage of four digits survives being written and read. */
Test(base_option_value, shares_read_back) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    for (int i = 1; i <= 10000; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g%%", i / 100.0);
        cr_assert_eq(set(&options, OPTION_warmup, text), STATUS_OK);
        double fraction = options.warmup.fraction;
        char *written = option_text(&options, OPTION_warmup);
        cr_assert_eq(set(&options, OPTION_warmup, written), STATUS_OK);
        cr_assert_eq(options.warmup.fraction, fraction, "%s became %s", text, written);
        free(written);
    }
    options_free(&options);
}

Test(base_option_value, messages) {
    static const struct {
        enum option_id id;
        const char *text, *part;
    } rows[] = {
        {OPTION_batch, "x", "a whole number from 1 to 16777216"},
        {OPTION_local_ranks, "0", "1024"},
        {OPTION_lr, "x", "a number, at least 0"},
        {OPTION_eps, "x", "a number above 0"},
        {OPTION_dropout, "x", "a number, at least 0 and below 1"},
        {OPTION_lr_gamma, "x", "a number above 0 and at most 1"},
        {OPTION_optimizer, "x", "one of: sgd, adam, adamw"},
        {OPTION_optimizer, "adma", "did you mean adam?"},
        {OPTION_dtype, "x", "one of: f32, tf32, bf16, f16"},
        {OPTION_device, "x", "one of: cpu, cuda, ref; numbers"},
        {OPTION_no_decay, "x", "bias, norm"},
    };
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(set(&options, rows[i].id, rows[i].text), STATUS_USAGE);
        cr_expect(strstr(message, rows[i].part), "'%s' not in: %s", rows[i].part, message);
    }
    options_free(&options);
}

/* The table itself: names are unique and typed the usual way, texts are there, limits are well
 * formed. */
Test(base_option_value, rows_are_sound) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        enum option_id found;
        cr_expect(option_find(row->name, &found) && (int)found == id, "--%s is there twice",
                  row->name);
        cr_expect_eq(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789-"), strlen(row->name));
        cr_expect(*row->help && row->help[strlen(row->help) - 1] != '.', "--%s: help", row->name);
        cr_expect(row->commands & COMMAND_ALL, "--%s belongs to no command", row->name);
        for (int other = 0; row->letter && other < id; other++)
            cr_expect_neq(option_rows[other].letter, row->letter, "-%c is there twice",
                          row->letter);
        bool words = row->type == OPTION_TYPE_CHOICE || row->type == OPTION_TYPE_LIST;
        cr_expect(!words || (*row->limits || row->registry), "--%s: a choice of nothing",
                  row->name);
        cr_expect(words || row->type == OPTION_TYPE_FLAG || *row->placeholder, "--%s: placeholder",
                  row->name);
        char *allowed = option_allowed(id);
        cr_expect(*allowed, "--%s", row->name);
        free(allowed);
    }
}

Test(base_option_value, defaults_are_set_and_others_unset) {
    struct options options;
    options_init(COMMAND_TRAIN, &options);
    for (int id = 0; id < OPTION_COUNT; id++) {
        char first = option_rows[id].initial[0];
        cr_expect_eq(option_is_set(&options, id), first && first != '(', "--%s",
                     option_rows[id].name);
        cr_expect_not(option_is_given(&options, id));
    }
    cr_expect_eq(options.batch, 64);
    cr_expect_str_eq(options.model, "resnet8");
    options.lr = 0.25;
    option_resolve(&options, OPTION_lr);
    cr_expect(option_is_set(&options, OPTION_lr) && !option_is_given(&options, OPTION_lr));
    options_free(&options);
}
