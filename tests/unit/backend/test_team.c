/* Work that a team shares (team.h): every piece is done once, and nobody waits for a slow thread's
 * share. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/cpu/team.h"
#include "base/clock.h"

enum { MOST_PIECES = 1000 };

struct count {
    int threads;
    _Atomic int *done, *busy; /* times a piece was done; pieces under way of a thread */
    _Atomic int *wrong;
};

static void count_piece(const void *work, int64_t piece, int thread) {
    const struct count *count = work;
    if (thread < 0 || thread >= count->threads) {
        atomic_fetch_add(count->wrong, 1);
        return;
    }
    if (atomic_fetch_add(&count->busy[thread], 1) != 0) atomic_fetch_add(count->wrong, 1);
    atomic_fetch_add(&count->done[piece], 1);
    atomic_fetch_sub(&count->busy[thread], 1);
}

Test(backend_team, every_piece_once) {
    static const int teams[] = {1, 2, 3, 7, 300}, sizes[] = {0, 1, 2, 5, 64, MOST_PIECES};
    for (size_t t = 0; t < sizeof teams / sizeof *teams; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            _Atomic int done[MOST_PIECES] = {0}, busy[300] = {0}, wrong = 0;
            struct count count = {teams[t], done, busy, &wrong};
            cpu_team_run(teams[t], sizes[s], count_piece, &count);
            for (int i = 0; i < MOST_PIECES; i++)
                cr_assert_eq(atomic_load(&done[i]), i < sizes[s], "%d threads, piece %d of %d",
                             teams[t], i, sizes[s]);
            cr_assert_eq(atomic_load(&wrong), 0);
        }
}

enum { PIECES = 16 };

static void hold_first(const void *work, int64_t piece, int thread) {
    _Atomic int *done = *(_Atomic int *const *)work;
    const int64_t limit_ns = (int64_t)20 * 1000 * 1000 * 1000, begin_ns = clock_ns();
    (void)thread;
    /* The first piece ends when all others have: also those of its own thread's share. */
    while (piece == 0 && atomic_load(done) < PIECES - 1)
        if (clock_ns() - begin_ns > limit_ns) return;
    atomic_fetch_add(done, 1);
}

Test(backend_team, others_take_a_slow_threads_share) {
    _Atomic int done = 0, *work = &done;
    cpu_team_run(2, PIECES, hold_first, &work);
    cr_assert_eq(atomic_load(&done), PIECES, "%d of %d pieces", atomic_load(&done), PIECES);
}
