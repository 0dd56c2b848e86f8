/* See freezing.h. */
#include "plan/freezing.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

/* --- shares --- */

enum { MOST_PART = 1000000000 };

/* Digits at `*at`, which moves behind them; false: none, or too many. */
static bool read_digits(const char **at, int64_t *value, int64_t *scale) {
    const char *begin = *at;
    for (*value = 0, *scale = 1; **at >= '0' && **at <= '9' && *scale < MOST_PART; ++*at) {
        *value = *value * 10 + (**at - '0');
        *scale *= 10;
    }
    return *at > begin && (**at < '0' || **at > '9');
}

static bool read_share(const char *text, struct freezing_share *out) {
    int64_t scale, fraction;
    bool whole = *text != '.' && read_digits(&text, &out->part, &scale);
    if (!whole) out->part = 0;
    out->of = 1;
    if (whole && *text == '/') {
        text++;
        return read_digits(&text, &out->of, &scale) && !*text;
    }
    if (*text++ != '.' || !read_digits(&text, &fraction, &scale) || *text) return false;
    out->of = scale;
    out->part = out->part * scale + fraction;
    return true;
}

enum status freezing_share_read(const char *text, struct freezing_share *out) {
    struct freezing_share share;
    char quoted[TEXT_QUOTED_BYTES];
    if (read_share(text, &share) && share.part > 0 && share.part < share.of) {
        *out = share;
        return STATUS_OK;
    }
    return fail(STATUS_USAGE, "alpha %s: expected a share above 0 and below 1, as 1/3 or 0.25",
                text_quoted(text, quoted));
}

/* --- alpha --- */

/* A whole number of any length: limbs of 32 bits, the lowest first. */
struct whole {
    uint32_t *limb;
    int count;
    size_t capacity;
};

static struct whole whole_of(uint32_t value) {
    struct whole whole = {0};
    whole.limb = mem_grow(whole.limb, &whole.capacity, 1, sizeof *whole.limb);
    whole.limb[0] = value;
    whole.count = 1;
    return whole;
}

static void multiply(struct whole *whole, uint32_t by) {
    uint64_t carry = 0;
    for (int i = 0; i < whole->count; i++) {
        carry += (uint64_t)whole->limb[i] * by;
        whole->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry == 0) return;
    whole->limb =
        mem_grow(whole->limb, &whole->capacity, (size_t)whole->count + 1, sizeof *whole->limb);
    whole->limb[whole->count++] = (uint32_t)carry;
}

/* Is a times `by` more than b? From the lowest limb up, the last that differs decides. */
static bool is_more(const struct whole *a, uint32_t by, const struct whole *b) {
    uint64_t carry = 0;
    bool more = false;
    for (int i = 0; i < a->count || i < b->count || carry; i++) {
        if (i < a->count) carry += (uint64_t)a->limb[i] * by;
        uint32_t own = (uint32_t)carry, other = i < b->count ? b->limb[i] : 0;
        if (own != other) more = own > other;
        carry >>= 32;
    }
    return more;
}

/* What is trained: the largest whole number not above L (q - p)^t / q^t, which never grows. */
void freezing_by_alpha(int blocks, struct freezing_share alpha, int periods, int *out) {
    struct whole left = whole_of((uint32_t)blocks), all = whole_of(1);
    int trained = blocks;
    for (int t = 0; t < periods; t++) {
        while (trained > 0 && is_more(&all, (uint32_t)trained, &left)) trained--;
        out[t] = blocks - trained;
        if (trained == 0) continue;
        multiply(&left, (uint32_t)(alpha.of - alpha.part));
        multiply(&all, (uint32_t)alpha.of);
    }
    free(left.limb);
    free(all.limb);
}

/* --- rules --- */

static bool read_number(const char **at, int *out) {
    char *end;
    long value = strtol(*at, &end, 10);
    if (**at < '0' || **at > '9' || value > FREEZING_BLOCKS) return false;
    *at = end;
    *out = (int)value;
    return true;
}

static enum status read_list(const char *text, struct freezing_rule *rule) {
    char quoted[TEXT_QUOTED_BYTES];
    const char *at = text;
    int *list = rule->list;
    do {
        if (rule->count == FREEZING_LIST)
            return fail(STATUS_USAGE, "--freeze has more than %d numbers\n  --freeze alpha=SHARE",
                        FREEZING_LIST);
        if (!read_number(&at, &list[rule->count]) || (*at && *at != ','))
            return fail(STATUS_USAGE,
                        "--freeze %s: expected numbers of blocks up to %d, as 9 or 0,4,7; or "
                        "alpha=SHARE, norm, or alpha=SHARE,norm",
                        text_quoted(text, quoted), FREEZING_BLOCKS);
        int at_now = rule->count++;
        if (at_now > 0 && list[at_now] < list[at_now - 1])
            return fail(STATUS_USAGE, "--freeze %s: %d comes after %d, but what is frozen stays so",
                        text_quoted(text, quoted), list[at_now], list[at_now - 1]);
    } while (*at++ == ',');
    if (list[rule->count - 1] > 0) return STATUS_OK;
    return fail(STATUS_USAGE, "--freeze %s freezes nothing\n  leave it out",
                text_quoted(text, quoted));
}

/* "alpha=1/3" or "alpha=1/3,norm". */
static enum status read_alpha(const char *share, struct freezing_rule *rule) {
    static const char norm[] = ",norm";
    size_t length = strlen(share), last = strlen(norm);
    rule->norm = length > last && strcmp(share + length - last, norm) == 0;
    SCOPED_FREE char *alone = mem_format("%.*s", (int)(rule->norm ? length - last : length), share);
    return freezing_share_read(alone, &rule->alpha);
}

enum status freezing_rule_read(const char *text, struct freezing_rule *out) {
    static const char alpha[] = "alpha=";
    *out = (struct freezing_rule){0};
    out->norm = strcmp(text, "norm") == 0;
    if (out->norm) return STATUS_OK;
    if (strncmp(text, alpha, strlen(alpha)) == 0) return read_alpha(text + strlen(alpha), out);
    return read_list(text, out);
}

bool freezing_changes(const struct freezing_rule *rule) {
    return rule->alpha.part > 0 || rule->norm ||
           (rule->count > 1 && rule->list[rule->count - 1] != rule->list[0]);
}

int freezing_first(const struct freezing_rule *rule) {
    return rule->count ? rule->list[0] : 0;
}

/* --- norm --- */

int freezing_most(const struct freezing_rule *rule, int blocks, int period) {
    int most = rule->norm && blocks > 0 ? blocks - 1 : blocks;
    if (rule->alpha.part == 0) return most;
    SCOPED_FREE int *frozen = MEM_ARRAY(int, period + 1);
    freezing_by_alpha(blocks, rule->alpha, period + 1, frozen);
    return frozen[period] < most ? frozen[period] : most;
}

int freezing_by_norm(int blocks, int before, int cap, const double *squares) {
    int least = before;
    for (int b = before + 1; b < blocks; b++)
        if (squares[b] < squares[least]) least = b;
    if (before >= blocks || cap <= before) return before;
    return least < cap ? least : cap;
}

/* --- cuts --- */

/* Mean and variance are in different units: only in millions of parameters are they what the rule
 * means. With c units left, of n parameters in all and s the sum of their squares, for g groups:
 *
 *     load < (n / 10^6 + (s / c - (n / c)^2) / 10^12) / g
 *
 * times 10^12 g c^2 it is about whole numbers. */
struct rest {
    __int128 params, squares;
    int64_t units, groups;
};

enum { MILLION = 1000000 };

static bool is_below(int64_t load, const struct rest *rest) {
    __int128 c = rest->units, left = (__int128)load * MILLION * rest->groups * c * c,
             mean = rest->params * MILLION * c * c,
             variance = c * rest->squares - rest->params * rest->params;
    return left < PIPE_LAMBDA * (mean + variance);
}

static struct rest rest_of(const struct pipe_units *units, int from, int groups) {
    struct rest rest = {.units = units->count - from, .groups = groups};
    for (int u = from; u < units->count; u++) {
        rest.params += units->params[u];
        rest.squares += (__int128)units->params[u] * units->params[u];
    }
    return rest;
}

/* Where the group ends that begins with unit `from`; filled: it has frozen units already. */
static int cut_one(const struct pipe_units *units, int from, int groups, bool filled,
                   int64_t *load) {
    struct rest rest = rest_of(units, from, groups);
    int end = from, most = units->count - (groups - 1);
    for (; end < most; end++) {
        int64_t now = *load + PIPE_LAMBDA * units->params[end];
        bool first = !filled && end == from;
        if (groups > 1 && !first && !is_below(now, &rest)) break;
        *load = now;
    }
    return end;
}

int64_t pipe_cut(const struct pipe_units *units, int groups, int *out) {
    int64_t largest = 0;
    for (int k = 0, from = units->frozen; k < groups; k++) {
        int64_t load = 0;
        for (int u = 0; k == 0 && units->weighs && u < units->frozen; u++) load += units->params[u];
        int end = cut_one(units, from, groups - k, k == 0 && units->frozen > 0, &load);
        out[k] = end - (k == 0 ? 0 : from);
        from = end;
        if (load > largest) largest = load;
    }
    return largest;
}

int pipe_shrink(const struct pipe_units *units, int groups, int64_t most) {
    SCOPED_FREE int *cuts = MEM_ARRAY(int, groups + 1);
    while (groups >= 2 && pipe_cut(units, groups / 2, cuts) <= most) groups /= 2;
    return groups;
}
