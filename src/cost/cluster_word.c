/* --cluster as a word: HxD:CLASS[,IN_HOST][,BETWEEN], for a cluster of equal hosts that nobody has
 * written a file for. The word becomes the text of such a file, which is read like any other:
 * whatever a file may say is checked in one place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cost/cluster.h"

enum { GPU, CPU };

struct known_class {
    const char *name;
    double f32, tf32, bf16, f16, memory_gb_per_s, memory_gib;
    int kind;
    const char *help;
};
static const struct known_class classes[] = {
#define CLASS(...) {__VA_ARGS__},
#include "cost/cluster_class.def"
};

struct known_link {
    const char *name;
    double latency_us, gb_per_s;
    const char *help;
};
static const struct known_link links[] = {
#define LINK(...) {__VA_ARGS__},
#include "cost/cluster_class.def"
};

bool cluster_class_at(int index, const char **name, const char **help) {
    if (index >= (int)(sizeof classes / sizeof *classes)) return false;
    *name = classes[index].name, *help = classes[index].help;
    return true;
}

bool cluster_link_at(int index, const char **name, const char **help) {
    if (index >= (int)(sizeof links / sizeof *links)) return false;
    *name = links[index].name, *help = links[index].help;
    return true;
}

/* "2x8:..." and not the name of a file. */
bool cluster_is_word(const char *text) {
    const char *x = strchr(text, 'x'), *colon = strchr(text, ':');
    if (!x || !colon || x > colon || x == text || x + 1 == colon) return false;
    for (const char *at = text; at < colon; at++)
        if (at != x && (*at < '0' || *at > '9')) return false;
    return true;
}

struct word {
    int64_t hosts, ranks; /* of each host */
    const struct known_class *class;
    const struct known_link *in_host, *between;
};

static enum status refuse_name(const char *text, const char *what, const char *name,
                               const void *table, size_t row_bytes, size_t count) {
    SCOPED_FREE char *all = mem_text("");
    char quoted[TEXT_QUOTED_BYTES];
    for (size_t i = 0; i < count; i++) {
        const char *one = *(const char *const *)((const char *)table + i * row_bytes);
        char *longer = mem_format("%s%s%s", all, i ? ", " : "", one);
        free(all);
        all = longer;
    }
    return fail(STATUS_USAGE, "--cluster %s: %s is no %s\n  %s: %s", text,
                text_quoted(name, quoted), what, what, all);
}

static enum status find_class(const char *text, const char *name, const struct known_class **out) {
    int found = TEXT_FIND(name, classes);
    if (found < 0)
        return refuse_name(text, "class", name, classes, sizeof *classes,
                           sizeof classes / sizeof *classes);
    *out = &classes[found];
    return STATUS_OK;
}

static enum status find_link(const char *text, const char *name, const struct known_link **out) {
    int found = TEXT_FIND(name, links);
    if (found < 0)
        return refuse_name(text, "link", name, links, sizeof *links, sizeof links / sizeof *links);
    *out = &links[found];
    return STATUS_OK;
}

/* A link where there are two ranks that it joins, and nowhere else. */
static enum status take_links(const char *text, char **names, int count, struct word *word) {
    bool inside = word->ranks > 1, between = word->hosts > 1;
    if (count != inside + between)
        return fail(STATUS_USAGE,
                    "--cluster %s: %lld hosts of %lld ranks have %s\n"
                    "  HxD:CLASS,IN_HOST,BETWEEN: IN_HOST where D is above 1, BETWEEN where H is",
                    text, (long long)word->hosts, (long long)word->ranks,
                    inside && between ? "two links: inside a host, and between hosts"
                    : inside          ? "one link: inside a host"
                    : between         ? "one link: between hosts"
                                      : "no link");
    if (inside) TRY(find_link(text, names[0], &word->in_host));
    if (between) TRY(find_link(text, names[inside], &word->between));
    return STATUS_OK;
}

static enum status parse(const char *text, struct word *out) {
    enum { PARTS = 4 };
    SCOPED_FREE char *copy = mem_text(text);
    char *part[PARTS], *rest;
    int count = 0;
    struct word word = {.hosts = strtoll(copy, &rest, 10)};
    word.ranks = strtoll(rest + 1, &rest, 10);
    if (word.hosts < 1 || word.ranks < 1 || word.hosts > CLUSTER_RANKS_MAX ||
        word.ranks > CLUSTER_RANKS_MAX || word.hosts * word.ranks > CLUSTER_RANKS_MAX)
        return fail(STATUS_USAGE, "--cluster %s: hosts times ranks are from 1 to %d", text,
                    CLUSTER_RANKS_MAX);
    for (char *at = rest + 1; at && count < PARTS; count++) {
        part[count] = at;
        at = strchr(at, ',');
        if (at) *at++ = 0;
    }
    TRY(find_class(text, part[0], &word.class));
    TRY(take_links(text, part + 1, count - 1, &word));
    *out = word;
    return STATUS_OK;
}

static void write_rate(FILE *out, const char *dtype, double rate) {
    if (rate > 0) fprintf(out, ", gflops_per_s_%s: %g", dtype, rate);
}

static void write_link(FILE *out, const char *name, const struct known_link *link) {
    if (link)
        fprintf(out, "  %s: {latency_us: %g, bandwidth_gb_per_s: %g}\n", name, link->latency_us,
                link->gb_per_s);
}

/* What operations reach of a data sheet's rate: see docs/cluster.md. */
static void write_file(const struct word *word, FILE *out) {
    const struct known_class *class = word->class;
    double memory =
               class->kind == CPU ? class->memory_gib / (double)word->ranks : class->memory_gib,
           share = class->kind == CPU ? 1.0 / (double)word->ranks : 1;
    fprintf(out, "classes:\n  - {name: %s, ranks: %lld, gflops_per_s: %g", class->name,
            (long long)(word->hosts * word->ranks), class->f32 * share);
    write_rate(out, "tf32", class->tf32);
    write_rate(out, "bf16", class->bf16);
    write_rate(out, "f16", class->f16);
    fprintf(out,
            ", memory_gib: %g, memory_gb_per_s: %g, efficiency: {conv2d: 0.5, linear: 0.7, other: "
            "0.5}}\nhosts:\n",
            memory, class->memory_gb_per_s * share);
    if (word->hosts <= CLUSTER_NAMED_HOSTS)
        for (int64_t h = 0; h < word->hosts; h++)
            fprintf(out, "  - {name: h%lld, ranks: %lld}\n", (long long)h, (long long)word->ranks);
    else
        fprintf(out, "  - {ranks: %lld, count: %lld}\n", (long long)word->ranks,
                (long long)word->hosts);
    if (!word->in_host && !word->between) return;
    fputs("links:\n", out);
    write_link(out, "in_host", word->in_host);
    write_link(out, "between_hosts", word->between);
}

enum status cluster_parse_word(const char *text, struct cluster *out) {
    struct word word = {0};
    SCOPED_FREE char *file = NULL;
    size_t bytes = 0;
    TRY(parse(text, &word));
    FILE *stream = open_memstream(&file, &bytes);
    write_file(&word, stream);
    fclose(stream);
    return cluster_parse(text, file, bytes, out);
}
