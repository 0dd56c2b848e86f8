/* Work in pieces for a team whose threads are not equally fast: a core that other processes, or
 * other virtual machines, use as well has half the speed or less, and a team that deals its work
 * out beforehand waits for that one at the end of every operation. Here a thread begins with a
 * share of its own, pieces that lie side by side, and whoever is done takes from the shares of the
 * others.
 *
 * Who does a piece must not matter: bits follow from the pieces, not from the team. */
#ifndef BACKEND_CPU_TEAM_H
#define BACKEND_CPU_TEAM_H

#include <stdint.h>

/* `thread`: below the number of threads, one at a time: for scratch of its own. */
typedef void cpu_team_piece(const void *work, int64_t piece, int thread);

/* Local, on a team of `threads`; all pieces are done on return, also where OpenMP gives fewer. */
void cpu_team_run(int threads, int64_t pieces, cpu_team_piece *run, const void *work);

#endif
