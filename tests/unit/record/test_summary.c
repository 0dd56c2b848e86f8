/* summary.json: every key always, null where nothing was measured, and what is written is read. */
#include "folder.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/summary.h"

TestSuite(record_summary, .init = make_folder, .fini = remove_folder);

/* The documented keys, in order; groups with a dot. */
static const char documented[] =
    "version strategy model data device dtype isa threads comm "
    "deterministic sync_bn seed ranks stages replicas "
    "virtual micro_batches batch steps epochs params damaged_samples "
    "skipped_samples samples_per_s "
    "samples_per_s_rank steps_not_timed "
    "step_ms.p50 step_ms.p90 loss_first loss_last eval_loss acc1 acc5 "
    "peak_bytes predicted_peak_bytes device_bytes.load "
    "device_bytes.forward device_bytes.backward device_bytes.update "
    "gpu_busy.mean gpu_busy.above_95 "
    "gpu_busy.memory "
    "sent_bytes_per_step reduced_bytes_per_step syncs_per_s bubble "
    "span_bubble predicted_step_ms.p50 "
    "predicted_step_ms.low predicted_step_ms.high "
    "staleness staleness_rank group_members group_spread law_passes law_late mfu peak_flops "
    "time_ms.data "
    "time_ms.forward time_ms.backward "
    "time_ms.comm_exposed time_ms.comm_hidden time_ms.optimizer "
    "time_ms.idle param_hash buffer_hash "
    "wall_s user_s sys_s exit ";

static char *write_summary(const struct summary *summary) {
    char *path = mem_format("%s/summary.json", folder);
    cr_assert_eq(summary_write(summary, path), STATUS_OK);
    return path;
}

Test(record_summary, nothing_measured_is_null_never_absent) {
    struct summary summary;
    summary_init(&summary);
    char *path = write_summary(&summary), keys[2048] = "";
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, NULL), *value, *inner;
    cr_assert(json_is_object(root));
    const char *key, *inner_key;
    json_object_foreach(root, key, value) {
        size_t used = strlen(keys);
        if (!json_is_object(value)) {
            cr_assert(json_is_null(value), "%s", key);
            snprintf(keys + used, sizeof keys - used, "%s ", key);
        }
        json_object_foreach(value, inner_key, inner) {
            cr_assert(json_is_null(inner), "%s", inner_key);
            used = strlen(keys);
            snprintf(keys + used, sizeof keys - used, "%s.%s ", key, inner_key);
        }
    }
    cr_assert_str_eq(keys, documented);
    json_decref(root);
    free(path);
}

Test(record_summary, what_was_written_is_read) {
    struct summary summary, back;
    summary_init(&summary);
    summary.model = "resnet8 \"x\"";
    summary.seed = -5;
    summary.deterministic = SUMMARY_ON;
    summary.loss_last = 1.0 / 3;
    summary.step_ms.p90 = 2.5;
    summary.time_ms.idle = 0;
    summary.exit = 0;
    summary.param_hash = (struct summary_hash){true, 0x00FFEE0000000001u};
    summary.peak_bytes = summary_ints_new(&summary, 2);
    summary.peak_bytes.item[1] = INT64_C(1) << 60;
    summary.samples_per_s_rank = summary_reals_new(&summary, 2);
    summary.samples_per_s_rank.item[0] = 0.1;
    char *path = write_summary(&summary);
    cr_assert_eq(summary_read(path, &back), STATUS_OK);
    cr_assert_str_eq(back.model, summary.model);
    cr_assert_null(back.data);
    cr_assert_eq(back.seed, -5);
    cr_assert_eq(back.ranks, SUMMARY_NO_INT);
    cr_assert_eq(back.deterministic, SUMMARY_ON);
    cr_assert_eq(back.loss_last, 1.0 / 3);
    cr_assert(isnan(back.loss_first) && isnan(back.step_ms.p50));
    cr_assert_eq(back.step_ms.p90, 2.5);
    cr_assert_eq(back.time_ms.idle, 0);
    cr_assert_eq(back.exit, 0);
    cr_assert(back.param_hash.known && back.param_hash.value == summary.param_hash.value);
    cr_assert_not(back.buffer_hash.known);
    cr_assert_eq(back.peak_bytes.count, 2);
    cr_assert_eq(back.peak_bytes.item[0], SUMMARY_NO_INT);
    cr_assert_eq(back.peak_bytes.item[1], INT64_C(1) << 60);
    cr_assert(back.samples_per_s_rank.item[0] == 0.1 && isnan(back.samples_per_s_rank.item[1]));
    cr_assert_eq(back.predicted_peak_bytes.count, 0);
    summary_free(&back);
    summary_free(&summary);
    cr_assert_null(summary.model);
    free(path);
}

/* Writes an empty summary with one text replaced by another. */
static void write_changed(const char *from, const char *to) {
    struct summary summary;
    summary_init(&summary);
    char *path = write_summary(&summary);
    struct bytes text;
    cr_assert_eq(file_read(path, 1 << 20, &text), STATUS_OK);
    char *place = strstr((char *)text.data, from);
    cr_assert(place, "%s", from);
    char *changed = mem_format("%.*s%s%s", (int)(place - (char *)text.data), text.data, to,
                               place + strlen(from));
    cr_assert_eq(file_write_text(path, changed), STATUS_OK);
    bytes_free(&text);
    free(changed);
    free(path);
}

Test(record_summary, reader_refuses_what_is_not_a_summary) {
    static const char *const cases[][3] = {
        {"\"seed\": null", "\"seed\": 1.5", "\"seed\" is of another kind"},
        {"\"model\": null", "\"model\": 5", "\"model\" is of another kind"},
        {"\"deterministic\": null", "\"deterministic\": 1", "\"deterministic\" is of another kind"},
        {"\"param_hash\": null", "\"param_hash\": \"12\"", "\"param_hash\" is of another kind"},
        {"\"peak_bytes\": null", "\"peak_bytes\": [\"a\"]", "\"peak_bytes\" is of another kind"},
        {"\"samples_per_s_rank\": null", "\"samples_per_s_rank\": 1", "is of another kind"},
        {"\"p90\": null", "\"p91\": null", "\"p90\" is missing"},
        {"\"seed\": null", "\"seed\": null, \"seed\": 1", "uplicate"},
        {"\"seed\": null,", "\"seed\": null", "line 14"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char said[512], *path = mem_format("%s/summary.json", folder);
        struct summary back;
        write_changed(cases[i][0], cases[i][1]);
        log_capture(said, sizeof said);
        cr_expect_eq(summary_read(path, &back), STATUS_DATA, "%s", cases[i][1]);
        cr_expect(strstr(said, cases[i][2]), "%s: %s", cases[i][1], said);
        log_capture(NULL, 0);
        free(path);
    }
}

Test(record_summary, folder_that_is_not_there) {
    struct summary summary;
    char said[512];
    summary_init(&summary);
    log_capture(said, sizeof said);
    cr_assert_eq(summary_write(&summary, "/nonexistent/summary.json"), STATUS_DATA);
    cr_assert(strstr(said, "/nonexistent/summary.json"), "%s", said);
}

Test(record_summary, a_key_that_an_older_version_lacks_is_null) {
    char *path = mem_format("%s/summary.json", folder);
    struct summary back;
    write_changed("\"law_late\": null,", "");
    cr_assert_eq(summary_read(path, &back), STATUS_OK);
    cr_expect_eq(back.law_late, SUMMARY_NO_INT);
    summary_free(&back);
    free(path);
}
