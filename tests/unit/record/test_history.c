/* history.jsonl: starts add up, damaged rows are left out, a run begun anew has a new one. */
#include "record/history.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "folder.h"

TestSuite(record_history, .init = make_folder, .fini = remove_folder);

static struct history *start(const char *command, int64_t first_step, double seconds) {
    struct history *history;
    struct history_times times = {seconds, 2 * seconds, 3 * seconds};
    cr_assert_eq(history_open(folder, command, first_step, &history), STATUS_OK);
    if (seconds > 0) cr_assert_eq(history_note(history, &times), STATUS_OK);
    return history;
}

static void expect(struct history *history, double wall_s, const char *commands) {
    struct history_times total = history_total(history);
    char *text = history_commands(history);
    cr_expect(total.wall_s == wall_s && total.user_s == 2 * wall_s && total.sys_s == 3 * wall_s,
              "%g %g %g", total.wall_s, total.user_s, total.sys_s);
    cr_expect_str_eq(text, commands);
    free(text);
    history_free(&history);
    cr_assert_null(history);
}

Test(record_history, starts_add_up) {
    expect(start("train a", 0, 4), 4, "train a");
    expect(start("train b", 7, 0), 4, "train a\ntrain b"); /* killed before it saved */
    expect(start("train c", 7, 0.5), 4.5, "train a\ntrain b\ntrain c");
    expect(start("train d", 0, 1), 1, "train d");
}

Test(record_history, the_last_note_counts) {
    struct history *history = start("train", 0, 4);
    cr_assert_eq(history_note(history, &(struct history_times){5, 10, 15}), STATUS_OK);
    history_free(&history);
    expect(start("again", 3, 1), 6, "train\nagain");
}

Test(record_history, bytes_that_are_no_utf8) {
    expect(start("train --out caf\xe9", 0, 1), 1, "train --out caf?");
    expect(start("train --out caf\xc3\xa9", 1, 1), 2, "train --out caf?\ntrain --out caf\xc3\xa9");
}

Test(record_history, damaged_rows_are_left_out_and_said) {
    char *path = mem_format("%s/history.jsonl", folder), said[512] = "";
    history_free(&(struct history *){start("train a", 0, 4)});
    struct bytes text;
    cr_assert_eq(file_read(path, 1 << 16, &text), STATUS_OK);
    char *more = mem_format("%s{\"command\":7}\n\n{\"wall", (char *)text.data);
    cr_assert_eq(file_write_text(path, more), STATUS_OK);
    log_capture(said, sizeof said);
    expect(start("train b", 2, 1), 5, "train a\ntrain b");
    cr_expect(strstr(said, "2 damaged lines left out"), "%s", said);
    bytes_free(&text);
    free(more);
    free(path);
}

Test(record_history, a_folder_that_is_not_there) {
    struct history *history = NULL;
    char said[512], *path = mem_format("%s/nowhere", folder);
    log_capture(said, sizeof said);
    cr_assert_eq(history_open(path, "train", 0, &history), STATUS_DATA);
    cr_assert_null(history);
    free(path);
}
