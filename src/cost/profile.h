/* A profile: how long operations take, measured on a device with all its ranks busy. It is a file
 * of its own (--save-profile writes it, --profile reads it), so that a plan follows from files and
 * never from a clock. docs/profile.md has the format. All local; only profile_read and
 * profile_write block, on the file. Nothing here measures.
 *
 * A profile has a section for each way to run: device, instruction set, threads of a rank, ranks
 * that were busy at once. A row of a section is found by operation, pass, shapes and layouts in a
 * hash table. What was not measured is estimated from the section's rates. */
#ifndef COST_PROFILE_H
#define COST_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "cost/estimate.h"
#include "op/op.h"

/* The rows of profile.def. */
enum profile_rate {
#define RATE(NAME, key, doc) PROFILE_##NAME,
#include "cost/profile.def"
    PROFILE_RATE_COUNT
};
enum profile_link_kind {
#define LINK(NAME, key, doc) PROFILE_##NAME,
#include "cost/profile.def"
    PROFILE_LINK_COUNT
};
enum profile_pass {
#define PASS(NAME, key, doc) PROFILE_##NAME,
#include "cost/profile.def"
    PROFILE_PASS_COUNT
};
extern const char *const profile_rate_names[PROFILE_RATE_COUNT];
extern const char *const profile_link_names[PROFILE_LINK_COUNT];
extern const char *const profile_pass_names[PROFILE_PASS_COUNT];

/* How something ran. */
struct profile_place {
    const char *device, *isa;
    int64_t threads, ranks; /* of a rank; busy at once */
};

/* What ran. Shapes and layouts are texts of whoever measures, compared letter by letter. */
struct profile_key {
    const char *op;
    enum profile_pass pass;
    const char *shape, *layout;
};

struct profile_row {
    struct profile_key key;
    struct measure ns;
};

struct profile_link {
    struct measure latency_ns, bytes_per_ns; /* without samples: not measured */
};

struct profile_section {
    struct profile_place place;
    struct measure rate[PROFILE_RATE_COUNT]; /* without samples: not measured */
    struct profile_link link[PROFILE_LINK_COUNT];
    struct profile_row *row;
    size_t row_count, row_capacity;
    uint32_t *slot; /* hash table: number of a row + 1, or 0 */
    size_t slot_count;
};

struct profile {
    const char *name; /* for messages */
    struct profile_section **section;
    size_t section_count, section_capacity;
    int64_t misses; /* lookups that found no row */
    struct arena arena;
};

/* An empty profile; the caller frees. `name` is copied. */
void profile_init(const char *name, struct profile *out);
void profile_free(struct profile *profile);

/* Building one. Texts are copied. profile_section_for finds or makes a section, which the profile
 * owns; profile_record adds a row, or pools it with the one of that key. */
struct profile_section *profile_section_for(struct profile *profile,
                                            const struct profile_place *place);
void profile_record(struct profile *profile, struct profile_section *section,
                    const struct profile_key *key, const struct measure *ns);
/* Takes over all of `from`; what both have is pooled. */
void profile_merge(struct profile *into, const struct profile *from);

/* The section of a place; STATUS_USAGE names what was asked for and what there is. */
enum status profile_pick(const struct profile *profile, const struct profile_place *place,
                         const struct profile_section **out);
/* The row of a key, or NULL. */
const struct profile_row *profile_find(const struct profile_section *section,
                                       const struct profile_key *key);
/* Time of `times` uses: measured, or from the rates and `cost`. The first use of rates is said in a
 * note, all are counted in profile->misses. Not for several threads at once. */
struct estimate profile_op(struct profile *profile, const struct profile_section *section,
                           const struct profile_key *key, const struct op_cost *cost, double times);
/* Relative standard deviation that an estimate from rates is given. */
#define PROFILE_RATE_DEVIATION 0.25
/* ... of a whole forecast, since another program ran when it was measured, and at another time:
 * what medians of runs differ from their forecasts by (bench/sim/bench_sim.py). */
#define PROFILE_PROGRAM_DEVIATION 0.05
/* A wait that is longer ends in sleep: comm/wait.c turns and yields that long, about. */
#define PROFILE_AWAKE_NS 1e5

/* Files. A text is JSON that the caller frees; it has the same bytes for the same content. A file
 * that is damaged or malformed is STATUS_DATA, one of a newer version STATUS_USAGE. Written
 * atomically: all of it, or nothing. */
char *profile_print(const struct profile *profile);
enum status profile_parse(const char *name, const char *text, size_t bytes, struct profile *out);
enum status profile_write(const struct profile *profile, const char *path);
enum status profile_read(const char *path, struct profile *out);
/* Of several files, "A,B", all merged: what --profile names. */
enum status profile_read_all(const char *paths, struct profile *out);

#endif
