/* Pipelined model parallel: forwards overlap as in gpipe; backward goes through all stages for one
 * micro-batch before it starts for the next. A position's own order is that of gpipe. The rule
 * between positions is not in it: the last stage awaits the end of B(m) on stage 0 before B(m+1),
 * which one_backward_at_a_time asks for. */
#include "program/pipeline.h"

static void pmp_order(struct pipeline_writer *writer) {
    pipeline_repeat(writer, INSTR_F, 0, writer->shape.micro_batches);
    pipeline_repeat(writer, INSTR_B, 0, writer->shape.micro_batches);
}

const struct pipeline_schedule pipeline_pmp = {
    .name = "pmp",
    .help = "forwards overlap, backward of one micro-batch at a time",
    .chunks = 1,
    .one_backward_at_a_time = true,
    .order = pmp_order};
