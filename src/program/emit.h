/* From the order of a pipeline's computations (pipeline.h) to the whole program of a position:
 * loads, messages, slots, gradient buffers, sums, the end of the step. Private to src/program.
 *
 * Micro-batches without samples are left out. The gradients of a stage are whole (TIE) right behind
 * its last backward; a sync policy finds them there. */
#ifndef PROGRAM_EMIT_H
#define PROGRAM_EMIT_H

#include "program/pipeline.h"
#include "program/schedule.h"

/* Local. Declares the groups that emit_rank names. */
void emit_declare(const struct schedule_config *config, struct program *program);
/* Local. The rank program of a rank without a stage, which takes part where all ranks meet; of a
 * rank whose position runs `order`. */
void emit_driver(const struct schedule_config *config, struct rank_program *out);
void emit_rank(const struct schedule_config *config, const struct program *program,
               const struct pipeline_order *order, int rank, struct rank_program *out);

#endif
