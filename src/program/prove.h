/* The proof of a program, before anything runs; see verify.c for how. */
#ifndef PROGRAM_PROVE_H
#define PROGRAM_PROVE_H

#include <stdint.h>

#include "base/status.h"

struct program;

/* Local. Proves of all ranks' programs, before anything runs, that they keep the rules of rule.def:
 * they train as one device would, read nothing that was not written, and never wait for ever. The
 * body has all micro-batches; list last those of `last_samples` (G entries, those with 0 skipped;
 * NULL: those that it loads). Replicas that do the same are looked at once. STATUS_USAGE with the
 * rule, the first instruction that breaks it and the one it disagrees with, or the ranks that wait
 * for one another. */
enum status program_verify(const struct program *program, const int64_t *last_samples);
/* ... and rule 35, which is asked for where a device waits inside operations. */
enum status program_verify_in_order(const struct program *program, const int64_t *last_samples);
/* ... and what was proven, of how much. */
struct step_proof {
    int64_t instructions;      /* of all ranks */
    int peak_slots, peak_rank; /* most slots that a rank has in use at once, and such a rank */
};
struct program_proof {
    int ranks, walked; /* in all; looked at, the others do the same */
    int rules;         /* of rule.def */
    int choices; /* where groups are chosen: all of them, if so many were walked; 0: not all */
    struct step_proof body, last; /* last: 0 instructions where there is no such list */
};
enum status program_prove(const struct program *program, const int64_t *last_samples,
                          struct program_proof *out);

#endif
