/* Contract 4: the stall message of a wait that lasts; and messages as bytes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "control/message.h"
#include "kit.h"

static char said[4096];

Test(control_waiting, names_who_and_where) {
    struct kit kit;
    kit_start(&kit, 3, NULL, 20, 30);
    kit_join(&kit, 0, 3);
    control_doing(kit.rank[1].control, 411, "#9 F s0 m1");
    control_doing(kit.rank[2].control, 412, "#17 REDUCE b2");
    kit_await_doing(&kit, 0, "starting");
    kit_await_doing(&kit, 1, "step 411 #9 F s0 m1");
    kit_await_doing(&kit, 2, "step 412 #17 REDUCE b2");
    struct control *waiter = kit.rank[2].control;
    int64_t since = clock_ns() - 10500000000;
    log_capture(said, sizeof said);
    control_waiting(waiter, 1, "#17 REDUCE b2", since, 20);
    cr_assert_str_empty(said, "before the limit");
    control_waiting(waiter, 1, "#17 REDUCE b2", since, 10);
    /* On a busy machine the wait has become longer meanwhile. */
    double waited_s = 0;
    int begin = 0;
    sscanf(said, "stretto: warning: rank 2 waits %lf s %n", &waited_s, &begin);
    cr_assert(waited_s >= 10.5 && waited_s < 1000, "%s", said);
    const char *rest =
        "for rank 1 at step 412 #17 REDUCE b2; rank 1 is at step 411 #9 F s0 m1 for ";
    cr_assert_eq(strncmp(said + begin, rest, strlen(rest)), 0, "%s", said);
    cr_assert(strstr(said, "ago, slow)\n"), "%s", said);
    log_capture(said, sizeof said);
    control_waiting(waiter, 1, "#17 REDUCE b2", since, 10);
    cr_assert_str_empty(said, "the same wait, too early");
    control_waiting(waiter, 1, "#18 SEND", since + 1, 10);
    cr_assert(strstr(said, "#18 SEND"), "another wait: %s", said);
    log_capture(said, sizeof said);
    control_waiting(waiter, -1, "#19 BARRIER", since + 2, 10);
    cr_assert(strstr(said, "rank 0 is at starting"), "the furthest behind: %s", said);
    log_capture(said, sizeof said);
    control_print_all(waiter);
    cr_assert(strstr(said, "rank 0 is at") && strstr(said, "rank 1 is at step 411 #9 F s0 m1") &&
                  strstr(said, "rank 2 is at step 412"),
              "%s", said);
    log_capture(said, sizeof said);
    control_leave(&kit.rank[1].control);
    control_waiting(waiter, 1, "#20 RECV", since + 3, 10);
    cr_assert(strstr(said, "rank 1 has left the job"), "%s", said);
    log_capture(NULL, 0);
    kit_stop(&kit);
}

Test(control_waiting, long_texts_are_cut) {
    struct kit kit;
    char text[300], seen[200];
    memset(text, 'x', sizeof text);
    text[0] = '\n';
    text[299] = 0;
    kit_start(&kit, 1, NULL, 20, 0);
    kit_join(&kit, 0, 1);
    control_doing(kit.rank[0].control, -1, text);
    kit_await_doing(&kit, 0, "?xxx");
    control_server_doing(kit.server, 0, seen, sizeof seen);
    cr_assert_eq(strlen(seen), CONTROL_DOING_BYTES - 1);
    cr_assert_eq(seen[0], '?', "control characters are not shown");
    kit_stop(&kit);
}

/* Any header is either refused or within the bounds of its kind; a whole one comes back. */
Test(control_message, headers) {
    struct control_message message = {.type = CONTROL_PUT, .epoch = 7, .rank = 3, .id = 1ull << 40};
    struct control_message read = {0};
    unsigned char bytes[CONTROL_HEADER_BYTES];
    message.bytes = 1000;
    control_header_write(&message, bytes);
    cr_assert(control_header_read(bytes, &read));
    cr_assert(read.type == CONTROL_PUT && read.epoch == 7 && read.rank == 3 &&
              read.id == 1ull << 40 && read.bytes == 1000);
    for (int bit = 0; bit < 32; bit++) {
        unsigned char damaged[CONTROL_HEADER_BYTES];
        memcpy(damaged, bytes, sizeof damaged);
        damaged[bit / 8] ^= (unsigned char)(1 << (bit % 8));
        cr_assert(!control_header_read(damaged, &read), "magic");
    }
    for (uint64_t i = 0; i < 100000; i++) {
        for (int j = 4; j < CONTROL_HEADER_BYTES; j += 4) {
            uint32_t word = rng_word(1, i * 8 + (uint64_t)j);
            memcpy(bytes + j, &word, 4);
        }
        bytes[6] %= CONTROL_MESSAGE_COUNT + 1;
        bytes[7] = 0;
        memset(bytes + 28, 0, 4);
        if (i % 2) memset(bytes + 26, 0, 2);
        if (control_header_read(bytes, &read))
            cr_assert(read.type < CONTROL_MESSAGE_COUNT && read.bytes <= CONTROL_VALUE_BYTES + 512);
    }
}

/* Bodies of random bytes: nothing is read past the end, and texts end inside. */
Test(control_message, bodies) {
    struct control_message message = {0};
    size_t bytes;
    for (uint64_t i = 0; i < 100000; i++) {
        message.bytes = 0;
        int words = (int)(rng_word(2, i) % 12);
        for (int j = 0; j < words; j++) {
            uint32_t word = rng_word(3, i * 12 + (uint64_t)j);
            control_pack_u32(&message, word % 3 ? word % 9 : word);
        }
        unsigned char *exact = malloc(message.bytes + 1); /* for the address sanitizer */
        if (message.bytes) memcpy(exact, message.body, message.bytes);
        struct control_unpack from = {.at = exact, .left = message.bytes};
        const char *text = control_unpack_text(&from, 64);
        cr_assert_leq(strlen(text), 64);
        control_unpack_bytes(&from, 16, &bytes);
        cr_assert_leq(bytes, 16);
        control_unpack_i64(&from);
        cr_assert(!control_unpack_done(&from) || from.left == 0);
        free(exact);
    }
    control_message_free(&message);
}
