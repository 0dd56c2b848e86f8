/* PipeDream: 1f1b that is never flushed. A position is as many mini-batches ahead as there are
 * positions behind it, and updates its parameters after each backward. A mini-batch reads one
 * version of them, in forward and in backward (weight stashing): the one that was there as many
 * updates ago as the position is ahead. So a position keeps S - s versions, and there is no bubble.
 * Which version it is follows from the mini-batch's number alone and not from when its forward
 * happens to run, so to drain the pipeline and to fill it again changes no bit. */
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
    .order = pipedream_order};
