/* See units.h. */
#include "cost/units.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"

#define COST_MAX 1e9  /* units */
#define DELAY_MAX 1e3 /* seconds */

static const struct {
    const char *letter;
    double initial;
    bool delay;
} rows[COST_COUNT] = {
#define COST(NAME, letter, initial, delay, doc) {letter, initial, delay},
#include "cost/units.def"
};

/* Text that is being read. */
struct reading {
    const char *where;
    bool delay;
    bool seen[COST_COUNT];
    struct cost_units costs;
};

static char *letters(bool delay) {
    char *text = mem_text("");
    for (int kind = 0; kind < COST_COUNT; kind++) {
        if (delay && !rows[kind].delay) continue;
        char *longer = mem_format("%s%s%s", text, *text ? ", " : "", rows[kind].letter);
        free(text);
        text = longer;
    }
    return text;
}

static enum status refuse_part(const struct reading *reading, const char *part) {
    char quoted[TEXT_QUOTED_BYTES], *known = letters(reading->delay);
    enum status status =
        fail(STATUS_USAGE, "%s: %s is not LETTER=%s\n  the letters are: %s", reading->where,
             text_quoted(part, quoted), reading->delay ? "TIME" : "NUMBER", known);
    free(known);
    return status;
}

static enum status read_value(struct reading *reading, int kind, const char *text) {
    char quoted[TEXT_QUOTED_BYTES];
    double value;
    bool good = reading->delay ? number_duration(text, &value) : number_real(text, &value);
    if (!good || value < 0 || value > (reading->delay ? DELAY_MAX : COST_MAX))
        return fail(STATUS_USAGE, "%s: %s: %s is not allowed\n  it takes %s", reading->where,
                    rows[kind].letter, text_quoted(text, quoted),
                    reading->delay ? "a time such as 5ms, at most 1000s"
                                   : "a number from 0 to 1e9");
    reading->costs.of[kind] = reading->delay ? value * 1e9 : value;
    return STATUS_OK;
}

static enum status read_part(struct reading *reading, char *part) {
    char *equals = strchr(part, '=');
    int kind = 0;
    if (!equals) return refuse_part(reading, part);
    while (kind < COST_COUNT && (strlen(rows[kind].letter) != (size_t)(equals - part) ||
                                 strncmp(rows[kind].letter, part, (size_t)(equals - part)) != 0))
        kind++;
    if (kind == COST_COUNT || (reading->delay && !rows[kind].delay))
        return refuse_part(reading, part);
    if (reading->seen[kind])
        return fail(STATUS_USAGE, "%s: %s is given twice", reading->where, rows[kind].letter);
    reading->seen[kind] = true;
    return read_value(reading, kind, equals + 1);
}

static enum status finish(struct reading *reading, struct cost_units *out) {
    double *of = reading->costs.of;
    if (!reading->seen[COST_B]) of[COST_B] = of[COST_I] + of[COST_W];
    if (!reading->seen[COST_R]) of[COST_R] = of[COST_F];
    if (of[COST_F] + of[COST_B] + of[COST_I] + of[COST_W] == 0)
        return fail(STATUS_USAGE,
                    "%s: f, b, i and w are all 0: no time is spent\n  one of them above 0",
                    reading->where);
    *out = reading->costs;
    return STATUS_OK;
}

static enum status parse(struct reading *reading, const char *text, struct cost_units *out) {
    char *copy = mem_text(text), *rest = copy;
    enum status status = STATUS_OK;
    for (char *part; status == STATUS_OK && (part = strsep(&rest, ","));)
        status = read_part(reading, part);
    free(copy);
    return status == STATUS_OK ? finish(reading, out) : status;
}

enum status cost_units_parse(const char *where, const char *text, struct cost_units *out) {
    struct reading reading = {.where = where};
    for (int kind = 0; kind < COST_COUNT; kind++) reading.costs.of[kind] = rows[kind].initial;
    return parse(&reading, text, out);
}

enum status cost_units_parse_delay(const char *where, const char *text, struct cost_units *out) {
    struct reading reading = {.where = where, .delay = true};
    return parse(&reading, text, out);
}

char *cost_units_text(const struct cost_units *costs) {
    char *text = mem_text(""), number[TEXT_BYTES];
    for (int kind = 0; kind < COST_COUNT; kind++) {
        char *longer = mem_format("%s%s%s=%s", text, *text ? "," : "", rows[kind].letter,
                                  text_real(costs->of[kind], number));
        free(text);
        text = longer;
    }
    return text;
}
