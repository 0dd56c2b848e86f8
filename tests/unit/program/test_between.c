/* The lists between steps: what the builder makes, and that nothing can be left out, doubled or
 * put elsewhere. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "kit.h"
#include "program/schedule.h"
#include "sync/sync.h"

static const enum list_name lists[] = {LIST_EVAL_START, LIST_EVAL, LIST_EVAL_END, LIST_SAVE};

static struct program *two_ranks(void) {
    struct schedule_config config = {
        .grid = grid_flat(2, 2), .micro_batches = 1, .sum = SUM_REPLICA};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("allreduce", program, &(struct sync_config){.buckets = (int[]){2}}),
                 STATUS_OK);
    cr_assert_eq(program_verify(program, NULL), STATUS_OK);
    return program;
}

static enum status quiet_verify(const struct program *program, char log[512]) {
    log[0] = 0;
    log_capture(log, 512);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    return status;
}

Test(program_between, nothing_can_be_left_out_or_doubled) {
    struct program *program = two_ranks();
    char log[512];
    int tried = 0;
    for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
        for (int i = 0; i < program_list(program, 1, lists[l])->count; i++, tried++) {
            for (int rank = 0; rank < 3; rank++) { /* the list of one rank, or (2) of both */
                struct program *without = program_copy(program), *twice = program_copy(program);
                for (int r = 0; r < 2; r++) {
                    if (rank != 2 && r != rank) continue;
                    struct instr_list *list = &program_edit(without, r)->list[lists[l]];
                    memmove(list->items + i, list->items + i + 1,
                            (size_t)(list->count - i - 1) * sizeof *list->items);
                    list->count--;
                    struct rank_program *own = program_edit(twice, r);
                    struct instr again = own->list[lists[l]].items[i];
                    *program_add(own, lists[l], (enum instr_op)again.op) = again;
                }
                cr_expect_eq(quiet_verify(without, log), STATUS_USAGE, "%s without its %d. on %d",
                             list_names[lists[l]], i, rank);
                cr_expect_eq(quiet_verify(twice, log), STATUS_USAGE, "%s with its %d. twice on %d",
                             list_names[lists[l]], i, rank);
                program_free(&without);
                program_free(&twice);
            }
        }
    }
    cr_expect_geq(tried, 5);
    program_free(&program);
}

/* In place of `from` of rank 1's list, where `list` is named. */
static const struct {
    const char *from, *to, *says;
} edits[] = {
    {"LOAD s0 m0 a0\n#1", "LOAD s0 m0 a0 pure\n#1", "no such flag"},
    {"rank 1 eval\n", "rank 1 eval\n#70 r1 STEP g0\n",
     "STEP belongs into body or last, not into eval"},
    {"rank 1 eval\n", "rank 1 eval\n#70 r1 BCAST q0\n", "BCAST belongs into start, not into eval"},
    {"rank 1 start\n", "rank 1 start\n#70 r1 STATS_ALL q0\n", "not into start"},
    {"rank 1 eval-start\n", "rank 1 eval-start\n#70 r1 STATS_OWN\n", "belongs into eval-end"},
};

Test(program_between, instructions_stand_in_their_lists) {
    struct program *program = two_ranks();
    char *text = program_text(program), log[512];
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        const char *part = strstr(text, "rank 1 start"), *at = strstr(part, edits[i].from);
        cr_assert_not_null(at, "%s", edits[i].from);
        char *other =
            mem_format("%.*s%s%s", (int)(at - text), text, edits[i].to, at + strlen(edits[i].from));
        struct program *edited = NULL;
        cr_assert_eq(program_parse("text", other, strlen(other), &edited), STATUS_OK);
        cr_expect_eq(quiet_verify(edited, log), STATUS_USAGE, "taken: %s", edits[i].to);
        cr_expect(strstr(log, edits[i].says), "%s\n%s", edits[i].says, log);
        program_free(&edited);
        free(other);
    }
    free(text);
    program_free(&program);
}

/* Each chunk of a rank, in the order of the model, with what comes from the stage before it and
 * goes to the one behind it; ranks without a stage only meet the others. */
Test(program_between, each_rank_runs_its_own_stages) {
    struct grid grid = {
        .stages = 2, .chunks = 2, .replicas = 1, .replicas_each = 1, .v_shape = true, .drivers = 1};
    struct program *program = program_new(&grid, 1, SUM_REPLICA);
    program_declare_group(program, GROUP_PIPELINE);
    program_declare_group(program, GROUP_WORLD);
    static const struct {
        enum instr_op op;
        int stage, peer; /* below 0: none */
    } wanted[][8] = {
        {{0}},
        {{INSTR_LOAD, 0, -1},
         {INSTR_F, 0, -1},
         {INSTR_SEND_F, 0, 1},
         {INSTR_LOAD, 3, -1},
         {INSTR_RECV_F, 3, 1},
         {INSTR_F, 3, -1}},
        {{INSTR_LOAD, 1, -1},
         {INSTR_RECV_F, 1, 0},
         {INSTR_F, 1, -1},
         {INSTR_SEND_F, 1, 1},
         {INSTR_LOAD, 2, -1},
         {INSTR_RECV_F, 2, 1},
         {INSTR_F, 2, -1},
         {INSTR_SEND_F, 2, 0}},
    };
    static const int count[] = {0, 6, 8};
    for (int r = 0; r < 3; r++) {
        program_add_between(&(struct schedule_config){0}, program, r, program_begin(program, r));
        const struct instr_list *eval = program_list(program, r, LIST_EVAL);
        cr_assert_eq(eval->count, count[r]);
        for (int i = 0; i < eval->count; i++) {
            cr_expect_eq(eval->items[i].op, wanted[r][i].op, "rank %d #%d", r, i);
            cr_expect_eq(eval->items[i].stage, wanted[r][i].stage, "rank %d #%d", r, i);
            if (wanted[r][i].peer >= 0)
                cr_expect_eq(eval->items[i].peer, wanted[r][i].peer, "rank %d #%d", r, i);
        }
        cr_expect_eq(program_list(program, r, LIST_EVAL_END)->items[0].group, 1);
    }
    program_free(&program);
}
