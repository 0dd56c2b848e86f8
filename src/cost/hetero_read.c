/* Reading laws: --hetero base=20ms,slow=4-7:3 and the files of traces. See hetero.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "cost/hetero.h"

#define TIME_MAX 1e3     /* seconds, of base, transient and link */
#define FACTOR_MAX 1e6   /* of slow: with the longest base 10^18 ns, which a clock can count */
#define SPEED_MIN 1e-3   /* of a trace; near 0 a pass would outlast the clock's nanoseconds */
#define SPEED_MAX 1e3    /* likewise */
#define SCALE_MAX 1e9    /* likewise */
#define SECONDS_MAX 1e12 /* likewise */
enum { TRACE_BYTES_MAX = 64 << 20 };

struct reading {
    const char *where;
    struct hetero law;
    size_t slow_capacity, link_capacity, speed_capacity;
    bool transient, traced;
};

static const char bare_law[] = "transient=0.1:"; /* that a number alone stands for */

/* --- what is refused --- */

static const char laws[] =
#define LAW(name, value, doc) ", " #name "=" value
#include "cost/law.def"
    ;

static enum status refuse_law(const struct reading *reading, const char *part) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE, "%s: %s is not a law\n  the laws are: %s", reading->where,
                text_quoted(part, quoted), laws + strlen(", "));
}

static enum status refuse(const struct reading *reading, const char *law, const char *value,
                          const char *takes) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE, "%s: %s: %s is not allowed\n  it takes %s", reading->where, law,
                text_quoted(value, quoted), takes);
}

static enum status refuse_twice(const struct reading *reading, const char *law, const char *value) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE, "%s: %s is given twice, again as %s\n  keep one of the two",
                reading->where, law, text_quoted(value, quoted));
}

/* --- parts of a value --- */

static bool read_time(const char *text, bool zero, double *ns) {
    double seconds;
    if (!text || !number_duration(text, &seconds)) return false;
    if (seconds > TIME_MAX || seconds < 0 || (seconds == 0 && !zero)) return false;
    *ns = seconds * 1e9;
    return true;
}

static bool read_rank(const char *text, int *out) {
    int64_t rank;
    if (!text || !number_int(text, &rank) || rank < 0 || rank >= CLUSTER_RANKS_MAX) return false;
    *out = (int)rank;
    return true;
}

static bool read_range(const char *at, struct cluster_range *out) {
    if (!at || !number_digits(&at, &out->first)) return false;
    out->last = out->first;
    bool good = !*at || (*at++ == '-' && number_digits(&at, &out->last) && !*at);
    return good && out->last >= out->first && out->last < CLUSTER_RANKS_MAX;
}

static bool read_rate(const char *text, double *bytes_per_ns) {
    static const struct number_unit unit[] = {{"kB/s", 1e-6}, {"MB/s", 1e-3}, {"GB/s", 1}};
    return number_quantity(text, unit, sizeof unit / sizeof unit[0], bytes_per_ns) &&
           *bytes_per_ns > 0 && *bytes_per_ns <= FACTOR_MAX;
}

/* --- the laws --- */

static enum status read_base(struct reading *reading, char *value) {
    if (reading->law.base_ns > 0) return refuse_twice(reading, "base", value);
    if (read_time(value, false, &reading->law.base_ns)) return STATUS_OK;
    return refuse(reading, "base", value, "a time above 0 such as 20ms, at most 1000s");
}

static enum status read_slow(struct reading *reading, char *value) {
    struct hetero *law = &reading->law;
    struct cluster_slow slow = {0};
    char *rest = mem_text(value), *copy = rest, *ranks = strsep(&rest, ":");
    bool good = read_range(ranks, &slow.ranks) && rest && number_real(rest, &slow.factor) &&
                slow.factor >= 1 && slow.factor <= FACTOR_MAX;
    free(copy);
    if (!good)
        return refuse(reading, "slow", value,
                      "a rank or a range and a factor from 1 to 1e6, such as 3:2 or 4-7:3");
    law->slow = mem_grow(law->slow, &reading->slow_capacity, law->slow_count + 1, sizeof slow);
    law->slow[law->slow_count++] = slow;
    return STATUS_OK;
}

static enum status read_transient(struct reading *reading, char *value) {
    struct hetero *law = &reading->law;
    char *rest = mem_text(value), *copy = rest, *share = strsep(&rest, ":");
    bool good = number_real(share, &law->probability) && law->probability >= 0 &&
                law->probability <= 1 && read_time(rest, true, &law->transient_ns);
    free(copy);
    if (reading->transient) return refuse_twice(reading, "transient", value);
    reading->transient = true;
    if (good) return STATUS_OK;
    return refuse(reading, "transient", value,
                  "a probability from 0 to 1 and a time up to 1000s, such as 0.1:100ms");
}

static enum status read_link(struct reading *reading, char *value) {
    struct hetero *law = &reading->law;
    struct hetero_link link = {0};
    char *rest = mem_text(value), *copy = rest, *a = strsep(&rest, ":"), *b = strsep(&rest, ":"),
         *time = strsep(&rest, ":");
    bool good = read_rank(a, &link.rank[0]) && read_rank(b, &link.rank[1]) &&
                link.rank[0] != link.rank[1] && read_time(time, true, &link.more.latency) &&
                (!rest || read_rate(rest, &link.more.bytes_per_time));
    free(copy);
    if (!good)
        return refuse(reading, "link", value,
                      "two ranks, a time up to 1000s and perhaps a rate, such as 0:1:10ms or "
                      "0:1:10ms:1GB/s");
    if (hetero_has_link(law, link.rank[0], link.rank[1]))
        return refuse_twice(reading, "a link", value);
    law->link = mem_grow(law->link, &reading->link_capacity, law->link_count + 1, sizeof link);
    law->link[law->link_count++] = link;
    return STATUS_OK;
}

/* --- traces --- */

/* FILE[:SCALE]: what follows the last colon is the scale where it is a number. */
static char *split_scale(char *value, double *scale) {
    char *colon = strrchr(value, ':');
    double number;
    *scale = 1;
    if (colon && number_real(colon + 1, &number)) {
        *scale = number;
        *colon = 0;
    }
    return value;
}

struct line {
    const char *path;
    int number;
    double scale;
};

static enum status refuse_field(const struct line *line, const char *field, const char *value,
                                const char *takes) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_DATA, "%s: line %d: %s is %s\n  it takes %s", line->path, line->number,
                field, text_quoted(value ? value : "", quoted), takes);
}

static enum status read_line(struct reading *reading, const struct line *line, char *text) {
    struct hetero *law = &reading->law;
    struct hetero_speed row = {.line = line->number};
    double at;
    char *seconds = strsep(&text, ","), *rank = strsep(&text, ","), *speed = strsep(&text, ",");
    if (!speed || text)
        return fail(STATUS_DATA, "%s: line %d: it is not seconds,rank,speed\n  such as 3600,0,0.45",
                    line->path, line->number);
    if (!number_real(seconds, &at) || at < 0 || at > SECONDS_MAX)
        return refuse_field(line, "seconds", seconds, "a number from 0 to 1e12");
    if (!read_rank(rank, &row.rank)) return refuse_field(line, "rank", rank, "a rank, from 0");
    if (!number_real(speed, &row.speed) || row.speed < SPEED_MIN || row.speed > SPEED_MAX)
        return refuse_field(line, "speed", speed, "a number from 0.001 to 1000");
    row.from_ns = at * line->scale * 1e9;
    law->speed = mem_grow(law->speed, &reading->speed_capacity, law->speed_count + 1, sizeof row);
    law->speed[law->speed_count++] = row;
    return STATUS_OK;
}

static int by_rank_and_time(const void *a, const void *b) {
    const struct hetero_speed *one = a, *other = b;
    if (one->rank != other->rank) return (one->rank > other->rank) - (one->rank < other->rank);
    if (one->from_ns != other->from_ns)
        return (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
    return (one->line > other->line) - (one->line < other->line);
}

static enum status sort_trace(struct reading *reading, const char *path) {
    struct hetero *law = &reading->law;
    if (law->speed_count == 0) return fail(STATUS_DATA, "%s: it has no line", path);
    qsort(law->speed, law->speed_count, sizeof *law->speed, by_rank_and_time);
    for (size_t i = 1; i < law->speed_count; i++) {
        const struct hetero_speed *row = &law->speed[i];
        if (row->rank == row[-1].rank && row->from_ns == row[-1].from_ns)
            return fail(STATUS_DATA, "%s: line %d: rank %d has a speed at that time, on line %d",
                        path, row->line, row->rank, row[-1].line);
    }
    return STATUS_OK;
}

/* Empty lines and those that begin with # say nothing. */
static enum status read_lines(struct reading *reading, const char *path, double scale, char *text) {
    struct line line = {.path = path, .scale = scale};
    for (char *one; (one = strsep(&text, "\n"));) {
        line.number++;
        size_t length = strlen(one);
        if (length > 0 && one[length - 1] == '\r') one[length - 1] = 0;
        if (*one && *one != '#') TRY(read_line(reading, &line, one));
    }
    return sort_trace(reading, path);
}

static enum status read_trace(struct reading *reading, char *value) {
    double scale;
    struct bytes bytes;
    if (reading->traced) return refuse_twice(reading, "trace", value);
    reading->traced = true;
    SCOPED_FREE char *given = mem_text(value);
    char *path = split_scale(value, &scale);
    if (!*path || scale <= 0 || scale > SCALE_MAX)
        return refuse(reading, "trace", given,
                      "a file and perhaps a scale above 0, up to 1e9, such as t.csv:0.001");
    TRY(file_read(path, TRACE_BYTES_MAX, &bytes));
    bool text = strlen((char *)bytes.data) == bytes.count;
    enum status status = text ? read_lines(reading, path, scale, (char *)bytes.data)
                              : fail(STATUS_DATA, "%s: it is not a text of lines", path);
    bytes_free(&bytes);
    return status;
}

/* --- the whole --- */

static const struct {
    const char *name;
    enum status (*read)(struct reading *reading, char *value);
} rows[] = {
#define LAW(name, value, doc) {#name, read_##name},
#include "cost/law.def"
};

/* Of a part the law's row and its value, or a number alone; -1: neither. */
static enum status read_part(struct reading *reading, char *part) {
    char *equals = strchr(part, '=');
    double seconds;
    if (!equals && number_real(part, &seconds)) {
        if (seconds < 0 || seconds > TIME_MAX)
            return refuse(reading, "a number alone", part,
                          "a time from 0 to 1000, the seconds of transient=0.1:TIME");
        char *whole = mem_format("%s%s", strchr(bare_law, '=') + 1, part);
        enum status status = read_transient(reading, whole);
        free(whole);
        return status;
    }
    for (size_t i = 0; equals && i < sizeof rows / sizeof rows[0]; i++) {
        size_t length = strlen(rows[i].name);
        if ((size_t)(equals - part) == length && strncmp(part, rows[i].name, length) == 0)
            return rows[i].read(reading, equals + 1);
    }
    return refuse_law(reading, part);
}

static int by_first_rank(const void *a, const void *b) {
    int64_t one = ((const struct cluster_slow *)a)->ranks.first,
            other = ((const struct cluster_slow *)b)->ranks.first;
    return (one > other) - (one < other);
}

static enum status sort_slow(struct reading *reading) {
    struct hetero *law = &reading->law;
    if (law->slow_count > 1) qsort(law->slow, law->slow_count, sizeof *law->slow, by_first_rank);
    for (size_t i = 1; i < law->slow_count; i++)
        if (law->slow[i].ranks.first <= law->slow[i - 1].ranks.last)
            return fail(STATUS_USAGE,
                        "%s: slow: rank %lld has two factors, %g and %g\n  name each rank once",
                        reading->where, (long long)law->slow[i].ranks.first,
                        law->slow[i - 1].factor, law->slow[i].factor);
    return STATUS_OK;
}

enum status hetero_read(const char *where, const char *text, struct hetero *out) {
    struct reading reading = {.where = where};
    char *copy = mem_text(text), *rest = copy;
    enum status status = STATUS_OK;
    for (char *part; status == STATUS_OK && (part = strsep(&rest, ","));)
        status = read_part(&reading, part);
    free(copy);
    if (status == STATUS_OK) status = sort_slow(&reading);
    if (status == STATUS_OK)
        *out = reading.law;
    else
        hetero_free(&reading.law);
    return status;
}

/* --- ranks --- */

static enum status refuse_rank(const char *where, const char *law, int64_t rank, int ranks) {
    return fail(STATUS_USAGE, "%s: %s: rank %lld is not one of this run\n  its ranks are 0 to %d",
                where, law, (long long)rank, ranks - 1);
}

enum status hetero_check_ranks(const char *where, const struct hetero *law, const char *text,
                               int ranks) {
    for (size_t i = 0; i < law->slow_count; i++)
        if (law->slow[i].ranks.last >= ranks)
            return refuse_rank(where, "slow", law->slow[i].ranks.last, ranks);
    for (size_t i = 0; i < 2 * law->link_count; i++)
        if (law->link[i / 2].rank[i % 2] >= ranks)
            return refuse_rank(where, "link", law->link[i / 2].rank[i % 2], ranks);
    const struct hetero_speed *last = law->speed_count ? &law->speed[law->speed_count - 1] : NULL;
    if (!last || last->rank < ranks) return STATUS_OK;
    char *path = hetero_trace_path(text);
    enum status status =
        fail(STATUS_DATA, "%s: line %d: rank %d is not one of this run\n  its ranks are 0 to %d",
             path, last->line, last->rank, ranks - 1);
    free(path);
    return status;
}

/* --- paths --- */

char *hetero_trace_path(const char *text) {
    char *copy = mem_text(text), *rest = copy, *path = NULL;
    double scale;
    for (char *part; !path && (part = strsep(&rest, ","));)
        if (strncmp(part, "trace=", 6) == 0) path = mem_text(split_scale(part + 6, &scale));
    free(copy);
    return path;
}

char *hetero_absolute(const char *text) {
    char *path = hetero_trace_path(text);
    if (!path) return mem_text(text);
    const char *at = strstr(text, "trace=") + strlen("trace=");
    char *whole = file_absolute(path),
         *all = mem_format("%.*s%s%s", (int)(at - text), text, whole, at + strlen(path));
    free(path);
    free(whole);
    return all;
}
