/* GATHER and FREE around the uses of sliced parameters, for sync policy zero: see zero.h.
 *
 * Bucket b has place b modulo the number of places. Before a use its bucket is gathered, and those
 * of the next uses, as far as their places are free; behind it the bucket is freed unless one of
 * the next uses is its own. All replicas have the same uses in the same order, absent ones
 * included, so they gather alike. */
#include "sync/zero.h"

#include <stdlib.h>

#include "base/mem.h"

struct gatherer {
    const struct zero *zero;
    const struct zero_list *list;
    struct rank_program *rank;
    int *uses, use_count, at;    /* items that are uses; the next of them */
    int *place[GRID_MAX_CHUNKS]; /* the bucket that is there; -1: none */
};

static const struct zero_item *use_at(const struct gatherer *gatherer, int use) {
    return &gatherer->list->items[gatherer->uses[use]];
}

static int chunk_of(const struct gatherer *gatherer, const struct zero_item *item) {
    return grid_chunk(gatherer->zero->grid, item->instr.stage);
}

static int *place_of(const struct gatherer *gatherer, const struct zero_item *item) {
    int chunk = chunk_of(gatherer, item);
    return &gatherer->place[chunk][item->use % gatherer->rank->chunk[chunk].gathered];
}

static void add(struct gatherer *gatherer, enum instr_op op, int stage, int bucket) {
    struct instr *instr = program_add(gatherer->rank, LIST_BODY, op);
    instr->stage = (int16_t)stage;
    instr->bucket = (int16_t)bucket;
    if (op == INSTR_GATHER) instr->group = (int16_t)gatherer->zero->group;
}

static void empty(struct gatherer *gatherer, const struct zero_item *item) {
    int *place = place_of(gatherer, item);
    if (*place >= 0) add(gatherer, INSTR_FREE, item->instr.stage, *place);
    *place = -1;
}

static void fill(struct gatherer *gatherer, const struct zero_item *item) {
    add(gatherer, INSTR_GATHER, item->instr.stage, item->use);
    *place_of(gatherer, item) = item->use;
}

static int last_ahead(const struct gatherer *gatherer) {
    int stage = use_at(gatherer, gatherer->at)->instr.stage,
        last = gatherer->at + zero_ahead(gatherer->zero, stage);
    return last < gatherer->use_count ? last : gatherer->use_count - 1;
}

/* The use under way, and those ahead of it whose places are free. */
static void before(struct gatherer *gatherer) {
    const struct zero_item *now = use_at(gatherer, gatherer->at);
    if (*place_of(gatherer, now) != now->use) {
        empty(gatherer, now);
        fill(gatherer, now);
    }
    for (int u = gatherer->at + 1; u <= last_ahead(gatherer); u++) {
        const struct zero_item *ahead = use_at(gatherer, u);
        int there = *place_of(gatherer, ahead);
        if (there >= 0 && there != ahead->use) return;
        if (there < 0) fill(gatherer, ahead);
    }
}

static void behind(struct gatherer *gatherer) {
    const struct zero_item *now = use_at(gatherer, gatherer->at);
    for (int u = gatherer->at + 1; u <= last_ahead(gatherer); u++) {
        const struct zero_item *ahead = use_at(gatherer, u);
        if (ahead->instr.stage == now->instr.stage && ahead->use == now->use) return;
    }
    empty(gatherer, now);
}

static void one(struct gatherer *gatherer, const struct zero_item *item) {
    if (item->use >= 0) before(gatherer);
    if (!item->absent)
        *program_add(gatherer->rank, LIST_BODY, (enum instr_op)item->instr.op) = item->instr;
    if (item->use < 0) return;
    behind(gatherer);
    gatherer->at++;
}

static void begin(struct gatherer *gatherer) {
    const struct zero_list *list = gatherer->list;
    gatherer->uses = MEM_ARRAY(int, list->count + 1);
    for (int i = 0; i < list->count; i++)
        if (list->items[i].use >= 0) gatherer->uses[gatherer->use_count++] = i;
    for (int c = 0; c < gatherer->rank->chunks; c++) {
        int places = gatherer->rank->chunk[c].gathered;
        gatherer->place[c] = MEM_ARRAY(int, places + 1);
        for (int i = 0; i < places; i++) gatherer->place[c][i] = -1;
    }
}

static void keep(struct gatherer *gatherer, enum instr_op op, int position) {
    const struct rank_program *rank = gatherer->rank;
    bool sliced = gatherer->zero->config->sliced & SLICED_PARAMS;
    for (int c = 0; sliced && c < rank->chunks; c++)
        if (rank->chunk[c].kept)
            add(gatherer, op, grid_stage(gatherer->zero->grid, position, c),
                rank->chunk[c].buckets - 1);
}

void zero_gather(const struct zero *zero, const struct zero_list *list, struct rank_program *rank,
                 int position) {
    struct gatherer gatherer = {.zero = zero, .list = list, .rank = rank};
    free(rank->list[LIST_BODY].items);
    rank->list[LIST_BODY] = (struct instr_list){0};
    begin(&gatherer);
    keep(&gatherer, INSTR_GATHER, position);
    for (int i = 0; i < list->count; i++) {
        if (list->items[i].instr.op == INSTR_REPORT) keep(&gatherer, INSTR_FREE, position);
        one(&gatherer, &list->items[i]);
    }
    for (int c = 0; c < rank->chunks; c++) free(gatherer.place[c]);
    free(gatherer.uses);
}

/* --- evaluation --- */

static void add_to_round(const struct zero *zero, struct rank_program *rank, enum instr_op op,
                         const struct instr *like, int bucket) {
    struct instr *instr = program_add(rank, LIST_EVAL, op);
    instr->stage = like->stage;
    instr->bucket = (int16_t)bucket;
    if (op == INSTR_GATHER) instr->group = (int16_t)zero->group;
}

/* All ranks run all rounds, so they gather alike. The next bucket is on its way while one is in
 * use, where there are two places. */
static void round_of(const struct zero *zero, struct rank_program *rank, const struct instr *pass) {
    const struct chunk_sizes *sizes = &rank->chunk[grid_chunk(zero->grid, pass->stage)];
    int last = sizes->buckets - 1;
    bool ahead = sizes->gathered > 1;
    add_to_round(zero, rank, INSTR_GATHER, pass, last);
    for (int b = last; b >= 0; b--) {
        bool kept = sizes->kept && b == last, next = b > 0;
        if (next && (ahead || kept)) add_to_round(zero, rank, INSTR_GATHER, pass, b - 1);
        struct instr *segment = program_add(rank, LIST_EVAL, INSTR_F);
        *segment = *pass;
        segment->segment = (int16_t)b;
        if (!kept) add_to_round(zero, rank, INSTR_FREE, pass, b);
        if (next && !ahead && !kept) add_to_round(zero, rank, INSTR_GATHER, pass, b - 1);
    }
    const struct program_tie *tie = program_tie_of(zero->program, pass->stage);
    bool here = tie && !tie_is_apart(tie);
    if (sizes->kept && !(here && tie->stage == pass->stage))
        add_to_round(zero, rank, INSTR_FREE, pass, last);
    /* The later stage reads what the earlier one has. */
    struct instr first = {.stage = (int16_t)(here ? tie->stage : 0)};
    if (here && tie->other == pass->stage)
        add_to_round(zero, rank, INSTR_FREE, &first, tie->bucket);
}

void zero_evaluate(const struct zero *zero, struct rank_program *rank) {
    if (!(zero->config->sliced & SLICED_PARAMS)) return;
    struct instr_list old = rank->list[LIST_EVAL];
    rank->list[LIST_EVAL] = (struct instr_list){0};
    for (int i = 0; i < old.count; i++) {
        if (old.items[i].op == INSTR_F)
            round_of(zero, rank, &old.items[i]);
        else
            *program_add(rank, LIST_EVAL, (enum instr_op)old.items[i].op) = old.items[i];
    }
    free(old.items);
}
