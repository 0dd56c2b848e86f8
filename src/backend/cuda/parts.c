/* What doctor says of GPUs: the libraries, their versions and where they are, and the devices. */
#include <stdio.h>
#include <string.h>

#include "backend/cuda/cuda.h"
#include "base/log.h"

/* Runs quietly: what would stop a run is the row's text. */
static bool library_part(enum cuda_library library, char *text, size_t bytes) {
    char said[512] = "", version[128];
    log_capture(said, sizeof said);
    enum status status = cuda_library_open(library);
    log_capture(NULL, 0);
    if (status == STATUS_OK) {
        cuda_library_version(library, version, sizeof version);
        snprintf(text, bytes, "%s, %s", version, cuda_library_path(library));
    } else {
        const char *why = strstr(said, ": error: ");
        snprintf(text, bytes, "no: %.*s", (int)strcspn(why ? why + 9 : said, "\n"),
                 why ? why + 9 : said);
    }
    return true;
}

static void devices_part(char *text, size_t bytes) {
    char said[512] = "";
    int count = 0;
    log_capture(said, sizeof said);
    enum status status = cuda_count(&count);
    log_capture(NULL, 0);
    snprintf(text, bytes, "none");
    if (status == STATUS_OK) cuda_list(count, text, bytes);
}

/* Which pairs reach one another's memory. */
static void peers_part(char *text, size_t bytes) {
    char said[512] = "";
    int count = 0, pairs = 0, reached = 0;
    log_capture(said, sizeof said);
    enum status status = cuda_count(&count);
    log_capture(NULL, 0);
    size_t used = (size_t)snprintf(text, bytes, "%s", status == STATUS_OK ? "one GPU" : "none");
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            CUdevice one, other;
            int can = 0;
            cuda_call.cuDeviceGet(&one, a);
            cuda_call.cuDeviceGet(&other, b);
            cuda_call.cuDeviceCanAccessPeer(&can, one, other);
            pairs++, reached += can;
            if (pairs == 1) used = 0;
            if (can && used < bytes)
                used +=
                    (size_t)snprintf(text + used, bytes - used, "%s%d-%d", used ? ", " : "", a, b);
        }
    if (pairs > 0 && reached == pairs) snprintf(text, bytes, "all of %d pairs", pairs);
    if (pairs > 0 && reached == 0) snprintf(text, bytes, "none of %d pairs", pairs);
}

bool cuda_backend_part(int index, const char **name, char *text, size_t bytes) {
    static const char *const names[] = {
#define LIBRARY(NAME, name, ...) name,
#include "backend/cuda/libraries.def"
#undef LIBRARY
        "GPUs", "GPU pairs"};
    if (index >= CUDA_LIBRARY_COUNT + 2) return false;
    *name = names[index];
    if (text && index < CUDA_LIBRARY_COUNT) library_part((enum cuda_library)index, text, bytes);
    if (text && index == CUDA_LIBRARY_COUNT) devices_part(text, bytes);
    if (text && index == CUDA_LIBRARY_COUNT + 1) peers_part(text, bytes);
    return true;
}
