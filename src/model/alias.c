/* See alias.h. A rewrite is tried with and without each of those that follow it, so that a prefix
 * is one row and not one more for every name. Their number is small: few rows match a name. */
#include "model/alias.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

struct alias {
    const char *ours, *theirs;
    enum alias_form form;
};

static const struct alias aliases[] = {
#define ALIAS(ours, theirs, form) {ours, theirs, ALIAS_##form},
#define TIED(name, second)
#define CONSTANT(name)
#include "model/alias.def"
#undef ALIAS
#undef TIED
};
enum { ALIAS_COUNT = sizeof aliases / sizeof aliases[0] };

static const struct {
    const char *name, *second;
} tied[] = {
#define ALIAS(ours, theirs, form)
#define TIED(name, second) {name, second},
#include "model/alias.def"
#undef TIED
#undef CONSTANT
};

static const char *const constants[] = {
#define TIED(name, second)
#define CONSTANT(name) name,
#include "model/alias.def"
#undef ALIAS
#undef TIED
#undef CONSTANT
};

/* What the stars of a pattern stand for. */
enum { MAX_STARS = 3 };
struct stars {
    const char *begin[MAX_STARS];
    size_t length[MAX_STARS];
};

/* Whether the name is of this pattern; each star takes as little as it can. */
static bool matches(const char *pattern, const char *name, struct stars *stars, int star) {
    while (*pattern && *pattern != '*')
        if (*pattern++ != *name++) return false;
    if (!*pattern) return !*name;
    CHECK(star < MAX_STARS, "%s has more than %d stars", pattern, MAX_STARS);
    for (size_t length = 0;; length++) {
        stars->begin[star] = name;
        stars->length[star] = length;
        if (matches(pattern + 1, name + length, stars, star + 1)) return true;
        if (!name[length]) return false;
    }
}

/* False where the name would be too long to be one. */
static bool rewrite(const struct alias *alias, const char *name, char out[ALIAS_NAME_BYTES]) {
    struct stars stars;
    size_t used = 0;
    int star = 0;
    if (!matches(alias->ours, name, &stars, 0)) return false;
    for (const char *c = alias->theirs; *c; c++) {
        bool is_star = *c == '*';
        size_t length = is_star ? stars.length[star] : 1;
        if (used + length >= ALIAS_NAME_BYTES) return false;
        memcpy(out + used, is_star ? stars.begin[star] : c, length);
        used += length;
        star += is_star;
    }
    out[used] = 0;
    return true;
}

/* "a.{q,k,v}.b" to the names a.q.b, a.k.b and a.v.b; a name without braces to itself. */
static void expand(const char *name, struct alias_place *out) {
    const char *open = strchr(name, '{'), *close = open ? strchr(open, '}') : NULL;
    out->part_count = 0;
    if (!open) snprintf(out->part[out->part_count++], ALIAS_NAME_BYTES, "%s", name);
    for (const char *word = open; word && word < close; word += 1 + strcspn(word + 1, ",}"))
        snprintf(out->part[out->part_count++], ALIAS_NAME_BYTES, "%.*s%.*s%s", (int)(open - name),
                 name, (int)strcspn(word + 1, ",}"), word + 1, close + 1);
}

struct search {
    alias_has *has;
    const void *file;
    struct alias_place *found;
};

static bool find_from(const struct search *search, const char *name, int first,
                      enum alias_form form) {
    char other[ALIAS_NAME_BYTES];
    struct alias_place place = {.form = form};
    int have = 0;
    expand(name, &place);
    while (have < place.part_count && search->has(search->file, place.part[have])) have++;
    if (have == place.part_count) {
        *search->found = place;
        return true;
    }
    for (int i = first; i < ALIAS_COUNT; i++) {
        enum alias_form next = aliases[i].form != ALIAS_SAME ? aliases[i].form : form;
        if (rewrite(&aliases[i], name, other) && find_from(search, other, i + 1, next)) return true;
    }
    return false;
}

bool alias_find(const char *name, alias_has *has, const void *file, struct alias_place *out) {
    if (strlen(name) >= ALIAS_NAME_BYTES) return false;
    return find_from(&(struct search){has, file, out}, name, 0, ALIAS_SAME);
}

const char *alias_tied(const char *name) {
    for (size_t row = 0; row < sizeof tied / sizeof tied[0]; row++)
        if (strcmp(tied[row].name, name) == 0) return tied[row].second;
    return NULL;
}

bool alias_is_constant(const char *name) {
    struct stars stars;
    for (size_t row = 0; row < sizeof constants / sizeof constants[0]; row++)
        if (matches(constants[row], name, &stars, 0)) return true;
    return false;
}
