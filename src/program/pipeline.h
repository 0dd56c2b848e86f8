/* Orders of pipelines: which forwards and backwards a position of a pipeline runs, one after the
 * other. That is all a synchronous schedule is. Loads, messages, slots, gradient buffers and the
 * update follow from an order and are no part of it.
 *
 * A schedule writes (computation, chunk) pairs; the writer numbers the micro-batches. So for each
 * stage forwards, backwards and weight gradients come in ascending micro-batch order in every
 * schedule, which is the order that gradients are summed in. Orders that a schedule lists with
 * micro-batches of its own were rejected: each of them would have to prove that again. */
#ifndef PROGRAM_PIPELINE_H
#define PROGRAM_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/instr.h"

/* One computation of a position: F and B, or F, I and W, of a stage on a micro-batch. Stages are
 * numbered in the order of the model, as in program/grid.h. */
struct pipeline_op {
    uint8_t op; /* INSTR_F, INSTR_B, INSTR_I, INSTR_W; INSTR_LOAD where it is apart from F */
    int16_t stage;
    int32_t micro;
};
struct pipeline_order {
    struct pipeline_op *items;
    int count;
    size_t capacity;
};

struct pipeline_shape {
    int positions; /* ranks of one pipeline */
    int chunks;    /* stages that each of them holds */
    bool v_shape;  /* odd chunks run from the last position to the first */
    int micro_batches;
};

/* Local. Which stage is chunk `chunk` of a position; which position holds a stage. */
int pipeline_stage(const struct pipeline_shape *shape, int position, int chunk);
int pipeline_position(const struct pipeline_shape *shape, int stage);
int pipeline_stages(const struct pipeline_shape *shape);

/* What a schedule writes to. */
struct pipeline_writer {
    struct pipeline_shape shape; /* with as many micro-batches as the schedule asked for */
    int position;
    int wanted;                 /* micro-batches that are kept; the surplus is dropped */
    struct pipeline_order *out; /* owned by the caller of pipeline_order_build */
    struct pipeline_done {
        int forwards, inputs, weights;
    } * done; /* per chunk; owned by the writer */
    struct pipeline_waiting {
        int chunk, micro;
    } * waiting; /* every I written; owned by the writer */
    int waiting_count, waiting_first;
    size_t waiting_capacity;
    int ahead; /* forwards that were run in the bodies before */
};

/* Local. Writes INSTR_F, INSTR_B, INSTR_I or INSTR_W of a chunk on its next micro-batch; the same
 * `times` over. B takes the place of I and W at once. */
void pipeline_put(struct pipeline_writer *writer, enum instr_op op, int chunk);
void pipeline_repeat(struct pipeline_writer *writer, enum instr_op op, int chunk, int times);
/* Local. A forward and a backward of the first chunk in turn, so many of each. */
void pipeline_alternate(struct pipeline_writer *writer, int times);
/* Local. Of a schedule whose steps overlap, before anything else: so many forwards of each chunk
 * were run in the bodies before this one, and as many at its end are of steps behind it. */
void pipeline_run_ahead(struct pipeline_writer *writer, int forwards);
/* Local. Writes the W whose I is oldest, of any chunk; false where none waits. */
bool pipeline_put_weight(struct pipeline_writer *writer);
/* Local. How often INSTR_F, INSTR_I (B counts) or INSTR_W (B counts) of a chunk was written. */
int pipeline_written(const struct pipeline_writer *writer, enum instr_op op, int chunk);

/* A schedule of pipelines: a file under schedules/, and a row in pipeline.def. */
struct pipeline_schedule {
    const char *name, *help;
    int chunks;      /* of a position, where the user names none */
    bool any_chunks; /* others are possible */
    bool v_shape;
    /* The last stage begins B(m+1) after B(m) has ended on stage 0. Orders cannot say it: whoever
     * makes a program of them adds the message. */
    bool one_backward_at_a_time;
    bool driven; /* each pass on the call of a driver, a rank of its own; likewise */
    /* Local. The least number of micro-batches, at least the shape's, for which the order holds.
     * NULL: any number. */
    int (*micros)(const struct pipeline_shape *shape);
    /* Local. Steps overlap, and a position keeps so many versions of its parameters beside the
     * newest: its passes read the one that was there so many updates before their step. NULL: steps
     * flush, and passes read the newest. */
    int (*older)(const struct pipeline_shape *shape, int position);
    /* Such a step has one micro-batch, so an update comes after each; else it has at least as many
     * as there are positions. With one, --vertical-sync acts. */
    bool one_micro;
    /* Local. Writes each computation of the position's chunks on shape.micro_batches. */
    void (*order)(struct pipeline_writer *writer);
};

/* Local. The rows of pipeline.def: how many, by index, by name (NULL when there is none). */
int pipeline_count(void);
const struct pipeline_schedule *pipeline_at(int index);
const struct pipeline_schedule *pipeline_find(const char *name);

/* Local. Is the schedule defined for this placement of stages? */
bool pipeline_takes(const struct pipeline_schedule *schedule, const struct pipeline_shape *shape);
/* Local. Adds the order of one position to `out`, which the caller owns (pipeline_order_free), for
 * any number of positions and micro-batches: an order is made for the next number of micro-batches
 * that meets the schedule's condition, and the surplus ones are left out. What is left waits for
 * nothing that it did not wait for before, so this cannot deadlock; a short last group can. */
void pipeline_order_build(const struct pipeline_schedule *schedule,
                          const struct pipeline_shape *shape, int position,
                          struct pipeline_order *out);
void pipeline_order_add(struct pipeline_order *order, struct pipeline_op op);
void pipeline_order_free(struct pipeline_order *order);
/* Local. The orders of all positions, an array that the caller owns (pipeline_orders_free accepts
 * NULL and clears the pointer). */
struct pipeline_order *pipeline_orders_build(const struct pipeline_schedule *schedule,
                                             const struct pipeline_shape *shape);
void pipeline_orders_free(struct pipeline_order **orders, int positions);

#endif
