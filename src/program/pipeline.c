/* See pipeline.h. */
#include "program/pipeline.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/grid.h"

#define PIPELINE(name) extern const struct pipeline_schedule pipeline_##name;
#include "program/pipeline.def"
#undef PIPELINE

static const struct pipeline_schedule *const schedules[] = {
#define PIPELINE(name) &pipeline_##name,
#include "program/pipeline.def"
#undef PIPELINE
};

int pipeline_count(void) {
    return (int)(sizeof schedules / sizeof schedules[0]);
}

const struct pipeline_schedule *pipeline_at(int index) {
    return schedules[index];
}

const struct pipeline_schedule *pipeline_find(const char *name) {
    for (int i = 0; i < pipeline_count(); i++)
        if (strcmp(schedules[i]->name, name) == 0) return schedules[i];
    return NULL;
}

bool pipeline_takes(const struct pipeline_schedule *schedule, const struct pipeline_shape *shape) {
    return schedule->v_shape == shape->v_shape &&
           (schedule->any_chunks || schedule->chunks == shape->chunks);
}

/* --- stages --- */

static struct grid grid_of(const struct pipeline_shape *shape) {
    return (struct grid){.stages = shape->positions,
                         .chunks = shape->chunks,
                         .replicas = 1,
                         .replicas_each = 1,
                         .v_shape = shape->v_shape};
}

int pipeline_stage(const struct pipeline_shape *shape, int position, int chunk) {
    struct grid grid = grid_of(shape);
    return grid_stage(&grid, position, chunk);
}

int pipeline_position(const struct pipeline_shape *shape, int stage) {
    struct grid grid = grid_of(shape);
    return grid_position(&grid, stage);
}

int pipeline_stages(const struct pipeline_shape *shape) {
    return shape->positions * shape->chunks;
}

/* --- writing --- */

void pipeline_order_add(struct pipeline_order *order, struct pipeline_op op) {
    order->items = mem_grow(order->items, &order->capacity, (size_t)order->count + 1, sizeof op);
    order->items[order->count++] = op;
}

static void wait_for_weight(struct pipeline_writer *writer, int chunk, int micro) {
    writer->waiting = mem_grow(writer->waiting, &writer->waiting_capacity,
                               (size_t)writer->waiting_count + 1, sizeof *writer->waiting);
    writer->waiting[writer->waiting_count++] =
        (struct pipeline_waiting){.chunk = chunk, .micro = micro};
}

/* The next micro-batch of a computation, which is then counted as done. */
static int take_next(struct pipeline_writer *writer, enum instr_op op, int chunk) {
    struct pipeline_done *done = &writer->done[chunk];
    switch (op) {
    case INSTR_F: return done->forwards++;
    case INSTR_I: wait_for_weight(writer, chunk, done->inputs); return done->inputs++;
    case INSTR_W: CHECK(done->weights < done->inputs, "W before I"); return done->weights++;
    default:
        CHECK(op == INSTR_B && done->weights == done->inputs, "B overtakes a W of its stage");
        done->weights++;
        return done->inputs++;
    }
}

void pipeline_put(struct pipeline_writer *writer, enum instr_op op, int chunk) {
    int micro = take_next(writer, op, chunk);
    int ahead = op == INSTR_F ? writer->ahead : 0;
    CHECK(micro < writer->shape.micro_batches + ahead, "more than the micro-batches there are");
    CHECK(op == INSTR_F || micro < writer->done[chunk].forwards, "backward before forward");
    if (micro >= writer->wanted + ahead) return;
    int stage = pipeline_stage(&writer->shape, writer->position, chunk);
    pipeline_order_add(writer->out, (struct pipeline_op){(uint8_t)op, (int16_t)stage, micro});
}

void pipeline_repeat(struct pipeline_writer *writer, enum instr_op op, int chunk, int times) {
    for (int i = 0; i < times; i++) pipeline_put(writer, op, chunk);
}

void pipeline_alternate(struct pipeline_writer *writer, int times) {
    for (int i = 0; i < times; i++) {
        pipeline_put(writer, INSTR_F, 0);
        pipeline_put(writer, INSTR_B, 0);
    }
}

void pipeline_run_ahead(struct pipeline_writer *writer, int forwards) {
    writer->ahead = forwards;
    for (int c = 0; c < writer->shape.chunks; c++) writer->done[c].forwards = forwards;
}

bool pipeline_put_weight(struct pipeline_writer *writer) {
    while (writer->waiting_first < writer->waiting_count) {
        struct pipeline_waiting oldest = writer->waiting[writer->waiting_first++];
        if (oldest.micro < writer->done[oldest.chunk].weights) continue;
        pipeline_put(writer, INSTR_W, oldest.chunk);
        return true;
    }
    return false;
}

int pipeline_written(const struct pipeline_writer *writer, enum instr_op op, int chunk) {
    const struct pipeline_done *done = &writer->done[chunk];
    return op == INSTR_F ? done->forwards : op == INSTR_W ? done->weights : done->inputs;
}

/* --- whole orders --- */

static void check_complete(const struct pipeline_schedule *schedule,
                           const struct pipeline_writer *writer) {
    int micros = writer->shape.micro_batches;
    for (int c = 0; c < writer->shape.chunks; c++) {
        struct pipeline_done done = writer->done[c];
        CHECK(done.forwards == micros + writer->ahead && done.inputs == micros &&
                  done.weights == micros,
              "%s wrote %d F, %d I and %d W of %d", schedule->name, done.forwards, done.inputs,
              done.weights, micros);
    }
}

void pipeline_order_build(const struct pipeline_schedule *schedule,
                          const struct pipeline_shape *shape, int position,
                          struct pipeline_order *out) {
    CHECK(pipeline_takes(schedule, shape), "%s has no such placement", schedule->name);
    struct pipeline_writer writer = {.shape = *shape,
                                     .position = position,
                                     .wanted = shape->micro_batches,
                                     .out = out,
                                     .done = MEM_ARRAY(struct pipeline_done, shape->chunks)};
    if (schedule->micros) writer.shape.micro_batches = schedule->micros(shape);
    CHECK(writer.shape.micro_batches >= writer.wanted, "%s drops micro-batches", schedule->name);
    schedule->order(&writer);
    check_complete(schedule, &writer);
    free(writer.done);
    free(writer.waiting);
}

void pipeline_order_free(struct pipeline_order *order) {
    free(order->items);
    *order = (struct pipeline_order){0};
}

struct pipeline_order *pipeline_orders_build(const struct pipeline_schedule *schedule,
                                             const struct pipeline_shape *shape) {
    struct pipeline_order *orders = MEM_ARRAY(struct pipeline_order, shape->positions);
    for (int p = 0; p < shape->positions; p++) pipeline_order_build(schedule, shape, p, &orders[p]);
    return orders;
}

void pipeline_orders_free(struct pipeline_order **orders, int positions) {
    for (int p = 0; *orders && p < positions; p++) pipeline_order_free(&(*orders)[p]);
    free(*orders);
    *orders = NULL;
}
