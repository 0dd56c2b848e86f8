/* TAP for the programs of `make test-gpu`, and the options they share. */
#ifndef TESTS_GPU_TAP_H
#define TESTS_GPU_TAP_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"

struct tap_options {
    const char *backend; /* cuda */
    uint64_t seed;       /* by the clock */
    const char *only;    /* NULL: all */
    const char *types;   /* f32,tf32,bf16,f16 */
};

/* Local. Reads the options; says what they are. */
struct tap_options tap_begin(int argc, char **argv);
/* Local. Opens the device; false, with a plan of nothing and the reason, where there is none. */
bool tap_open(const struct tap_options *options, struct device **out);
/* Local. Is this type among those asked for? */
bool tap_asks(const struct tap_options *options, const char *type);
/* Local. One result. */
void tap(bool ok, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Local. The plan; 1 when a test failed. */
int tap_end(void);

#endif
