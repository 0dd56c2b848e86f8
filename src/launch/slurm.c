/* See slurm.h. By hand, because `scontrol show hostnames` is not on every node and a rank starts no
 * other programs. */
#include "launch/slurm.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum { NUMBER_DIGITS = 9 };

/* Names are built part by part in one buffer; a refusal names the place in the list. */
struct expansion {
    const char *variable, *list;
    struct slurm_hosts *out;
    size_t capacity;
    char name[SLURM_HOST_BYTES];
};

static enum status refuse(const struct expansion *e, const char *at, const char *why) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE,
                "%s %s: %s at character %zu\n  a node list looks like n[01-04,7],login1",
                e->variable, text_quoted(e->list, quoted), why, (size_t)(at - e->list) + 1);
}

static bool is_host_char(char c) {
    return isalnum((unsigned char)c) || c == '.' || c == '_' || c == '-';
}

static enum status add_name(struct expansion *e, size_t length, const char *at) {
    struct slurm_hosts *out = e->out;
    if (length == 0) return refuse(e, at, "an empty name");
    if (e->name[0] == '-') return refuse(e, at, "a name that begins with a dash");
    if (out->count == SLURM_HOSTS_MAX) return refuse(e, at, "more than 65536 names");
    e->name[length] = 0;
    out->name = mem_grow(out->name, &e->capacity, (size_t)out->count + 1, sizeof *out->name);
    out->name[out->count++] = arena_text(&out->arena, e->name);
    return STATUS_OK;
}

/* Digits at *at; their count and value. */
static bool read_number(const char **at, int *digits, long *value) {
    int n = 0;
    while (isdigit((unsigned char)(*at)[n])) n++;
    if (n == 0 || n > NUMBER_DIGITS) return false;
    *digits = n;
    *value = strtol(*at, NULL, 10);
    *at += n;
    return true;
}

static enum status expand(struct expansion *e, const char *at, size_t length);

/* One element of a bracket, "08-10" or "7", each followed by what comes after the bracket. */
static enum status expand_range(struct expansion *e, const char **at, const char *after,
                                size_t length) {
    int digits, last_digits;
    long first, last;
    const char *begin = *at;
    if (!read_number(at, &digits, &first)) return refuse(e, begin, "a number was expected");
    last = first;
    if (**at == '-') {
        ++*at;
        const char *second = *at;
        if (!read_number(at, &last_digits, &last))
            return refuse(e, second, "a number was expected");
    }
    if (last < first) return refuse(e, begin, "a range that runs backwards");
    if (last - first >= SLURM_HOSTS_MAX) return refuse(e, begin, "more than 65536 names");
    for (long i = first; i <= last; i++) {
        size_t room = sizeof e->name - length;
        int n = snprintf(e->name + length, room, "%0*ld", digits, i);
        if ((size_t)n >= room) return refuse(e, begin, "a name of more than 255 characters");
        TRY(expand(e, after, length + (size_t)n));
    }
    return STATUS_OK;
}

static enum status expand_bracket(struct expansion *e, const char *at, size_t length) {
    const char *close = strchr(at, ']');
    if (!close) return refuse(e, at, "a bracket that is not closed");
    for (at++;; at++) {
        TRY(expand_range(e, &at, close + 1, length));
        if (at == close) return STATUS_OK;
        if (*at != ',') return refuse(e, at, "a comma or ] was expected");
    }
}

/* The rest of one name, from `at`; `length` characters of it are in the buffer. */
static enum status expand(struct expansion *e, const char *at, size_t length) {
    for (; *at && *at != ','; at++) {
        if (*at == '[') return expand_bracket(e, at, length);
        if (!is_host_char(*at)) return refuse(e, at, "a character that no host name has");
        if (length + 1 >= sizeof e->name)
            return refuse(e, at, "a name of more than 255 characters");
        e->name[length++] = *at;
    }
    return add_name(e, length, at);
}

/* The comma that ends a name is the first one outside brackets. */
static const char *name_end(const char *at) {
    bool inside = false;
    for (; *at && (inside || *at != ','); at++) inside = *at == '[' || (inside && *at != ']');
    return at;
}

enum status slurm_hosts_parse(const char *variable, const char *list, struct slurm_hosts *out) {
    struct slurm_hosts hosts = {0};
    struct expansion e = {.variable = variable, .list = list, .out = &hosts};
    enum status status = STATUS_OK;
    for (const char *at = list; status == STATUS_OK; at++) {
        status = expand(&e, at, 0);
        at = name_end(at);
        if (!*at) break;
    }
    if (status == STATUS_OK)
        *out = hosts;
    else
        slurm_hosts_free(&hosts);
    return status;
}

void slurm_hosts_free(struct slurm_hosts *hosts) {
    free(hosts->name);
    arena_free(&hosts->arena);
    *hosts = (struct slurm_hosts){0};
}

enum status slurm_tasks_on(const char *variable, const char *text, int node, int *out) {
    char quoted[TEXT_QUOTED_BYTES];
    int digits;
    long tasks, times, seen = 0;
    for (const char *at = text;; at++) {
        if (!read_number(&at, &digits, &tasks)) break;
        times = 1;
        if (at[0] == '(' && at[1] == 'x') {
            at += 2;
            if (!read_number(&at, &digits, &times) || *at++ != ')') break;
        }
        seen += times;
        if (node < seen) {
            *out = (int)tasks;
            return STATUS_OK;
        }
        if (*at != ',') break;
    }
    return fail(STATUS_USAGE, "%s %s does not give the tasks of node %d\n  it looks like 4(x2),1",
                variable, text_quoted(text, quoted), node);
}
