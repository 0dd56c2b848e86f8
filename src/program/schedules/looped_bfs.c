/* Looped, breadth first: all forwards of a chunk before those of the next, backward the same way
 * round. The bubble of interleaved with all activations in memory. Parameters of a chunk are used
 * in two runs, so that gathering them (ZeRO-3) happens twice a step and not with every
 * micro-batch. Backward of a chunk ascends, since gradients are summed in index order. */
#include "program/pipeline.h"

static void looped_bfs_order(struct pipeline_writer *writer) {
    int chunks = writer->shape.chunks, micros = writer->shape.micro_batches;
    for (int c = 0; c < chunks; c++) pipeline_repeat(writer, INSTR_F, c, micros);
    for (int c = chunks - 1; c >= 0; c--) pipeline_repeat(writer, INSTR_B, c, micros);
}

const struct pipeline_schedule pipeline_looped_bfs = {
    .name = "looped-bfs",
    .help = "stage by stage, all micro-batches of one before the next: suits ZeRO-3",
    .chunks = 2,
    .any_chunks = true,
    .order = looped_bfs_order};
