/* Secrets: text form, private files, inherited descriptors; what is refused, and that no message
 * ever shows a key. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "control/control.h"

static const char good[] = "00112233445566778899AABBCCDDEEFF0123456789abcdef0123456789abcdef";

Test(control_secret, text) {
    struct control_secret a, b;
    char text[65];
    cr_assert_eq(control_secret_new(&a), STATUS_OK);
    control_secret_text(&a, text);
    cr_assert_eq(strlen(text), 64);
    cr_assert_eq(control_secret_parse("x", text, &b), STATUS_OK);
    cr_assert_arr_eq(a.bytes, b.bytes, 32);
    cr_assert_eq(control_secret_new(&b), STATUS_OK);
    cr_assert_arr_neq(a.bytes, b.bytes, 32);
    cr_assert_eq(control_secret_parse("x", good, &b), STATUS_OK);
    cr_assert_eq(b.bytes[8], 0x88);
    cr_assert_eq(b.bytes[15], 0xff);
    control_secret_wipe(&b);
    for (int i = 0; i < 32; i++) cr_assert_eq(b.bytes[i], 0);
}

Test(control_secret, bad_text) {
    static const char *const bad[] = {
        "",
        "abc",
        "0112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef",
        "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef0",
        "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdeg",
        "00112233445566778899aabbccddeeff0123456789abcdef0123456789abcdef 1",
    };
    char text[1024];
    struct control_secret secret = {{42}};
    for (int i = 0; i < 6; i++) {
        log_capture(text, sizeof text);
        cr_assert_eq(control_secret_parse("STRETTO_KEY", bad[i], &secret), STATUS_USAGE);
        log_capture(NULL, 0);
        cr_assert(strstr(text, "STRETTO_KEY"));
        cr_assert_null(strstr(text, "8899"), "the message shows the key");
    }
    cr_assert_eq(secret.bytes[0], 42, "written on success only");
}

Test(control_secret, file) {
    char folder[] = "/tmp/stretto-test-XXXXXX", path[64], link[64], text[1024];
    struct control_secret secret, again;
    struct stat info;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/job.key", folder);
    snprintf(link, sizeof link, "%s/link.key", folder);
    cr_assert_eq(control_secret_new(&secret), STATUS_OK);
    cr_assert_eq(control_secret_save(path, &secret), STATUS_OK);
    cr_assert_eq(stat(path, &info), 0);
    cr_assert_eq(info.st_mode & 07777, 0600);
    cr_assert_eq(control_secret_file(path, &again), STATUS_OK);
    cr_assert_arr_eq(secret.bytes, again.bytes, 32);
    log_capture(text, sizeof text);
    cr_assert_eq(control_secret_save(path, &secret), STATUS_DATA, "overwrote a key");
    cr_assert_eq(symlink(path, link), 0);
    cr_assert_eq(control_secret_file(link, &again), STATUS_DATA, "followed a link");
    cr_assert_eq(control_secret_file(folder, &again), STATUS_USAGE);
    cr_assert_eq(chmod(path, 0640), 0);
    cr_assert_eq(control_secret_file(path, &again), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_assert(strstr(text, "0640"), "%s", text);
    char pipe_path[64];
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", folder);
    cr_assert_eq(mkfifo(pipe_path, 0600), 0);
    cr_assert_eq(control_secret_file(pipe_path, &again), STATUS_USAGE, "and does not block");
    folder_remove(folder);
}

Test(control_secret, descriptor) {
    struct control_secret secret, first, second;
    int fd, other;
    cr_assert_eq(control_secret_new(&secret), STATUS_OK);
    cr_assert_eq(control_secret_share(&secret, &fd), STATUS_OK);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    cr_assert_lt(write(fd, "x", 1), 0, "not sealed");
    other = dup(fd); /* shares its position, as inherited ones do */
    cr_assert_eq(control_secret_receive(fd, &first), STATUS_OK);
    cr_assert_eq(control_secret_receive(other, &second), STATUS_OK);
    cr_assert_arr_eq(secret.bytes, first.bytes, 32);
    cr_assert_arr_eq(secret.bytes, second.bytes, 32);
    cr_assert_lt(fcntl(fd, F_GETFD), 0, "still open");
    cr_assert_eq(control_secret_receive(fd, &first), STATUS_USAGE);
}
