/* The batch equation. */
#include <criterion/criterion.h>

#include <string.h>

#include "base/log.h"
#include "base/option.h"

static char message[4096];

static enum status solve(struct option_batch given, struct option_batch *out) {
    const struct option_batch fallback = {.batch = 64, .micro_batches = 1};
    log_capture(message, sizeof message);
    enum status status = options_check_batch(&given, &fallback, out);
    log_capture(NULL, 0);
    return status;
}

/* Columns: batch, replicas, micro-batches, micro-batch size; 0 is not named. */
Test(base_option_batch, any_two_give_the_third) {
    static const struct {
        struct option_batch given, solved;
    } cases[] = {
        {{0, 0, 0, 0}, {64, 1, 1, 64}},   {{0, 2, 0, 0}, {64, 2, 1, 32}},
        {{96, 1, 0, 0}, {96, 1, 1, 96}},  {{0, 1, 4, 0}, {64, 1, 4, 16}},
        {{0, 1, 0, 16}, {64, 1, 4, 16}},  {{96, 2, 3, 0}, {96, 2, 3, 16}},
        {{96, 2, 0, 16}, {96, 2, 3, 16}}, {{0, 2, 3, 16}, {96, 2, 3, 16}},
        {{96, 2, 3, 16}, {96, 2, 3, 16}}, {{0, 1, 3, 5}, {15, 1, 3, 5}},
        {{1, 1, 1, 1}, {1, 1, 1, 1}},     {{0, 1, 1, 16777216}, {16777216, 1, 1, 16777216}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct option_batch out = {0};
        cr_expect_eq(solve(cases[i].given, &out), STATUS_OK, "case %zu: %s", i, message);
        cr_expect_eq(memcmp(&out, &cases[i].solved, sizeof out), 0, "case %zu: %ld %ld %ld %ld", i,
                     (long)out.batch, (long)out.replicas, (long)out.micro_batches,
                     (long)out.micro_batch_size);
    }
}

Test(base_option_batch, refused) {
    static const struct {
        struct option_batch given;
        const char *parts[3];
    } cases[] = {
        {{60, 1, 4, 16},
         {"batch 60", "1 replica x 4 micro-batches x micro-batch size 16 = 64", "leave one"}},
        {{0, 1, 3, 0}, {"batch 64", "micro-batches 3 = 3", "63 and 66"}},
        {{0, 1, 0, 48}, {"batch 64", "micro-batch size 48 = 48", "48 and 96"}},
        {{5, 2, 4, 0}, {"batch 5", "2 replicas x micro-batches 4 = 8", "works: 8"}},
        {{0, 65536, 65536, 16777216}, {"largest batch, 16777216", "65536 replicas", ""}},
        {{0, 1, 2, 16777216}, {"largest batch, 16777216", "", ""}},
        {{64, 65536, 65536, 0}, {"largest batch", "65536 replicas x micro-batches 65536", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct option_batch out = {.batch = -7};
        cr_expect_eq(solve(cases[i].given, &out), STATUS_USAGE, "case %zu", i);
        cr_expect_eq(out.batch, -7, "outputs are written on success only");
        for (int part = 0; part < 3; part++)
            cr_expect(strstr(message, cases[i].parts[part]), "'%s' not in: %s",
                      cases[i].parts[part], message);
    }
}
