/* Building, sharing and printing programs. */
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "program/resource.h"

static const char *const sum_names[SUM_ORDER_COUNT] = {"replica", "tree", "replicas-first"};

const char *sum_order_name(enum sum_order sum) {
    return sum_names[sum];
}

int sum_order_find(const char *name) {
    return TEXT_FIND(name, sum_names);
}

static const char *const policy_names[RECOMPUTE_POLICY_COUNT] = {
    "never", "except-last", "always", "except-last:block", "always:block"};

const char *recompute_policy_name(enum recompute_policy policy) {
    return policy_names[policy];
}

int recompute_policy_find(const char *name) {
    return TEXT_FIND(name, policy_names);
}

/* Everything else is sliced along with the optimizer's state. */
static const char *const sliced_names[] = {"", "o", NULL, "og", NULL, "op", NULL, "ogp"};
enum { SLICED_SETS = sizeof sliced_names / sizeof sliced_names[0] };

const char *sliced_name(unsigned sliced) {
    CHECK(sliced < SLICED_SETS && sliced_names[sliced], "a set %u of sliced arrays", sliced);
    return sliced_names[sliced];
}

int sliced_find(const char *letters) {
    return TEXT_FIND(letters, sliced_names);
}

/* --- rank programs --- */

static struct rank_program *add_kind(struct program *program) {
    program->kinds = mem_grow(program->kinds, &program->kind_capacity,
                              (size_t)program->kind_count + 1, sizeof *program->kinds);
    struct rank_program *kind = &program->kinds[program->kind_count++];
    *kind = (struct rank_program){.grads = 1, .chunks = program->grid.chunks};
    for (int c = 0; c < kind->chunks; c++)
        kind->chunk[c] = (struct chunk_sizes){.slots = 1, .buckets = 1};
    return kind;
}

static void free_lists(struct rank_program *rank) {
    for (int l = 0; l < LIST_COUNT; l++) free(rank->list[l].items);
    *rank = (struct rank_program){0};
}

struct program *program_new(const struct grid *grid, int micro_batches, enum sum_order sum) {
    struct program *program = MEM_NEW(struct program);
    CHECK(grid->chunks >= 1 && grid->chunks <= GRID_MAX_CHUNKS, "%d chunks", grid->chunks);
    *program = (struct program){.grid = *grid,
                                .ranks = grid_ranks(grid),
                                .micro_batches = micro_batches,
                                .sum = sum,
                                .credits = PROGRAM_CREDITS,
                                .lasting = micro_batches > 0 ? resource_lasting() : 0};
    program->kind_of = MEM_ARRAY(int32_t, program->ranks);
    add_kind(program);
    return program;
}

struct program *program_like(const struct program *other) {
    struct program *program = MEM_NEW(struct program);
    *program = *other;
    program->kinds = NULL;
    program->kind_count = 0;
    program->kind_capacity = 0;
    program->kind_of = MEM_ARRAY(int32_t, program->ranks);
    add_kind(program);
    return program;
}

void program_free(struct program **program) {
    if (!*program) return;
    for (int k = 0; k < (*program)->kind_count; k++) free_lists(&(*program)->kinds[k]);
    free((*program)->kinds);
    free((*program)->kind_of);
    free(*program);
    *program = NULL;
}

const struct rank_program *program_of(const struct program *program, int rank) {
    return &program->kinds[program->kind_of[rank]];
}

const struct instr_list *program_list(const struct program *program, int rank,
                                      enum list_name list) {
    return &program_of(program, rank)->list[list];
}

static struct instr_list copy_list(const struct instr_list *from) {
    struct instr_list copy = {.count = from->count, .capacity = (size_t)from->count};
    copy.items = MEM_ARRAY(struct instr, from->count + 1);
    if (from->count) memcpy(copy.items, from->items, (size_t)from->count * sizeof *from->items);
    return copy;
}

struct rank_program *program_begin(struct program *program, int rank) {
    struct rank_program *own = add_kind(program);
    program->kind_of[rank] = program->kind_count - 1;
    return own;
}

/* Gives a rank a copy of a rank program, of its own. */
static struct rank_program *copy_kind(struct program *program, int rank, int kind) {
    struct rank_program *own = program_begin(program, rank);
    const struct rank_program *from = &program->kinds[kind];
    *own = *from;
    for (int l = 0; l < LIST_COUNT; l++) own->list[l] = copy_list(&from->list[l]);
    return own;
}

struct rank_program *program_edit(struct program *program, int rank) {
    int kind = program->kind_of[rank], users = 0;
    for (int r = 0; r < program->ranks && users < 2; r++) users += program->kind_of[r] == kind;
    return users == 1 ? &program->kinds[kind] : copy_kind(program, rank, kind);
}

static bool same_list(const struct instr_list *a, const struct instr_list *b) {
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->items, b->items, (size_t)a->count * sizeof *a->items) == 0);
}

static bool same_kind(const struct rank_program *a, const struct rank_program *b) {
    bool same = a->grads == b->grads && memcmp(a->chunk, b->chunk, sizeof a->chunk) == 0;
    for (int l = 0; same && l < LIST_COUNT; l++) same = same_list(&a->list[l], &b->list[l]);
    return same;
}

static uint64_t hash_kind(const struct rank_program *rank) {
    uint64_t hash = hash64(HASH64_START, &rank->grads, sizeof rank->grads);
    hash = hash64(hash, rank->chunk, (size_t)rank->chunks * sizeof rank->chunk[0]);
    for (int l = 0; l < LIST_COUNT; l++) {
        const struct instr_list *list = &rank->list[l];
        hash = hash64(hash, &list->count, sizeof list->count);
        if (list->count)
            hash = hash64(hash, list->items, (size_t)list->count * sizeof *list->items);
    }
    return hash;
}

/* A table from the hash of a rank program to its number among those kept. */
struct shared_kinds {
    struct rank_program *kept;
    int count, *bucket, bucket_count;
};

static int keep_kind(struct shared_kinds *shared, struct rank_program *kind) {
    uint64_t at = hash_kind(kind) % (uint64_t)shared->bucket_count;
    for (; shared->bucket[at] > 0; at = (at + 1) % (uint64_t)shared->bucket_count) {
        if (!same_kind(&shared->kept[shared->bucket[at] - 1], kind)) continue;
        return shared->bucket[at] - 1;
    }
    shared->kept[shared->count] = *kind;
    shared->bucket[at] = shared->count + 1;
    *kind = (struct rank_program){0}; /* its lists have moved */
    return shared->count++;
}

/* Kinds are kept in the order of the first rank that has them, so that equal programs have equal
 * kinds however they were made. */
void program_share(struct program *program) {
    struct shared_kinds shared = {.kept = MEM_ARRAY(struct rank_program, program->kind_count),
                                  .bucket_count = 2 * program->kind_count + 1};
    shared.bucket = MEM_ARRAY(int, shared.bucket_count);
    int *now = MEM_ARRAY(int, program->kind_count);
    for (int r = 0; r < program->ranks; r++) {
        int32_t *kind = &program->kind_of[r];
        if (now[*kind] == 0) now[*kind] = keep_kind(&shared, &program->kinds[*kind]) + 1;
        *kind = now[*kind] - 1;
    }
    for (int k = 0; k < program->kind_count; k++) free_lists(&program->kinds[k]);
    free(program->kinds);
    free(shared.bucket);
    free(now);
    program->kinds = shared.kept;
    program->kind_capacity = (size_t)program->kind_count;
    program->kind_count = shared.count;
}

/* --- the short last step --- */

bool program_has_last(const struct program *program) {
    int count = 0;
    for (int k = 0; k < program->kind_count; k++) count += program->kinds[k].list[LIST_LAST].count;
    return count > 0;
}

void program_drop_list(struct instr_list *list) {
    free(list->items);
    *list = (struct instr_list){0};
}

void program_copy_list(struct rank_program *rank, enum list_name from, enum list_name to) {
    program_drop_list(&rank->list[to]);
    rank->list[to] = copy_list(&rank->list[from]);
}

static void take_larger(int *size, int other) {
    if (other > *size) *size = other;
}

static void set_last(struct rank_program *rank, const struct rank_program *last) {
    free(rank->list[LIST_LAST].items);
    rank->list[LIST_LAST] = last ? copy_list(&last->list[LIST_BODY]) : (struct instr_list){0};
    program_renumber(rank);
    if (!last) return;
    take_larger(&rank->grads, last->grads);
    for (int c = 0; c < rank->chunks; c++) take_larger(&rank->chunk[c].slots, last->chunk[c].slots);
}

/* Ranks that share a rank program here may have different ones in `last`. So each pair (own
 * program, program in `last`) needs a rank program: the first pair with an own program keeps it,
 * each further pair gets a copy. */
void program_set_last(struct program *program, const struct program *last) {
    int most = program->kind_count + program->ranks;
    int *next = MEM_ARRAY(int, most); /* of the same old; 0: none */
    const struct rank_program **with = MEM_ARRAY(const struct rank_program *, most);
    for (int r = 0; last && r < program->ranks; r++) {
        int old = program->kind_of[r], kind = old;
        const struct rank_program *wanted = program_of(last, r);
        while (with[kind] && with[kind] != wanted && next[kind]) kind = next[kind];
        if (with[kind] && with[kind] != wanted) {
            copy_kind(program, r, old);
            next[kind] = program->kind_of[r];
            kind = next[kind];
        }
        with[kind] = wanted;
        program->kind_of[r] = kind;
    }
    for (int k = 0; k < program->kind_count; k++) set_last(&program->kinds[k], with[k]);
    free(next);
    free(with);
    program_share(program);
}

int64_t *program_last_samples(const struct program *program) {
    int64_t *samples = MEM_ARRAY(int64_t, program->grid.replicas * program->micro_batches + 1);
    for (int r = 0; r < program->ranks; r++) {
        const struct instr_list *last = program_list(program, r, LIST_LAST);
        int micros = program_micros(program, r), first = program_first_micro(program, r);
        for (int i = 0; i < last->count; i++)
            if (last->items[i].op == INSTR_LOAD && last->items[i].micro < micros)
                samples[first + last->items[i].micro] = 1;
    }
    return samples;
}

/* --- building --- */

struct instr *program_add(struct rank_program *rank, enum list_name list, enum instr_op op) {
    int id = 0;
    for (int l = 0; l < LIST_COUNT; l++) id += rank->list[l].count;
    struct instr_list *into = &rank->list[list];
    into->items =
        mem_grow(into->items, &into->capacity, (size_t)into->count + 1, sizeof *into->items);
    struct instr *instr = &into->items[into->count++];
    *instr = instr_make(op);
    instr->id = id;
    return instr;
}

void program_add_step(struct rank_program *rank, int grad, bool clips) {
    struct instr *step = program_add(rank, LIST_BODY, INSTR_STEP);
    step->grad = (int16_t)grad;
    if (clips) step->flags = INSTR_CLIP;
}

void program_renumber(struct rank_program *rank) {
    int id = 0;
    for (int l = 0; l < LIST_COUNT; l++) {
        for (int i = 0; i < rank->list[l].count; i++) rank->list[l].items[i].id = id++;
    }
}

int program_declare_group(struct program *program, enum group_family family) {
    CHECK(program->group_count < PROGRAM_MAX_GROUPS, "more than %d groups", PROGRAM_MAX_GROUPS);
    program->group[program->group_count] = family;
    return program->group_count++;
}

/* --- ties --- */

const struct program_tie *program_tie_of(const struct program *program, int stage) {
    for (int t = 0; t < program->tie_count; t++)
        if (program->tie[t].stage == stage || program->tie[t].other == stage)
            return &program->tie[t];
    return NULL;
}

const struct program_tie *program_tie_at(const struct program *program, int stage, int bucket) {
    const struct program_tie *tie = program_tie_of(program, stage);
    return tie && bucket == (tie->stage == stage ? tie->bucket : tie->other_bucket) ? tie : NULL;
}

/* All ties between ranks are between the same two positions: they have one group. */
const char *program_declare_tie(struct program *program, const struct program_tie *tie) {
    struct grid *grid = &program->grid;
    if (tie->stage < 0 || tie->stage >= tie->other || tie->other >= grid->stages * grid->chunks)
        return "a stage and a later one";
    if (program->tie_count == PROGRAM_MAX_TIES) return "fewer ties";
    if (program_tie_of(program, tie->stage) || program_tie_of(program, tie->other))
        return "stages that are in no other tie";
    int first = grid_position(grid, tie->stage), second = grid_position(grid, tie->other);
    if ((first != second) != tie_is_apart(tie))
        return "a bucket of the later stage where it is on another rank, and only there";
    bool known = grid->tied[0] != grid->tied[1];
    if (first != second && known && (grid->tied[0] != first || grid->tied[1] != second))
        return "ties between the same two ranks";
    if (first != second) grid->tied[0] = first, grid->tied[1] = second;
    program->tie[program->tie_count++] = *tie;
    return NULL;
}

/* --- sizes, and what instructions touch --- */

int sizes_place(const struct chunk_sizes *sizes, int places, int bucket) {
    return sizes->kept && bucket == sizes->buckets - 1 ? places : bucket % places;
}

int program_chosen(const struct program *program) {
    int group = program->group_count - 1;
    while (group >= 0 && !group_is_chosen(program->group[group])) group--;
    return group;
}

int program_world(const struct program *program) {
    for (int g = 0; g < program->group_count; g++)
        if (program->group[g] == GROUP_WORLD) return g;
    return -1;
}

/* --- facts of a program --- */

bool program_clips(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (body->items[i].op == INSTR_STEP) return body->items[i].flags & INSTR_CLIP;
    }
    return false;
}

bool program_is_forward(const struct program *program) {
    return program->micro_batches == 0;
}

/* A program with one list of this one as its body. Kind 0 is the empty one of a new program. */
static struct program *with_body(const struct program *program, enum list_name list) {
    struct program *out = program_like(program);
    for (int k = 0; k < program->kind_count; k++) {
        struct rank_program *own = program_begin(out, 0);
        *own = program->kinds[k];
        memset(own->list, 0, sizeof own->list);
        own->list[LIST_BODY] = copy_list(&program->kinds[k].list[list]);
    }
    for (int r = 0; r < program->ranks; r++) out->kind_of[r] = program->kind_of[r] + 1;
    return out;
}

struct program *program_round(const struct program *program) {
    return with_body(program, LIST_EVAL);
}

struct program *program_of_last(const struct program *program) {
    return with_body(program, LIST_LAST);
}

bool program_shares(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (instr_shares(&body->items[i])) return true;
    }
    return false;
}

bool program_reports_apart(const struct program *program) {
    const struct instr_list *body = &program->kinds[0].list[LIST_BODY];
    for (int i = 0; i < body->count; i++) {
        if (body->items[i].op != INSTR_REPORT) continue;
        int group = body->items[i].group, ranks = 1;
        if (group != INSTR_ALL) ranks = group_size(&program->grid, program->group[group], 0);
        return ranks < program->ranks;
    }
    return false;
}

int program_micros(const struct program *program, int rank) {
    return grid_cell(&program->grid, rank).replica_count * program->micro_batches;
}

int program_first_micro(const struct program *program, int rank) {
    return grid_cell(&program->grid, rank).first_replica * program->micro_batches;
}

uint64_t program_hash(const struct program *program) {
    const struct grid *grid = &program->grid;
    const int numbers[] = {grid->stages,         grid->chunks,          grid->replicas,
                           grid->replicas_each,  grid->v_shape,         grid->drivers,
                           grid->servers,        (int)program->sum,     program->micro_batches,
                           program->group_count, program->credits,      program->tie_count,
                           (int)program->sliced, (int)program->lasting, program->ahead,
                           program->every,       program->frozen};
    uint64_t hash = hash64(HASH64_START, numbers, sizeof numbers);
    for (int t = 0; t < program->tie_count; t++)
        hash = hash64(hash, &program->tie[t], sizeof program->tie[t]);
    for (int g = 0; g < program->group_count; g++)
        hash = hash64(hash, &program->group[g], sizeof program->group[g]);
    for (int k = 0; k < program->kind_count; k++) {
        uint64_t kind = hash_kind(&program->kinds[k]);
        hash = hash64(hash, &kind, sizeof kind);
    }
    return hash64(hash, program->kind_of, (size_t)program->ranks * sizeof *program->kind_of);
}

/* --- text --- */

static void print_unless(FILE *out, const char *key, int value, int usual) {
    if (value != usual) fprintf(out, " %s %d", key, value);
}

static void print_header(const struct program *program, FILE *out) {
    const struct grid *grid = &program->grid;
    char lasting[RESOURCE_LETTERS_BYTES];
    fprintf(out, PROGRAM_TEXT_VERSION "\nranks %d stages %d replicas %d micro-batches %d sum %s",
            program->ranks, grid->stages, grid->replicas, program->micro_batches,
            sum_order_name(program->sum));
    print_unless(out, "chunks", grid->chunks, 1);
    print_unless(out, "v-shape", grid->v_shape, 0);
    print_unless(out, "replicas-each", grid->replicas_each, 1);
    print_unless(out, "drivers", grid->drivers, 0);
    print_unless(out, "servers", grid->servers, 0);
    print_unless(out, "ahead", program->ahead, 0);
    print_unless(out, "every", program->every, 0);
    print_unless(out, "frozen", program->frozen, 0);
    if (grid->stages * grid->chunks > 1 || grid->drivers > 0)
        fprintf(out, " credits %d", program->credits);
    if (program->sliced) fprintf(out, " sliced %s", sliced_name(program->sliced));
    if (program->lasting) fprintf(out, " lasting %s", resource_letters(program->lasting, lasting));
    fprintf(out, "\ngroups");
    for (int g = 0; g < program->group_count; g++)
        fprintf(out, " %s", group_family_name(program->group[g]));
    fprintf(out, "\n");
    for (int t = 0; t < program->tie_count; t++) {
        const struct program_tie *tie = &program->tie[t];
        fprintf(out, "tied %d.%d %d", tie->stage, tie->bucket, tie->other);
        if (tie_is_apart(tie)) fprintf(out, ".%d", tie->other_bucket);
        fprintf(out, "\n");
    }
}

/* Sizes of chunks one after the other: "slots 4,2". */
static void print_sizes(const struct rank_program *rank, int number, bool windows, FILE *out) {
    fprintf(out, "rank %d slots ", number);
    for (int c = 0; c < rank->chunks; c++) fprintf(out, "%s%d", c ? "," : "", rank->chunk[c].slots);
    fprintf(out, " grads %d buckets ", rank->grads);
    for (int c = 0; c < rank->chunks; c++)
        fprintf(out, "%s%d", c ? "," : "", rank->chunk[c].buckets);
    for (int c = 0; c < rank->chunks && windows; c++)
        fprintf(out, "%s%d", c ? "," : " windows ", rank->chunk[c].windows);
    for (int c = 0; c < rank->chunks && rank->chunk[0].gathered; c++)
        fprintf(out, "%s%d", c ? "," : " gathered ", rank->chunk[c].gathered);
    int kept = 0;
    for (int c = 0; c < rank->chunks; c++) kept += rank->chunk[c].kept;
    for (int c = 0; c < rank->chunks && kept; c++)
        fprintf(out, "%s%d", c ? "," : " kept ", rank->chunk[c].kept);
    int older = 0;
    for (int c = 0; c < rank->chunks; c++) older += rank->chunk[c].older;
    for (int c = 0; c < rank->chunks && older; c++)
        fprintf(out, "%s%d", c ? "," : " older ", rank->chunk[c].older);
    fprintf(out, "\n");
}

void program_print(const struct program *program, FILE *out) {
    char text[INSTR_TEXT_BYTES];
    print_header(program, out);
    for (int r = 0; r < program->ranks; r++) {
        const struct rank_program *rank = program_of(program, r);
        print_sizes(rank, r, program->sliced & SLICED_GRADIENTS, out);
        for (int l = 0; l < LIST_COUNT; l++) {
            if (l == LIST_LAST && !rank->list[l].count) continue;
            fprintf(out, "rank %d %s\n", r, list_names[l]);
            for (int i = 0; i < rank->list[l].count; i++)
                fprintf(out, "%s\n", instr_text(&rank->list[l].items[i], r, text));
        }
    }
}
