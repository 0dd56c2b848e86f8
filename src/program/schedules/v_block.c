/* See v_block.h. Ticks only order the computations: they begin when what they wait for is there, so
 * unequal times stretch the block instead of breaking it. The ticks themselves are a schedule in
 * which everything has arrived in time, hence no order made of them deadlocks, for any number of
 * micro-batches. The pass that squeezes blocks at both ends of a step, as its authors do, is left
 * out: it belongs to a builder that knows the costs (auto). */
#include "program/schedules/v_block.h"

enum { PERIOD = 6 };

/* Is `tick` that of a micro-batch, for a computation that micro-batch 0 has at `first`? */
static bool falls_on(int tick, int first, int micros) {
    int since = tick - first;
    return since >= 0 && since % PERIOD == 0 && since / PERIOD < micros;
}

static void write_tick(struct pipeline_writer *writer, const struct v_block *block, int tick) {
    int micros = writer->shape.micro_batches;
    for (int chunk = 0; chunk < 2; chunk++) {
        if (falls_on(tick, block->forward[chunk], micros)) {
            pipeline_put(writer, INSTR_F, chunk);
            return;
        }
        if (falls_on(tick, block->input[chunk], micros)) {
            pipeline_put(writer, INSTR_I, chunk);
            return;
        }
    }
    pipeline_put_weight(writer);
}

void v_block_write(struct pipeline_writer *writer, struct v_block block) {
    int last = block.input[0] + PERIOD * (writer->shape.micro_batches - 1);
    for (int tick = 0; tick <= last; tick++) write_tick(writer, &block, tick);
    while (pipeline_put_weight(writer)) continue;
}
