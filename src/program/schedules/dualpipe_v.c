/* DualPipeV: a V whose steady state pairs the forward of one chunk with the backward of the other.
 * On devices that overlap them the pair costs less than its parts; here the two follow one another.
 * Needs 2R micro-batches: for fewer, surplus ones are dropped from a longer order. Weight gradients
 * that were put off are run oldest first, and B returns to a chunk only when none of its own waits,
 * so they ascend as published. */
#include "program/pipeline.h"

static int dualpipe_v_micros(const struct pipeline_shape *shape) {
    int least = 2 * shape->positions;
    return shape->micro_batches > least ? shape->micro_batches : least;
}

static void warm_up(struct pipeline_writer *writer) {
    int left = writer->shape.positions - 1 - writer->position;
    pipeline_repeat(writer, INSTR_F, 0, 2 * left);
    for (int k = 0; k <= writer->position; k++) {
        pipeline_put(writer, INSTR_F, 0);
        pipeline_put(writer, INSTR_F, 1);
    }
    for (int k = 0; k < left; k++) {
        pipeline_put(writer, INSTR_I, 1);
        pipeline_put(writer, INSTR_W, 1);
        pipeline_put(writer, INSTR_F, 1);
    }
}

static void steady(struct pipeline_writer *writer) {
    int left = writer->shape.positions - 1 - writer->position;
    while (pipeline_written(writer, INSTR_F, 0) < writer->shape.micro_batches) {
        pipeline_put(writer, INSTR_F, 0);
        pipeline_put(writer, INSTR_B, 1);
        pipeline_put(writer, INSTR_F, 1);
        pipeline_put(writer, INSTR_B, 0);
    }
    for (int k = 0; k < left; k++) {
        pipeline_put(writer, INSTR_B, 1);
        pipeline_put(writer, INSTR_F, 1);
        pipeline_put(writer, INSTR_B, 0);
    }
}

/* The second half of these backwards is split: nobody waits for their weight gradients. */
static void drain(struct pipeline_writer *writer) {
    int pairs = writer->position + 1;
    for (int k = 0; k < 2 * pairs; k++)
        pipeline_put(writer, k < pairs ? INSTR_B : INSTR_I, k % 2 == 0);
    for (int k = pairs; k < writer->shape.positions; k++) {
        pipeline_put_weight(writer);
        pipeline_put(writer, INSTR_I, 0);
    }
    while (pipeline_put_weight(writer)) continue;
}

static void dualpipe_v_order(struct pipeline_writer *writer) {
    warm_up(writer);
    steady(writer);
    drain(writer);
}

const struct pipeline_schedule pipeline_dualpipe_v = {
    .name = "dualpipe-v",
    .help = "two stages a rank in a V, forwards of one paired with backwards of the other",
    .chunks = 2,
    .v_shape = true,
    .micros = dualpipe_v_micros,
    .order = dualpipe_v_order};
