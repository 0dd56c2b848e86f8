/* Profiles: rows and lookup, pooling, intervals, the file both ways, and what is refused. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cost/profile.h"

static char message[4096];
static const struct profile_place place = {"cpu", "avx2", 1, 2};

static struct measure measured(double median, double iqr, int64_t samples) {
    return (struct measure){median, iqr, samples};
}

static void set_rates(struct profile_section *section) {
    for (int rate = 0; rate < PROFILE_RATE_COUNT; rate++)
        section->rate[rate] = measured(10 * (rate + 1), 1, 20);
    section->link[PROFILE_IN_HOST].latency_ns = measured(900, 10, 5);
    section->link[PROFILE_IN_HOST].bytes_per_ns = measured(5.5, 0.1, 5);
}

/* `count` rows that differ in the shape, with a time that follows from it. */
static void fill(struct profile *profile, int count) {
    struct profile_section *section = profile_section_for(profile, &place);
    set_rates(section);
    for (int i = 0; i < count; i++) {
        char *shape = mem_format("%dx3", i);
        struct profile_key key = {"conv2d", (enum profile_pass)(i % PROFILE_PASS_COUNT), shape,
                                  "plain"};
        struct measure ns = measured(100 + i, 0.1 * i, 20);
        profile_record(profile, section, &key, &ns);
        free(shape);
    }
}

Test(cost_profile, rows_are_found) {
    struct profile profile;
    const struct profile_section *section = NULL;
    profile_init("p.json", &profile);
    fill(&profile, 1000);
    cr_assert_eq(profile_pick(&profile, &place, &section), STATUS_OK);
    cr_expect_eq(section->row_count, 1000);
    for (int i = 0; i < 1000; i++) {
        char *shape = mem_format("%dx3", i);
        struct profile_key key = {"conv2d", (enum profile_pass)(i % PROFILE_PASS_COUNT), shape,
                                  "plain"};
        const struct profile_row *row = profile_find(section, &key);
        cr_assert(row && row->ns.median == 100 + i, "row %d", i);
        struct profile_key others[] = {key, key, key, key};
        others[0].op = "linear", others[1].pass = (key.pass + 1) % PROFILE_PASS_COUNT;
        others[2].shape = "x", others[3].layout = "blocked";
        for (int other = 0; other < 4; other++)
            cr_assert_null(profile_find(section, &others[other]), "%d: other %d", i, other);
        free(shape);
    }
    profile_free(&profile);
}

Test(cost_profile, other_places_are_refused) {
    struct profile profile;
    const struct profile_section *section = NULL;
    profile_init("p.json", &profile);
    for (int filled = 0; filled < 2; filled++) {
        static const struct profile_place wrong[] = {{"ref", "avx2", 1, 2},
                                                     {"cpu", "amx", 1, 2},
                                                     {"cpu", "avx2", 2, 2},
                                                     {"cpu", "avx2", 1, 4}};
        for (int i = 0; i < 4; i++) {
            log_capture(message, sizeof message);
            cr_expect_eq(profile_pick(&profile, &wrong[i], &section), STATUS_USAGE);
            log_capture(NULL, 0);
            cr_expect_null(section);
            cr_expect(strstr(message, filled ? "it was on cpu avx2, threads 1, ranks 2"
                                             : "nothing was measured"),
                      "%s", message);
            cr_expect(strstr(message, wrong[i].isa), "%s", message);
        }
        fill(&profile, 1);
    }
    profile_free(&profile);
}

/* From the rates, with a note the first time. */
Test(cost_profile, what_was_not_measured) {
    struct profile profile;
    profile_init("p.json", &profile);
    fill(&profile, 3);
    struct profile_section *section = profile.section[0];
    struct profile_key key = {"linear", PROFILE_BACKWARD, "8x8", "plain"};
    struct op_cost heavy = {.flops = 5000, .bytes = 100}, wide = {.flops = 50, .bytes = 8000};
    log_capture(message, sizeof message);
    struct estimate first = profile_op(&profile, section, &key, &heavy, 2);
    cr_expect(strstr(message, "p.json: no row for linear backward '8x8'"), "%s", message);
    cr_expect(strstr(message, "10 GFLOP/s, 20 GB/s"), "%s", message);
    log_capture(message, sizeof message);
    struct estimate second = profile_op(&profile, section, &key, &wide, 1);
    cr_expect_str_eq(message, "");
    log_capture(NULL, 0);
    cr_expect_eq(first.ns, 1000);
    cr_expect_eq(first.variance, 250 * 250);
    cr_expect_eq(second.ns, 400);
    cr_expect_eq(profile.misses, 2);
    key = (struct profile_key){"conv2d", PROFILE_BACKWARD_INPUT, "1x3", "plain"};
    cr_expect_eq(profile_op(&profile, section, &key, &heavy, 3).ns, 303);
    cr_expect_eq(profile.misses, 2);
    profile_free(&profile);
}

Test(cost_profile, measures) {
    double values[] = {5, 1, 4, 2, 3};
    struct measure five = measure_of(values, 5), one = measure_of(values, 1);
    cr_expect_eq(five.median, 3);
    cr_expect_eq(five.iqr, 2);
    cr_expect_eq(five.samples, 5);
    cr_expect_eq(one.iqr, 0);
    double four[] = {4, 1, 3, 2};
    cr_expect_float_eq(measure_of(four, 4).median, 2.5, 1e-12);
    cr_expect_float_eq(measure_of(four, 4).iqr, 1.5, 1e-12);
    struct measure a = measured(10, 0, 10), b = measured(14, 0, 30), none = {0};
    struct measure pooled = measure_pool(&a, &b), back = measure_pool(&b, &a);
    cr_expect_float_eq(pooled.median, 13, 1e-12);
    cr_expect_float_eq(measure_deviation(&pooled), sqrt(3), 1e-12); /* (10 * 9 + 30 * 1) / 40 */
    cr_expect_eq(pooled.samples, 40);
    cr_expect_eq(memcmp(&pooled, &back, sizeof pooled), 0);
    cr_expect_eq(measure_pool(&a, &none).median, 10);
    cr_expect_eq(measure_pool(&none, &a).samples, 10);
}

/* Noise adds up by its square root, the error of a median in proportion. */
Test(cost_profile, intervals) {
    struct measure ns = measured(100, 1.3489795003921634, 1000000000);
    struct estimate many = estimate_of(&ns, 100);
    cr_expect_eq(many.ns, 10000);
    cr_expect_float_eq(many.variance, 100, 1e-3);
    ns.samples = 1;
    cr_expect_float_eq(estimate_of(&ns, 100).variance, 100 + 10000 * 1.5707963, 1e-2);
    struct estimate tenth = estimate_relative(200, 0.1);
    cr_expect_float_eq(tenth.variance, 400, 1e-9);
    struct estimate_interval interval = estimate_interval(tenth, ESTIMATE_Z90);
    cr_expect_float_eq(interval.high_ns - tenth.ns, 1.6448536 * 20, 1e-3);
    cr_expect_float_eq(tenth.ns - interval.low_ns, 1.6448536 * 20, 1e-3);
    cr_expect_eq(estimate_interval(estimate_relative(1, 10), 1).low_ns, 0);
}

static enum status parse(const char *text, struct profile *out) {
    log_capture(message, sizeof message);
    enum status status = profile_parse("p.json", text, strlen(text), out);
    log_capture(NULL, 0);
    return status;
}

Test(cost_profile, file_reads_back) {
    struct profile profile, again;
    profile_init("x", &profile);
    fill(&profile, 100);
    struct profile_place other = {"cpu", "avx2", 2, 1};
    set_rates(profile_section_for(&profile, &other));
    char *text = profile_print(&profile);
    cr_assert_eq(parse(text, &again), STATUS_OK, "%s", message);
    cr_expect_eq(again.section_count, 2);
    cr_expect_eq(again.section[0]->row_count, 100);
    cr_expect_eq(again.section[1]->link[PROFILE_BETWEEN_HOSTS].latency_ns.samples, 0);
    char *copy = profile_print(&again);
    cr_expect_str_eq(copy, text);
    free(copy);
    free(text);
    profile_free(&again);
    profile_free(&profile);
}

Test(cost_profile, written_whole_or_not) {
    struct profile profile, again;
    char path[] = "/tmp/stretto-profile-XXXXXX";
    int fd = mkstemp(path);
    cr_assert(fd >= 0);
    close(fd);
    profile_init("x", &profile);
    fill(&profile, 3);
    cr_assert_eq(profile_write(&profile, path), STATUS_OK);
    cr_assert_eq(profile_read(path, &again), STATUS_OK);
    cr_expect_eq(again.section[0]->row_count, 3);
    cr_expect_str_eq(again.name, path);
    profile_free(&again);
    log_capture(message, sizeof message);
    cr_expect_eq(profile_write(&profile, "/nonexistent/p.json"), STATUS_DATA);
    cr_expect_eq(profile_read("/nonexistent/p.json", &again), STATUS_DATA);
    log_capture(NULL, 0);
    unlink(path);
    profile_free(&profile);
}

Test(cost_profile, merge_is_the_same_both_ways) {
    struct profile a, b, ab, ba;
    profile_init("a", &a), profile_init("b", &b), profile_init("ab", &ab), profile_init("ba", &ba);
    fill(&a, 10);
    fill(&b, 20);
    b.section[0]->row[4].ns = measured(204, 3, 5);
    struct profile_place only = {"cpu", "amx", 4, 1};
    set_rates(profile_section_for(&b, &only));
    profile_merge(&ab, &a), profile_merge(&ab, &b);
    profile_merge(&ba, &b), profile_merge(&ba, &a);
    char *left = profile_print(&ab), *right = profile_print(&ba);
    cr_expect_str_eq(left, right);
    cr_expect_eq(ab.section_count, 2);
    cr_expect_eq(ab.section[0]->row_count, 20);
    cr_expect_float_eq(ab.section[0]->row[4].ns.median, (104 * 20 + 204 * 5) / 25.0, 1e-9);
    cr_expect_eq(ab.section[0]->row[12].ns.samples, 20);
    cr_expect_eq(ab.section[0]->rate[0].samples, 40);
    free(left), free(right);
    profile_free(&a), profile_free(&b), profile_free(&ab), profile_free(&ba);
}

/* ---- files that are refused ---- */

/* The text with the checksum that belongs to it. */
static char *with_check(const char *text) {
    json_error_t error;
    json_t *root = json_loads(text, 0, &error);
    cr_assert(root, "%s: %s", text, error.text);
    json_object_del(root, "check");
    char check[16];
    snprintf(check, sizeof check, "%08x", json_content_check(root));
    json_object_set_new(root, "check", json_string(check));
    char *whole = json_dumps(root, JSON_REAL_PRECISION(17) | JSON_INDENT(1));
    json_decref(root);
    return whole;
}

Test(cost_profile, documented_example) {
    struct bytes doc;
    cr_assert_eq(file_read("docs/profile.md", 1 << 20, &doc), STATUS_OK);
    char *begin = strstr((char *)doc.data, "```json\n") + strlen("```json\n"),
         *end = strstr(begin, "```"), *text = mem_format("%.*s", (int)(end - begin), begin);
    struct profile profile;
    cr_assert_eq(parse(text, &profile), STATUS_OK, "%s", message);
    cr_expect_eq(profile.section[0]->row_count, 1);
    for (int i = 0; i < PROFILE_RATE_COUNT; i++)
        cr_expect(strstr((char *)doc.data, profile_rate_names[i]), "%s", profile_rate_names[i]);
    for (int i = 0; i < PROFILE_LINK_COUNT; i++)
        cr_expect(strstr((char *)doc.data, profile_link_names[i]), "%s", profile_link_names[i]);
    for (int i = 0; i < PROFILE_PASS_COUNT; i++)
        cr_expect(strstr((char *)doc.data, profile_pass_names[i]), "%s", profile_pass_names[i]);
    free(text);
    profile_free(&profile);
    bytes_free(&doc);
}

#define M "{\"median\": 1.0, \"iqr\": 0.0, \"samples\": 1}"
#define RATES "\"rates\": {\"flops_per_ns\": " M ", \"bytes_per_ns\": " M "}"
#define PLACE "\"device\": \"cpu\", \"isa\": \"x\", \"threads\": 1, \"ranks\": 1"
#define ROW                                                                                        \
    "{\"op\": \"a\", \"pass\": \"forward\", \"shape\": \"1\", \"layout\": \"p\", \"ns\": " M "}"
#define SECTION(rest) "{\"format\": 1, \"sections\": [{" rest "}]}"
#define ROWS(rest) SECTION(PLACE ", " RATES ", \"links\": {}, \"rows\": [" rest "]")

static const struct {
    const char *text, *part[2];
} wrong[] = {
    {"{\"format\": 1, \"sections\": {}}", {"sections: {} is not allowed", "a list"}},
    {"{\"format\": 1}", {"sections: is missing", ""}},
    {"{\"format\": 1, \"sections\": [], \"more\": 1}", {"more: unknown key", ""}},
    {"{\"format\": 1, \"sections\": [3]}", {"sections[0]: 3 is not allowed", "an object"}},
    {SECTION("\"devise\": 1"), {"sections[0].devise: unknown key", "did you mean device?"}},
    {SECTION("\"device\": 1"), {"sections[0].device: 1 is not allowed", "text"}},
    {SECTION("\"device\": \"\""), {"sections[0].device: '' is not allowed", "text"}},
    {SECTION("\"device\": \"c\", \"isa\": \"x\", \"threads\": 0, \"ranks\": 1"),
     {"threads: 0 is not allowed", "from 1"}},
    {SECTION("\"device\": \"c\", \"isa\": \"x\", \"threads\": 1, \"ranks\": 1.5"),
     {"ranks: 1.5 is not allowed", "a whole number"}},
    {SECTION(PLACE), {"sections[0].rates: is missing", ""}},
    {SECTION(PLACE ", \"rates\": {\"flops_per_ns\": " M "}"),
     {"sections[0].rates.bytes_per_ns: is missing", ""}},
    {SECTION(PLACE ", \"rates\": {\"flop_per_ns\": " M "}"),
     {"rates.flop_per_ns: unknown key", "did you mean flops_per_ns?"}},
    {SECTION(PLACE
             ", \"rates\": {\"flops_per_ns\": {\"median\": 0.0, \"iqr\": 1, \"samples\": 1}}"),
     {"rates.flops_per_ns.median: 0 is not allowed", "from 1e-09"}},
    {SECTION(PLACE ", \"rates\": {\"flops_per_ns\": {\"median\": 1, \"iqr\": -1, \"samples\": 1}}"),
     {"flops_per_ns.iqr: -1 is not allowed", "from 0"}},
    {SECTION(PLACE ", \"rates\": {\"flops_per_ns\": {\"median\": 1, \"iqr\": 0, \"samples\": 0}}"),
     {"flops_per_ns.samples: 0 is not allowed", ""}},
    {SECTION(PLACE ", " RATES ", \"links\": {\"pcie\": {}}"), {"links.pcie: unknown key", ""}},
    {SECTION(PLACE ", " RATES ", \"links\": {\"in_host\": {}}"),
     {"links.in_host.latency_ns: is missing", ""}},
    {ROWS("1"), {"sections[0].rows[0]: 1 is not allowed", ""}},
    {ROWS(ROW ", " ROW), {"sections[0].rows[1]: a row of this op, pass, shape and layout", ""}},
    {ROWS(ROW ", {\"op\": \"a\", \"pass\": \"sideways\"}"),
     {"rows[1].pass: 'sideways' is not allowed", "backward-input"}},
    {ROWS("{\"op\": \"a\", \"pass\": \"forward\"}"), {"rows[0].shape: is missing", ""}},
    {"{\"format\": 1, \"sections\": [{" PLACE ", " RATES ", \"links\": {}, \"rows\": []}, {" PLACE
     "}]}",
     {"sections[1]: a section of this device", "before"}},
};

Test(cost_profile, refused_fields) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct profile profile = {.misses = -7};
        char *text = with_check(wrong[i].text);
        cr_expect_eq(parse(text, &profile), STATUS_DATA, "'%s' was read", text);
        cr_expect_eq(profile.misses, -7);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, wrong[i].part[part]), "'%s': '%s' not in: %s", text,
                      wrong[i].part[part], message);
        free(text);
    }
}

Test(cost_profile, refused_files) {
    static const struct {
        const char *text;
        enum status status;
        const char *says;
    } cases[] = {
        {"", STATUS_DATA, "p.json:1:0: not valid JSON"},
        {"{\"format\": 1,\n \"format\": 1}", STATUS_DATA, "p.json:2:9: not valid JSON: duplicate"},
        {"[]", STATUS_DATA, "p.json: not a profile"},
        {"{\"step\": 1}", STATUS_DATA, "p.json: not a profile"},
        {"{\n\"format\": 2}", STATUS_USAGE, "p.json:2: format: 2; this version reads 1"},
        {"{\"format\": 0}", STATUS_USAGE, "format: 0; this version reads 1"},
        {"{\"format\": 1}", STATUS_DATA, "p.json: has no check"},
        {"{\"format\": 1, \"check\": \"1\"}", STATUS_DATA, "p.json: has no check"},
        {"{\"format\": 1, \"check\": \"00000000\"}", STATUS_DATA, "it states '00000000'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct profile profile;
        cr_expect_eq(parse(cases[i].text, &profile), cases[i].status, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
    }
}
