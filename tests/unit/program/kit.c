/* See kit.h. */
#include "kit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "program/schedule.h"

void program_cases(void (*check)(const struct program_case *of)) {
    static const int deals[][2] = {{1, 1}, {1, 2}, {1, 5}, {2, 1}, {2, 2}, {3, 1},
                                   {3, 2}, {4, 1}, {5, 3}, {8, 1}, {9, 1}, {2, 9}};
    for (size_t d = 0; d < sizeof deals / sizeof deals[0]; d++) {
        int64_t total = deals[d][0] * deals[d][1];
        const int64_t lasts[] = {0, 1, total - 1, total + 1, 2 * total - 1};
        for (int sum = SUM_REPLICA; sum <= SUM_REPLICAS_FIRST; sum++) {
            for (int l = 0; l < 5; l++) {
                if (l > 0 && lasts[l] < 1) continue;
                check(&(struct program_case){deals[d][0], deals[d][1], (enum sum_order)sum,
                                             lasts[l]});
            }
        }
    }
}

struct program *program_of_case(const struct program_case *of, int64_t *samples) {
    int total = of->replicas * of->micro_batches;
    int64_t *own = MEM_ARRAY(int64_t, total);
    for (int g = 0; g < total; g++) own[g] = of->last ? (of->last - g + total - 1) / total : 7;
    struct schedule_config config = {
        .grid = grid_flat(1, of->replicas), .micro_batches = of->micro_batches, .sum = of->sum};
    struct program *program = NULL, *last = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    config.samples = own;
    if (of->last) cr_assert_eq(schedule_build("single", &config, &last), STATUS_OK);
    for (int g = 0; samples && g < total; g++) samples[g] = own[g];
    free(own);
    return last ? program_with_last(program, last) : program;
}

struct program *program_with_last(struct program *whole, struct program *last) {
    program_set_last(whole, last);
    program_free(&last);
    return whole;
}

enum list_name program_step(const struct program *program) {
    return program_has_last(program) ? LIST_LAST : LIST_BODY;
}

char *program_text(const struct program *program) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(program, stream);
    fclose(stream);
    return text;
}

struct program *program_copy(const struct program *program) {
    char *text = program_text(program);
    struct program *copy = NULL;
    cr_assert_eq(program_parse("copy", text, strlen(text), &copy), STATUS_OK);
    free(text);
    return copy;
}

static void replace(char **text, char *with) {
    free(*text);
    *text = with;
}

static void accumulate(char **grad, const struct instr *instr) {
    char *leaf = mem_format("%d", instr->micro);
    if (instr->flags & INSTR_NEW)
        replace(grad, leaf);
    else {
        replace(grad, mem_format("(%s+%s)", *grad ? *grad : "?", leaf));
        free(leaf);
    }
}

char *program_meaning(const struct program *program) {
    const struct instr_list *body = program_list(program, 0, program_step(program));
    char **grad = MEM_ARRAY(char *, program_of(program, 0)->grads);
    char *stepped = mem_text("nothing"), *tracked = mem_text("");
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        char **into = &grad[instr->grad];
        if (instr->op == INSTR_B || instr->op == INSTR_W) accumulate(into, instr);
        if (instr->op == INSTR_SUM)
            replace(into, mem_format("(%s+%s)", *into ? *into : "?",
                                     grad[instr->other] ? grad[instr->other] : "?"));
        if (instr->op == INSTR_STEP) replace(&stepped, mem_text(*into ? *into : "?"));
        if (instr->op == INSTR_F && !(instr->flags & INSTR_PURE))
            replace(&tracked, mem_format("%s %d", tracked, instr->micro));
    }
    char *meaning = mem_format("%s |%s", stepped, tracked);
    for (int g = 0; g < program_of(program, 0)->grads; g++) free(grad[g]);
    free(grad);
    free(stepped);
    free(tracked);
    return meaning;
}
