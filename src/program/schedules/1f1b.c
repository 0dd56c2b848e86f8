/* One forward, one backward (PipeDream-Flush): a position runs ahead by as many forwards as there
 * are positions behind it, then alternates. The bubble of gpipe with a peak of S - s activations
 * instead of M. Every hop's latency is paid about twice a micro-batch: see eager-1f1b. */
#include "program/pipeline.h"

static void f1b1_order(struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches,
        ahead = writer->shape.positions - 1 - writer->position;
    if (ahead > micros) ahead = micros;
    pipeline_repeat(writer, INSTR_F, 0, ahead);
    pipeline_alternate(writer, micros - ahead);
    pipeline_repeat(writer, INSTR_B, 0, ahead);
}

const struct pipeline_schedule pipeline_1f1b = {
    .name = "1f1b",
    .help = "alternate forwards and backwards after a short warm-up",
    .chunks = 1,
    .order = f1b1_order};
