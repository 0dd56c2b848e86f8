/* See output.h. The launcher reads pipes instead of handing its own descriptors down: lines of
 * ranks then never mix, and logs are whole even when a rank is killed. */
#include "launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/display.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/child.h"

enum { LINE_BYTES = 8192, HELD_MAX = 256, HOLD_MS = 150 };

enum { OUT, ERROR, STREAMS };

struct stream {
    int fd; /* -1: closed */
    int used;
    char line[LINE_BYTES];
};

struct rank_output {
    struct stream stream[STREAMS];
    FILE *log;
};

/* A line of standard error, and who said it. */
struct held {
    char *text;
    int *ranks;
    int count;
    int64_t since_ns;
};

struct output {
    struct output_config config;
    struct rank_output *rank;
    struct held held[HELD_MAX];
    int held_count;
    char *shown[HELD_MAX]; /* the last lines, in a ring; NULL: none yet */
    int next_shown;
    bool concluded;
    bool terminal; /* the display is one */
    bool mid_line; /* the display's cursor is behind an unfinished line: a progress bar */
};

/* ---- writing ---- */

static void clear_bar(struct output *output) {
    if (output->mid_line) display_write(output->config.out, "\r\033[K", 4);
    output->mid_line = false;
}

static void show_tagged(struct output *output, int fd, const char *who, const char *text,
                        int length) {
    char line[LINE_BYTES + 128];
    int used = snprintf(line, sizeof line, "[%s] %.*s\n", who, length, text);
    clear_bar(output);
    display_write(fd, line, (size_t)used < sizeof line ? (size_t)used : sizeof line - 1);
}

const char *output_ranks_text(const int *ranks, int count, char *text, int bytes) {
    int used = 0;
    text[0] = 0;
    for (int i = 0, last; i < count && used < bytes - 24; i = last + 1) {
        for (last = i; last + 1 < count && ranks[last + 1] == ranks[last] + 1;) last++;
        used += snprintf(text + used, (size_t)(bytes - used), last > i ? "%s%d-%d" : "%s%d",
                         i ? "," : "", ranks[i], ranks[last]);
    }
    return text;
}

/* ---- standard error: held, so that equal lines become one ---- */

static int compare_ints(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static void show_held(struct output *output) {
    struct held first = output->held[0];
    char ranks[96], who[128];
    qsort(first.ranks, (size_t)first.count, sizeof *first.ranks, compare_ints);
    snprintf(who, sizeof who, "rank%s %s", first.count > 1 ? "s" : "",
             output_ranks_text(first.ranks, first.count, ranks, sizeof ranks));
    show_tagged(output, output->config.error, who, first.text, (int)strlen(first.text));
    char **shown = &output->shown[output->next_shown++ % HELD_MAX];
    free(*shown);
    *shown = first.text;
    free(first.ranks);
    memmove(output->held, output->held + 1, (size_t)--output->held_count * sizeof *output->held);
}

static bool was_shown(const struct output *output, const char *text, int length) {
    for (int i = 0; i < HELD_MAX && output->shown[i]; i++) {
        const char *shown = output->shown[i];
        if ((int)strlen(shown) == length && memcmp(shown, text, (size_t)length) == 0) return true;
    }
    return false;
}

static bool has_rank(const struct held *held, int rank) {
    for (int i = 0; i < held->count; i++) {
        if (held->ranks[i] == rank) return true;
    }
    return false;
}

static void hold(struct output *output, int rank, const char *text, int length) {
    if (output->concluded && was_shown(output, text, length)) return;
    for (int i = 0; i < output->held_count; i++) {
        struct held *held = &output->held[i];
        if (has_rank(held, rank) || (int)strlen(held->text) != length ||
            memcmp(held->text, text, (size_t)length) != 0)
            continue;
        held->ranks[held->count++] = rank;
        return;
    }
    if (output->held_count == HELD_MAX) show_held(output);
    struct held *held = &output->held[output->held_count++];
    *held = (struct held){mem_format("%.*s", length, text), MEM_ARRAY(int, output->config.count), 1,
                          clock_ns()};
    held->ranks[0] = rank;
}

int output_flush(struct output *output, bool all) {
    int64_t now = clock_ns(), limit = HOLD_MS * INT64_C(1000000);
    while (output->held_count) {
        const struct held *first = &output->held[0];
        bool complete = output->held_count == 1 && first->count == output->config.count;
        int64_t left = first->since_ns + limit - now;
        if (!all && !complete && left > 0) return (int)(left / 1000000) + 1;
        show_held(output);
    }
    return -1;
}

void output_conclude(struct output *output) {
    output_flush(output, true);
    output->concluded = true;
}

/* ---- lines ---- */

static bool is_display(const struct output *output, int index, int which) {
    return which == OUT && output->config.first_rank + index == 0;
}

/* What is left standing of a line that a progress bar drew over: the text behind the last \r that
 * has any, without the order to erase. */
static const char *standing(const char *text, int *length) {
    const char *end = text + *length;
    while (end > text && end[-1] == '\r') end--;
    const char *last = memrchr(text, '\r', (size_t)(end - text)), *from = last ? last + 1 : text;
    if (end - from >= 3 && memcmp(from, "\033[K", 3) == 0) from += 3;
    *length = (int)(end - from);
    return from;
}

/* A whole line, without its end. */
static void handle_line(struct output *output, int index, int which) {
    struct rank_output *rank = &output->rank[index];
    struct stream *stream = &rank->stream[which];
    int used = stream->used, length = used, number = output->config.first_rank + index;
    const char *text = standing(stream->line, &length);
    char who[32];
    snprintf(who, sizeof who, "rank %d", number);
    stream->used = 0;
    if (rank->log && (length || !used)) fprintf(rank->log, "%.*s\n", length, text);
    if (which == ERROR)
        hold(output, number, text, length);
    else if (!is_display(output, index, which))
        show_tagged(output, output->config.out, who, text, length);
    else if (!output->terminal) {
        stream->line[used] = '\n';
        display_write(output->config.out, stream->line, (size_t)used + 1);
    }
}

static void take(struct output *output, int index, int which, const char *data, int bytes) {
    struct stream *stream = &output->rank[index].stream[which];
    for (int i = 0; i < bytes; i++) {
        if (data[i] != '\n' && stream->used < LINE_BYTES - 1) {
            stream->line[stream->used++] = data[i];
            continue;
        }
        handle_line(output, index, which);
        if (data[i] != '\n') stream->line[stream->used++] = data[i];
    }
    if (bytes && output->terminal && is_display(output, index, which)) {
        display_write(output->config.out, data, (size_t)bytes);
        output->mid_line = data[bytes - 1] != '\n';
    }
}

static void close_stream(struct output *output, int index, int which) {
    struct stream *stream = &output->rank[index].stream[which];
    if (stream->used) handle_line(output, index, which);
    close(stream->fd);
    stream->fd = -1;
}

/* Reads once; false when there was nothing. */
static bool read_stream(struct output *output, int index, int which) {
    char data[LINE_BYTES];
    struct stream *stream = &output->rank[index].stream[which];
    if (stream->fd < 0) return false;
    ssize_t got = read(stream->fd, data, sizeof data);
    if (got > 0)
        take(output, index, which, data, (int)got);
    else if (got == 0 || (errno != EAGAIN && errno != EINTR)) /* a pseudo-terminal ends with EIO */
        close_stream(output, index, which);
    return got > 0;
}

static void sync_log(struct output *output, int index) {
    if (output->rank[index].log) fflush(output->rank[index].log);
}

int output_poll(const struct output *output, struct pollfd *entries) {
    for (int i = 0; i < output->config.count * STREAMS; i++)
        entries[i] = (struct pollfd){output->rank[i / STREAMS].stream[i % STREAMS].fd, POLLIN, 0};
    return output->config.count * STREAMS;
}

void output_handle(struct output *output, const struct pollfd *entries, int count) {
    for (int i = 0; i < count; i++) {
        if (!entries[i].revents) continue;
        read_stream(output, i / STREAMS, i % STREAMS);
        sync_log(output, i / STREAMS);
    }
}

void output_drain(struct output *output, int index) {
    enum { READS = 4096 }; /* a grandchild may hold the pipe and write for ever */
    for (int which = 0; which < STREAMS; which++) {
        for (int i = 0; i < READS && read_stream(output, index, which);) i++;
    }
    sync_log(output, index);
}

/* ---- opening ---- */

static enum status open_log(struct output *output, int index) {
    if (!output->config.folder) return STATUS_OK;
    SCOPED_FREE char *path =
        mem_format("%s/rank-%d.log", output->config.folder, output->config.first_rank + index);
    FILE *log = fopen(path, output->config.append ? "ae" : "we");
    int error = errno;
    enum status status = STATUS_OK;
    if (!log && error == EMFILE)
        status = child_fail_limit(path, error);
    else if (!log)
        status = fail(STATUS_DATA, "%s: cannot be written: %s", path, strerror(error));
    output->rank[index].log = log;
    return status;
}

enum status output_new(const struct output_config *config, struct output **out) {
    SCOPED(output_free) struct output *output = MEM_NEW(struct output);
    output->config = *config;
    output->terminal = config->first_rank == 0 && isatty(config->out);
    output->rank = MEM_ARRAY(struct rank_output, config->count);
    for (int i = 0; i < config->count; i++)
        output->rank[i].stream[OUT].fd = output->rank[i].stream[ERROR].fd = -1;
    for (int i = 0; i < config->count; i++) TRY(open_log(output, i));
    *out = output;
    output = NULL;
    return STATUS_OK;
}

void output_free(struct output **output) {
    if (!*output) return;
    for (int i = 0; i < (*output)->config.count; i++) {
        for (int which = 0; which < STREAMS; which++) {
            if ((*output)->rank[i].stream[which].fd >= 0) close_stream(*output, i, which);
        }
        if ((*output)->rank[i].log) fclose((*output)->rank[i].log);
    }
    output_flush(*output, true);
    for (int i = 0; i < HELD_MAX; i++) free((*output)->shown[i]);
    free((*output)->rank);
    free(*output);
    *output = NULL;
}

/* False where there is none to be had; a pipe then serves, without the bar. */
static bool open_terminal(struct output *output, int *mine, int *theirs) {
    char name[128];
    struct termios raw;
    struct winsize size;
    *mine = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (*mine < 0) return false;
    bool good =
        grantpt(*mine) == 0 && unlockpt(*mine) == 0 && ptsname_r(*mine, name, sizeof name) == 0;
    *theirs = good ? open(name, O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (*theirs < 0) {
        close(*mine);
        *mine = -1;
        return false;
    }
    if (tcgetattr(*theirs, &raw) == 0) {
        cfmakeraw(&raw);
        tcsetattr(*theirs, TCSANOW, &raw);
    }
    if (ioctl(output->config.out, TIOCGWINSZ, &size) == 0) ioctl(*mine, TIOCSWINSZ, &size);
    return true;
}

static enum status open_pipe(int *mine, int *theirs) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return child_fail_limit("a pipe from a rank", errno);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *mine = ends[0], *theirs = ends[1];
    return STATUS_OK;
}

/* Where standard output is closed, a write to it is to fail as it does without a launcher. */
static enum status open_answer(const struct output *output, int *mine, int *theirs) {
    *theirs = fcntl(output->config.out, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (*theirs < 0 && errno == EBADF) return open_pipe(mine, theirs);
    return *theirs < 0 ? child_fail_limit("standard output of rank 0", errno) : STATUS_OK;
}

static enum status open_out(struct output *output, int index, int *mine, int *theirs) {
    bool display = is_display(output, index, OUT);
    if (display && output->config.answers) return open_answer(output, mine, theirs);
    if (display && output->terminal) output->terminal = open_terminal(output, mine, theirs);
    return *mine < 0 ? open_pipe(mine, theirs) : STATUS_OK;
}

enum status output_open(struct output *output, int index, struct output_pipes *out) {
    struct stream *stream = output->rank[index].stream;
    struct output_pipes pipes;
    TRY(open_out(output, index, &stream[OUT].fd, &pipes.out));
    enum status status = open_pipe(&stream[ERROR].fd, &pipes.error);
    if (status == STATUS_OK)
        *out = pipes;
    else
        close(pipes.out);
    return status;
}

void output_started(struct output *output, int index, int pid) {
    FILE *log = output->rank[index].log;
    if (log)
        fprintf(log, "rank %d pid %d host %s\n", output->config.first_rank + index, pid,
                output->config.host);
    sync_log(output, index);
}

void output_resize(struct output *output) {
    struct winsize size;
    int display = output->rank[0].stream[OUT].fd;
    if (output->terminal && display >= 0 && ioctl(output->config.out, TIOCGWINSZ, &size) == 0)
        ioctl(display, TIOCSWINSZ, &size);
}
