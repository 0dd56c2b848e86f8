/* The schedules: a file each under schedules/, a row each here; and how a program is made from one:
 * a rank program for each kind of rank, built once. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "program/auto.h"
#include "program/emit.h"
#include "program/schedule.h"

extern const struct schedule schedule_single, schedule_forward;

static const struct schedule *const schedules[] = {&schedule_single, &schedule_forward};

const struct schedule *schedule_find(const char *name) {
    for (size_t i = 0; i < sizeof schedules / sizeof schedules[0]; i++) {
        if (strcmp(schedules[i]->name, name) == 0) return schedules[i];
    }
    return NULL;
}

static bool has_samples(const struct schedule_config *config, int micro) {
    return !config->samples || config->samples[micro] > 0;
}

/* Ranks do the same when they hold the same stages and the same of their micro-batches have
 * samples. */
static bool same_work(const struct schedule_config *config, const struct program *program, int a,
                      int b) {
    struct grid_cell one = grid_cell(&config->grid, a), other = grid_cell(&config->grid, b);
    int first = program_first_micro(program, a), second = program_first_micro(program, b);
    if (one.role != other.role || one.position != other.position) return false;
    for (int m = 0; config->samples && m < program_micros(program, a); m++) {
        if (has_samples(config, first + m) != has_samples(config, second + m)) return false;
    }
    return true;
}

/* The kinds found so far, chained by position: samples run out once in a step, so a position has
 * few.
 */
struct kinds {
    int *head;        /* per position, and one more for ranks without a stage; -1: none */
    int *next, *rank; /* per kind: the next of its chain, its first rank */
};

static int *chain_of(const struct schedule_config *config, const struct kinds *kinds, int rank) {
    struct grid_cell cell = grid_cell(&config->grid, rank);
    return &kinds->head[cell.role == GRID_STAGE ? cell.position : config->grid.stages];
}

static int find_kind(const struct schedule_config *config, const struct program *program,
                     const struct kinds *kinds, int rank) {
    int kind = *chain_of(config, kinds, rank);
    while (kind >= 0 && !same_work(config, program, kinds->rank[kind], rank))
        kind = kinds->next[kind];
    return kind;
}

static void build_ranks(const struct schedule *schedule, const struct schedule_config *config,
                        struct program *program) {
    struct kinds kinds = {.head = MEM_ARRAY(int, config->grid.stages + 1),
                          .next = MEM_ARRAY(int, program->ranks + 2),
                          .rank = MEM_ARRAY(int, program->ranks + 2)};
    for (int p = 0; p <= config->grid.stages; p++) kinds.head[p] = -1;
    for (int r = 0; r < program->ranks; r++) {
        int kind = find_kind(config, program, &kinds, r), *chain = chain_of(config, &kinds, r);
        if (kind >= 0) {
            program->kind_of[r] = kind;
            continue;
        }
        struct rank_program *own = program_begin(program, r);
        schedule->build(config, program, r, own);
        program_add_between(config, program, r, own);
        kind = program->kind_of[r];
        kinds.rank[kind] = r;
        kinds.next[kind] = *chain;
        *chain = kind;
    }
    free(kinds.head);
    free(kinds.next);
    free(kinds.rank);
}

static enum status check_size(const struct schedule_config *config) {
    int64_t micros = (int64_t)config->grid.replicas * config->micro_batches;
    if (micros <= PROGRAM_MAX_MICROS && grid_ranks(&config->grid) <= PROGRAM_MAX_RANKS)
        return STATUS_OK;
    char replicas[TEXT_BYTES], micro[TEXT_BYTES];
    return fail(STATUS_USAGE,
                "%s x %s are %lld micro-batches in a step, at most %d\n"
                "  larger micro-batches (--micro-batch-size), or a smaller --batch",
                text_count(config->grid.replicas, "replica", replicas),
                text_count(config->micro_batches, "micro-batch", micro), (long long)micros,
                PROGRAM_MAX_MICROS);
}

/* Sums inside a rank come before those between ranks, by a tree: an order that wants it otherwise
 * is refused. */
static enum status check_sum(const struct schedule_config *config) {
    int micros = config->micro_batches, low = 1;
    if (group_count(&config->grid, GROUP_PIPELINE) == 1) return STATUS_OK;
    if (config->sum == SUM_REPLICAS_FIRST && micros > 1)
        return fail(STATUS_USAGE,
                    "--sum replicas-first: %d replicas on ranks of their own need --micro-batches "
                    "1, not %d\n"
                    "  --sum replica, or --zero-stage 2 --zero-accumulate scatter, which adds in "
                    "this order",
                    config->grid.replicas, micros);
    if (config->sum != SUM_TREE || (micros & (micros - 1)) == 0) return STATUS_OK;
    while (2 * low < micros) low *= 2;
    return fail(STATUS_USAGE,
                "--sum tree: %d replicas on ranks of their own need a power of two of "
                "--micro-batches, not %d\n  --micro-batches %d or %d, or --sum replica",
                config->grid.replicas, micros, low, 2 * low);
}

/* Operands are small: a slot's number has 15 bits. */
static enum status check_slots(const struct program *program) {
    for (int k = 0; k < program->kind_count; k++)
        for (int c = 0; c < program->kinds[k].chunks; c++)
            if (program->kinds[k].chunk[c].slots > PROGRAM_MAX_SMALL)
                return fail(STATUS_USAGE,
                            "a rank keeps the activations of %d micro-batches at once, at most %d\n"
                            "  fewer --micro-batches, or a schedule that keeps fewer (--strategy "
                            "1f1b)",
                            program->kinds[k].chunk[c].slots, PROGRAM_MAX_SMALL);
    return STATUS_OK;
}

static enum status build(const struct schedule *schedule, const struct schedule_config *config,
                         struct program **out) {
    SCOPED(program_free)
    struct program *program = program_new(&config->grid, config->micro_batches, config->sum);
    TRY(schedule->prepare(config, program));
    if (program_world(program) < 0) program_declare_group(program, GROUP_WORLD);
    build_ranks(schedule, config, program);
    program_share(program);
    TRY(check_slots(program));
    *out = program;
    program = NULL;
    return STATUS_OK;
}

/* --- pipelines --- */

static enum status prepare_pipeline(const struct schedule_config *config, struct program *program) {
    emit_declare(config, program);
    return STATUS_OK;
}

static void build_position(const struct schedule_config *config, const struct program *program,
                           int rank, struct rank_program *out) {
    struct grid_cell cell = grid_cell(&config->grid, rank);
    if (cell.role == GRID_STAGE)
        emit_rank(config, program, &config->orders[cell.position], rank, out);
    else
        emit_driver(config, out);
}

static const struct schedule of_orders = {.prepare = prepare_pipeline, .build = build_position};

static struct pipeline_shape shape_of(const struct schedule_config *config) {
    return (struct pipeline_shape){.positions = config->grid.stages,
                                   .chunks = config->grid.chunks,
                                   .v_shape = config->grid.v_shape,
                                   .micro_batches = config->micro_batches};
}

/* How far forwards run ahead must be covered by the versions that are kept. */
static enum status check_ahead(const struct pipeline_schedule *pipeline,
                               const struct schedule_config *config) {
    struct pipeline_shape shape = shape_of(config);
    int micros = config->micro_batches, steps = (shape.positions - 2 + micros) / micros;
    if (!pipeline->older || pipeline->older(&shape, 0) >= steps) return STATUS_OK;
    return fail(STATUS_USAGE,
                "schedule %s needs at least as many micro-batches as stages, not %d of %d\n"
                "  --micro-batches %d, or --strategy pipedream",
                pipeline->name, micros, shape.positions, shape.positions);
}

/* A schedule that takes another number of chunks than the grid has is refused. */
static enum status build_pipeline(const struct pipeline_schedule *pipeline,
                                  const struct schedule_config *config, struct program **out) {
    struct pipeline_shape shape = shape_of(config);
    struct schedule_config own = *config;
    char takes[TEXT_BYTES];
    if (!pipeline_takes(pipeline, &shape))
        return fail(STATUS_USAGE, "schedule %s takes %s a rank%s, not %d%s", pipeline->name,
                    text_count(pipeline->chunks, "stage", takes),
                    pipeline->v_shape ? " in a V" : "", shape.chunks,
                    shape.v_shape ? " in a V" : "");
    TRY(check_ahead(pipeline, config));
    struct pipeline_order *orders = pipeline_orders_build(pipeline, &shape);
    SCOPED_FREE int *older = pipeline->older ? MEM_ARRAY(int, shape.positions) : NULL;
    for (int p = 0; older && p < shape.positions; p++)
        older[p] = pipeline->older(&shape, config->vertical_sync ? 0 : p);
    own.orders = orders;
    own.overlaps = pipeline->older && shape.positions > 1;
    own.older = older;
    own.one_backward_at_a_time = pipeline->one_backward_at_a_time;
    own.driven = pipeline->driven && config->grid.drivers > 0;
    enum status status = build(&of_orders, &own, out);
    pipeline_orders_free(&orders, shape.positions);
    return status;
}

enum status schedule_build(const char *name, const struct schedule_config *config,
                           struct program **out) {
    const struct schedule *schedule = schedule_find(name);
    const struct pipeline_schedule *pipeline = pipeline_find(name);
    bool given = strcmp(name, PIPELINE_AUTO) == 0 && config->orders;
    if (!schedule && !pipeline && !given)
        return fail(STATUS_USAGE, "no schedule is called %s", name);
    TRY(check_size(config));
    TRY(check_sum(config));
    if (given) return build(&of_orders, config, out);
    if (schedule) return build(schedule, config, out);
    return build_pipeline(pipeline, config, out);
}
