/* The display with nobody at its other end. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/display.h"
#include "base/mem.h"

enum { LINES = 60000, LINE_BYTES = 64 };

/* Line `number`, padded, so that a torn one shows. */
static void line_of(int number, char line[LINE_BYTES + 1]) {
    snprintf(line, LINE_BYTES + 1, "line %06d %0*d\n", number, LINE_BYTES - 13, number);
}

static void write_lines(void) {
    char line[LINE_BYTES + 1];
    for (int i = 0; i < LINES; i++) {
        line_of(i, line);
        display_write(STDOUT_FILENO, line, 20); /* in two pieces */
        display_write(STDOUT_FILENO, line + 20, LINE_BYTES - 20);
    }
}

/* Reads until nothing is left on either side; each line must be one of ours, whole, and later than
 * the one before. Returns how many came. */
static int read_lines(int fd) {
    char line[LINE_BYTES + 1] = "", wanted[LINE_BYTES + 1];
    int count = 0, used = 0, last = -1;
    while (true) {
        ssize_t got = read(fd, line + used, (size_t)(LINE_BYTES - used));
        if (got < 0 && errno == EAGAIN) display_pump(), got = read(fd, line + used, 1);
        if (got <= 0) break;
        used += (int)got;
        if (used < LINE_BYTES) continue;
        int number = atoi(line + 5);
        line_of(number, wanted);
        cr_assert_str_eq(line, wanted);
        cr_assert_gt(number, last);
        last = number, used = 0, count++;
    }
    cr_assert_eq(used, 0, "a torn line: %s", line);
    return count;
}

static void no_reader(int mine, int theirs) {
    struct display_loss loss;
    signal(SIGPIPE, SIG_IGN);
    fcntl(mine, F_SETFL, O_NONBLOCK);
    int saved = dup(STDOUT_FILENO);
    dup2(theirs, STDOUT_FILENO);
    display_open();
    write_lines(); /* returns, though some three times more than is kept */
    cr_assert(display_lost(STDOUT_FILENO, &loss));
    cr_expect_eq(loss.error, 0);
    int shown = read_lines(mine);
    cr_assert(display_lost(STDOUT_FILENO, &loss));
    cr_expect_eq(shown + loss.lines, LINES);
    cr_expect_geq(shown, DISPLAY_BYTES / LINE_BYTES - 1);
    cr_expect_lt(shown, LINES / 2);
    display_drain(60); /* nothing is left, so it does not wait */
    dup2(saved, STDOUT_FILENO);
}

Test(base_display, a_pipe_that_nobody_reads) {
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    no_reader(ends[0], ends[1]);
    cr_expect_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0, "those who share it see no change");
}

Test(base_display, a_socket_that_nobody_reads) {
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    no_reader(ends[0], ends[1]);
}

Test(base_display, a_reader_that_left) {
    struct display_loss loss;
    int ends[2], saved = dup(STDOUT_FILENO);
    cr_assert_eq(pipe(ends), 0);
    signal(SIGPIPE, SIG_IGN);
    dup2(ends[1], STDOUT_FILENO);
    display_open();
    close(ends[0]);
    write_lines();
    display_drain(60);
    cr_assert(display_lost(STDOUT_FILENO, &loss));
    cr_expect_eq(loss.error, EPIPE);
    dup2(saved, STDOUT_FILENO);
}

Test(base_display, a_stream_of_its_own) {
    char text[64] = "";
    struct display_loss loss;
    int ends[2], saved = dup(STDOUT_FILENO);
    cr_assert_eq(pipe(ends), 0);
    cr_expect_eq(display_out(), stdout);
    cr_expect_eq(display_fd(stderr), STDERR_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    display_open();
    cr_expect_eq(display_fd(display_out()), STDOUT_FILENO);
    fprintf(display_out(), "%d words\n", 2);
    display_drain(60);
    cr_expect_eq(read(ends[0], text, sizeof text - 1), 8);
    cr_expect_str_eq(text, "2 words\n");
    cr_expect(!display_lost(STDOUT_FILENO, &loss));
    dup2(saved, STDOUT_FILENO);
}
