/* 1F1B with a warm-up twice as long, so that a backward is awaited only after the way there and
 * back has been filled: latency between positions is paid once a step instead of with every
 * micro-batch. It costs memory: 2(S-1-s)+1 activations on position s. */
#include "program/pipeline.h"

static void eager_1f1b_order(struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches;
    int ahead = 2 * (writer->shape.positions - 1 - writer->position);
    if (ahead > micros) ahead = micros;
    pipeline_repeat(writer, INSTR_F, 0, ahead);
    pipeline_alternate(writer, micros - ahead);
    pipeline_repeat(writer, INSTR_B, 0, ahead);
}

const struct pipeline_schedule pipeline_eager_1f1b = {
    .name = "eager-1f1b",
    .help = "1f1b with a longer warm-up, which hides latency between ranks",
    .chunks = 1,
    .order = eager_1f1b_order};
