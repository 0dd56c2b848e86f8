/* V-half: two chunks a rank in a V, in about half the memory of 1f1b's first rank, on every rank.
 * The way there takes two ticks a rank, the way back one: between v-min and zbv in memory and time.
 */
#include "program/schedules/v_block.h"

static void v_half_order(struct pipeline_writer *writer) {
    int ranks = writer->shape.positions, i = writer->position;
    int shift = ranks % 2 == 0 ? 3 : 0; /* else forward and input gradient share ticks */
    v_block_write(writer, (struct v_block){
                              .forward = {2 * i, 3 * ranks - 2 - i},
                              .input = {6 * ranks + shift - 2 - i, 3 * ranks + shift + 2 * i - 1}});
}

const struct pipeline_schedule pipeline_v_half = {
    .name = "v-half",
    .help = "two stages a rank in a V, in about half the memory of 1f1b",
    .chunks = 2,
    .v_shape = true,
    .order = v_half_order};
