/* Reads a cluster file: first the document by its schema, then what rows mean together, since a row
 * may name a class or host that stands below it. See cluster.h and docs/cluster.md. */
#include "cost/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "base/yaml.h"

/* "between: [a, b]" or "ranks: a" as written. */
struct operand {
    const char *text;
    yaml_mark_t mark;
};

/* A row of links.pairs, slow_links or slow_ranks as written. */
struct raw_row {
    struct operand operand[2];
    int operands;
    double latency_us, gb_per_s, factor;
    yaml_mark_t mark;
};

enum list { PAIRS, SLOW_LINKS, SLOW_RANKS, LISTS };

struct raw_list {
    struct raw_row *row;
    size_t count, capacity;
};

struct raw_link {
    double latency_us, gb_per_s;
    bool given;
};

struct reading {
    struct yaml_reader *yaml;
    struct cluster cluster;
    size_t class_capacity, host_capacity;
    struct raw_link in_host, between_hosts;
    struct raw_list list[LISTS];
    yaml_mark_t hosts_mark;
};

/* Room for one more row of a list that a file may have. */
static enum status grow(struct reading *reading, void **rows, size_t *capacity, size_t count,
                        size_t bytes) {
    if (count == CLUSTER_ROWS_MAX)
        return YAML_REFUSE(reading->yaml, reading->yaml->event.start_mark,
                           "more than %d rows in a list", CLUSTER_ROWS_MAX);
    *rows = mem_grow(*rows, capacity, count + 1, bytes);
    return STATUS_OK;
}

/* ---- classes ---- */

/* Figures as written, one for each operation; 0: not given. */
struct efficiency {
    double of[OP_COUNT], other;
};

struct raw_class {
    const char *name;
    int64_t ranks;
    double gflops_per_s, tf32, bf16, f16, memory_gib, memory_gb_per_s;
    struct efficiency efficiency;
};

static enum status read_efficiency(struct yaml_reader *yaml, const struct yaml_key *key,
                                   void *into) {
    struct yaml_key keys[OP_COUNT + 1];
    for (int op = 0; op <= OP_COUNT; op++)
        keys[op] = (struct yaml_key){.name = op == OP_COUNT ? "other" : op_def((enum op)op)->name,
                                     .read = yaml_read_real,
                                     .offset = op == OP_COUNT ? offsetof(struct efficiency, other)
                                                              : offsetof(struct efficiency, of) +
                                                                    (size_t)op * sizeof(double),
                                     .low = 1e-6,
                                     .high = 1};
    return yaml_mapping(yaml, "efficiency", keys, OP_COUNT + 1, (char *)into + key->offset);
}

/* What is not given for a backward operation is its forward one's. */
static double efficiency_of(const struct efficiency *given, enum op op) {
    const char *name = op_def(op)->name, *end = strstr(name, "_bwd");
    if (given->of[op] > 0) return given->of[op];
    for (int other = 0; end && other < OP_COUNT; other++) {
        const char *forward = op_def((enum op)other)->name;
        if (strlen(forward) == (size_t)(end - name) &&
            strncmp(forward, name, (size_t)(end - name)) == 0 && given->of[other] > 0)
            return given->of[other];
    }
    return given->other > 0 ? given->other : 1;
}

static const struct yaml_key class_keys[] = {
    {"name", true, yaml_read_text, offsetof(struct raw_class, name), 0, 0},
    {"ranks", true, yaml_read_int, offsetof(struct raw_class, ranks), 1, CLUSTER_RANKS_MAX},
    {"gflops_per_s", true, yaml_read_real, offsetof(struct raw_class, gflops_per_s), 1e-6, 1e12},
    {"gflops_per_s_tf32", false, yaml_read_real, offsetof(struct raw_class, tf32), 1e-6, 1e12},
    {"gflops_per_s_bf16", false, yaml_read_real, offsetof(struct raw_class, bf16), 1e-6, 1e12},
    {"gflops_per_s_f16", false, yaml_read_real, offsetof(struct raw_class, f16), 1e-6, 1e12},
    {"memory_gib", true, yaml_read_real, offsetof(struct raw_class, memory_gib), 1e-6, 1e9},
    {"memory_gb_per_s", true, yaml_read_real, offsetof(struct raw_class, memory_gb_per_s), 1e-6,
     1e9},
    {"efficiency", false, read_efficiency, offsetof(struct raw_class, efficiency), 0, 0},
};

/* Names stand where ranks may stand, too. */
static enum status check_name(struct reading *reading, yaml_mark_t mark, const char *name) {
    const struct cluster *cluster = &reading->cluster;
    char quoted[TEXT_QUOTED_BYTES];
    if (name[0] >= '0' && name[0] <= '9')
        return YAML_REFUSE(reading->yaml, mark,
                           "name: %s begins with a digit\n  only numbers of ranks do",
                           text_quoted(name, quoted));
    int line = 0;
    for (size_t i = 0; i < cluster->class_count && !line; i++)
        if (strcmp(cluster->class[i].name, name) == 0) line = cluster->class[i].line;
    for (size_t i = 0; i < cluster->host_count && !line; i++)
        if (cluster->host[i].name && strcmp(cluster->host[i].name, name) == 0)
            line = cluster->host[i].line;
    if (!line) return STATUS_OK;
    return YAML_REFUSE(reading->yaml, mark, "name: %s is given twice, first in line %d",
                       text_quoted(name, quoted), line);
}

static enum status read_class(struct yaml_reader *yaml, void *into) {
    struct reading *reading = into;
    struct cluster *cluster = &reading->cluster;
    struct raw_class raw = {0};
    yaml_mark_t mark = yaml->event.start_mark;
    TRY(yaml_mapping(yaml, "a class", class_keys, sizeof class_keys / sizeof class_keys[0], &raw));
    TRY(check_name(reading, mark, raw.name));
    TRY(grow(reading, (void **)&cluster->class, &reading->class_capacity, cluster->class_count,
             sizeof *cluster->class));
    struct cluster_class class = {
        .name = raw.name,
        .ranks = {cluster->ranks, cluster->ranks + raw.ranks - 1},
        .flops_per_ns = raw.gflops_per_s,
        .tf32_per_ns = raw.tf32,
        .bf16_per_ns = raw.bf16,
        .f16_per_ns = raw.f16,
        .bytes_per_ns = raw.memory_gb_per_s,
        .memory_bytes = (int64_t)(raw.memory_gib * 0x1p30),
        .line = (int)mark.line + 1,
    };
    for (int op = 0; op < OP_COUNT; op++)
        class.efficiency[op] = efficiency_of(&raw.efficiency, (enum op)op);
    cluster->class[cluster->class_count++] = class;
    cluster->ranks += raw.ranks;
    if (cluster->ranks <= CLUSTER_RANKS_MAX) return STATUS_OK;
    return YAML_REFUSE(yaml, mark, "%lld ranks so far; %d are allowed", (long long)cluster->ranks,
                       CLUSTER_RANKS_MAX);
}

/* ---- hosts ---- */

static const struct yaml_key host_keys[] = {
    {"name", false, yaml_read_text, offsetof(struct cluster_hosts, name), 0, 0},
    {"ranks", true, yaml_read_int, offsetof(struct cluster_hosts, ranks_each), 1,
     CLUSTER_RANKS_MAX},
    {"count", false, yaml_read_int, offsetof(struct cluster_hosts, count), 1, CLUSTER_RANKS_MAX},
};

static enum status read_host(struct yaml_reader *yaml, void *into) {
    struct reading *reading = into;
    struct cluster *cluster = &reading->cluster;
    struct cluster_hosts host = {.count = 1, .first_host = cluster->hosts};
    yaml_mark_t mark = yaml->event.start_mark;
    TRY(yaml_mapping(yaml, "a host", host_keys, sizeof host_keys / sizeof host_keys[0], &host));
    if (host.name) TRY(check_name(reading, mark, host.name));
    TRY(grow(reading, (void **)&cluster->host, &reading->host_capacity, cluster->host_count,
             sizeof *cluster->host));
    size_t before = cluster->host_count;
    int64_t first = before ? cluster->host[before - 1].ranks.last + 1 : 0;
    host.ranks = (struct cluster_range){first, first + host.ranks_each * host.count - 1};
    host.line = (int)mark.line + 1;
    cluster->host[cluster->host_count++] = host;
    cluster->hosts += host.count;
    if (host.ranks.last < CLUSTER_RANKS_MAX) return STATUS_OK;
    return YAML_REFUSE(yaml, mark, "hosts of %lld ranks so far; %d are allowed",
                       (long long)host.ranks.last + 1, CLUSTER_RANKS_MAX);
}

/* ---- links and slow ranks, as written ---- */

#define LINK_KEYS(type)                                                                            \
    {"latency_us", true, yaml_read_real, offsetof(type, latency_us), 0, 1e9}, {                    \
        "bandwidth_gb_per_s", true, yaml_read_real, offsetof(type, gb_per_s), 1e-6, 1e9            \
    }

static enum status read_link(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    static const struct yaml_key keys[] = {LINK_KEYS(struct raw_link)};
    struct raw_link *link = (struct raw_link *)((char *)into + key->offset);
    link->given = true;
    return yaml_mapping(yaml, key->name, keys, 2, link);
}

static enum status read_operand(struct yaml_reader *yaml, const char *field, struct raw_row *row) {
    const char *text;
    TRY(yaml_scalar(yaml, field, &text));
    if (row->operands == 2)
        return YAML_REFUSE(yaml, yaml->event.start_mark, "%s takes two names or ranges, not three",
                           field);
    row->operand[row->operands++] =
        (struct operand){arena_text(yaml->arena, text), yaml->event.start_mark};
    return STATUS_OK;
}

static enum status read_between_item(struct yaml_reader *yaml, void *into) {
    return read_operand(yaml, "between", into);
}

static enum status read_between(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    struct raw_row *row = into;
    yaml_mark_t mark = yaml->event.start_mark;
    TRY(yaml_list(yaml, key->name, read_between_item, row));
    if (row->operands == 2) return STATUS_OK;
    return YAML_REFUSE(yaml, mark, "between takes two names or ranges of ranks, not %d",
                       row->operands);
}

static enum status read_ranks(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    return read_operand(yaml, key->name, into);
}

#define FACTOR_KEY                                                                                 \
    { "factor", true, yaml_read_real, offsetof(struct raw_row, factor), 1, 1e9 }

static const struct yaml_key pair_keys[] = {{"between", true, read_between, 0, 0, 0},
                                            LINK_KEYS(struct raw_row)};
static const struct yaml_key slow_link_keys[] = {{"between", true, read_between, 0, 0, 0},
                                                 FACTOR_KEY};
static const struct yaml_key slow_rank_keys[] = {{"ranks", true, read_ranks, 0, 0, 0}, FACTOR_KEY};

static enum status read_row(struct yaml_reader *yaml, struct reading *reading, enum list at) {
    static const struct {
        const char *what;
        const struct yaml_key *keys;
        int count;
    } kinds[LISTS] = {
        [PAIRS] = {"a pair", pair_keys, 3},
        [SLOW_LINKS] = {"a slow link", slow_link_keys, 2},
        [SLOW_RANKS] = {"a row of slow ranks", slow_rank_keys, 2},
    };
    struct raw_list *list = &reading->list[at];
    struct raw_row row = {.mark = yaml->event.start_mark};
    TRY(yaml_mapping(yaml, kinds[at].what, kinds[at].keys, kinds[at].count, &row));
    TRY(grow(reading, (void **)&list->row, &list->capacity, list->count, sizeof row));
    list->row[list->count++] = row;
    return STATUS_OK;
}

static enum status read_pair(struct yaml_reader *yaml, void *into) {
    return read_row(yaml, into, PAIRS);
}

static enum status read_slow_link(struct yaml_reader *yaml, void *into) {
    return read_row(yaml, into, SLOW_LINKS);
}

static enum status read_slow_rank(struct yaml_reader *yaml, void *into) {
    return read_row(yaml, into, SLOW_RANKS);
}

/* ---- the document ---- */

static enum status read_classes(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    return yaml_list(yaml, key->name, read_class, into);
}

static enum status read_hosts(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    ((struct reading *)into)->hosts_mark = yaml->event.start_mark;
    return yaml_list(yaml, key->name, read_host, into);
}

static enum status read_pairs(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    return yaml_list(yaml, key->name, read_pair, into);
}

static enum status read_slow_links(struct yaml_reader *yaml, const struct yaml_key *key,
                                   void *into) {
    return yaml_list(yaml, key->name, read_slow_link, into);
}

static enum status read_slow_ranks(struct yaml_reader *yaml, const struct yaml_key *key,
                                   void *into) {
    return yaml_list(yaml, key->name, read_slow_rank, into);
}

static enum status read_links(struct yaml_reader *yaml, const struct yaml_key *key, void *into) {
    static const struct yaml_key keys[] = {
        {"in_host", false, read_link, offsetof(struct reading, in_host), 0, 0},
        {"between_hosts", false, read_link, offsetof(struct reading, between_hosts), 0, 0},
        {"pairs", false, read_pairs, 0, 0, 0},
    };
    return yaml_mapping(yaml, key->name, keys, 3, into);
}

static enum status read_document(struct yaml_reader *yaml, struct reading *reading) {
    static const struct yaml_key keys[] = {
        {"classes", true, read_classes, 0, 0, 0},
        {"hosts", false, read_hosts, 0, 0, 0},
        {"links", false, read_links, 0, 0, 0},
        {"slow_ranks", false, read_slow_ranks, 0, 0, 0},
        {"slow_links", false, read_slow_links, 0, 0, 0},
    };
    TRY(yaml_root(yaml));
    TRY(yaml_mapping(yaml, "a cluster", keys, sizeof keys / sizeof keys[0], reading));
    return yaml_end(yaml);
}

/* ---- what rows mean ---- */

/* Where no host is named, all ranks are on one. */
static enum status settle_hosts(struct reading *reading) {
    struct cluster *cluster = &reading->cluster;
    if (cluster->class_count == 0)
        return fail(STATUS_USAGE, "%s: classes is empty\n  one class of devices at least",
                    reading->yaml->name);
    if (cluster->host_count == 0) {
        cluster->host = MEM_NEW(struct cluster_hosts);
        cluster->host[0] = (struct cluster_hosts){
            .ranks = {0, cluster->ranks - 1}, .ranks_each = cluster->ranks, .count = 1};
        cluster->host_count = 1;
        cluster->hosts = 1;
    }
    int64_t held = cluster->host[cluster->host_count - 1].ranks.last + 1;
    if (held == cluster->ranks) return STATUS_OK;
    return YAML_REFUSE(reading->yaml, reading->hosts_mark,
                       "hosts hold %lld ranks, classes have %lld", (long long)held,
                       (long long)cluster->ranks);
}

static struct cost_link link_of(double latency_us, double gb_per_s) {
    return (struct cost_link){.latency = latency_us * 1e3, .bytes_per_time = gb_per_s};
}

static enum status settle_links(struct reading *reading) {
    struct cluster *cluster = &reading->cluster;
    bool shared = false;
    for (size_t i = 0; i < cluster->host_count; i++) shared |= cluster->host[i].ranks_each > 1;
    if (shared && !reading->in_host.given)
        return fail(STATUS_USAGE, "%s: links.in_host is missing, and a host has several ranks",
                    reading->yaml->name);
    if (cluster->hosts > 1 && !reading->between_hosts.given)
        return fail(STATUS_USAGE, "%s: links.between_hosts is missing, and there are %lld hosts",
                    reading->yaml->name, (long long)cluster->hosts);
    cluster->in_host = link_of(reading->in_host.latency_us, reading->in_host.gb_per_s);
    cluster->between_hosts =
        link_of(reading->between_hosts.latency_us, reading->between_hosts.gb_per_s);
    return STATUS_OK;
}

static enum status refuse_name(const struct reading *reading, const struct operand *operand) {
    const struct cluster *cluster = &reading->cluster;
    const char **names = MEM_ARRAY(const char *, cluster->class_count + cluster->host_count);
    int count = 0;
    for (size_t i = 0; i < cluster->class_count; i++) names[count++] = cluster->class[i].name;
    for (size_t i = 0; i < cluster->host_count; i++)
        if (cluster->host[i].name) names[count++] = cluster->host[i].name;
    const char *near = text_nearest(operand->text, names, count);
    free(names);
    char quoted[TEXT_QUOTED_BYTES];
    return YAML_REFUSE(reading->yaml, operand->mark,
                       "%s: no class or host of that name%s%s%s\n  a rank (3), ranks (0-7), or the "
                       "name of a class or host is expected",
                       text_quoted(operand->text, quoted), near ? "; did you mean " : "",
                       near ? near : "", near ? "?" : "");
}

static bool find_name(const struct cluster *cluster, const char *name, struct cluster_range *out) {
    for (size_t i = 0; i < cluster->class_count; i++) {
        if (strcmp(cluster->class[i].name, name) != 0) continue;
        *out = cluster->class[i].ranks;
        return true;
    }
    for (size_t i = 0; i < cluster->host_count; i++) {
        if (!cluster->host[i].name || strcmp(cluster->host[i].name, name) != 0) continue;
        *out = cluster->host[i].ranks;
        return true;
    }
    return false;
}

static enum status resolve(const struct reading *reading, const struct operand *operand,
                           struct cluster_range *out) {
    const char *at = operand->text;
    struct cluster_range range;
    char quoted[TEXT_QUOTED_BYTES];
    if (find_name(&reading->cluster, operand->text, out)) return STATUS_OK;
    if (!number_digits(&at, &range.first)) return refuse_name(reading, operand);
    range.last = range.first;
    bool good = !*at || (*at++ == '-' && number_digits(&at, &range.last) && !*at);
    if (!good || range.last < range.first || range.last >= reading->cluster.ranks)
        return YAML_REFUSE(
            reading->yaml, operand->mark, "%s: not a rank or a range of ranks; they are 0 to %lld",
            text_quoted(operand->text, quoted), (long long)reading->cluster.ranks - 1);
    *out = range;
    return STATUS_OK;
}

static enum status settle_pairs(struct reading *reading, enum list at, struct cluster_pair **out,
                                size_t *count) {
    const struct raw_list *list = &reading->list[at];
    *out = MEM_ARRAY(struct cluster_pair, list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        const struct raw_row *raw = &list->row[i];
        struct cluster_pair *pair = &(*out)[i];
        for (int side = 0; side < 2; side++)
            TRY(resolve(reading, &raw->operand[side], &pair->between[side]));
        pair->link = link_of(raw->latency_us, raw->gb_per_s);
        pair->factor = raw->factor;
        pair->line = (int)raw->mark.line + 1;
    }
    *count = list->count;
    return STATUS_OK;
}

static int by_first_rank(const void *a, const void *b) {
    const struct cluster_slow *left = a, *right = b;
    if (left->ranks.first != right->ranks.first)
        return left->ranks.first < right->ranks.first ? -1 : 1;
    return (left->line > right->line) - (left->line < right->line);
}

static enum status settle_slow_ranks(struct reading *reading) {
    const struct raw_list *list = &reading->list[SLOW_RANKS];
    struct cluster *cluster = &reading->cluster;
    struct cluster_slow *slow = cluster->slow = MEM_ARRAY(struct cluster_slow, list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        TRY(resolve(reading, &list->row[i].operand[0], &slow[i].ranks));
        slow[i].factor = list->row[i].factor;
        slow[i].line = (int)list->row[i].mark.line + 1;
    }
    qsort(slow, list->count, sizeof *slow, by_first_rank);
    for (size_t i = 1; i < list->count; i++) {
        if (slow[i].ranks.first <= slow[i - 1].ranks.last)
            return fail(STATUS_USAGE, "%s:%d: rank %lld is a slow rank twice, also in line %d",
                        reading->yaml->name, slow[i].line, (long long)slow[i].ranks.first,
                        slow[i - 1].line);
    }
    cluster->slow_count = list->count;
    return STATUS_OK;
}

static enum status settle(struct reading *reading) {
    struct cluster *cluster = &reading->cluster;
    TRY(settle_hosts(reading));
    TRY(settle_links(reading));
    TRY(settle_pairs(reading, PAIRS, &cluster->pair, &cluster->pair_count));
    TRY(settle_pairs(reading, SLOW_LINKS, &cluster->slow_link, &cluster->slow_link_count));
    return settle_slow_ranks(reading);
}

enum status cluster_parse(const char *name, const void *text, size_t bytes, struct cluster *out) {
    struct yaml_reader yaml;
    struct reading reading = {.yaml = &yaml};
    TRY(yaml_open(name, text, bytes, &reading.cluster.arena, &yaml));
    enum status status = read_document(&yaml, &reading);
    if (status == STATUS_OK) status = settle(&reading);
    yaml_close(&yaml);
    for (int list = 0; list < LISTS; list++) free(reading.list[list].row);
    if (status == STATUS_OK)
        *out = reading.cluster;
    else
        cluster_free(&reading.cluster);
    return status;
}

enum status cluster_read(const char *path, struct cluster *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    if (cluster_is_word(path)) return cluster_parse_word(path, out);
    TRY(file_read(path, CLUSTER_BYTES_MAX, &text));
    return cluster_parse(path, text.data, text.count, out);
}
