/* See hostfile.h: the files of lines, and what both kinds share. */
#include "launch/hostfile.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

struct lines {
    const char *name;
    struct hostfile hosts;
    size_t capacity;
    int line;
    bool counted; /* slots were given on a line: then no host may come twice */
    bool bare;
};

static enum status refuse(const struct lines *lines, const char *word, size_t length,
                          const char *why) {
    char text[64], quoted[TEXT_QUOTED_BYTES];
    snprintf(text, sizeof text, "%.*s", (int)(length < 60 ? length : 60), word);
    return fail(
        STATUS_USAGE,
        "%s:%d: %s: %s\n  a line is: host slots=4, or a host alone, once for each of its ranks",
        lines->name, lines->line, text_quoted(text, quoted), why);
}

bool hostfile_good_name(const char *name, size_t length) {
    enum { NAME_MAX_LENGTH = 253 };
    if (length == 0 || length > NAME_MAX_LENGTH || name[0] == '-' || name[0] == '.') return false;
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("-._", name[i])) return false;
    }
    return true;
}

static struct hostfile_node *find(struct hostfile *hosts, const char *name, size_t length) {
    for (int i = 0; i < hosts->count; i++) {
        const char *host = hosts->node[i].host;
        if (strlen(host) == length && strncmp(host, name, length) == 0) return &hosts->node[i];
    }
    return NULL;
}

static enum status add(struct lines *lines, const char *word, size_t length, int slots) {
    struct hostfile *hosts = &lines->hosts;
    lines->counted |= slots > 0;
    lines->bare |= slots == 0;
    if (lines->counted && lines->bare)
        return refuse(lines, word, length, "lines with and without slots");
    struct hostfile_node *node = find(hosts, word, length);
    if (node && slots) return refuse(lines, word, length, "a host that was named before");
    if (node && node->slots == HOSTFILE_MAX_SLOTS)
        return refuse(lines, word, length, "more than 65536 ranks");
    if (node) {
        node->slots++;
        return STATUS_OK;
    }
    if (hosts->count == HOSTFILE_MAX_NODES)
        return refuse(lines, word, length, "more than 8192 hosts");
    hosts->node =
        mem_grow(hosts->node, &lines->capacity, (size_t)hosts->count + 1, sizeof *hosts->node);
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    hosts->node[hosts->count++] =
        (struct hostfile_node){.host = arena_text(&hosts->arena, name), .slots = slots ? slots : 1};
    return STATUS_OK;
}

/* Digits alone, from 1. */
static bool read_slots(const char *text, size_t length, int *out) {
    int value = 0;
    if (length == 0 || length > 5) return false;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i])) return false;
        value = value * 10 + (text[i] - '0');
    }
    *out = value;
    return value > 0 && value <= HOSTFILE_MAX_SLOTS;
}

static size_t word_at(const char **at, const char *end) {
    while (*at < end && isspace((unsigned char)**at)) ++*at;
    const char *from = *at;
    while (from < end && !isspace((unsigned char)*from) && *from != '#') from++;
    return (size_t)(from - *at);
}

/* What may follow a host: slots=N, and Open MPI's max_slots=N, which says nothing here. */
static enum status read_rest(struct lines *lines, const char *at, const char *end, int *slots) {
    for (size_t length; (length = word_at(&at, end)) > 0; at += length) {
        const char *equals = memchr(at, '=', length);
        size_t key = equals ? (size_t)(equals - at) : 0;
        int value;
        if (!equals || !read_slots(equals + 1, length - key - 1, &value))
            return refuse(lines, at, length, "slots=N was expected, N from 1 to 65536");
        if (key == 5 && strncmp(at, "slots", 5) == 0 && *slots == 0)
            *slots = value;
        else if (key != 9 || (strncmp(at, "max_slots", 9) != 0 && strncmp(at, "max-slots", 9) != 0))
            return refuse(lines, at, length,
                          *slots ? "slots were given already" : "slots=N was expected");
    }
    return STATUS_OK;
}

static enum status read_line(struct lines *lines, const char *at, const char *end) {
    size_t length = word_at(&at, end);
    if (length == 0) return STATUS_OK;
    const char *word = at, *colon = memchr(at, ':', length);
    int slots = 0;
    size_t name = colon ? (size_t)(colon - at) : length;
    if (!hostfile_good_name(word, name)) return refuse(lines, word, name, "not a host name");
    if (colon && !read_slots(colon + 1, length - name - 1, &slots))
        return refuse(lines, word, length, "after the colon comes a number from 1 to 65536");
    TRY(read_rest(lines, at + length, end, &slots));
    return add(lines, word, name, slots);
}

enum status hostfile_parse(const char *name, const char *text, size_t bytes, struct hostfile *out) {
    struct lines lines = {.name = name};
    enum status status = STATUS_OK;
    const char *end = text + bytes;
    for (const char *at = text; at < end && status == STATUS_OK;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        lines.line++;
        const char *comment = memchr(at, '#', (size_t)(stop - at));
        status = read_line(&lines, at, comment ? comment : stop);
        at = stop + (stop < end);
    }
    if (status == STATUS_OK && lines.hosts.count == 0)
        status = fail(STATUS_USAGE, "%s: names no host", name);
    if (status == STATUS_OK)
        *out = lines.hosts;
    else
        hostfile_free(&lines.hosts);
    return status;
}

enum status hostfile_read(const char *path, bool yaml, struct hostfile *out) {
    SCOPED(bytes_free) struct bytes bytes = {0};
    TRY(file_read(path, HOSTFILE_BYTES, &bytes));
    const char *text = (const char *)bytes.data;
    return yaml ? hostfile_parse_yaml(path, text, bytes.count, out)
                : hostfile_parse(path, text, bytes.count, out);
}

void hostfile_free(struct hostfile *hosts) {
    free(hosts->node);
    arena_free(&hosts->arena);
    *hosts = (struct hostfile){0};
}

int hostfile_ranks_before(const struct hostfile *hosts, int node) {
    int ranks = 0;
    for (int i = 0; i < node; i++) ranks += hosts->node[i].slots;
    return ranks;
}

int hostfile_find(const struct hostfile *hosts, bool (*is_here)(const char *host)) {
    int found = -1;
    for (int i = 0; i < hosts->count; i++) {
        if (!is_here(hosts->node[i].host)) continue;
        if (found >= 0) return -2;
        found = i;
    }
    return found;
}
