/* See kit.h. */
#include "kit.h"

#include "sim/compile.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

static struct grid grid_of(const struct sim_case *of) {
    const struct pipeline_schedule *schedule = pipeline_find(of->schedule);
    if (!schedule) return grid_flat(of->replicas, of->replicas);
    return (struct grid){.stages = of->stages,
                         .chunks = of->chunks ? of->chunks : schedule->chunks,
                         .replicas = of->replicas,
                         .replicas_each = 1,
                         .v_shape = schedule->v_shape};
}

struct program *sim_program(const struct sim_case *of) {
    struct schedule_config config = {.grid = grid_of(of), .micro_batches = of->micros};
    int stages = config.grid.stages * config.grid.chunks, *buckets = MEM_ARRAY(int, stages);
    struct program *program;
    for (int s = 0; s < stages; s++) buckets[s] = of->buckets ? of->buckets : 1;
    cr_assert_eq(schedule_build(of->schedule, &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert(of->replicas > 1 ? "allreduce" : "none", program,
                             &(struct sync_config){.buckets = buckets}),
                 STATUS_OK);
    if (of->credits) program->credits = of->credits;
    cr_assert_eq(program_verify(program, NULL), STATUS_OK, "%s", of->schedule);
    free(buckets);
    return program;
}

void sim_kit_new(const struct sim_case *of, struct sim_units units, struct sim_kit *out) {
    *out = (struct sim_kit){.program = sim_program(of)};
    const struct grid *grid = &out->program->grid;
    int stages = grid->stages * grid->chunks;
    out->stage = MEM_ARRAY(struct sim_stage, stages);
    for (int s = 0; s < stages; s++)
        out->stage[s] = (struct sim_stage){.pass = {[COST_PASS_F] = units.f,
                                                    [COST_PASS_B] = units.i + units.w,
                                                    [COST_PASS_I] = units.i,
                                                    [COST_PASS_W] = units.w},
                                           .kept_bytes = 1,
                                           .kept_half_bytes = 1};
    out->costs.stage = out->stage;
    out->input = (struct sim_input){
        .program = out->program,
        .costs = &out->costs,
        .net = {.link = {.latency = units.hop}, .group_link = {.latency = units.hop}},
        .steps = 1};
}

void sim_kit_free(struct sim_kit *kit) {
    program_free(&kit->program);
    free(kit->stage);
}

/* Pointers into the kit hold while it stays where it was made. */
struct sim_result sim_kit_run(const struct sim_kit *kit) {
    struct sim_result result;
    struct sim_input input = kit->input;
    input.costs = &kit->costs;
    cr_assert_eq(sim_run(&input, &result), STATUS_OK);
    return result;
}

struct sim_result sim_of(const struct sim_case *of, struct sim_units units) {
    struct sim_kit kit;
    sim_kit_new(of, units, &kit);
    struct sim_result result = sim_kit_run(&kit);
    sim_kit_free(&kit);
    return result;
}

void sim_kit_compile(const struct program *program, const struct sim_costs *costs,
                     struct sim_kind *out) {
    int64_t room = sim_room(program, 0);
    struct sim_input input = {.program = program};
    sim_compile(&input, 0, costs, MEM_ARRAY(struct sim_op, room),
                MEM_ARRAY(struct sim_await, SIM_AWAITS * room), out);
}

void sim_kit_kind_free(struct sim_kind *kind) {
    free((void *)kind->op);
    free((void *)kind->await);
}
