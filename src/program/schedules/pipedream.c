/* PipeDream: 1f1b that is never flushed, so there is no bubble. A position runs ahead by as many
 * mini-batches as there are positions after it, and updates its parameters after each backward. The
 * forward and the backward of a mini-batch read the same version of them (weight stashing): the one
 * from as many updates ago as the position is ahead. So a position keeps S - s versions. The
 * version follows from the mini-batch's number and not from when its forward happens to run, so
 * draining the pipeline and filling it again changes no bit. */
#include "program/pipeline.h"

static int ahead_of(const struct pipeline_shape *shape, int position) {
    return shape->positions - 1 - position;
}

static void pipedream_order(struct pipeline_writer *writer) {
    pipeline_run_ahead(writer, ahead_of(&writer->shape, writer->position));
    pipeline_alternate(writer, writer->shape.micro_batches);
}

const struct pipeline_schedule pipeline_pipedream = {
    .name = "pipedream",
    .help = "forward and backward in turn, never flushed, an update after each backward",
    .chunks = 1,
    .older = ahead_of,
    .one_micro = true,
    .order = pipedream_order};
