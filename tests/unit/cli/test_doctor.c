/* doctor: what decides its answer, and that its JSON is whole. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/doctor.h"
#include "launch/openmp.h"

static void look(const struct check *check, struct finding *out) {
    out->level = *(const enum doctor_level *)check->data;
    snprintf(out->value, sizeof out->value, "value of %s", check->name);
    if (out->level != DOCTOR_OK) snprintf(out->hint, sizeof out->hint, "hint for %s", check->name);
}

static const enum doctor_level ok = DOCTOR_OK, warn = DOCTOR_WARN, bad = DOCTOR_BAD;
static const struct check checks[] = {
    {"first", "a", look, &ok}, {"first", "b", look, &warn}, {"second", "c", look, &bad}};

static enum status report(const struct check *rows, int count, bool json, char **text) {
    size_t length = 0;
    FILE *out = open_memstream(text, &length);
    enum status status = doctor_report(rows, count, json, out);
    fclose(out);
    return status;
}

Test(cli_doctor, only_bad_findings_say_no) {
    static const struct {
        int count;
        enum status status;
        const char *verdict;
    } cases[] = {
        {1, STATUS_OK, "1 ok, 0 warnings, 0 bad: Stretto can run here"},
        {2, STATUS_OK, "1 ok, 1 warning, 0 bad: Stretto can run here"},
        {3, STATUS_NO, "1 ok, 1 warning, 1 bad: a run would stop"},
    };
    for (int i = 0; i < 3; i++) {
        char *text = NULL;
        cr_expect_eq(report(checks, cases[i].count, false, &text), cases[i].status);
        cr_expect(strstr(text, cases[i].verdict), "%s", text);
        cr_expect_eq(strstr(text, "-> hint for b") != NULL, cases[i].count > 1, "%s", text);
        free(text);
    }
}

/* Two data sets are read by one library. */
Test(cli_doctor, a_library_is_named_once) {
    struct finding found = {0};
    for (int i = 0; i < doctor_check_count; i++)
        if (strcmp(doctor_checks[i].name, "libraries") == 0)
            doctor_checks[i].look(&doctor_checks[i], &found);
    cr_assert(strstr(found.value, "zlib"), "%s", found.value);
    char *first = strstr(found.value, "HDF5");
    if (!first) cr_skip_test("built without HDF5");
    cr_assert_not(strstr(first + 1, "HDF5"), "%s", found.value);
}

Test(cli_doctor, json) {
    char *text = NULL;
    cr_expect_eq(report(checks, 3, true, &text), STATUS_NO);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    cr_assert(object, "%s", text);
    cr_expect_str_eq(json_string_value(json_object_get(object, "level")), "bad");
    json_t *list = json_object_get(object, "checks");
    cr_expect_eq(json_array_size(list), 3u);
    cr_expect_str_eq(json_string_value(json_object_get(json_array_get(list, 1), "hint")),
                     "hint for b");
    cr_expect(json_is_null(json_object_get(json_array_get(list, 0), "hint")));
    json_decref(object);
    free(text);
}

static void finding_of(const char *name, struct finding *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < doctor_check_count; i++) {
        if (strcmp(doctor_checks[i].name, name) == 0) doctor_checks[i].look(&doctor_checks[i], out);
    }
    cr_assert(out->value[0], "no check %s", name);
}

Test(cli_doctor, every_row_finds_something) {
    for (int i = 0; i < doctor_check_count; i++) {
        struct finding finding = {0};
        doctor_checks[i].look(&doctor_checks[i], &finding);
        cr_expect(finding.value[0], "%s", doctor_checks[i].name);
        cr_expect(finding.level == DOCTOR_OK || finding.hint[0], "%s has no hint",
                  doctor_checks[i].name);
    }
}

Test(cli_doctor, environment) {
    struct finding finding;
    setenv("OMP_THREAD_LIMIT", "100000", 1);
    finding_of("OMP_THREAD_LIMIT", &finding);
    cr_expect_eq(finding.level, DOCTOR_OK);
    setenv("OMP_PROC_BIND", "close", 1);
    setenv("GOMP_CPU_AFFINITY", "0-3", 1);
    finding_of("OMP_PROC_BIND", &finding);
    cr_expect_eq(finding.level, DOCTOR_WARN);
    openmp_set_aside();
    cr_expect(!getenv("OMP_PROC_BIND") && !getenv("GOMP_CPU_AFFINITY"));
    finding_of("OMP_PROC_BIND", &finding);
    cr_expect_eq(finding.level, DOCTOR_OK);
    cr_expect_str_eq(finding.value, "OMP_PROC_BIND is 'close', GOMP_CPU_AFFINITY is '0-3'");
    setenv("ONEDNN_VERBOSE", "1", 1);
    finding_of("ONEDNN_VERBOSE", &finding);
    cr_expect_eq(finding.level, DOCTOR_WARN);
    setenv("ONEDNN_VERBOSE", "0", 1);
    finding_of("ONEDNN_VERBOSE", &finding);
    cr_expect_eq(finding.level, DOCTOR_OK);
    setenv("DNNL_MAX_CPU_ISA", "AVX2\n\x1b", 1);
    finding_of("ONEDNN_MAX_CPU_ISA", &finding);
    cr_expect_eq(finding.level, DOCTOR_WARN);
    cr_expect_str_eq(finding.value, "DNNL_MAX_CPU_ISA is 'AVX2\\x0a\\x1b'");
}
