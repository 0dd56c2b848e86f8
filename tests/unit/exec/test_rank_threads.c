/* Ranks as threads: whose failure is told, and that nobody waits for a rank that failed before it
 * had a communicator. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "exec/rank_threads.h"
#include "kit.h"

enum { RANKS = 3 };

struct member {
    const struct options *options;
    struct rank_threads *threads;
    int rank, failing; /* `failing`: the rank that fails before it opens its engine; -1: none */
    struct kit_plan planned;
    struct train_state state;
    struct engine *engine;
    enum status status;
    pthread_t thread;
};

static enum status open_comm(void *context, const struct plan *plan, struct comm **out) {
    struct member *member = context;
    return rank_threads_comm(member->threads, member->rank, plan, out);
}

static enum status open_task(void *context, int rank) {
    struct member *member = (struct member *)context + rank;
    member->thread = pthread_self();
    member->state = train_fresh();
    if (rank == member->failing) return STATUS_DATA;
    TRY(kit_plan(member->options, rank, RANKS, NULL, &member->planned));
    struct engine_config config = {.plan = member->planned.plan,
                                   .state = &member->state,
                                   .meeting = {.context = member, .open = open_comm}};
    member->status = engine_open(&config, &member->engine);
    return member->status;
}

static enum status close_task(void *context, int rank) {
    struct member *member = (struct member *)context + rank;
    /* also of one that could not be opened: the position of the rank is asked for */
    if (member->engine) cr_expect_eq(engine_next_step(member->engine), 0);
    engine_close(&member->engine);
    kit_plan_free(&member->planned);
    return STATUS_OK;
}

/* Opens engines on all ranks but the failing one, and closes them. */
static void run(int failing, bool apart, struct member members[RANKS], enum status want) {
    struct options options;
    struct rank_threads *threads;
    kit_options("--model mlp --data synthetic:count=24,test_count=6 --device ref --threads 1 "
                "--batch 12 --strategy ddp -n 3",
                &options);
    cr_assert_eq(rank_threads_open(RANKS, apart, &threads), STATUS_OK);
    for (int r = 0; r < RANKS; r++)
        members[r] =
            (struct member){.options = &options, .threads = threads, .rank = r, .failing = failing};
    cr_expect_eq(rank_threads_do(threads, open_task, members), want);
    cr_expect_eq(rank_threads_failed(threads), want);
    cr_expect_eq(rank_threads_try(threads, close_task, members), STATUS_OK);
    rank_threads_close(&threads);
    options_free(&options);
}

Test(exec_rank_threads, have_a_thread_each) {
    struct member members[RANKS];
    for (int apart = 0; apart < 2; apart++) {
        run(-1, apart, members, STATUS_OK);
        for (int r = 0; r < RANKS; r++) {
            cr_expect_eq(members[r].status, STATUS_OK);
            bool own = apart || r > 0;
            cr_expect_eq(!pthread_equal(members[r].thread, pthread_self()), own, "rank %d", r);
        }
    }
}

Test(exec_rank_threads, tell_of_one_that_fails_before_it_meets_the_others) {
    for (int failing = 0; failing < RANKS; failing++) {
        struct member members[RANKS];
        run(failing, false, members, STATUS_DATA);
        for (int r = 0; r < RANKS; r++)
            if (r != failing) cr_expect_eq(members[r].status, STATUS_PEER, "rank %d", r);
    }
}
