/* Which buffers an instruction touches, by number: one rule for whoever must await what is under
 * way on them. "The first instruction that touches a buffer awaits what was posted on it": the
 * verifier proves it, the executor does it, the simulator counts its time.
 *
 * The buffers of a rank on which something can be under way are numbered from 0, kind by kind in
 * the order of resource.def. */
#ifndef PROGRAM_RESOURCE_H
#define PROGRAM_RESOURCE_H

#include "program/program.h"

enum resource {
#define RESOURCE(letter, NAME, ...) RESOURCE_##NAME,
#define RESOURCE_ALSO(...)
#include "program/resource.def"
#undef RESOURCE
#undef RESOURCE_ALSO
    RESOURCE_COUNT
};

/* The numbering of one rank. */
struct resource_map {
    const struct program *program;
    const struct chunk_sizes *sizes; /* of its chunks */
    int buckets;                     /* of all chunks */
    int first[RESOURCE_COUNT + 1];   /* number of the first of each kind; how many there are */
    uint8_t names[INSTR_COUNT_];     /* per instruction: which operands it has */
};
/* Local. The map of a rank with `grads` gradient buffers and `chunks` chunks of these sizes; the
 * program and the sizes outlive it. */
struct resource_map resource_map(const struct program *program, int grads, int chunks,
                                 const struct chunk_sizes *sizes);

/* Buffers that an instruction touches by one letter: `count` from `first` on, and those in
 * `also`: for a segment the kept bucket of its stage, and the bucket that the stage shares with
 * an earlier stage of the rank, which holds it. */
struct touched {
    int first, count, also[2], also_count;
};
/* Local. count 0: nothing can be under way there. */
struct touched resource_touched(const struct resource_map *map, const struct instr *instr,
                                char letter);
static inline bool resource_holds(const struct touched *touched, int buffer) {
    return (buffer >= touched->first && buffer < touched->first + touched->count) ||
           (touched->also_count > 0 && buffer == touched->also[0]) ||
           (touched->also_count > 1 && buffer == touched->also[1]);
}

/* What an operation is under way on: what its instruction writes; for a send, what it reads. */
struct posted_on {
    int buffer[2], count;
};
struct posted_on resource_posted(const struct resource_map *map, const struct instr *instr);

/* Local. The kind of a buffer; the bucket, counted through all chunks, of a gradient or parameter
 * buffer. */
enum resource resource_kind(const struct resource_map *map, int buffer);
int resource_bucket(const struct resource_map *map, int buffer);
/* Local. May the program leave something under way on it beyond a step? */
bool resource_lasts(const struct resource_map *map, int buffer);
/* Local. Is what is under way there an exchange, of which a group carries one at a time? */
bool resource_is_exchange(const struct resource_map *map, int buffer);

/* Local. The kinds on which something may be under way beyond a step, as bits by enum resource. A
 * new program leaves it there: the norm is told when it is known, parameters are gathered while the
 * next step counts its labels. */
unsigned resource_lasting(void);
/* Local. In the text form: the letters of a set of kinds (bits by enum resource); the set that
 * letters name, or -1 where one of them names no kind, or one that does not outlive a step. */
enum { RESOURCE_LETTERS_BYTES = 16 };
const char *resource_letters(unsigned kinds, char text[RESOURCE_LETTERS_BYTES]);
int resource_find(const char *letters);

#endif
