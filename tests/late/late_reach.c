/* Windows of the device `late`: ranks of one process reach one another's memory. */
#include "late_reach.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "late.h"

/* Windows that others reach, of all devices. */
enum { MOST_WINDOWS = 64 };
static struct {
    pthread_mutex_t lock;
    const struct device_window *window[MOST_WINDOWS];
} windows = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool late_is_reached(const void *address) {
    bool found = false;
    pthread_mutex_lock(&windows.lock);
    for (int i = 0; i < MOST_WINDOWS && !found; i++) {
        const struct device_window *window = windows.window[i];
        found = window && (const char *)address >= window->memory &&
                (const char *)address < window->memory + window->bytes;
    }
    pthread_mutex_unlock(&windows.lock);
    return found;
}

static void late_window_free(struct device *device, struct device_window *window) {
    pthread_mutex_lock(&windows.lock);
    for (int i = 0; i < MOST_WINDOWS; i++)
        if (windows.window[i] && windows.window[i]->memory == window->memory)
            windows.window[i] = NULL;
    pthread_mutex_unlock(&windows.lock);
    backend_late.memory_free(device, window->memory, window->bytes);
    backend_late.event_free(device, window->ready);
    backend_late.event_free(device, window->done);
}

static enum status late_window_new(struct device *device, size_t bytes, struct device_window *out,
                                   struct device_card *card) {
    void *memory;
    *out = (struct device_window){.bytes = bytes};
    TRY(backend_late.memory_new(device, bytes, "a window", &memory));
    out->memory = memory;
    TRY(backend_late.event_new(device, false, &out->ready));
    TRY(backend_late.event_new(device, false, &out->done));
    memcpy(card, out, sizeof *out);
    pthread_mutex_lock(&windows.lock);
    int at = 0;
    while (at < MOST_WINDOWS && windows.window[at]) at++;
    CHECK(at < MOST_WINDOWS, "more than %d windows", MOST_WINDOWS);
    windows.window[at] = out;
    pthread_mutex_unlock(&windows.lock);
    return STATUS_OK;
}

static enum status late_window_reach(struct device *device, const struct device_card *card,
                                     struct device_window *out, char *why, size_t bytes) {
    (void)device, (void)why, (void)bytes;
    memcpy(out, card, sizeof *out);
    return STATUS_OK;
}

static void late_window_leave(struct device *device, struct device_window *window) {
    (void)device, (void)window;
}

enum status late_run_tree(struct device *ref, struct tree_terms *terms) {
    enum status status = host_array_tree(ref, terms, NULL);
    free(terms);
    return status;
}

const struct backend_reach late_reach = {
    .window_new = late_window_new,
    .window_free = late_window_free,
    .window_reach = late_window_reach,
    .window_leave = late_window_leave,
    .array_tree = late_array_tree,
};
