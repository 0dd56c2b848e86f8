/* See team.h. */
#include "backend/cpu/team.h"

#include <omp.h>
#include <stdatomic.h>

enum { LINE_BYTES = 64, MAX_SHARES = 256 }; /* more threads begin two to a share */

/* Pieces of one thread that nobody has taken yet; a cache line each. */
struct share {
    _Alignas(LINE_BYTES) _Atomic int64_t next;
    int64_t end;
};

static void do_share(struct share *share, cpu_team_piece *run, const void *work, int thread) {
    for (;;) {
        int64_t piece = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
        if (piece >= share->end) return;
        run(work, piece, thread);
    }
}

/* The team has its size even for fewer pieces: another size would end threads and start them anew.
 */
void cpu_team_run(int threads, int64_t pieces, cpu_team_piece *run, const void *work) {
    struct share shares[MAX_SHARES];
    int count = threads < MAX_SHARES ? threads : MAX_SHARES;
    for (int i = 0; i < count; i++) {
        atomic_init(&shares[i].next, pieces * i / count);
        shares[i].end = pieces * (i + 1) / count;
    }
#pragma omp parallel num_threads(threads)
    {
        int thread = omp_get_thread_num();
        for (int i = 0; i < count; i++) do_share(&shares[(thread + i) % count], run, work, thread);
    }
}
