/* Rows, their hash table, pooling and lookup; profile_file.c reads and writes. See profile.h. */
#include "cost/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"

const char *const profile_rate_names[PROFILE_RATE_COUNT] = {
#define RATE(NAME, key, doc) key,
#include "cost/profile.def"
};
const char *const profile_link_names[PROFILE_LINK_COUNT] = {
#define LINK(NAME, key, doc) key,
#include "cost/profile.def"
};
const char *const profile_pass_names[PROFILE_PASS_COUNT] = {
#define PASS(NAME, key, doc) key,
#include "cost/profile.def"
};

void profile_init(const char *name, struct profile *out) {
    *out = (struct profile){0};
    out->name = arena_text(&out->arena, name);
}

void profile_free(struct profile *profile) {
    for (size_t i = 0; i < profile->section_count; i++) {
        free(profile->section[i]->row);
        free(profile->section[i]->slot);
        free(profile->section[i]);
    }
    free(profile->section);
    arena_free(&profile->arena);
    *profile = (struct profile){0};
}

/* ---- sections ---- */

static bool same_place(const struct profile_place *a, const struct profile_place *b) {
    return strcmp(a->device, b->device) == 0 && strcmp(a->isa, b->isa) == 0 &&
           a->threads == b->threads && a->ranks == b->ranks;
}

static struct profile_section *find_section(const struct profile *profile,
                                            const struct profile_place *place) {
    for (size_t i = 0; i < profile->section_count; i++)
        if (same_place(&profile->section[i]->place, place)) return profile->section[i];
    return NULL;
}

struct profile_section *profile_section_for(struct profile *profile,
                                            const struct profile_place *place) {
    struct profile_section *section = find_section(profile, place);
    if (section) return section;
    section = MEM_NEW(struct profile_section);
    section->place = (struct profile_place){.device = arena_text(&profile->arena, place->device),
                                            .isa = arena_text(&profile->arena, place->isa),
                                            .threads = place->threads,
                                            .ranks = place->ranks};
    profile->section = mem_grow(profile->section, &profile->section_capacity,
                                profile->section_count + 1, sizeof *profile->section);
    profile->section[profile->section_count++] = section;
    return section;
}

static char *place_words(const struct profile_place *place) {
    return mem_format("%s %s, threads %lld, ranks %lld", place->device, place->isa,
                      (long long)place->threads, (long long)place->ranks);
}

enum status profile_pick(const struct profile *profile, const struct profile_place *place,
                         const struct profile_section **out) {
    const struct profile_section *section = find_section(profile, place);
    if (section) *out = section;
    if (section) return STATUS_OK;
    SCOPED_FREE char *asked = place_words(place),
                     *first = profile->section_count ? place_words(&profile->section[0]->place)
                                                     : mem_text("");
    return profile->section_count == 0
               ? fail(STATUS_USAGE, "%s: nothing was measured\n  this run is on %s", profile->name,
                      asked)
               : fail(STATUS_USAGE,
                      "%s: was not measured on %s\n  it was on %s%s\n  measure there with "
                      "--save-profile",
                      profile->name, asked, first, profile->section_count > 1 ? " and others" : "");
}

/* ---- rows ---- */

static uint64_t hash_text(uint64_t hash, const char *text) {
    return hash64(hash, text, strlen(text) + 1);
}

static uint64_t hash_key(const struct profile_key *key) {
    uint64_t hash = hash_text(HASH64_START + (uint64_t)key->pass, key->op);
    return hash_text(hash_text(hash, key->shape), key->layout);
}

static bool same_key(const struct profile_key *a, const struct profile_key *b) {
    return a->pass == b->pass && strcmp(a->op, b->op) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->layout, b->layout) == 0;
}

/* The slot of a key, or the empty one where it would go. */
static uint32_t *find_slot(const struct profile_section *section, const struct profile_key *key) {
    size_t mask = section->slot_count - 1, at = (size_t)hash_key(key) & mask;
    while (section->slot[at] && !same_key(&section->row[section->slot[at] - 1].key, key))
        at = (at + 1) & mask;
    return &section->slot[at];
}

/* At most half of the slots are taken. */
static void make_room(struct profile_section *section) {
    if (section->slot && section->row_count * 2 < section->slot_count) return;
    free(section->slot);
    section->slot_count = section->slot_count ? section->slot_count * 2 : 64;
    section->slot = MEM_ARRAY(uint32_t, section->slot_count);
    for (size_t i = 0; i < section->row_count; i++)
        *find_slot(section, &section->row[i].key) = (uint32_t)(i + 1);
}

void profile_record(struct profile *profile, struct profile_section *section,
                    const struct profile_key *key, const struct measure *ns) {
    make_room(section);
    uint32_t *slot = find_slot(section, key);
    if (*slot) {
        struct measure *old = &section->row[*slot - 1].ns;
        *old = measure_pool(old, ns);
        return;
    }
    section->row = mem_grow(section->row, &section->row_capacity, section->row_count + 1,
                            sizeof *section->row);
    section->row[section->row_count] =
        (struct profile_row){.key = {.op = arena_text(&profile->arena, key->op),
                                     .pass = key->pass,
                                     .shape = arena_text(&profile->arena, key->shape),
                                     .layout = arena_text(&profile->arena, key->layout)},
                             .ns = *ns};
    *slot = (uint32_t)++section->row_count;
}

const struct profile_row *profile_find(const struct profile_section *section,
                                       const struct profile_key *key) {
    if (!section->slot) return NULL;
    uint32_t at = *find_slot(section, key);
    return at ? &section->row[at - 1] : NULL;
}

static void pool(struct measure *into, const struct measure *from) {
    *into = measure_pool(into, from);
}

static void merge_section(struct profile *into, const struct profile_section *from) {
    struct profile_section *section = profile_section_for(into, &from->place);
    for (int rate = 0; rate < PROFILE_RATE_COUNT; rate++)
        pool(&section->rate[rate], &from->rate[rate]);
    for (int link = 0; link < PROFILE_LINK_COUNT; link++) {
        pool(&section->link[link].latency_ns, &from->link[link].latency_ns);
        pool(&section->link[link].bytes_per_ns, &from->link[link].bytes_per_ns);
    }
    for (size_t i = 0; i < from->row_count; i++)
        profile_record(into, section, &from->row[i].key, &from->row[i].ns);
}

void profile_merge(struct profile *into, const struct profile *from) {
    CHECK(into != from, "a profile is merged into itself");
    for (size_t i = 0; i < from->section_count; i++) merge_section(into, from->section[i]);
}

/* ---- times ---- */

static void say_miss(const struct profile *profile, const struct profile_section *section,
                     const struct profile_key *key) {
    char shape[TEXT_QUOTED_BYTES];
    log_note("%s: no row for %s %s %s\n  such operations are estimated from the measured rates: "
             "%.3g GFLOP/s, %.3g GB/s",
             profile->name, key->op, profile_pass_names[key->pass], text_quoted(key->shape, shape),
             section->rate[PROFILE_FLOPS].median, section->rate[PROFILE_BYTES].median);
}

struct estimate profile_op(struct profile *profile, const struct profile_section *section,
                           const struct profile_key *key, const struct op_cost *cost,
                           double times) {
    const struct profile_row *row = profile_find(section, key);
    if (row) return estimate_of(&row->ns, times);
    CHECK(section->rate[PROFILE_FLOPS].median > 0 && section->rate[PROFILE_BYTES].median > 0,
          "a section without rates");
    if (profile->misses++ == 0) say_miss(profile, section, key);
    double arithmetic_ns = cost->flops / section->rate[PROFILE_FLOPS].median,
           memory_ns = cost->bytes / section->rate[PROFILE_BYTES].median;
    double ns = arithmetic_ns > memory_ns ? arithmetic_ns : memory_ns;
    return estimate_relative(times * ns, PROFILE_RATE_DEVIATION);
}
