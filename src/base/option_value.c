/* Reading, writing and describing values, one family of functions per type of option_types.def.
 *
 * Parsers are strict: the whole text must be the value, in plain decimal, inside the limits. They
 * only say yes or no; what would have been right is said in one place, by option_value_allowed. */
#include "base/option_value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"

enum { TEXT_LIMIT = 4096 }; /* as long as the longest path */

/* ---- limits ---- */

struct interval {
    double low, high;
    bool low_open, high_open;
};

/* "[1,64]", "(0,)": no number means no bound. Rows are checked by a test, so a bad one is a bug. */
static struct interval interval_of(const char *limits) {
    struct interval interval = {-INFINITY, INFINITY, false, false};
    if (!*limits) return interval;
    const char *comma = strchr(limits, ',');
    CHECK(comma && strchr("[(", limits[0]), "limits '%s' of an option", limits);
    char *end = NULL;
    if (comma > limits + 1) interval.low = strtod(limits + 1, NULL);
    double high = strtod(comma + 1, &end);
    if (end > comma + 1) interval.high = high;
    interval.low_open = limits[0] == '(';
    interval.high_open = *end == ')';
    return interval;
}

static bool inside(const char *limits, double value) {
    struct interval in = interval_of(limits);
    return (in.low_open ? value > in.low : value >= in.low) &&
           (in.high_open ? value < in.high : value <= in.high);
}

static char *interval_words(const char *limits) {
    struct interval in = interval_of(limits);
    char low[TEXT_BYTES], high[TEXT_BYTES];
    snprintf(low, sizeof low, "%.15g", in.low);
    snprintf(high, sizeof high, "%.15g", in.high);
    if (in.low == in.high) return mem_format(": only %s so far", low);
    if (isinf(in.low) && isinf(in.high)) return mem_text("");
    if (isinf(in.high)) return mem_format("%s %s", in.low_open ? " above" : ", at least", low);
    if (in.low_open || in.high_open)
        return mem_format("%s %s and %s %s", in.low_open ? " above" : ", at least", low,
                          in.high_open ? "below" : "at most", high);
    return mem_format(" from %s to %s", low, high);
}

/* ---- numbers ---- */

static bool int_parse(const struct option_row *row, const char *text, struct arena *arena,
                      int64_t *out) {
    (void)arena;
    int64_t value;
    if (!number_int(text, &value) || !inside(row->limits, (double)value)) return false;
    *out = value;
    return true;
}

static char *int_format(const int64_t *value) {
    return mem_format("%" PRId64, *value);
}

static bool real_parse(const struct option_row *row, const char *text, struct arena *arena,
                       double *out) {
    (void)arena;
    double value;
    if (!number_real(text, &value) || !inside(row->limits, value)) return false;
    *out = value;
    return true;
}

static char *real_format(const double *value) {
    char text[TEXT_BYTES];
    return mem_text(text_real(*value, text));
}

/* ---- text, flags, words ---- */

/* No control characters and valid UTF-8 only, so that messages, YAML and JSON can carry every
 * value. */
static bool text_parse(const struct option_row *row, const char *text, struct arena *arena,
                       const char **out) {
    (void)row;
    size_t length = strnlen(text, TEXT_LIMIT + 1);
    if (length == 0 || length > TEXT_LIMIT || !text_is_clean(text)) return false;
    *out = arena_text(arena, text);
    return true;
}

static char *text_format(const char *const *value) {
    return mem_text(*value ? *value : "");
}

static bool flag_parse(const struct option_row *row, const char *text, struct arena *arena,
                       bool *out) {
    (void)row, (void)arena;
    static const char *const words[] = {"off", "on", "false", "true", "no", "yes"};
    int found = TEXT_FIND(text, words);
    if (found >= 0) *out = found % 2 == 1;
    return found >= 0;
}

static char *flag_format(const bool *value) {
    return mem_text(*value ? "on" : "off");
}

bool option_value_words(const struct option_row *row,
                        bool (*each)(const char *word, size_t length, void *context),
                        void *context) {
    struct option_word one;
    for (int i = 0; row->registry && option_registry_word(row->registry, i, &one); i++) {
        if (each(one.name, strlen(one.name), context)) return true;
    }
    if (row->type != OPTION_TYPE_CHOICE && row->type != OPTION_TYPE_LIST) return false;
    for (const char *word = row->limits; *word;) {
        size_t length = strcspn(word, "|");
        if (each(word, length, context)) return true;
        word += length + (word[length] == '|');
    }
    return false;
}

static bool is_word(const char *word, size_t length, void *context) {
    const char *wanted = context;
    return strlen(wanted) == length && strncmp(wanted, word, length) == 0;
}

static bool choice_parse(const struct option_row *row, const char *text, struct arena *arena,
                         const char **out) {
    if (!option_value_words(row, is_word, (void *)text)) return false;
    *out = arena_text(arena, text);
    return true;
}

static char *choice_format(const char *const *value) {
    return text_format(value);
}

/* A word, and behind a colon the numbers of the devices that ranks take in turn: "cuda:0,1". */
static bool device_parse(const struct option_row *row, const char *text, struct arena *arena,
                         const char **out) {
    enum { MOST_DIGITS = 4 };
    size_t length = strcspn(text, ":");
    char *word = arena_text(arena, text);
    word[length] = '\0';
    if (!option_value_words(row, is_word, word)) return false;
    for (const char *at = text + length; *at;) {
        size_t digits = strspn(at + 1, "0123456789");
        if (digits < 1 || digits > MOST_DIGITS) return false;
        at += 1 + digits;
        if (*at && *at != ',') return false;
    }
    *out = arena_text(arena, text);
    return true;
}

static char *device_format(const char *const *value) {
    return text_format(value);
}

static bool list_holds(char *const *item, int count, const char *word) {
    for (int i = 0; i < count; i++) {
        if (strcmp(item[i], word) == 0) return true;
    }
    return false;
}

static bool is_name(const char *word) {
    return *word && !strpbrk(word, " \"'") && text_is_clean(word);
}

/* Words of the row; or any, where the row leaves them to whoever knows the names. */
static bool list_parse(const struct option_row *row, const char *text, struct arena *arena,
                       struct option_list *out) {
    if (strcmp(text, "none") == 0) {
        *out = (struct option_list){0};
        return true;
    }
    size_t length = strlen(text);
    if (length > TEXT_LIMIT) return false;
    char **item = arena_new(arena, (length + 1) * sizeof *item);
    char *rest = arena_text(arena, text);
    int count = 0;
    for (char *word; (word = strsep(&rest, ","));) {
        bool good =
            row->type == OPTION_TYPE_NAMES ? is_name(word) : option_value_words(row, is_word, word);
        if (!good || list_holds(item, count, word)) return false;
        item[count++] = word;
    }
    *out = (struct option_list){count, (const char *const *)item};
    return true;
}

static char *list_format(const struct option_list *value) {
    char *text = mem_text(value->count ? value->item[0] : "none");
    for (int i = 1; i < value->count; i++) {
        char *longer = mem_format("%s,%s", text, value->item[i]);
        free(text);
        text = longer;
    }
    return text;
}

static bool names_parse(const struct option_row *row, const char *text, struct arena *arena,
                        struct option_list *out) {
    return list_parse(row, text, arena, out);
}

static char *names_format(const struct option_list *value) {
    return list_format(value);
}

/* ---- quantities ---- */

#define UNIT_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* K, M, ... and KiB, MiB, ... are powers of 1024; KB, MB, ... are powers of 1000. */
static const struct number_unit size_units[] = {
    {"TiB", 1099511627776.0},
    {"GiB", 1073741824.0},
    {"MiB", 1048576.0},
    {"KiB", 1024.0},
    {"", 1},
    {"B", 1},
    {"T", 1099511627776.0},
    {"G", 1073741824.0},
    {"M", 1048576.0},
    {"K", 1024.0},
    {"TB", 1e12},
    {"GB", 1e9},
    {"MB", 1e6},
    {"KB", 1e3},
    {"kB", 1e3},
    {"k", 1024.0},
};

static bool size_parse(const struct option_row *row, const char *text, struct arena *arena,
                       int64_t *out) {
    (void)arena;
    int64_t whole;
    double bytes;
    if (number_int(text, &whole)) { /* exact above 2^53, too */
        if (!inside(row->limits, (double)whole)) return false;
        *out = whole;
        return true;
    }
    if (!number_quantity(text, size_units, UNIT_COUNT(size_units), &bytes)) return false;
    if (!inside(row->limits, floor(bytes)) || bytes >= 0x1p63) return false;
    *out = (int64_t)bytes;
    return true;
}

static char *size_format(const int64_t *value) {
    for (int i = 0; i < 4; i++) {
        int64_t factor = (int64_t)size_units[i].factor;
        if (*value != 0 && *value % factor == 0)
            return mem_format("%" PRId64 "%s", *value / factor, size_units[i].name);
    }
    return mem_format("%" PRId64, *value);
}

static bool duration_parse(const struct option_row *row, const char *text, struct arena *arena,
                           double *out) {
    (void)arena;
    double seconds;
    if (!number_duration(text, &seconds) || !inside(row->limits, seconds)) return false;
    *out = seconds;
    return true;
}

static char *duration_format(const double *value) {
    return real_format(value);
}

/* ---- small compounds ---- */

static bool period_parse(const struct option_row *row, const char *text, struct arena *arena,
                         struct option_period *out) {
    (void)row, (void)arena;
    int64_t count = 1;
    bool counted = number_digits(&text, &count);
    struct option_period period = {0};
    if (counted && !*text)
        period.steps = count;
    else if (strcmp(text, "epoch") == 0 || (counted && strcmp(text, "epochs") == 0))
        period.epochs = count;
    else if (counted || strcmp(text, "never") != 0)
        return false;
    if (counted && count == 0) return false; /* every 0 steps means nothing; never has its word */
    *out = period;
    return true;
}

static char *period_format(const struct option_period *value) {
    if (value->steps) return mem_format("%" PRId64, value->steps);
    if (value->epochs == 0) return mem_text("never");
    return value->epochs == 1 ? mem_text("epoch") : mem_format("%" PRId64 "epochs", value->epochs);
}

static bool share_parse(const struct option_row *row, const char *text, struct arena *arena,
                        struct option_share *out) {
    (void)row, (void)arena;
    struct option_share share = {0};
    if (!number_int(text, &share.steps)) {
        if (!number_decimal(&text, &share.fraction) || strcmp(text, "%") != 0) return false;
        share.fraction /= 100;
    }
    if (share.steps < 0 || share.fraction < 0 || share.fraction > 1) return false;
    *out = share;
    return true;
}

/* The percentage that divides by 100 to this very fraction: the nearest double may be a neighbour
 * of 100f. */
static char *share_format(const struct option_share *value) {
    if (value->fraction == 0) return mem_format("%" PRId64, value->steps);
    double percent = value->fraction * 100;
    if (percent / 100 != value->fraction && nextafter(percent, 0) / 100 == value->fraction)
        percent = nextafter(percent, 0);
    else if (percent / 100 != value->fraction)
        percent = nextafter(percent, INFINITY);
    char text[TEXT_BYTES];
    for (int digits = 2; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, percent);
        if (strtod(text, NULL) / 100 == value->fraction) break;
    }
    return mem_format("%s%%", text);
}

static bool two_ints(const char *text, char between, int64_t *first, int64_t *second) {
    if (!number_digits(&text, first) || *text++ != between) return false;
    return number_digits(&text, second) && !*text;
}

static bool deal_parse(const struct option_row *row, const char *text, struct arena *arena,
                       struct option_deal *out) {
    (void)arena;
    struct option_deal deal;
    if (!two_ints(text, 'x', &deal.replicas, &deal.micro_batches)) return false;
    if (!inside(row->limits, (double)deal.replicas) ||
        !inside(row->limits, (double)deal.micro_batches))
        return false;
    *out = deal;
    return true;
}

static char *deal_format(const struct option_deal *value) {
    return mem_format("%" PRId64 "x%" PRId64, value->replicas, value->micro_batches);
}

static bool range_parse(const struct option_row *row, const char *text, struct arena *arena,
                        struct option_range *out) {
    (void)arena;
    struct option_range range;
    if (!two_ints(text, '-', &range.first, &range.last) || range.last < range.first) return false;
    if (!inside(row->limits, (double)range.first)) return false;
    *out = range;
    return true;
}

static char *range_format(const struct option_range *value) {
    return mem_format("%" PRId64 "-%" PRId64, value->first, value->last);
}

/* ---- by type ---- */

/* clang-format off */
#define OPTION_TYPE(NAME, name, c_type) case OPTION_TYPE_##NAME: return name##_parse(row, text, arena, field);
bool option_value_parse(const struct option_row *row, const char *text, struct arena *arena,
                        void *field) {
    switch (row->type) {
#include "base/option_types.def"
    case OPTION_TYPE_COUNT: break;
    }
    CHECK(false, "type %d of option %s", (int)row->type, row->name);
    return false;
}

#define OPTION_TYPE(NAME, name, c_type) case OPTION_TYPE_##NAME: return name##_format(field);
char *option_value_format(const struct option_row *row, const void *field) {
    switch (row->type) {
#include "base/option_types.def"
    case OPTION_TYPE_COUNT: break;
    }
    CHECK(false, "type %d of option %s", (int)row->type, row->name);
    return NULL;
}
/* clang-format on */

static char *with_interval(const char *what, const char *limits) {
    SCOPED_FREE char *words = interval_words(limits);
    return mem_format("%s%s", what, words);
}

static bool append_word(const char *word, size_t length, void *context) {
    char **text = context;
    char *longer =
        mem_format("%s%s%.*s", *text, strchr(*text, ':') ? ", " : ": ", (int)length, word);
    free(*text);
    *text = longer;
    return false;
}

static char *with_words(const struct option_row *row, const char *what) {
    char *text = mem_text(what);
    option_value_words(row, append_word, &text);
    return text;
}

static bool is_second(const char *word, size_t length, void *context) {
    (void)word, (void)length;
    int *count = context;
    return ++*count == 2;
}

static bool has_several(const struct option_row *row) {
    int count = 0;
    return option_value_words(row, is_second, &count);
}

static char *device_allowed(const struct option_row *row) {
    SCOPED_FREE char *words = with_words(row, "one of");
    return mem_format("%s; numbers of devices may follow, as in cuda:0,1", words);
}

char *option_value_allowed(const struct option_row *row) {
    switch (row->type) {
    case OPTION_TYPE_INT: return with_interval("a whole number", row->limits);
    case OPTION_TYPE_REAL: return with_interval("a number", row->limits);
    case OPTION_TYPE_TEXT:
        return mem_text("text in UTF-8 without control characters, 1 to 4096 bytes");
    case OPTION_TYPE_FLAG: return mem_text("on or off");
    case OPTION_TYPE_CHOICE:
        return with_words(row, has_several(row) ? "one of" : "only this so far");
    case OPTION_TYPE_DEVICE: return device_allowed(row);
    case OPTION_TYPE_LIST:
        return with_words(row, "none, or a list (a,b) without repetition, out of");
    case OPTION_TYPE_NAMES:
        return mem_text("none, or a list (a,b) of names without repetition or blanks");
    case OPTION_TYPE_SIZE: return with_interval("a size such as 512M, 1.5GiB or 2GB", row->limits);
    case OPTION_TYPE_DURATION:
        return with_interval("a time such as 90 (seconds), 500ms, 10m or 2h", row->limits);
    case OPTION_TYPE_PERIOD:
        return mem_text("a number of steps, epoch, 2epochs (any number) or never");
    case OPTION_TYPE_SHARE:
        return mem_text("a number of steps, or a share of all steps from 0% to 100%");
    case OPTION_TYPE_DEAL: return with_interval("two numbers RxM such as 2x4, each", row->limits);
    case OPTION_TYPE_RANGE:
        return with_interval("two numbers A-B such as 10-20, A not above B", row->limits);
    case OPTION_TYPE_COUNT: break;
    }
    return mem_text("");
}
