/* Ranks that share a memory are judged once, whoever of them has taken how much by then. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "run/judge.h"

enum { WORLD = 4 };
#define MIB ((int64_t)1 << 20)

static struct judge_row row(const char *machine, uint64_t memory, int64_t each, int64_t taken) {
    struct judge_row row = {.memory = memory,
                            .each = {each * MIB, (each + 5) * MIB},
                            .once = 2 * MIB,
                            .taken = taken * MIB};
    snprintf(row.machine, sizeof row.machine, "%s", machine);
    return row;
}

/* A planned run of rank 0 of four, that the verdict is said with. */
static struct options options;
static struct planned_run planned;

static void open_job(void) {
    struct rank_info info = {.ranks = WORLD, .local_ranks = 1};
    kit_options("--model mlp --device ref --threads 1 --batch 64 --data "
                "synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
}

static void close_job(void) {
    planned_close(&planned);
    options_free(&options);
}

static struct judge_verdict judge(const struct judge_row *all, int64_t left, char *log,
                                  size_t bytes) {
    log_capture(log, bytes);
    struct judge_verdict verdict = judge_all(&planned, all, WORLD, left);
    log_capture(NULL, 0);
    return verdict;
}

/* 4 x 10 + 2 MiB in 45: before anyone has taken a byte, after some have, and after all have. */
Test(run_judge, what_siblings_have_taken_does_not_matter) {
    static const int taken[][WORLD] = {{0, 0, 0, 0}, {0, 8, 8, 8}, {8, 0, 0, 0}, {8, 8, 8, 8}};
    char log[1024] = "";
    open_job();
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct judge_row all[WORLD];
        int64_t sum = 0;
        for (int r = 0; r < WORLD; r++)
            all[r] = row("here", 7, 10, taken[i][r]), sum += taken[i][r] * MIB;
        struct judge_verdict verdict = judge(all, 45 * MIB - sum, log, sizeof log);
        cr_expect(!verdict.refused && verdict.need == 42 * MIB, "%s", log);
        verdict = judge(all, 40 * MIB - sum, log, sizeof log);
        cr_expect(verdict.refused && verdict.available == 40 * MIB && verdict.ranks == WORLD);
        cr_expect(strstr(log, "the 4 ranks of this machine would need 42.0 MiB, what is available "
                              "is 40.0 MiB (12.0 MiB each"),
                  "%s", log);
    }
    close_job();
}

Test(run_judge, unequal_ranks_are_added_up_as_they_are) {
    char log[1024] = "";
    int64_t taken;
    struct judge_row all[WORLD] = {row("here", 0, 30, 3), row("here", 0, 10, 1),
                                   row("here", 0, 10, 1), row("here", 0, 20, 2)};
    struct planned_met met = judge_sum(all, WORLD, 0, &taken);
    cr_expect(met.ranks == 4 && met.need_bytes == 72 * (size_t)MIB && taken == 7 * MIB);
    open_job();
    cr_expect(judge(all, 60 * MIB, log, sizeof log).refused);
    cr_expect(strstr(log, "(12.0 MiB to 32.0 MiB each"), "%s", log);
    close_job();
}

/* Machines and cgroups are judged by their first rank each, for their own ranks. */
Test(run_judge, each_memory_has_one_judge) {
    int64_t taken;
    struct judge_row all[WORLD] = {row("a", 0, 10, 0), row("b", 0, 10, 0), row("a", 3, 10, 0),
                                   row("b", 0, 10, 0)};
    static const int judges[WORLD] = {0, 1, 2, 1};
    for (int r = 0; r < WORLD; r++) {
        cr_expect_eq(judge_of(all, WORLD, r), judges[r]);
        cr_expect_eq(judge_asked(all, WORLD, r), judges[r] == r);
    }
    /* On several machines a rank needs more: it talks by another communicator. */
    cr_expect_eq(judge_sum(all, WORLD, 1, &taken).need_bytes, 32 * (size_t)MIB);
    cr_expect_eq(judge_sum(all, WORLD, 2, &taken).need_bytes, 17 * (size_t)MIB);
}

Test(run_judge, what_was_judged_before_is_not_judged_again) {
    struct judge_row all[WORLD];
    for (int r = 0; r < WORLD; r++) all[r] = row("here", 0, 10, 0), all[r].answered = true;
    for (int r = 0; r < WORLD; r++) cr_expect(!judge_asked(all, WORLD, r));
    all[2].answered = false; /* it is one of four: the first of them judges */
    cr_expect(judge_asked(all, WORLD, 0) && !judge_asked(all, WORLD, 2));
}

/* What a rank tells of itself is what it planned, and of that what it holds. */
Test(run_judge, a_rank_tells_what_it_planned) {
    open_job();
    struct judge_row own = judge_row_of(&planned, "here", false);
    plan_use_comm(planned.plan, "shm");
    cr_expect_eq(own.each[0] + own.once, (int64_t)plan_bytes(planned.plan));
    plan_use_comm(planned.plan, "hosts");
    cr_expect_eq(own.each[1] + own.once, (int64_t)plan_bytes(planned.plan));
    cr_expect(own.taken >= 0 && own.taken <= own.each[0]);
    cr_expect(!own.answered && strcmp(own.machine, "here") == 0);
    close_job();
}
