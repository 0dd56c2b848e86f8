/* Cluster files: the example of the documentation, lookups, 100,000 ranks, and what is refused. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "cost/cluster.h"

static char message[4096];

static enum status parse(const char *text, struct cluster *out) {
    log_capture(message, sizeof message);
    enum status status = cluster_parse("c.yml", text, strlen(text), out);
    log_capture(NULL, 0);
    return status;
}

/* The first block of the documentation that is marked as YAML. */
static char *example(void) {
    struct bytes doc;
    cr_assert_eq(file_read("docs/cluster.md", 1 << 20, &doc), STATUS_OK);
    char *begin = strstr((char *)doc.data, "```yaml\n");
    cr_assert(begin, "docs/cluster.md has no example");
    begin += strlen("```yaml\n");
    char *end = strstr(begin, "```"), *text = mem_format("%.*s", (int)(end - begin), begin);
    bytes_free(&doc);
    return text;
}

static void expect_link(const struct cluster *cluster, int64_t a, int64_t b, double latency_ns,
                        double bytes_per_ns) {
    for (int turn = 0; turn < 2; turn++) {
        struct cost_link link = turn ? cluster_link(cluster, b, a) : cluster_link(cluster, a, b);
        cr_expect_float_eq(link.latency, latency_ns, 1e-9, "%d-%d: %g", (int)a, (int)b,
                           link.latency);
        cr_expect_float_eq(link.bytes_per_time, bytes_per_ns, 1e-9, "%d-%d: %g", (int)a, (int)b,
                           link.bytes_per_time);
    }
}

Test(cost_cluster, documented_example) {
    struct cluster cluster;
    char *text = example();
    cr_assert_eq(parse(text, &cluster), STATUS_OK, "%s", message);
    cr_expect_eq(cluster.ranks, 20);
    cr_expect_eq(cluster.hosts, 3);
    cr_expect_str_eq(cluster_class(&cluster, 15)->name, "fast");
    cr_expect_str_eq(cluster_class(&cluster, 16)->name, "old");
    cr_expect_eq(cluster_memory_bytes(&cluster, 0), 40LL << 30);
    cr_expect_eq(cluster_memory_bytes(&cluster, 19), 16LL << 30);
    cr_expect_eq(cluster_host(&cluster, 7), 0);
    cr_expect_eq(cluster_host(&cluster, 8), 1);
    cr_expect_eq(cluster_host(&cluster, 16), 2);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 2), 1);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 3), 3);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 4), 1);
    expect_link(&cluster, 4, 5, 2e3, 50);
    expect_link(&cluster, 1, 2, 1e3, 200);
    expect_link(&cluster, 0, 1, 2e3, 50);
    expect_link(&cluster, 0, 8, 10e3, 12.5);
    expect_link(&cluster, 7, 19, 25e3, 1.25);
    expect_link(&cluster, 8, 16, 100e3, 1.25);
    expect_link(&cluster, 5, 5, 0, 1500);
    cluster_free(&cluster);
    free(text);
}

static double op_ns(const struct cluster *cluster, int64_t rank, enum op op,
                    const struct op_cost *cost) {
    return cluster_class_ns(cluster_class(cluster, rank), op, cost, DTYPE_F32, false) *
           cluster_slowness(cluster->slow, cluster->slow_count, rank);
}

/* The slower of arithmetic and memory; backward operations follow their forward one. */
Test(cost_cluster, time_of_operations) {
    struct cluster cluster;
    char *text = example();
    cr_assert_eq(parse(text, &cluster), STATUS_OK, "%s", message);
    struct op_cost heavy = {.flops = 6e9, .bytes = 10}, wide = {.flops = 1, .bytes = 3e6};
    cr_expect_float_eq(op_ns(&cluster, 0, OP_CONV2D, &heavy), 6e9 / 36e3, 1);
    cr_expect_float_eq(op_ns(&cluster, 0, OP_CONV2D_BWD_WEIGHT, &heavy), 6e9 / 36e3, 1);
    cr_expect_float_eq(op_ns(&cluster, 0, OP_RELU, &heavy), 6e9 / 30e3, 1);
    cr_expect_float_eq(op_ns(&cluster, 16, OP_CONV2D, &heavy), 6e9 / 9e3, 1);
    cr_expect_float_eq(op_ns(&cluster, 0, OP_RELU, &wide), 2e3, 1e-6);
    cr_expect_float_eq(op_ns(&cluster, 3, OP_RELU, &wide), 6e3, 1e-6);
    cluster_free(&cluster);
    free(text);
}

#define CLASS(name, ranks)                                                                         \
    "- {name: " name ", ranks: " ranks ", gflops_per_s: 1, memory_gib: 1, memory_gb_per_s: 1}\n"
#define LINK "{latency_us: 1, bandwidth_gb_per_s: 1}"

/* Ranks are ranges: nothing is allocated for each. Every rank of a few is looked up by hand. */
Test(cost_cluster, hundred_thousand_ranks) {
    struct cluster cluster;
    cr_assert_eq(parse("classes:\n" CLASS("x", "99990")
                           CLASS("y", "10") "hosts:\n- {ranks: 8, count: 12499}\n- {ranks: 8}\n"
                                            "links: {in_host: " LINK ", between_hosts: " LINK "}\n"
                                            "slow_ranks:\n- {ranks: 500-599, factor: 2}\n"
                                            "- {ranks: 7, factor: 4}\n- {ranks: y, factor: 5}\n",
                       &cluster),
                 STATUS_OK, "%s", message);
    cr_expect_eq(cluster.ranks, 100000);
    cr_expect_eq(cluster.hosts, 12500);
    cr_expect_eq(cluster.class_count, 2);
    cr_expect_eq(cluster.host_count, 2);
    int64_t slow = 0;
    for (int64_t rank = 0; rank < cluster.ranks; rank++) {
        cr_assert_eq(cluster_host(&cluster, rank), rank / 8);
        slow += cluster_slowness(cluster.slow, cluster.slow_count, rank) > 1;
    }
    cr_expect_eq(slow, 111);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 7), 4);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 599), 2);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 600), 1);
    cr_expect_eq(cluster_slowness(cluster.slow, cluster.slow_count, 99999), 5);
    cr_expect_str_eq(cluster_class(&cluster, 99989)->name, "x");
    cr_expect_str_eq(cluster_class(&cluster, 99990)->name, "y");
    cluster_free(&cluster);
}

Test(cost_cluster, one_rank_needs_no_links) {
    struct cluster cluster;
    cr_assert_eq(parse("classes:\n" CLASS("x", "1"), &cluster), STATUS_OK, "%s", message);
    cr_expect_eq(cluster.hosts, 1);
    cluster_free(&cluster);
}

#define TWO "classes:\n" CLASS("x", "2")
#define LINKED TWO "links: {in_host: " LINK "}\n"

static const struct {
    const char *text, *part[2];
} wrong[] = {
    {"", {"c.yml:1:1: a cluster is a mapping", "classes, hosts"}},
    {"classes: []\n", {"c.yml: classes is empty", ""}},
    {"hosts: []\n", {"c.yml:1:1: a cluster without the key classes", ""}},
    {"classes: x\n", {"c.yml:1:10: classes is a list", ""}},
    {"classes: [x]\n", {"c.yml:1:11: a class is a mapping", "gflops_per_s"}},
    {"clases: []\n", {"c.yml:1:1: 'clases': unknown key", "did you mean classes?"}},
    {"classes:\n- {name: a}\n", {"c.yml:2:3: a class without the key ranks", ""}},
    {"classes:\n- {name: a, gflop_per_s: 1}\n",
     {"c.yml:2:13: 'gflop_per_s': unknown key of a class", "did you mean gflops_per_s?"}},
    {"classes:\n- {name: a, name: b}\n", {"c.yml:2:13: name is given twice", "line 2"}},
    {"classes:\n- {name: 1a, ranks: 1, gflops_per_s: 1, memory_gib: 1, memory_gb_per_s: 1}\n",
     {"c.yml:2:3: name: '1a' begins with a digit", ""}},
    {TWO CLASS("x", "2"), {"c.yml:3:3: name: 'x' is given twice", "line 2"}},
    {TWO "hosts:\n- {name: x, ranks: 2}\n", {"c.yml:4:3: name: 'x' is given twice", "line 2"}},
    {"classes:\n- {ranks: 0}\n", {"c.yml:2:11: ranks: '0' is not allowed", "from 1 to"}},
    {"classes:\n- {ranks: 1.5}\n", {"'1.5' is not allowed", "a whole number"}},
    {"classes:\n- {gflops_per_s: fast}\n",
     {"c.yml:2:18: gflops_per_s: 'fast' is not allowed", "a number from 1e-06 to 1e+12"}},
    {"classes:\n- {gflops_per_s: [1]}\n", {"gflops_per_s takes one value, not a list", ""}},
    {"classes:\n- {memory_gib: }\n", {"memory_gib has no value", "remove the line"}},
    {"classes:\n- {name: \"a\\nb\"}\n", {"name: 'a\\x0ab' is not allowed", "control"}},
    {"classes:\n- {name: \"a\\0b\"}\n", {"name: the value holds a zero byte", ""}},
    {"classes:\n- {efficiency: {convd: 1}}\n",
     {"'convd': unknown key of efficiency", "did you mean conv2d?"}},
    {"classes:\n- {efficiency: {conv2d: 1.1}}\n", {"conv2d: '1.1' is not allowed", "to 1"}},
    {"classes:\n" CLASS("a", "16777216") CLASS("b", "1"),
     {"c.yml:3:3: 16777217 ranks so far", "16777216 are allowed"}},
    {TWO "hosts:\n- {ranks: 16777216, count: 2}\n",
     {"c.yml:4:3: hosts of 33554432 ranks so far", "16777216 are allowed"}},
    {TWO "hosts:\n- {ranks: 1}\nlinks: {in_host: " LINK "}\n",
     {"c.yml:4:1: hosts hold 1 ranks", "classes have 2"}},
    {TWO, {"c.yml: links.in_host is missing", ""}},
    {TWO "hosts:\n- {ranks: 1, count: 2}\n", {"links.between_hosts is missing", "2 hosts"}},
    {TWO "links: {in_hosts: " LINK "}\n", {"'in_hosts': unknown key", "did you mean in_host?"}},
    {TWO "links: {in_host: {latency_us: 1}}\n", {"in_host without the key bandwidth_gb_per_s", ""}},
    {TWO "links: {in_host: {latency_us: -1}}\n", {"latency_us: '-1' is not allowed", ""}},
    {LINKED "slow_ranks:\n- {ranks: 2, factor: 2}\n", {"c.yml:5:11: '2': not a rank", "0 to 1"}},
    {LINKED "slow_ranks:\n- {ranks: 1-0, factor: 2}\n", {"'1-0': not a rank", ""}},
    {LINKED "slow_ranks:\n- {ranks: z, factor: 2}\n", {"c.yml:5:11: 'z': no class", "0-7"}},
    {LINKED "slow_ranks:\n- {ranks: 0, factor: 0.5}\n", {"factor: '0.5' is not", "from 1"}},
    {LINKED "slow_ranks:\n- {ranks: 1, factor: 2}\n- {ranks: 0-1, factor: 2}\n",
     {"c.yml:5: rank 1 is a slow rank twice", "line 6"}},
    {LINKED "slow_links:\n- {between: [0], factor: 2}\n",
     {"c.yml:5:13: between takes two names or ranges of ranks, not 1", ""}},
    {LINKED "slow_links:\n- {between: [0, 1, 1], factor: 2}\n", {"c.yml:5:20:", "not three"}},
    {LINKED "slow_links:\n- {between: [x, xy], factor: 2}\n",
     {"'xy': no class or host of that name; did you mean x?", ""}},
    {LINKED "slow_links: {}\n", {"slow_links is a list", ""}},
    {TWO "---\n" TWO, {"c.yml:3:1: a second document", ""}},
    {"classes: &a []\n", {"anchors and aliases are not allowed", ""}},
    {"classes: !!seq []\n", {"tags are not allowed", ""}},
    {"classes: [\n", {"not valid YAML", ""}},
};

Test(cost_cluster, refused) {
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cluster cluster = {.ranks = -7};
        cr_expect_eq(parse(wrong[i].text, &cluster), STATUS_USAGE, "'%s' was read", wrong[i].text);
        cr_expect_eq(cluster.ranks, -7);
        for (int part = 0; part < 2; part++)
            cr_expect(strstr(message, wrong[i].part[part]), "'%s': '%s' not in: %s", wrong[i].text,
                      wrong[i].part[part], message);
        int lines = 0;
        for (const char *c = message; *c; c++) lines += *c == '\n';
        cr_expect(lines >= 1 && lines <= 3, "%s", message);
    }
}

Test(cost_cluster, missing_file) {
    struct cluster cluster;
    log_capture(message, sizeof message);
    cr_expect_eq(cluster_read("nothing/here.yml", &cluster), STATUS_DATA);
    log_capture(NULL, 0);
    cr_expect(strstr(message, "nothing/here.yml: cannot open"), "%s", message);
}

/* --- in a word --- */

static struct cluster word_of(const char *word) {
    struct cluster cluster;
    cr_assert(cluster_is_word(word), "%s", word);
    cr_assert_eq(cluster_parse_word(word, &cluster), STATUS_OK, "%s", word);
    return cluster;
}

Test(cost_cluster, a_word_is_a_cluster_of_equal_hosts) {
    struct cluster cluster = word_of("2x8:a100-40,nvlink,25gbe");
    cr_expect_eq(cluster.ranks, 16);
    cr_expect_eq(cluster.hosts, 2);
    cr_expect_str_eq(cluster_class(&cluster, 15)->name, "a100-40");
    cr_expect_float_eq(cluster_link(&cluster, 0, 7).bytes_per_time, 250, 1e-9);
    cr_expect_float_eq(cluster_link(&cluster, 0, 8).bytes_per_time, 3.125, 1e-9);
    cluster_free(&cluster);
}

/* Each has its part of the host. */
Test(cost_cluster, ranks_of_a_processor_share_their_host) {
    struct cluster one = word_of("1x1:xeon-16c"), four = word_of("1x4:xeon-16c,pcie4");
    cr_expect_leq(llabs(cluster_memory_bytes(&one, 0) - 4 * cluster_memory_bytes(&four, 0)),
                  1 << 20);
    cr_expect_float_eq(one.class[0].flops_per_ns, 4 * four.class[0].flops_per_ns, 1e-6);
    cluster_free(&one);
    cluster_free(&four);
}

Test(cost_cluster, names_of_files_are_no_words) {
    static const char *const names[] = {"rack.yml", "2x8.yml",  "x8:a", "2x:a",
                                        "c:2x8",    "/a/2x8:b", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_expect_not(cluster_is_word(names[i]), "%s", names[i]);
}

/* A class has a rate for each type; one that it does not have is f32's. */
Test(cost_cluster, types_have_rates_of_their_own) {
    struct cluster cluster = word_of("1x1:v100-16");
    const struct op_cost cost = {.flops = 1e12, .bytes = 1};
    const struct cluster_class *class = &cluster.class[0];
    double f32 = cluster_class_ns(class, OP_LINEAR, &cost, DTYPE_F32, false),
           f16 = cluster_class_ns(class, OP_LINEAR, &cost, DTYPE_F16, false),
           bf16 = cluster_class_ns(class, OP_LINEAR, &cost, DTYPE_BF16, false);
    cr_expect_float_eq(f32 / f16, 125.0 / 15.7, 1e-9);
    cr_expect_eq(f32, bf16);
    cluster_free(&cluster);
}

/* The document has a row for each. */
Test(cost_cluster, classes_and_links_are_documented) {
    struct bytes text;
    const char *name, *help;
    cr_assert_eq(file_read("docs/cluster.md", 1 << 20, &text), STATUS_OK);
    char *all = mem_format("%.*s", (int)text.count, (const char *)text.data);
    for (int i = 0; cluster_class_at(i, &name, &help); i++) {
        char *row = mem_format("| `%s` |", name);
        cr_expect(strstr(all, row), "%s", name);
        free(row);
    }
    for (int i = 0; cluster_link_at(i, &name, &help); i++) {
        char *row = mem_format("`%s`", name);
        cr_expect(strstr(all, row), "%s", name);
        free(row);
    }
    free(all);
    bytes_free(&text);
}

/* --- what if? --- */

static const char three_hosts[] = "classes:\n"
                                  "  - {name: x, ranks: 4, gflops_per_s: 1, memory_gib: 1, "
                                  "memory_gb_per_s: 1}\n"
                                  "  - {name: y, ranks: 2, gflops_per_s: 2, memory_gib: 2, "
                                  "memory_gb_per_s: 1}\n"
                                  "hosts:\n  - {ranks: 2, count: 2}\n  - {name: c, ranks: 2}\n"
                                  "links:\n"
                                  "  in_host: {latency_us: 1, bandwidth_gb_per_s: 1}\n"
                                  "  between_hosts: {latency_us: 2, bandwidth_gb_per_s: 1}\n"
                                  "slow_ranks:\n  - {ranks: 1-2, factor: 2}\n";

static double slowness(const struct cluster *cluster, int64_t rank) {
    return cluster_slowness(cluster->slow, cluster->slow_count, rank);
}

Test(cost_cluster, slower_ranks_and_links) {
    struct cluster cluster;
    struct cluster_range c;
    cr_assert_eq(parse(three_hosts, &cluster), STATUS_OK);
    cluster_slow_down(&cluster, (struct cluster_range){2, 3}, 3);
    static const double expected[] = {1, 2, 6, 3, 1, 1};
    for (int r = 0; r < 6; r++) cr_expect_eq(slowness(&cluster, r), expected[r], "rank %d", r);
    cr_assert_eq(cluster_find_ranks(&cluster, "test", "c", &c), STATUS_OK);
    cr_expect(c.first == 4 && c.last == 5);
    cluster_slow_link(&cluster, (struct cluster_range){0, 1}, c, 5);
    cluster_slow_link(&cluster, c, (struct cluster_range){0, 1}, 2);
    cr_expect_float_eq(cluster_link(&cluster, 1, 4).latency, 20000, 1e-6);
    cr_expect_float_eq(cluster_link(&cluster, 5, 0).latency, 20000, 1e-6);
    cr_expect_float_eq(cluster_link(&cluster, 2, 4).latency, 2000, 1e-6);
    cluster_free(&cluster);
}

Test(cost_cluster, ranks_that_are_gone) {
    struct cluster cluster;
    cr_assert_eq(parse(three_hosts, &cluster), STATUS_OK);
    cr_assert_eq(cluster_remove(&cluster, "test", (struct cluster_range){1, 1}), STATUS_OK);
    static const int64_t hosts[] = {0, 1, 1, 2, 2};
    static const double slow[] = {1, 2, 1, 1, 1};
    cr_assert_eq(cluster.ranks, 5);
    cr_expect_eq(cluster.hosts, 3);
    for (int r = 0; r < 5; r++) {
        cr_expect_eq(cluster_host(&cluster, r), hosts[r], "rank %d", r);
        cr_expect_eq(slowness(&cluster, r), slow[r], "rank %d", r);
        cr_expect_str_eq(cluster_class(&cluster, r)->name, r < 3 ? "x" : "y");
    }
    cr_assert_eq(cluster_remove(&cluster, "test", (struct cluster_range){1, 2}), STATUS_OK);
    cr_expect_eq(cluster.hosts, 2);
    cr_expect_eq(cluster_host(&cluster, 1), 1);
    cr_expect_str_eq(cluster_class(&cluster, 1)->name, "y");
    cr_expect_neq(cluster_remove(&cluster, "test", (struct cluster_range){0, 2}), STATUS_OK);
    cluster_free(&cluster);
}
