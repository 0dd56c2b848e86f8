/* Building and printing programs. */
#include "program/program.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const struct {
    const char *name, *operands, *doc;
} instrs[] = {
#define INSTR(NAME, operands, doc) {#NAME, operands, doc},
#include "program/instr.def"
#undef INSTR
};

static const char *const flag_names[] = {"new", "pure", "stats"};

const char *const list_names[LIST_COUNT] = {"start", "body", "drain"};

const char *instr_name(enum instr_op op) {
    return instrs[op].name;
}

const char *instr_doc(enum instr_op op) {
    return instrs[op].doc;
}

const char *instr_operands(enum instr_op op) {
    return instrs[op].operands;
}

const char *instr_flag_name(int bit) {
    return bit < (int)(sizeof flag_names / sizeof flag_names[0]) ? flag_names[bit] : NULL;
}

static int operand_value(const struct instr *instr, char letter) {
    switch (letter) {
    case 's': return instr->stage;
    case 'm': return instr->micro;
    case 'a': return instr->slot;
    case 'g': return instr->grad;
    case 'e': return instr->segment;
    case 'b': return instr->bucket;
    default: return instr->other;
    }
}

const char *instr_text(const struct instr *instr, int rank, char text[INSTR_TEXT_BYTES]) {
    int used =
        snprintf(text, INSTR_TEXT_BYTES, "#%d r%d %s", instr->id, rank, instrs[instr->op].name);
    for (const char *letter = instrs[instr->op].operands; *letter; letter++) {
        if (*letter == '?' && operand_value(instr, letter[1]) == INSTR_ALL)
            letter++;
        else if (*letter != '?')
            used += snprintf(text + used, (size_t)(INSTR_TEXT_BYTES - used), " %c%d", *letter,
                             operand_value(instr, *letter));
    }
    for (int bit = 0; instr_flag_name(bit); bit++) {
        if (instr->flags >> bit & 1)
            used += snprintf(text + used, (size_t)(INSTR_TEXT_BYTES - used), " %s",
                             instr_flag_name(bit));
    }
    return text;
}

struct program *program_new(int ranks, int stages, int replicas, int micro_batches,
                            enum sum_order sum) {
    struct program *program = MEM_NEW(struct program);
    *program = (struct program){.ranks = ranks,
                                .stages = stages,
                                .replicas = replicas,
                                .micro_batches = micro_batches,
                                .sum = sum,
                                .slots = 1,
                                .buckets = 1,
                                .grads = 1,
                                .rank = MEM_ARRAY(struct rank_program, ranks)};
    return program;
}

void program_free(struct program **program) {
    if (!*program) return;
    for (int r = 0; r < (*program)->ranks; r++) {
        for (int l = 0; l < LIST_COUNT; l++) free((*program)->rank[r].list[l].items);
    }
    free((*program)->rank);
    free(*program);
    *program = NULL;
}

struct instr *program_add(struct program *program, int rank, enum list_name list,
                          enum instr_op op) {
    int id = 0;
    for (int l = 0; l < LIST_COUNT; l++) id += program->rank[rank].list[l].count;
    struct instr_list *into = &program->rank[rank].list[list];
    into->items =
        mem_grow(into->items, &into->capacity, (size_t)into->count + 1, sizeof *into->items);
    struct instr *instr = &into->items[into->count++];
    *instr = (struct instr){.id = id, .op = (uint8_t)op};
    if (strstr(instrs[op].operands, "?e")) instr->segment = INSTR_ALL;
    if (strstr(instrs[op].operands, "?b")) instr->bucket = INSTR_ALL;
    return instr;
}

bool program_shares(const struct program *program) {
    for (int r = 0; r < program->ranks; r++) {
        const struct instr_list *body = &program->rank[r].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (body->items[i].flags & INSTR_SHARES) return true;
    }
    return false;
}

const char *sum_order_name(enum sum_order sum) {
    static const char *const names[] = {"replica", "tree", "replicas-first"};
    return names[sum];
}

void program_renumber(struct program *program, int rank) {
    int id = 0;
    for (int l = 0; l < LIST_COUNT; l++) {
        struct instr_list *list = &program->rank[rank].list[l];
        for (int i = 0; i < list->count; i++) list->items[i].id = id++;
    }
}

void program_print(const struct program *program, FILE *out) {
    fprintf(out, "stretto program 1\n");
    fprintf(out, "ranks %d stages %d replicas %d micro-batches %d sum %s slots %d grads %d",
            program->ranks, program->stages, program->replicas, program->micro_batches,
            sum_order_name(program->sum), program->slots, program->grads);
    if (program->buckets > 1) fprintf(out, " buckets %d", program->buckets);
    fprintf(out, "\n");
    char text[INSTR_TEXT_BYTES];
    for (int r = 0; r < program->ranks; r++) {
        for (int l = 0; l < LIST_COUNT; l++) {
            const struct instr_list *list = &program->rank[r].list[l];
            fprintf(out, "rank %d %s\n", r, list_names[l]);
            for (int i = 0; i < list->count; i++)
                fprintf(out, "%s\n", instr_text(&list->items[i], r, text));
        }
    }
}
