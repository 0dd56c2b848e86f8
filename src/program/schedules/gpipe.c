/* GPipe: all forwards, then all backwards. The published order runs backward from the last
 * micro-batch to the first; here it ascends, since gradients are summed in index order. Time,
 * bubble and peak are the same: the last stage is never short of a micro-batch to turn back. */
#include "program/pipeline.h"

static void gpipe_order(struct pipeline_writer *writer) {
    pipeline_repeat(writer, INSTR_F, 0, writer->shape.micro_batches);
    pipeline_repeat(writer, INSTR_B, 0, writer->shape.micro_batches);
}

const struct pipeline_schedule pipeline_gpipe = {
    .name = "gpipe", .help = "all forwards, then all backwards", .chunks = 1, .order = gpipe_order};
