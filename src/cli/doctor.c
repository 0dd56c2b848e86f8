/* stretto doctor: what this machine offers, what Stretto would use of it, and what would stop a
 * run. */
#include "cli/doctor.h"

#include <stdarg.h>
#include <string.h>

#include <jansson.h>

#include "backend/backend.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/text.h"
#include "cli/cli.h"

static const char *const level_names[] = {"ok", "warn", "bad"};

void doctor_say(struct finding *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    shown_vformat(out->value, sizeof out->value, format, args);
    va_end(args);
}

void doctor_judge(struct finding *out, enum doctor_level level, const char *format, ...) {
    va_list args;
    va_start(args, format);
    shown_vformat(out->hint, sizeof out->hint, format, args);
    va_end(args);
    out->level = level;
}

/* Lines are broken for a terminal alone: what reads a pipe finds a row in one line. */
static void print_text(const struct check *checks, const struct finding *findings, int count,
                       FILE *out) {
    enum { UNBROKEN = 1 << 16, HINT = 11 };
    int names = 0, width = text_columns(out, UNBROKEN);
    for (int i = 0; i < count; i++)
        if (text_width(checks[i].name) > names) names = text_width(checks[i].name);
    for (int i = 0; i < count; i++) {
        if (i == 0 || strcmp(checks[i].section, checks[i - 1].section) != 0)
            fprintf(out, "%s%s\n", i ? "\n" : "", checks[i].section);
        int value = fprintf(out, "  %-4s", level_names[findings[i].level]) + names + 2;
        fprintf(out, "%-*s", names + 2, checks[i].name);
        text_wrap(out, findings[i].value, value, width);
        if (!findings[i].hint[0]) continue;
        fputs("        -> ", out);
        text_wrap(out, findings[i].hint, HINT, width);
    }
}

static void print_verdict(const int counts[3], FILE *out) {
    char warnings[TEXT_BYTES];
    fprintf(out, "\n%d ok, %s, %d bad: %s\n", counts[DOCTOR_OK],
            text_count(counts[DOCTOR_WARN], "warning", warnings), counts[DOCTOR_BAD],
            counts[DOCTOR_BAD] ? "a run would stop" : "Stretto can run here");
}

static void print_json(const struct check *checks, const struct finding *findings, int count,
                       enum doctor_level worst, FILE *out) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s, s:s?}", "section", checks[i].section,
                                        "name", checks[i].name, "level",
                                        level_names[findings[i].level], "value", findings[i].value,
                                        "hint", findings[i].hint[0] ? findings[i].hint : NULL));
    json_auto_t *object = json_pack("{s:s, s:o}", "level", level_names[worst], "checks", list);
    CHECK(object, "values that are not UTF-8");
    json_dumpf(object, out, JSON_INDENT(2));
    fputc('\n', out);
}

enum status doctor_report(const struct check *checks, int count, bool json, FILE *out) {
    SCOPED_FREE struct finding *findings = MEM_ARRAY(struct finding, count);
    enum doctor_level worst = DOCTOR_OK;
    int counts[3] = {0};
    for (int i = 0; i < count; i++) {
        checks[i].look(&checks[i], &findings[i]);
        counts[findings[i].level]++;
        if (findings[i].level > worst) worst = findings[i].level;
    }
    if (json)
        print_json(checks, findings, count, worst, out);
    else {
        print_text(checks, findings, count, out);
        print_verdict(counts, out);
    }
    return worst == DOCTOR_BAD ? STATUS_NO : STATUS_OK;
}

/* A row for each device that is registered, after the fixed ones, and what is measured of them. */
static struct check *all_checks(int *count) {
    enum { MOST_PARTS = 32 };
    static struct doctor_part parts[MOST_PARTS];
    const struct backend *const *backends = backend_all();
    int devices = 0, part_count = 0;
    while (backends[devices]) devices++;
    struct check *checks = MEM_ARRAY(struct check, doctor_check_count + devices + MOST_PARTS + 1);
    memcpy(checks, doctor_checks, (size_t)doctor_check_count * sizeof *checks);
    *count = doctor_check_count;
    for (int i = 0; i < devices; i++) {
        const struct backend *backend = backends[i];
        const char *name;
        checks[(*count)++] =
            (struct check){"devices", backend->name, doctor_look_device, backend->name};
        for (int k = 0; backend->part && backend->part(k, &name, NULL, 0); k++) {
            CHECK(part_count < MOST_PARTS, "%d parts of devices", part_count);
            parts[part_count] = (struct doctor_part){backend, k};
            checks[(*count)++] =
                (struct check){"devices", name, doctor_look_part, &parts[part_count++]};
        }
    }
    for (int i = 0; i < devices; i++)
        if (backends[i]->apart)
            checks[(*count)++] =
                (struct check){"devices", "rates of GPUs", doctor_look_rates, backends[i]->name};
    checks[(*count)++] = (struct check){"devices", "bf16 on cpu", doctor_look_bf16, NULL};
    return checks;
}

enum status doctor_run(const struct options *options) {
    int count;
    SCOPED_FREE struct check *checks = all_checks(&count);
    return doctor_report(checks, count, options->json, stdout);
}
