/* PipeDream-2BW: 1f1b that is never flushed, with an update after M micro-batches. M is at least
 * the number of stages, so forwards run ahead into the next step only, and two versions of the
 * parameters are enough. On all stages gradients are taken at the version before the newest:
 * W(t+1) = W(t) - lr * g(W(t-1)). */
#include "program/pipeline.h"

static int one(const struct pipeline_shape *shape, int position) {
    (void)shape, (void)position;
    return 1;
}

static void pipedream_2bw_order(struct pipeline_writer *writer) {
    pipeline_run_ahead(writer, writer->shape.positions - 1 - writer->position);
    pipeline_alternate(writer, writer->shape.micro_batches);
}

const struct pipeline_schedule pipeline_pipedream_2bw = {
    .name = "pipedream-2bw",
    .help = "forward and backward in turn, never flushed, an update after --micro-batches",
    .chunks = 1,
    .older = one,
    .order = pipedream_2bw_order};
