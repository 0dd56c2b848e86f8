/* Suggestions, quantities, quoting, tables. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

Test(base_text, distance) {
    static const struct {
        const char *a, *b;
        int distance;
    } cases[] = {
        {"", "", 0},          {"lr", "lr", 0},         {"lr", "rl", 1},     {"batch", "bacth", 1},
        {"batch", "btch", 1}, {"batch", "batches", 2}, {"seed", "step", 2}, {"abc", "", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(text_distance(cases[i].a, cases[i].b), cases[i].distance, "%s %s", cases[i].a,
                     cases[i].b);
        cr_expect_eq(text_distance(cases[i].b, cases[i].a), cases[i].distance, "%s %s", cases[i].b,
                     cases[i].a);
    }
}

Test(base_text, nearest) {
    static const char *const list[] = {"batch", "micro-batches", "micro-batch-size", "seed", "lr"};
    static const struct {
        const char *word, *nearest; /* NULL: none is near */
    } cases[] = {
        {"bacth", "batch"},
        {"micro-batchs", "micro-batches"},
        {"sed", "seed"},
        {"l", NULL},
        {"micro-batch-siz", "micro-batch-size"},
        {"batch-norm-of-all", "batch"},
        {"xyzzy", NULL},
        {"", NULL},
        {"q", NULL},
        {"micro", "micro-batches"},
        {"seed-of-all", "seed"},
        {"LR", "lr"},
        {"Micro-Batches", "micro-batches"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = text_nearest(cases[i].word, list, 5);
        if (cases[i].nearest)
            cr_expect(got && strcmp(got, cases[i].nearest) == 0, "%s: %s", cases[i].word,
                      got ? got : "none");
        else
            cr_expect_null(got, "%s: %s", cases[i].word, got);
    }
    static const char *const models[] = {"resnet8", "resnet20", "resnet18-cifar"};
    cr_expect_str_eq(text_nearest("resnet18", models, 3), "resnet18-cifar");
    static const char *const far[] = {"dp", "eps"};
    cr_expect_null(text_nearest("fsdp", far, 2));
    cr_expect_null(text_nearest("gpu", far, 2));
    cr_expect_str_eq(text_nearest("resnet9", models, 3), "resnet8");
    char very_long[1000];
    memset(very_long, 'x', sizeof very_long);
    very_long[999] = 0;
    cr_expect_null(text_nearest(very_long, list, 5));
}

Test(base_text, sizes) {
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1048575, "1.0 MiB"},
        {1610612736, "1.5 GiB"},
        {107374182400, "100 GiB"},
        {INT64_MAX, "8.0 EiB"},
        {-2048, "-2.0 KiB"},
    };
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_str_eq(text_size(cases[i].bytes, text), cases[i].text);
}

Test(base_text, counts) {
    char text[TEXT_BYTES];
    cr_expect_str_eq(text_count(1, "replica", text), "1 replica");
    cr_expect_str_eq(text_count(0, "replica", text), "0 replicas");
    cr_expect_str_eq(text_count(1, "micro-batch", text), "1 micro-batch");
    cr_expect_str_eq(text_count(12, "micro-batch", text), "12 micro-batches");
    cr_expect_str_eq(text_count(2, "class", text), "2 classes");
}

Test(base_text, durations) {
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {1e-6, "1 us"},
        {0.0041, "4.1 ms"},
        {1, "1 s"},
        {59.94, "59.9 s"},
        {59.99, "1 min 00 s"},
        {61, "1 min 01 s"},
        {3900, "1 h 05 min"},
        {7199.9, "2 h 00 min"},
        {864000, "10.0 days"},
    };
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_str_eq(text_duration(cases[i].seconds, text), cases[i].text);
}

Test(base_text, reals_read_back) {
    static const double cases[] = {
        0, 0.1, 1e-8, 1.0 / 3, 5e-324, 1.7976931348623157e308, -2.5, 123456789.125};
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(strtod(text_real(cases[i], text), NULL), cases[i], "%s", text);
    cr_expect_str_eq(text_real(0.1, text), "0.1");
}

Test(base_text, quoted_is_safe_to_print) {
    static const struct {
        const char *value, *text;
    } cases[] = {
        {"abc", "'abc'"},
        {"a\nb", "'a\\x0ab'"},
        {"\x1b[31m", "'\\x1b[31m'"},
        {"\xff", "'\\xff'"},
        {"gr\xc3\xbcn", "'gr\xc3\xbcn'"},
    };
    char text[TEXT_QUOTED_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_str_eq(text_quoted(cases[i].value, text), cases[i].text);
    char *big = mem_new(5000);
    memset(big, '\n', 4999);
    text_quoted(big, text);
    cr_expect_lt(strlen(text), (size_t)TEXT_QUOTED_BYTES);
    cr_expect_str_eq(text + strlen(text) - 4, "...'");
    free(big);
}

Test(base_text, clean) {
    static const char *const good[] = {"", "plain", "gr\xc3\xbcn", "\xe4\xbd\xa0",
                                       "\xf0\x9f\x98\x80"};
    static const char *const bad[] = {"\n",
                                      "\x7f",
                                      "\xc2\x85",
                                      "\xc0\x80",
                                      "\xe2\x80\xa8",
                                      "\xed\xa0\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xef\xbb\xbf",
                                      "\xc3",
                                      "\xe4\xbd",
                                      "\xff",
                                      "a\tb"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_expect(text_is_clean(good[i]), "good %zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(text_is_clean(bad[i]), "bad %zu", i);
}

static char *printed(void (*print)(FILE *)) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    print(out);
    fclose(out);
    return text;
}

static void print_table(FILE *out) {
    struct text_table table = {.align = "lrl"};
    static const char *const cells[] = {"gr\xc3\xbcn", "1", "x", "a", "100", "yy"};
    for (int i = 0; i < 6; i++) text_table_cell(&table, "%s", cells[i]);
    text_table_print(&table, 1, out);
    text_table_free(&table);
}

Test(base_text, table_aligns_code_points) {
    char *text = printed(print_table);
    cr_expect_str_eq(text, " gr\xc3\xbcn    1  x\n a     100  yy\n");
    free(text);
}

static void print_wrapped(FILE *out) {
    text_wrap(out, "aa bb cc averyveryverylongword d", 2, 8);
}

static void print_numbers(FILE *out) {
    text_wrap(out, "scratch 1.7 MiB, other 1.3 MiB, clip 1", 2, 14);
}

Test(base_text, wrap_keeps_a_number_with_its_name) {
    char *text = printed(print_numbers);
    cr_expect_str_eq(text, "scratch 1.7 MiB,\n  other 1.3 MiB,\n  clip 1\n");
    free(text);
}

Test(base_text, rates) {
    static const struct {
        double rate;
        const char *text;
    } rows[] = {
        {0.25, "0.25"}, {46.66, "46.7"}, {317.4, "317"}, {999.6, "1,000"}, {10301, "10,301"}};
    char text[TEXT_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_str_eq(text_rate(rows[i].rate, text), rows[i].text);
}

Test(base_text, wrap) {
    char *text = printed(print_wrapped);
    cr_expect_str_eq(text, "aa bb\n  cc\n  averyveryverylongword\n  d\n");
    free(text);
}

static void print_entries(FILE *out) {
    text_entry(out, "  name", 8, "words");
    text_entry(out, "  a longer name", 8, "words");
    text_entry(out, "", 90, "of twenty columns and more are broken");
}

Test(base_text, entries) {
    char *text = printed(print_entries), *wanted;
    cr_expect(
        asprintf(&wanted,
                 "  name  words\n  a longer name\n        words\n%*sof twenty columns\n%*sand "
                 "more are broken\n",
                 90, "", 90, "") > 0);
    cr_expect_str_eq(text, wanted);
    free(wanted);
    free(text);
}

Test(base_text, find) {
    static const char *const names[] = {"one", NULL, "two"};
    static const struct {
        const char *name;
        int value;
    } rows[] = {{"one", 1}, {"three", 3}};
    cr_expect_eq(TEXT_FIND("one", names), 0);
    cr_expect_eq(TEXT_FIND("two", names), 2);
    cr_expect_eq(TEXT_FIND("tw", names), -1);
    cr_expect_eq(TEXT_FIND("", names), -1);
    cr_expect_eq(TEXT_FIND("three", rows), 1);
    cr_expect_eq(TEXT_FIND("two", rows), -1);
}
