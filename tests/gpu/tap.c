/* See tap.h. */
#include "tap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

static int count, failed;

struct tap_options tap_begin(int argc, char **argv) {
    struct tap_options o = {"cuda", (uint64_t)time(NULL), NULL, "f32,tf32,bf16,f16"};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--backend") == 0) o.backend = argv[i + 1];
        if (strcmp(argv[i], "--seed") == 0) o.seed = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--only") == 0) o.only = argv[i + 1];
        if (strcmp(argv[i], "--types") == 0) o.types = argv[i + 1];
    }
    printf("TAP version 13\n# %s, seed %llu\n", o.backend, (unsigned long long)o.seed);
    return o;
}

bool tap_open(const struct tap_options *options, struct device **out) {
    char said[1024] = "", text[256];
    log_capture(said, sizeof said);
    enum status status = device_open(options->backend, 0, 1, out);
    log_capture(NULL, 0);
    if (status != STATUS_OK) {
        said[strcspn(said, "\n")] = '\0';
        printf("1..0 # SKIP %s\n", said);
        return false;
    }
    (*out)->backend->describe(*out, text, sizeof text);
    printf("# %s\n", text);
    return true;
}

bool tap_asks(const struct tap_options *options, const char *type) {
    size_t length = strlen(type);
    for (const char *at = options->types; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && strncmp(at, type, length) == 0) return true;
    return false;
}

void tap(bool ok, const char *format, ...) {
    va_list args;
    printf("%sok %d - ", ok ? "" : "not ", ++count);
    failed += !ok;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

int tap_end(void) {
    printf("1..%d\n# %d of %d failed\n", count, failed, count);
    return failed != 0;
}
