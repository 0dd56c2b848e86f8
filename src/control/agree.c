/* Comparing what the ranks were told. The value most ranks have counts as the usual one, so that
 * the message points at the odd rank and not at everybody after rank 0. */
#include "control/agree.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "control/control.h"

void control_clean_copy(char *to, size_t bytes, const char *from) {
    size_t used = 0;
    for (; from[used] && used + 1 < bytes; used++) {
        unsigned char byte = (unsigned char)from[used];
        to[used] = byte < 32 || byte == 127 ? '?' : from[used];
    }
    to[used] = 0;
}

static void append(char *text, size_t bytes, size_t *used, const char *piece) {
    size_t count = strlen(piece);
    if (*used + count + 1 > bytes) return;
    memcpy(text + *used, piece, count + 1);
    *used += count;
}

const char *control_rank_list(const bool *mark, int world, char *text, size_t bytes) {
    int total = 0, runs = 0, run = 0;
    for (int i = 0; i < world; i++) {
        total += mark[i];
        runs += mark[i] && (i == 0 || !mark[i - 1]);
    }
    size_t used = 0;
    text[0] = 0;
    append(text, bytes, &used, total == 1 ? "rank " : "ranks ");
    for (int i = 0; i < world; i++) {
        if (!mark[i] || (i > 0 && mark[i - 1])) continue;
        int last = i;
        while (last + 1 < world && mark[last + 1]) last++;
        char piece[64];
        const char *joint = run == 0 ? "" : run == runs - 1 ? " and " : ", ";
        if (last == i)
            snprintf(piece, sizeof piece, "%s%d", joint, i);
        else
            snprintf(piece, sizeof piece, "%s%d-%d", joint, i, last);
        if (used + strlen(piece) + 5 > bytes) {
            append(text, bytes, &used, " ...");
            break;
        }
        append(text, bytes, &used, piece);
        run++;
    }
    return text;
}

static const struct control_fact *find(const struct control_facts *facts, const char *key) {
    for (int i = 0; i < facts->count; i++)
        if (strcmp(facts->fact[i].key, key) == 0) return &facts->fact[i];
    return NULL;
}

static const char *value_of(const struct control_facts *facts, const char *key) {
    const struct control_fact *fact = find(facts, key);
    return fact ? fact->value : NULL;
}

static bool same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* The rank whose value of `key` most others share. Majority vote in one pass. */
static int usual_rank(const struct control_facts *ranks, int world, const char *key) {
    int candidate = 0, votes = 0;
    for (int i = 0; i < world; i++) {
        if (votes == 0) candidate = i;
        votes += same(value_of(&ranks[i], key), value_of(&ranks[candidate], key)) ? 1 : -1;
    }
    return candidate;
}

/* The first rank whose value differs from the usual one, or -1. */
static int odd_rank(const struct control_facts *ranks, int world, const char *key, int usual) {
    for (int i = 0; i < world; i++)
        if (!same(value_of(&ranks[i], key), value_of(&ranks[usual], key))) return i;
    return -1;
}

static void quote(const char *value, char text[TEXT_QUOTED_BYTES]) {
    if (value)
        text_quoted(value, text);
    else
        snprintf(text, TEXT_QUOTED_BYTES, "nothing");
}

/* What helps where ranks differ in something that nobody told them. */
static const struct {
    const char *key, *text;
} hints[] = {
    {"layouts",
     "their instruction sets lay out tensors in different ways\n"
     "  set ONEDNN_MAX_CPU_ISA on all ranks to the least of them (stretto doctor names it)"},
};

static const char *hint_of(const char *key) {
    for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
        if (strcmp(hints[i].key, key) == 0) return hints[i].text;
    return "start all ranks with the same program, options, model and data";
}

static void explain(const struct control_facts *ranks, int world, const char *key, int usual,
                    int odd, char why[CONTROL_WHY_BYTES]) {
    SCOPED_FREE bool *mark = MEM_ARRAY(bool, world);
    char left[200], right[200], odd_value[TEXT_QUOTED_BYTES], usual_value[TEXT_QUOTED_BYTES];
    for (int i = 0; i < world; i++)
        mark[i] = same(value_of(&ranks[i], key), value_of(&ranks[odd], key));
    int odd_count = 0, usual_count = 0;
    for (int i = 0; i < world; i++) odd_count += mark[i];
    control_rank_list(mark, world, left, sizeof left);
    for (int i = 0; i < world; i++)
        mark[i] = same(value_of(&ranks[i], key), value_of(&ranks[usual], key));
    for (int i = 0; i < world; i++) usual_count += mark[i];
    control_rank_list(mark, world, right, sizeof right);
    quote(value_of(&ranks[odd], key), odd_value);
    quote(value_of(&ranks[usual], key), usual_value);
    snprintf(why, CONTROL_WHY_BYTES, "the ranks disagree on %s: %s %s %s, %s %s %s\n  %s", key,
             left, odd_count == 1 ? "has" : "have", odd_value, right,
             usual_count == 1 ? "has" : "have", usual_value, hint_of(key));
}

static void add_name(char *list, const char *key) {
    size_t used = strlen(list), count = strlen(key);
    char padded[CONTROL_WHY_BYTES];
    /* Whole names only, so that "isa" is not taken for a part of another. */
    snprintf(padded, sizeof padded, ", %s,", list);
    char needle[CONTROL_FACT_KEY + 8];
    snprintf(needle, sizeof needle, ", %s,", key);
    if (strstr(padded, needle) || used + count + 3 > CONTROL_WHY_BYTES) return;
    snprintf(list + used, CONTROL_WHY_BYTES - used, "%s%s", used ? ", " : "", key);
}

bool control_agree(const struct control_facts *ranks, int world, char why[CONTROL_WHY_BYTES],
                   char soft[CONTROL_WHY_BYTES]) {
    soft[0] = why[0] = 0;
    for (int rank = 0; rank < world; rank++) {
        for (int i = 0; i < ranks[rank].count; i++) {
            const struct control_fact *fact = &ranks[rank].fact[i];
            if (rank > 0 && find(&ranks[0], fact->key)) continue; /* compared with rank 0's */
            int usual = usual_rank(ranks, world, fact->key);
            int odd = odd_rank(ranks, world, fact->key, usual);
            if (odd < 0) continue;
            if (!fact->fixed) {
                add_name(soft, fact->key);
                continue;
            }
            explain(ranks, world, fact->key, usual, odd, why);
            return false;
        }
    }
    return true;
}
