/* See display.h. Pipes and terminals are opened anew through /proc, which gives a file description
 * of our own that may be non-blocking. Where that is refused (another user's pipe) poll(2) says
 * whether a page is free, and no more than that is written: it blocks only where another writer
 * takes that page first. Regular files do not wait for readers. */
#include "base/display.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum kind { KIND_FILE, KIND_OWN, KIND_SOCKET, KIND_SHARED };

struct queue {
    int fd; /* where to write; not the standard one where it was opened anew */
    enum kind kind;
    char *data;              /* the reserve, or memory taken when that was too small */
    size_t begin, end, room; /* kept: data[begin, end) */
    char reserve[4096];
    bool mid_line; /* the last byte kept is not the end of a line */
    bool skipping; /* until the end of a line that was dropped */
    struct display_loss loss;
};

static struct {
    pthread_mutex_t lock;
    bool open;
    struct queue queue[DISPLAY_STREAMS];
    FILE *out;
} display = {.lock = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP};

static struct queue *queue_of(int fd) {
    bool known = fd == STDOUT_FILENO || fd == STDERR_FILENO;
    return display.open && known ? &display.queue[fd - STDOUT_FILENO] : NULL;
}

/* ---- writing, with the lock held ---- */

static ssize_t write_now(const struct queue *queue) {
    const char *data = queue->data + queue->begin;
    size_t bytes = queue->end - queue->begin;
    if (queue->kind == KIND_SOCKET)
        return send(queue->fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (queue->kind == KIND_SHARED) {
        errno = EAGAIN;
        if (poll(&(struct pollfd){queue->fd, POLLOUT, 0}, 1, 0) <= 0) return -1;
        bytes = bytes < PIPE_BUF ? bytes : PIPE_BUF;
    }
    return write(queue->fd, data, bytes);
}

static void pump(struct queue *queue) {
    while (queue->begin < queue->end) {
        ssize_t done = write_now(queue);
        if (done >= 0) {
            queue->begin += (size_t)done;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            queue->loss.error = errno;
            break;
        }
    }
    queue->begin = queue->end = 0;
}

/* ---- keeping, with the lock held ---- */

/* Where there is no memory for more, what a queue has from the start must do: the message that
 * there is none comes this way too. */
static bool make_room(struct queue *queue, size_t need) {
    if (!queue->data) queue->data = queue->reserve, queue->room = sizeof queue->reserve;
    if (need <= queue->room) return true;
    bool own = queue->data != queue->reserve;
    size_t room = need > 2 * queue->room ? need : 2 * queue->room;
    char *data = realloc(own ? queue->data : NULL, room);
    if (!data) return false;
    if (!own) memcpy(data, queue->reserve, queue->end);
    queue->data = data;
    queue->room = room;
    return true;
}

/* False when there is no memory for it. */
static bool append(struct queue *queue, const char *data, size_t bytes) {
    size_t kept = queue->end - queue->begin;
    if (queue->begin) memmove(queue->data, queue->data + queue->begin, kept);
    queue->begin = 0;
    queue->end = kept;
    if (!make_room(queue, kept + bytes)) return false;
    memcpy(queue->data + queue->end, data, bytes);
    queue->end += bytes;
    queue->mid_line = data[bytes - 1] != '\n';
    return true;
}

/* A piece of a line, with its end or not. What is dropped is dropped to the end of the line. */
static void keep(struct queue *queue, const char *piece, size_t bytes) {
    bool ends = piece[bytes - 1] == '\n';
    bool fits = queue->end - queue->begin + bytes <= DISPLAY_BYTES;
    if (!queue->skipping && fits && append(queue, piece, bytes)) return;
    if (!queue->skipping) queue->loss.lines++;
    if (queue->mid_line) append(queue, "\n", 1);
    queue->skipping = !ends;
}

static void keep_all(struct queue *queue, const char *data, size_t bytes) {
    while (bytes && !queue->loss.error) {
        const char *end = memchr(data, '\n', bytes);
        size_t piece = end ? (size_t)(end - data) + 1 : bytes;
        keep(queue, data, piece);
        data += piece, bytes -= piece;
    }
}

/* ---- opening ---- */

static void open_queue(int fd, struct queue *queue) {
    struct stat info;
    char path[32];
    *queue = (struct queue){.fd = fd, .kind = KIND_FILE};
    if (fstat(fd, &info) != 0 || S_ISREG(info.st_mode)) return;
    queue->kind = S_ISSOCK(info.st_mode) ? KIND_SOCKET : KIND_SHARED;
    if (!S_ISFIFO(info.st_mode) && !isatty(fd)) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (own >= 0) queue->fd = own, queue->kind = KIND_OWN;
}

static ssize_t take_flushed(void *cookie, const char *data, size_t bytes) {
    (void)cookie;
    display_write(STDOUT_FILENO, data, bytes);
    return (ssize_t)bytes;
}

void display_open(void) {
    for (int i = 0; i < DISPLAY_STREAMS; i++) open_queue(STDOUT_FILENO + i, &display.queue[i]);
    display.out = fopencookie(NULL, "w", (cookie_io_functions_t){.write = take_flushed});
    display.open = true;
}

/* ---- for everybody ---- */

static void write_blocking(int fd, const char *data, size_t bytes) {
    while (bytes) {
        ssize_t done = write(fd, data, bytes);
        if (done >= 0)
            data += done, bytes -= (size_t)done;
        else if (errno == EAGAIN)
            poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1);
        else if (errno != EINTR)
            return; /* nowhere left to report it */
    }
}

void display_write(int fd, const char *data, size_t bytes) {
    struct queue *queue = queue_of(fd);
    if (!queue) {
        write_blocking(fd, data, bytes);
        return;
    }
    /* The last message of a thread that ended in the middle of a write, from a signal handler. */
    if (pthread_mutex_lock(&display.lock) == EDEADLK) {
        (void)!write(queue->fd, data, bytes);
        return;
    }
    pump(queue);
    keep_all(queue, data, bytes);
    pump(queue);
    pthread_mutex_unlock(&display.lock);
}

FILE *display_out(void) {
    return display.out ? display.out : stdout;
}

int display_fd(FILE *stream) {
    return stream == display.out ? STDOUT_FILENO : fileno(stream);
}

int display_poll(struct pollfd *entries) {
    int count = 0;
    pthread_mutex_lock(&display.lock);
    for (int i = 0; i < DISPLAY_STREAMS && display.open; i++) {
        const struct queue *queue = &display.queue[i];
        if (queue->begin < queue->end) entries[count++] = (struct pollfd){queue->fd, POLLOUT, 0};
    }
    pthread_mutex_unlock(&display.lock);
    return count;
}

void display_pump(void) {
    pthread_mutex_lock(&display.lock);
    for (int i = 0; i < DISPLAY_STREAMS && display.open; i++) pump(&display.queue[i]);
    pthread_mutex_unlock(&display.lock);
}

void display_drain(double idle_s) {
    struct pollfd entries[DISPLAY_STREAMS];
    int count, ready = 1;
    fflush(display_out());
    display_pump();
    while (ready != 0 && (count = display_poll(entries)) > 0) {
        ready = poll(entries, (nfds_t)count, (int)(idle_s * 1e3)); /* a signal begins it anew */
        display_pump();
    }
}

static long lines_in(const struct queue *queue) {
    long lines = 0;
    for (size_t i = queue->begin; i < queue->end; i++) lines += queue->data[i] == '\n';
    return lines + (queue->begin < queue->end && queue->mid_line);
}

bool display_lost(int fd, struct display_loss *out) {
    const struct queue *queue = queue_of(fd);
    if (!queue) return false;
    pthread_mutex_lock(&display.lock);
    struct display_loss loss = queue->loss;
    loss.lines += lines_in(queue);
    pthread_mutex_unlock(&display.lock);
    if (loss.error == EBADF || (!loss.error && !loss.lines)) return false;
    *out = loss;
    return true;
}
