/* A driver calls the stages: the order of pmp, but no stage begins a pass before the driver has
 * called for it. The driver is a rank of its own without a stage (`driven`); whoever makes a
 * program adds the calls. It pays for its simplicity: a message for each pass of each stage, and a
 * round trip after each backward. */
#include "program/pipeline.h"

static void rpc_order(struct pipeline_writer *writer) {
    pipeline_repeat(writer, INSTR_F, 0, writer->shape.micro_batches);
    pipeline_repeat(writer, INSTR_B, 0, writer->shape.micro_batches);
}

const struct pipeline_schedule pipeline_rpc = {.name = "rpc",
                                               .help = "pmp, each pass on the call of a driver",
                                               .chunks = 1,
                                               .one_backward_at_a_time = true,
                                               .driven = true,
                                               .order = rpc_order};
