/* Zero bubble on a V: a position holds two chunks, one of the way there and one of the way back, so
 * the first rank has the first and the last stage. At equal times no position idles between its
 * first and last computation, with the memory of 1f1b's first rank on every one. Needs 2R-1
 * micro-batches: for fewer, surplus ones are dropped from a longer order. */
#include "program/pipeline.h"

static int zbv_micros(const struct pipeline_shape *shape) {
    int least = 2 * shape->positions - 1;
    return shape->micro_batches > least ? shape->micro_batches : least;
}

static void input_and_weight(struct pipeline_writer *writer, int chunk) {
    pipeline_put(writer, INSTR_I, chunk);
    pipeline_put(writer, INSTR_W, chunk);
}

static void forward_and_back(struct pipeline_writer *writer) {
    pipeline_put(writer, INSTR_F, 1);
    input_and_weight(writer, 1);
}

static void warm_up(struct pipeline_writer *writer) {
    int position = writer->position, left = writer->shape.positions - position;
    pipeline_repeat(writer, INSTR_F, 0, 2 * left - 1);
    for (int k = 0; k < position; k++) {
        pipeline_put(writer, INSTR_F, 1);
        pipeline_put(writer, INSTR_F, 0);
    }
    for (int k = 0; k < left; k++) forward_and_back(writer);
}

static void drain(struct pipeline_writer *writer) {
    int position = writer->position, left = writer->shape.positions - position;
    for (int k = 0; k < position; k++) {
        pipeline_put(writer, INSTR_I, 0);
        pipeline_put(writer, INSTR_I, 1);
    }
    for (int k = 0; k < left; k++) input_and_weight(writer, 0);
    for (int chunk = 1; chunk >= 0; chunk--) {
        int behind = pipeline_written(writer, INSTR_I, chunk);
        pipeline_repeat(writer, INSTR_W, chunk, behind - pipeline_written(writer, INSTR_W, chunk));
    }
}

static void zbv_order(struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches;
    warm_up(writer);
    while (pipeline_written(writer, INSTR_F, 1) < micros) {
        if (pipeline_written(writer, INSTR_F, 0) < micros) pipeline_put(writer, INSTR_F, 0);
        input_and_weight(writer, 0);
        forward_and_back(writer);
    }
    drain(writer);
}

const struct pipeline_schedule pipeline_zbv = {
    .name = "zbv",
    .help = "two stages a rank in a V: no bubble between a rank's first and last computation",
    .chunks = 2,
    .v_shape = true,
    .micros = zbv_micros,
    .order = zbv_order};
