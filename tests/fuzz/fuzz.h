/* What fuzz targets share. A target defines LLVMFuzzerTestOneInput, as libFuzzer wants it, in a
 * file fuzz_NAME.c; its seeds lie in corpus/NAME. Beyond not crashing, a parser that refuses its
 * input must have said why, in one to three lines: fuzz_end checks that. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char fuzz_message[4096];

/* Catches messages from here on. */
static inline void fuzz_begin(void) {
    fuzz_message[0] = 0;
    log_capture(fuzz_message, sizeof fuzz_message);
}

static inline void fuzz_wrong(const char *what) {
    fprintf(stderr, "fuzz: %s; the message was:\n%s\n", what, fuzz_message);
    abort();
}

/* `status` is what the parser returned: success is silent, a refusal says why in at most three
 * lines. */
static inline void fuzz_end(enum status status) {
    log_capture(NULL, 0);
    int lines = 0;
    for (const char *at = fuzz_message; *at; at++) lines += *at == '\n';
    if (status == STATUS_OK && fuzz_message[0]) fuzz_wrong("success with an error message");
    if (status != STATUS_OK && !fuzz_message[0]) fuzz_wrong("refused without a message");
    if (lines > 3) fuzz_wrong("more than three lines");
    if (status == STATUS_BUG) fuzz_wrong("input made a bug");
}

/* Reads every byte of a range the parser handed out, so that a wrong one is noticed. */
static inline void fuzz_touch(const void *data, size_t bytes) {
    const volatile unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++) (void)at[i];
}

#endif
