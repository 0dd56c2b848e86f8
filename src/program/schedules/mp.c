/* Model parallel without a pipeline: one micro-batch at a time through all stages. Position 0 runs
 * B(m) before F(m+1), and B(m) on stage 0 is the last of micro-batch m, so no further rule is
 * needed. Bubble (S-1)/S, one micro-batch in memory: what the others are measured against. */
#include "program/pipeline.h"

static void mp_order(struct pipeline_writer *writer) {
    for (int m = 0; m < writer->shape.micro_batches; m++) {
        pipeline_put(writer, INSTR_F, 0);
        pipeline_put(writer, INSTR_B, 0);
    }
}

const struct pipeline_schedule pipeline_mp = {.name = "mp",
                                              .help =
                                                  "one micro-batch at a time through all stages",
                                              .chunks = 1,
                                              .order = mp_order};
