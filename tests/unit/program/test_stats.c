/* Programs whose ranks share statistics: what the builder makes is taken, also where ranks have no
 * samples, and what would leave a rank waiting for ever, or let two ranks share different things,
 * is refused. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "between.h"
#include "kit.h"
#include "program/schedule.h"
#include "sync/sync.h"

struct step {
    int ranks, micro_batches, buckets;
    enum sum_order sum;
    int64_t last; /* samples in all, dealt as the sampler does; 0: every micro-batch is full */
};

static const struct step steps[] = {
    {2, 1, 1, SUM_REPLICA, 0}, {2, 2, 3, SUM_REPLICA, 0}, {3, 2, 2, SUM_REPLICA, 7},
    {2, 2, 3, SUM_REPLICA, 2}, {3, 2, 1, SUM_REPLICA, 1}, {2, 3, 2, SUM_REPLICA, 5},
    {2, 2, 2, SUM_TREE, 3},    {4, 1, 2, SUM_TREE, 2},    {3, 1, 4, SUM_REPLICAS_FIRST, 2},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

static int64_t samples[64];

static void deal(const struct step *step) {
    int total = step->ranks * step->micro_batches;
    for (int g = 0; g < total; g++)
        samples[g] = step->last ? (step->last - g + total - 1) / total : 7;
}

/* With a rank for each replica, or one for all. */
static struct program *build_on(int ranks, const struct step *step, bool shares) {
    struct program *whole_step;
    deal(step);
    struct schedule_config config = {.grid = grid_flat(ranks, step->ranks),
                                     .micro_batches = step->micro_batches,
                                     .sum = step->sum,
                                     .samples = step->last ? samples : NULL,
                                     .shares = shares};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("single", &config, &program), STATUS_OK);
    cr_assert_eq(
        sync_insert("allreduce", program, &(struct sync_config){.buckets = &(int){step->buckets}}),
        STATUS_OK);
    if (!step->last) return program;
    struct step whole = *step;
    whole.last = 0;
    whole_step = build_on(ranks, &whole, shares);
    deal(step);
    return program_with_last(whole_step, program);
}

static struct program *build(const struct step *step, bool shares) {
    return build_on(step->ranks, step, shares);
}

static enum status verify(const struct program *program, char log[512]) {
    memset(log, 0, 512);
    log_capture(log, 512);
    enum status status = program_verify(program, samples);
    log_capture(NULL, 0);
    return status;
}

static struct instr_list *body(struct program *program, int rank) {
    return &program_edit(program, rank)->list[program_step(program)];
}

static int count_of(struct program *program, int rank, enum instr_op op) {
    int count = 0;
    for (int i = 0; i < body(program, rank)->count; i++)
        count += body(program, rank)->items[i].op == op;
    return count;
}

/* What a rank shares, in order, written from the definition: "f0 b0 f1 b1". */
static void shared(struct program *program, int rank, char text[256]) {
    int used = 0;
    text[0] = 0;
    for (int i = 0; i < body(program, rank)->count; i++) {
        const struct instr *instr = &body(program, rank)->items[i];
        bool forward = instr->op == INSTR_F || instr->op == INSTR_STATS_F,
             backward = instr->op == INSTR_B || instr->op == INSTR_STATS_B;
        if ((!forward && !backward) || instr->segment > 0) continue;
        used += snprintf(text + used, 256 - (size_t)used, "%c%d ", forward ? 'f' : 'b',
                         instr->micro % program->micro_batches);
    }
}

static bool all_share_alike(struct program *program) {
    char first[256], other[256];
    shared(program, 0, first);
    for (int r = 1; r < program->ranks; r++) {
        shared(program, r, other);
        if (strcmp(first, other) != 0) return false;
    }
    return true;
}

Test(program_stats, what_the_builder_makes_is_taken) {
    for (int s = 0; s < STEPS; s++) {
        struct program *program = build(&steps[s], true);
        char log[512], *text = program_text(program);
        cr_expect_eq(verify(program, log), STATUS_OK, "%s\n%s", log, text);
        cr_expect(program_shares(program) && all_share_alike(program), "%s", text);
        struct program *again = program_copy(program);
        char *same = program_text(again);
        cr_expect_str_eq(same, text);
        program_free(&again);
        program_free(&program);
        program = build(&steps[s], false);
        cr_expect(!program_shares(program));
        for (int r = 0; r < program->ranks; r++)
            cr_expect_eq(count_of(program, r, INSTR_STATS_F), 0);
        program_free(&program);
        free(same);
        free(text);
    }
}

/* Two samples for two ranks of two micro-batches are both rank 0's: rank 1 stands by twice. */
Test(program_stats, a_rank_without_samples_takes_part) {
    struct program *program = build(&(struct step){2, 2, 1, SUM_REPLICA, 2}, true);
    cr_expect_eq(count_of(program, 0, INSTR_F), 2);
    cr_expect_eq(count_of(program, 0, INSTR_STATS_F), 0);
    cr_expect_eq(count_of(program, 1, INSTR_F), 0);
    cr_expect_eq(count_of(program, 1, INSTR_STATS_F), 2);
    cr_expect_eq(count_of(program, 1, INSTR_STATS_B), 2);
    program_free(&program);
    program = build(&(struct step){3, 2, 1, SUM_REPLICA, 1}, true); /* nobody has a second one */
    cr_expect_eq(count_of(program, 2, INSTR_STATS_F), 1);
    program_free(&program);
}

static void without(struct program *program, int rank, int at) {
    struct instr_list *list = body(program, rank);
    memmove(list->items + at, list->items + at + 1,
            (size_t)(list->count - at - 1) * sizeof *list->items);
    list->count--;
}

/* Deleting any instruction, and turning the group of any, is refused; but the uses of nothing need
 * not be added, and a rank that is alone needs no group to count and report. */
static void check_damage(struct program *program, int rank, int at) {
    char log[512], line[INSTR_TEXT_BYTES];
    instr_text(&body(program, rank)->items[at], rank, line);
    struct program *mutant = program_copy(program);
    bool idle =
        body(program, rank)->items[at].op == INSTR_TIE && count_of(program, rank, INSTR_ZERO) > 0;
    without(mutant, rank, at);
    cr_expect_eq(verify(mutant, log), idle ? STATUS_OK : STATUS_USAGE, "without %s: %s", line, log);
    program_free(&mutant);
    mutant = program_copy(program);
    struct instr *turned = &body(mutant, rank)->items[at];
    turned->group = turned->group == INSTR_ALL ? 1 : INSTR_ALL;
    bool alone = program->ranks == 1 && (turned->op == INSTR_COUNT || turned->op == INSTR_REPORT);
    cr_expect_eq(verify(mutant, log), alone ? STATUS_OK : STATUS_USAGE,
                 "with a group added or left out: %s: %s", line, log);
    program_free(&mutant);
}

/* A swap that is taken leaves all ranks sharing the same things. */
static void check_swap(struct program *program, int rank, int at) {
    char log[512];
    struct program *mutant = program_copy(program);
    struct instr *items = body(mutant, rank)->items, kept = items[at];
    items[at] = items[at + 1];
    items[at + 1] = kept;
    if (verify(mutant, log) == STATUS_OK) {
        char *text = program_text(mutant);
        cr_expect(all_share_alike(mutant), "%s", text);
        free(text);
    }
    program_free(&mutant);
}

Test(program_stats, damage_is_refused) {
    for (int s = 0; s < STEPS; s++) {
        struct program *program = build(&steps[s], true);
        for (int r = 0; r < program->ranks; r++) {
            for (int i = 0; i < body(program, r)->count; i++) check_damage(program, r, i);
            for (int i = 0; i + 1 < body(program, r)->count; i++) check_swap(program, r, i);
        }
        program_free(&program);
    }
}

/* Each is taken as it stands; with `from` put for `to` in rank 1's part it is refused, saying so.
 */
static const char two_ranks[] =
    "stretto program 5\n"
    "ranks 2 stages 1 replicas 2 micro-batches 2 sum replica\n"
    "groups world replicas\n"
    "rank 0 slots 2 grads 1 buckets 2\n"
    "rank 0 start\n"
    "#30 r0 BCAST q0\n"
    "rank 0 body\n"
    "#0 r0 COUNT q0\n"
    "#1 r0 LOAD s0 m0 a0\n"
    "#2 r0 F s0 m0 a0 q1\n"
    "#3 r0 LOAD s0 m1 a1\n"
    "#4 r0 F s0 m1 a1 q1\n"
    "#5 r0 B s0 m0 a0 g0 q1 new\n"
    "#6 r0 B s0 m1 a1 g0 q1\n"
    "#7 r0 TIE s0 g0\n"
    "#8 r0 REDUCE s0 b0 g0 q0\n"
    "#9 r0 REDUCE s0 b1 g0 q0\n"
    "#20 r0 REPORT q0\n"
    "#10 r0 NORM g0\n"
    "#11 r0 STEP g0\n"
    "rank 1 slots 2 grads 1 buckets 2\n"
    "rank 1 start\n"
    "#30 r1 BCAST q0\n"
    "rank 1 body\n"
    "#0 r1 COUNT q0\n"
    "#1 r1 LOAD s0 m0 a0\n"
    "#2 r1 LOAD s0 m1 a1\n"
    "#3 r1 F s0 m0 a0 q1\n"
    "#4 r1 F s0 m1 a1 q1\n"
    "#5 r1 B s0 e0 m0 a0 g0 q1 new\n"
    "#6 r1 B s0 e1 m0 a0 g0 q1 new\n"
    "#7 r1 I s0 m1 a1 q1\n"
    "#8 r1 W s0 m1 a1 g0\n"
    "#9 r1 TIE s0 g0\n"
    "#10 r1 REDUCE s0 b0 g0 q0\n"
    "#11 r1 REDUCE s0 b1 g0 q0\n"
    "#20 r1 REPORT q0\n"
    "#12 r1 NORM g0\n"
    "#13 r1 STEP g0\n" BETWEEN_RANKS("0", "q1") BETWEEN_RANKS("1", "q1");

static const struct {
    const char *from, *to, *says;
} edits[] = {
    {"#4 r1 F s0 m1 a1 q1\n#5 r1 B s0 e0 m0 a0 g0 q1 new\n#6 r1 B s0 e1 m0 a0 g0 q1 new\n",
     "#5 r1 B s0 e0 m0 a0 g0 q1 new\n#6 r1 B s0 e1 m0 a0 g0 q1 new\n#4 r1 F s0 m1 a1 q1\n",
     "comes to this meeting"},
    {"#6 r1 B s0 e1 m0 a0 g0 q1 new\n#7 r1 I s0 m1 a1 q1\n",
     "#7 r1 I s0 m1 a1 q1\n#6 r1 B s0 e1 m0 a0 g0 q1 new\n", "comes to this meeting"},
    {"#6 r1 B s0 e1 m0 a0 g0 q1 new\n", "#6 r1 B s0 e1 m0 a0 g0 q0 new\n",
     "rank 0 waits at #5 r0 B s0 m0 a0 g0 q1 new for rank 1, which waits at #6 r1 B"},
    {"#5 r1 B s0 e0 m0 a0 g0 q1 new\n", "#5 r1 B s0 e0 m0 a0 g0 new\n", "this one does not"},
    {"#8 r1 W s0 m1 a1 g0\n", "#8 r1 W s0 m1 a1 g0 pure\n", "no such flag"},
    {"#0 r1 COUNT q0\n", "#0 r1 COUNT q0\n#1 r1 STATS_F s0 m0 a0 q1\n", "has samples"},
    {"#0 r1 COUNT q0\n", "", "COUNT"},
    {"#20 r1 REPORT q0\n"
     "#12 r1 NORM g0\n",
     "#0 r1 COUNT q0\n#12 r1 NORM g0\n", "comes to this meeting"},
    {"#0 r1 COUNT q0\n", "#0 r1 COUNT q0\n#1 r1 STATS_F s0 m0 a0 q1\n", "micro-batch"},
};

static char *edited(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "no \"%s\"", from);
    return mem_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static enum status verify_text(const char *text, char log[512]) {
    struct program *program = NULL;
    cr_assert_eq(program_parse("text", text, strlen(text), &program), STATUS_OK);
    enum status status = verify(program, log);
    program_free(&program);
    return status;
}

Test(program_stats, other_orders_are_taken_only_when_all_ranks_share_alike) {
    char log[512];
    for (int g = 0; g < 4; g++) samples[g] = 3;
    cr_assert_eq(verify_text(two_ranks, log), STATUS_OK, "%s", log);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        char *text = edited(two_ranks, edits[i].from, edits[i].to);
        cr_expect_eq(verify_text(text, log), STATUS_USAGE, "taken:\n%s", text);
        cr_expect(strstr(log, edits[i].says), "%s\n%s", edits[i].says, log);
        free(text);
    }
}

Test(program_stats, one_replica_has_nobody_to_share_with) {
    char log[512];
    static const char text[] =
        "stretto program 5\n"
        "ranks 1 stages 1 replicas 1 micro-batches 1 sum replica\n"
        "groups world replicas\n"
        "rank 0 body\n#0 r0 COUNT q0\n#1 r0 LOAD s0 m0 a0\n#2 r0 F s0 m0 a0 q1\n";
    samples[0] = 3;
    cr_expect_eq(verify_text(text, log), STATUS_USAGE);
    cr_expect(strstr(log, "no other replica"), "%s", log);
}

/* --- replicas of one rank --- */

static const struct step more_steps[] = {{3, 3, 1, SUM_REPLICAS_FIRST, 0},
                                         {3, 2, 1, SUM_REPLICAS_FIRST, 4},
                                         {5, 3, 1, SUM_TREE, 0},
                                         {3, 3, 1, SUM_TREE, 7},
                                         {60, 1, 1, SUM_REPLICA, 0}};
enum { MORE_STEPS = sizeof more_steps / sizeof more_steps[0] };

/* Every step above and those that only one rank can do. */
static const struct step *step_of_one(int s) {
    return s < STEPS ? &steps[s] : &more_steps[s - STEPS];
}

Test(program_stats, one_rank_runs_its_replicas_together) {
    for (int s = 0; s < STEPS + MORE_STEPS; s++) {
        const struct step *step = step_of_one(s);
        struct program *program = build_on(1, step, true);
        char log[512], *text = program_text(program);
        cr_expect_eq(verify(program, log), STATUS_OK, "%s\n%s", log, text);
        cr_expect_eq(program_of(program, 0)->chunk[0].slots, step->ranks);
        cr_expect_eq(count_of(program, 0, INSTR_STATS_F), 0);
        struct program *again = program_copy(program);
        char *same = program_text(again);
        cr_expect_str_eq(same, text);
        program_free(&again);
        for (int i = 0; step->ranks < 10 && i < body(program, 0)->count; i++)
            check_damage(program, 0, i);
        program_free(&program);
        free(same);
        free(text);
    }
}

static const char one_rank[] =
    "stretto program 5\n"
    "ranks 1 stages 1 replicas 2 micro-batches 1 sum replica replicas-each 2\n"
    "groups world replicas\n"
    "rank 0 slots 2 grads 2 buckets 1\n"
    "rank 0 body\n"
    "#0 r0 COUNT q0\n"
    "#1 r0 LOAD s0 m0 a0\n"
    "#2 r0 LOAD s0 m1 a1\n"
    "#3 r0 F s0 m1 a1 q1 pure\n"
    "#4 r0 F s0 m0 a0 q1\n"
    "#5 r0 I s0 m0 a0 q1\n"
    "#6 r0 B s0 m1 a1 g1 q1 new\n"
    "#7 r0 W s0 m0 a0 g0 new\n"
    "#8 r0 TIE s0 g0\n"
    "#9 r0 TIE s0 g1\n"
    "#10 r0 SUM s0 g0 h1\n"
    "#20 r0 REPORT q0\n"
    "#11 r0 NORM g0\n"
    "#12 r0 STEP g0\n" BETWEEN("0");

static const struct {
    const char *from, *to, *says;
} edits_of_one[] = {
    {"#2 r0 LOAD s0 m1 a1\n#3 r0 F s0 m1 a1 q1 pure\n#4 r0 F s0 m0 a0 q1\n",
     "#4 r0 F s0 m0 a0 q1\n#2 r0 LOAD s0 m1 a1\n#3 r0 F s0 m1 a1 q1 pure\n", "not all of them"},
    {"#4 r0 F s0 m0 a0 q1\n", "#4 r0 I s0 m1 a1 q1\n", "not all of them"},
    {"#6 r0 B s0 m1 a1 g1 q1 new\n#7 r0 W s0 m0 a0 g0 new\n",
     "#7 r0 W s0 m0 a0 g0 new\n#6 r0 B s0 m1 a1 g1 q1 new\n", "not all of them"},
    {"#6 r0 B s0 m1 a1 g1 q1 new\n", "#6 r0 B s0 e0 m1 a1 g1 q1 new\n", "is not cut"},
    {"#0 r0 COUNT q0\n", "#0 r0 COUNT q0\n#1 r0 STATS_F s0 m0 a0 q1\n", "needs no part"},
    {"#12 r0 STEP g0\n", "#12 r0 STEP g0\n#13 r0 I s0 m0 a0 q1\n", ""},
};

Test(program_stats, replicas_of_one_rank_stand_together) {
    char log[512];
    samples[0] = samples[1] = 3;
    cr_assert_eq(verify_text(one_rank, log), STATUS_OK, "%s", log);
    for (size_t i = 0; i < sizeof edits_of_one / sizeof edits_of_one[0]; i++) {
        char *text = edited(one_rank, edits_of_one[i].from, edits_of_one[i].to);
        cr_expect_eq(verify_text(text, log), STATUS_USAGE, "taken:\n%s", text);
        cr_expect(strstr(log, edits_of_one[i].says), "%s\n%s", edits_of_one[i].says, log);
        free(text);
    }
}

/* A group carries one exchange at a time: what the executor's communicator would stop at is refused
 * here. */
Test(program_stats, statistics_are_not_shared_in_the_group_of_an_open_count) {
    char log[512];
    for (int g = 0; g < 4; g++) samples[g] = 3;
    char *text = mem_text(two_ranks);
    for (char *at = text; (at = strstr(at, " q1")); at += 3) at[2] = '0';
    cr_expect_eq(verify_text(text, log), STATUS_USAGE);
    cr_expect(strstr(log, "an exchange of group 0 is under way"), "%s", log);
    cr_expect(strstr(log, "against #0 r0 COUNT q0"), "%s", log);
    free(text);
}

/* Batch norms anywhere in a pass meet: where one rank cuts it and another does not, what stands
 * between the segments stands inside the other's pass. */
Test(program_stats, a_meeting_between_segments_is_one_inside_the_pass_of_another) {
    char log[512];
    static const char whole[] = "#5 r0 B s0 m0 a0 g0 q1 new\n",
                      cut[] = "#6 r1 B s0 e1 m0 a0 g0 q1 new\n";
    for (int g = 0; g < 4; g++) samples[g] = 3;
    char *behind = edited(two_ranks, whole, "#5 r0 B s0 m0 a0 g0 q1 new\n#40 r0 MEET q0\n");
    char *right = edited(behind, cut, "#6 r1 B s0 e1 m0 a0 g0 q1 new\n#40 r1 MEET q0\n");
    char *wrong = edited(behind, cut, "#40 r1 MEET q0\n#6 r1 B s0 e1 m0 a0 g0 q1 new\n");
    cr_expect_eq(verify_text(right, log), STATUS_OK, "%s", log);
    cr_expect_eq(verify_text(wrong, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 23: rank 0 waits at #5 r0 B"), "%s", log);
    cr_expect(strstr(log, "which waits at #40 r1 MEET q0 for rank 0"), "%s", log);
    free(behind);
    free(right);
    free(wrong);
}

static void reduce_by_the_group_that_shares(struct program *program) {
    for (int k = 0; k < program->kind_count; k++) {
        struct instr_list *list = &program->kinds[k].list[program_step(program)];
        for (int i = 0; i < list->count; i++)
            if (list->items[i].op == INSTR_REDUCE) list->items[i].group = 1;
    }
}

/* Ranks that cut a pass alike may sum in its group between the segments; those that do not would
 * meet there for different things. */
Test(program_stats, sums_between_segments_are_those_of_all) {
    char log[512];
    struct program *program = build(&(struct step){2, 1, 2, SUM_REPLICA, 0}, true);
    reduce_by_the_group_that_shares(program);
    cr_expect_eq(verify(program, log), STATUS_OK, "%s", log);
    program_free(&program);
    program = build(&(struct step){2, 2, 2, SUM_REPLICA, 3}, true); /* rank 1 stands in */
    reduce_by_the_group_that_shares(program);
    cr_expect_eq(verify(program, log), STATUS_USAGE);
    cr_expect(strstr(log, "rule 22 at "), "%s", log);
    program_free(&program);
}
