/* V-min: two chunks a rank in a V, with as few activations in memory as a V can do with: about a
 * third of 1f1b's first rank, on every rank. The forward of the way back follows that of the way
 * there at once, and so does backward. */
#include "program/schedules/v_block.h"

static void v_min_order(struct pipeline_writer *writer) {
    int ranks = writer->shape.positions, i = writer->position;
    int shift = ranks % 3 == 0 ? 2 : 0; /* else forward and input gradient share ticks */
    v_block_write(writer,
                  (struct v_block){.forward = {i, 2 * ranks - 1 - i},
                                   .input = {4 * ranks + shift - 1 - i, 2 * ranks + shift + i}});
}

const struct pipeline_schedule pipeline_v_min = {
    .name = "v-min",
    .help = "two stages a rank in a V, in about a third of the memory of 1f1b",
    .chunks = 2,
    .v_shape = true,
    .order = v_min_order};
