/* What v-half and v-min have in common: a block of six ticks, repeated for every micro-batch.
 * Private to these schedules. */
#ifndef PROGRAM_SCHEDULES_V_BLOCK_H
#define PROGRAM_SCHEDULES_V_BLOCK_H

#include "program/pipeline.h"

/* The ticks of a position for micro-batch 0; micro-batch m has them 6m later. No two of them are
 * equal modulo 6. */
struct v_block {
    int forward[2], input[2]; /* per chunk */
};

/* Local. Writes the position's computations by tick; W goes where the block has a hole, oldest
 * first. */
void v_block_write(struct pipeline_writer *writer, struct v_block block);

#endif
