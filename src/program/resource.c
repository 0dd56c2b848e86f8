/* See resource.h. */
#include "program/resource.h"

#include <string.h>

#include "base/log.h"

enum each { NEVER, ONE, CHOSEN, SLOTS, GRAD_BUCKETS, BUCKETS };
enum life { STEP, RUN };

struct row {
    char letter;
    enum each each;
    enum life life;
};

static const struct row rows[RESOURCE_COUNT] = {
#define RESOURCE(letter, NAME, each, life) {letter, each, life},
#define RESOURCE_ALSO(...)
#include "program/resource.def"
#undef RESOURCE
#undef RESOURCE_ALSO
};

/* Letter by letter: the kind + 1, and the flag without which it does not count. */
struct letter {
    uint8_t kind;
    uint16_t flag;
};

static const struct letter letters[128] = {
#define RESOURCE(letter, NAME, ...) [letter] = {RESOURCE_##NAME + 1, 0},
#define RESOURCE_ALSO(letter, NAME, flag) [letter] = {RESOURCE_##NAME + 1, flag},
#include "program/resource.def"
#undef RESOURCE
#undef RESOURCE_ALSO
};

/* What of its operands tells which buckets an instruction touches. */
enum { NAMES_STAGE = 1, NAMES_BUCKET = 2, NAMES_SEGMENT = 4 };
static uint8_t names_of(int op) {
    const char *operands = instr_row(&(struct instr){.op = (uint8_t)op})->operands;
    return (uint8_t)((strchr(operands, 's') ? NAMES_STAGE : 0) |
                     (strchr(operands, 'b') ? NAMES_BUCKET : 0) |
                     (strchr(operands, 'e') ? NAMES_SEGMENT : 0));
}

struct resource_map resource_map(const struct program *program, int grads, int chunks,
                                 const struct chunk_sizes *sizes) {
    struct resource_map map = {
        .program = program, .sizes = sizes, .buckets = sizes_bucket(sizes, chunks, 0)};
    int count[] = {[NEVER] = 0,
                   [ONE] = 1,
                   [CHOSEN] = program_chosen(program) >= 0,
                   [SLOTS] = sizes_slot(sizes, chunks, 0),
                   [GRAD_BUCKETS] = grads * map.buckets,
                   /* Never under way where no instruction gathers them. */
                   [BUCKETS] = program->sliced ? map.buckets : 0};
    for (int r = 0; r < RESOURCE_COUNT; r++) map.first[r + 1] = map.first[r] + count[rows[r].each];
    for (int op = 0; op < INSTR_COUNT_; op++) map.names[op] = names_of(op);
    return map;
}

/* --- what an instruction touches --- */

/* Buckets, counted through all chunks. Segment e of backward makes bucket e whole, and a segment
 * reads the parameters of its bucket. */
static struct touched buckets_of(const struct resource_map *map, const struct instr *instr) {
    uint8_t names = map->names[instr->op];
    if (!(names & NAMES_STAGE)) return (struct touched){.count = map->buckets};
    int chunk = grid_chunk(&map->program->grid, instr->stage);
    int one = names & NAMES_BUCKET    ? instr->bucket
              : names & NAMES_SEGMENT ? instr->segment
                                      : INSTR_ALL;
    if (one == INSTR_ALL)
        return (struct touched){.first = sizes_bucket(map->sizes, chunk, 0),
                                .count = map->sizes[chunk].buckets};
    return (struct touched){.first = sizes_bucket(map->sizes, chunk, one), .count = 1};
}

/* What a pass touches besides its own buckets; `windows`: by their places in the buffer. */
static void add_also(const struct resource_map *map, const struct instr *instr, bool windows,
                     struct touched *touched) {
    if (!(map->names[instr->op] & NAMES_SEGMENT)) return;
    const struct grid *grid = &map->program->grid;
    const struct program_tie *tie = program_tie_of(map->program, instr->stage);
    bool shares = tie && tie->other == instr->stage && !tie_is_apart(tie);
    int chunk = grid_chunk(grid, instr->stage);
    const struct chunk_sizes *sizes = map->sizes;
    struct {
        int chunk, bucket;
        bool there;
    } of[] = {{chunk, sizes[chunk].buckets - 1, sizes[chunk].kept && instr->segment != INSTR_ALL},
              {shares ? grid_chunk(grid, tie->stage) : 0, shares ? tie->bucket : 0, shares}};
    for (int i = 0; i < 2; i++) {
        if (!of[i].there) continue;
        const struct chunk_sizes *own = &sizes[of[i].chunk];
        int bucket = windows ? sizes_place(own, own->windows, of[i].bucket) : of[i].bucket;
        touched->also[touched->also_count++] = sizes_bucket(sizes, of[i].chunk, bucket);
    }
}

/* Where gradients are sliced, the buffers after that of the slices hold windows: a few whole
 * buckets. */
static struct touched gradient(const struct resource_map *map, const struct instr *instr,
                               int grad) {
    struct touched touched = buckets_of(map, instr);
    bool whole = !(map->program->sliced & SLICED_GRADIENTS) || grad == GRAD_SLICES ||
                 !(map->names[instr->op] & NAMES_STAGE); /* NORM and STEP are of slices */
    add_also(map, instr, !whole, &touched);
    if (whole) return touched;
    int chunk = grid_chunk(&map->program->grid, instr->stage),
        first = sizes_bucket(map->sizes, chunk, 0);
    const struct chunk_sizes *sizes = &map->sizes[chunk];
    bool one = touched.count == 1;
    touched.first = first + (one ? sizes_place(sizes, sizes->windows, touched.first - first) : 0);
    touched.count = one ? 1 : sizes->windows + sizes->kept;
    return touched;
}

static struct touched shifted(struct touched touched, int by) {
    touched.first += by;
    for (int i = 0; i < touched.also_count; i++) touched.also[i] += by;
    return touched;
}

struct touched resource_touched(const struct resource_map *map, const struct instr *instr,
                                char letter) {
    struct letter of = letters[(unsigned char)letter & 127];
    struct touched touched = {0};
    CHECK(of.kind, "a buffer called %c", letter);
    enum resource kind = of.kind - 1;
    if ((of.flag && !(instr->flags & of.flag)) || map->first[kind] == map->first[kind + 1])
        return touched;
    int first = map->first[kind], grad = letter == 'h' ? instr->other : instr->grad;
    switch (rows[kind].each) {
    case NEVER: break;
    case ONE:
    case CHOSEN: return (struct touched){.first = first, .count = 1};
    case SLOTS: {
        int chunk = grid_chunk(&map->program->grid, instr->stage);
        return (struct touched){.first = first + sizes_slot(map->sizes, chunk, instr->slot),
                                .count = 1};
    }
    case GRAD_BUCKETS:
        if (grad == INSTR_ALL) break; /* of a rank that has none */
        return shifted(gradient(map, instr, grad), first + grad * map->buckets);
    case BUCKETS:
        touched = buckets_of(map, instr);
        add_also(map, instr, false, &touched);
        return shifted(touched, first);
    }
    return touched;
}

struct posted_on resource_posted(const struct resource_map *map, const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    struct posted_on on = {.count = 0};
    for (const char *letter = row->writes[0] ? row->writes : row->reads; *letter; letter++) {
        struct touched touched = resource_touched(map, instr, *letter);
        bool known = !touched.count || (on.count && on.buffer[0] == touched.first);
        if (known) continue;
        CHECK(on.count < 2, "%s posts on more than two buffers", row->name);
        on.buffer[on.count++] = touched.first;
    }
    CHECK(on.count, "%s posts what nobody would await", row->name);
    return on;
}

/* --- kinds --- */

static bool may_last(int kind) {
    return rows[kind].life == RUN && rows[kind].each != NEVER;
}

unsigned resource_lasting(void) {
    unsigned kinds = 0;
    for (int r = 0; r < RESOURCE_COUNT; r++) kinds |= (unsigned)may_last(r) << r;
    return kinds;
}

enum resource resource_kind(const struct resource_map *map, int buffer) {
    enum resource kind = 0;
    while (map->first[kind + 1] <= buffer) kind++;
    return kind;
}

int resource_bucket(const struct resource_map *map, int buffer) {
    return (buffer - map->first[resource_kind(map, buffer)]) % map->buckets;
}

bool resource_lasts(const struct resource_map *map, int buffer) {
    return map->program->lasting >> resource_kind(map, buffer) & 1;
}

bool resource_is_exchange(const struct resource_map *map, int buffer) {
    return rows[resource_kind(map, buffer)].each == ONE;
}

const char *resource_letters(unsigned kinds, char text[RESOURCE_LETTERS_BYTES]) {
    int count = 0;
    for (int r = 0; r < RESOURCE_COUNT; r++)
        if (kinds >> r & 1) text[count++] = rows[r].letter;
    text[count] = 0;
    return text;
}

int resource_find(const char *text) {
    int kinds = 0;
    for (; *text; text++) {
        int r = 0;
        while (r < RESOURCE_COUNT && rows[r].letter != *text) r++;
        if (r == RESOURCE_COUNT || !may_last(r) || kinds >> r & 1) return -1;
        kinds |= 1 << r;
    }
    return kinds;
}
