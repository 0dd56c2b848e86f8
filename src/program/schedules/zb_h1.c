/* Zero bubble, H1: backward is split into I, which the position before waits for, and W, which
 * nobody waits for. W lags behind I by the position's number, so that it fills what was a bubble;
 * forwards run ahead as in 1f1b, and so does memory: min(M, S) activations on every position. */
#include "program/pipeline.h"

static void zb_h1_order(struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches, lag = writer->position;
    int ahead = writer->shape.positions - 1 - writer->position;
    if (ahead > micros) ahead = micros;
    pipeline_repeat(writer, INSTR_F, 0, ahead);
    for (int k = 0; k < micros; k++) {
        if (ahead + k < micros) pipeline_put(writer, INSTR_F, 0);
        pipeline_put(writer, INSTR_I, 0);
        if (k >= lag) pipeline_put(writer, INSTR_W, 0);
    }
    while (pipeline_put_weight(writer)) continue;
}

const struct pipeline_schedule pipeline_zb_h1 = {
    .name = "zb-h1",
    .help = "1f1b with weight gradients moved into the bubble, in about the same memory",
    .chunks = 1,
    .order = zb_h1_order};
