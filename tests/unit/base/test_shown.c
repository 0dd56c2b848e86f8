/* printf for people: equal to printf where nothing comes from outside, and nothing that moves the
 * cursor, forges a line or turns the writing where it does. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/text.h"

#define SAME(...)                                                                                  \
    do {                                                                                           \
        char ours[700], theirs[700];                                                               \
        int bytes = snprintf(theirs, sizeof theirs, __VA_ARGS__);                                  \
        cr_expect_eq(shown_format(ours, sizeof ours, __VA_ARGS__), (size_t)bytes);                 \
        cr_expect_str_eq(ours, theirs);                                                            \
    } while (0)

Test(base_shown, numbers_and_plain_words_are_those_of_printf) {
    SAME("nothing");
    SAME("%s and %d%%, %i", "words", -7, 8);
    SAME("%u %x %X %08x %#o", 7u, 255u, 255u, 48879u, 8u);
    SAME("%ld %lu %lld %llu", LONG_MIN, ULONG_MAX, LLONG_MIN, ULLONG_MAX);
    SAME("%zu %zd %td %jd", SIZE_MAX, (ssize_t)-1, (ptrdiff_t)-3, INTMAX_MIN);
    SAME("%" PRIu64 " %016" PRIx64 " %" PRId64, UINT64_MAX, UINT64_C(77), INT64_MIN);
    SAME("%5d|%-5d|%+d|% d|%05d|%.3d|%*d", 42, 42, 42, 42, 42, 7, 6, 9);
    SAME("%f %.2f %e %g %.3g %.*f %10.4f %-10.1f|", 1.5, 2.345, 1e300, 1e-5, 12345.0, 2, 0.125,
         3.14159, 2.5);
    SAME("%.9g %f", 1e300, 1e300);
    SAME("%10s|%-10s|%.3s|%.*s|%*s|%-*s|", "right", "left", "cut off", 2, "two", 6, "", 7, "x");
    SAME("%c%c", 'a', 'b');
    SAME("\303\244 \342\202\254 %s", "\303\266 \360\237\230\200");
}

/* What a name may have, and how it is shown. */
static const struct {
    const char *name, *shown;
} rows[] = {
    {"fc.weight", "fc.weight"},
    {"a\033[31mb", "a\\x1b[31mb"},
    {"a\nstretto: error: forged", "a\\x0astretto: error: forged"},
    {"a\r\t\b\a\f\vb", "a\\x0d\\x09\\x08\\x07\\x0c\\x0bb"},
    {"a\177b", "a\\x7fb"},
    {"a\302\233b", "a\\xc2\\x9bb"},                                     /* C1's CSI */
    {"a\233b", "a\\x9bb"},                                              /* the same, of Latin 1 */
    {"a\342\200\256b", "a\\xe2\\x80\\xaeb"},                            /* right to left */
    {"a\342\201\246b\342\201\251", "a\\xe2\\x81\\xa6b\\xe2\\x81\\xa9"}, /* isolated */
    {"a\342\200\250b", "a\\xe2\\x80\\xa8b"},                            /* a line separator */
    {"a\377\300\200\355\240\200", "a\\xff\\xc0\\x80\\xed\\xa0\\x80"},   /* no UTF-8 */
    {"\303\244\342\202\254", "\303\244\342\202\254"},
    {"cut\303", "cut\\xc3"},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

Test(base_shown, names_from_outside_show_their_controls) {
    char text[256], cell[1024] = "";
    for (int i = 0; i < ROWS; i++) {
        size_t bytes = shown_format(text, sizeof text, "%s", rows[i].name);
        cr_expect_str_eq(text, rows[i].shown);
        cr_expect_eq(bytes, strlen(rows[i].shown));
        shown_format(text, sizeof text, "%.*s", (int)strlen(rows[i].name), rows[i].name);
        cr_expect_str_eq(text, rows[i].shown);
        struct text_table table = {.align = "l"};
        text_table_cell(&table, "%s", rows[i].name);
        FILE *out = fmemopen(cell, sizeof cell, "w");
        text_table_print(&table, 0, out);
        fclose(out);
        text_table_free(&table);
        cr_expect_eq(strncmp(cell, rows[i].shown, strlen(rows[i].shown)), 0, "%s", cell);
    }
    shown_format(text, sizeof text, "%c%s", '\033', "");
    cr_expect_str_eq(text, "\\x1b");
    shown_format(text, sizeof text, "%.4s|%.3s|", "ab\342\202\254", "\342\202\254x");
    cr_expect_str_eq(text, "ab|\342\202\254|", "a cut leaves out what it would break");
}

Test(base_shown, messages_show_them_and_keep_their_own_lines) {
    static char text[1024];
    for (int i = 0; i < ROWS; i++) {
        char want[256];
        log_capture(text, sizeof text);
        fail(STATUS_DATA, "%s: no such name\n  it has %s", rows[i].name, "none");
        log_warning("%s", rows[i].name);
        log_note("%s", rows[i].name);
        log_answer("%s", rows[i].name);
        log_capture(NULL, 0);
        snprintf(want, sizeof want,
                 "stretto: error: %s: no such name\n  it has none\n"
                 "stretto: warning: %s\nstretto: %s\nstretto: %s\n",
                 rows[i].shown, rows[i].shown, rows[i].shown, rows[i].shown);
        cr_expect_str_eq(text, want);
    }
}

Test(base_shown, texts_of_our_own_keep_their_lines_and_nothing_else) {
    char text[64], small[8];
    shown_format(text, sizeof text, "a: %-s", "b\n  c\033[K");
    cr_expect_str_eq(text, "a: b\n  c\\x1b[K");
    cr_expect_eq(shown_format(small, sizeof small, "%s", "123456789"), 9);
    cr_expect_str_eq(small, "1234567");
    char *whole = shown_text("%s %d", "a\nb", 5);
    cr_expect_str_eq(whole, "a\\x0ab 5");
    free(whole);
}

Test(base_shown, json_for_a_terminal_is_still_the_same_json) {
    for (int i = 0; i < ROWS; i++) {
        json_t *value = json_pack("[s]", rows[i].name);
        char *text = value ? json_shown(value, 0) : NULL;
        if (!value) continue; /* no UTF-8 */
        for (const char *at = text; *at; at++) {
            uint32_t code = 0;
            if (((unsigned char)*at & 0xC0) != 0x80 && text_utf8(at, &code))
                cr_expect(!shown_is_control(code), "%s", text);
        }
        json_t *again = json_loads(text, 0, NULL);
        cr_expect(json_equal(value, again), "%s", text);
        json_decref(again);
        json_decref(value);
        free(text);
    }
}
