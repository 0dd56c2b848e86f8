/* Zero bubble, H2: as H1, with a warm-up that fills the way there and back and weight gradients
 * that lag twice as far. At equal times no position idles between its first and its last
 * computation; the price is min(M, 2S-1) activations on every position. A lag of s instead of 2s
 * would leave S-1 units idle. */
#include "program/pipeline.h"

static void zb_h2_order(struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches, lag = 2 * writer->position;
    int ahead = 2 * (writer->shape.positions - writer->position) - 1;
    if (ahead > micros) ahead = micros;
    pipeline_repeat(writer, INSTR_F, 0, ahead);
    for (int k = 0; k < micros; k++) {
        pipeline_put(writer, INSTR_I, 0);
        if (k >= lag) pipeline_put(writer, INSTR_W, 0);
        if (ahead + k < micros) pipeline_put(writer, INSTR_F, 0);
    }
    while (pipeline_put_weight(writer)) continue;
}

const struct pipeline_schedule pipeline_zb_h2 = {
    .name = "zb-h2",
    .help = "no bubble between the first and last computation of a rank, for twice the memory",
    .chunks = 1,
    .order = zb_h2_order};
