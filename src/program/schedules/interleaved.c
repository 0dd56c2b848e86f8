/* Interleaved 1F1B: a position holds several chunks, and micro-batches go round the positions once
 * per chunk, in groups of as many as there are positions. The bubble shrinks by the number of
 * chunks, traffic grows by it. Micro-batches must be a multiple of the positions: a short last
 * group deadlocks, so surplus ones are dropped from a longer order. */
#include "program/pipeline.h"

static int interleaved_micros(const struct pipeline_shape *shape) {
    int groups = (shape->micro_batches + shape->positions - 1) / shape->positions;
    return groups * shape->positions;
}

/* The chunk of forward number k; backward goes through the chunks the other way. */
static void forward(struct pipeline_writer *writer, int k) {
    pipeline_put(writer, INSTR_F, k / writer->shape.positions % writer->shape.chunks);
}

static void backward(struct pipeline_writer *writer, int k) {
    int chunks = writer->shape.chunks;
    pipeline_put(writer, INSTR_B, chunks - 1 - k / writer->shape.positions % chunks);
}

static void interleaved_order(struct pipeline_writer *writer) {
    const struct pipeline_shape *shape = &writer->shape;
    int total = shape->micro_batches * shape->chunks;
    int ahead =
        (shape->chunks - 1) * shape->positions + 2 * (shape->positions - 1 - writer->position);
    if (ahead > total) ahead = total;
    for (int k = 0; k < ahead; k++) forward(writer, k);
    for (int k = ahead; k < total; k++) {
        forward(writer, k);
        backward(writer, k - ahead);
    }
    for (int k = total - ahead; k < total; k++) backward(writer, k);
}

const struct pipeline_schedule pipeline_interleaved = {
    .name = "interleaved",
    .help = "1f1b over several stages a rank: a smaller bubble for more messages",
    .chunks = 2,
    .any_chunks = true,
    .micros = interleaved_micros,
    .order = interleaved_order};
