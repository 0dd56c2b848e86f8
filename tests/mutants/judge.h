/* The judge: runs the programs of all ranks on symbolic values, as ranks would, and compares what
 * they end with against the reference. It shares no code with the verifier and knows nothing of its
 * rules: a program is wrong where parameters, running statistics, losses or requests of any rank
 * differ from those of one device, where ranks wait for ever, or where an instruction would read
 * what was not written, write what is still needed, or reach beyond a buffer.
 *
 * Harmless is therefore what gives the right values and is safe to run on the executor. Memory of a
 * slot is reused as the memory plan does it: forward ends the life of what was received, backward
 * that of activations. */
#ifndef TESTS_MUTANTS_JUDGE_H
#define TESTS_MUTANTS_JUDGE_H

#include "program/program.h"

/* Local. NULL: harmless; else why it is wrong. `samples` of the short last step, at least
 * replicas x micro-batches; `shares`: the training wants shared statistics; `driven`: passes and
 * updates are run on the calls of a driver. */
const char *judge(const struct program *program, const int64_t *samples, bool shares, bool driven);

#endif
