/* See law.h. Bits do not depend on laws: a pass computes what it would compute without them, and
 * waits afterwards. Rejected: waiting before a pass, which would also hold back what was sent
 * before. */
#include "exec/law.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "exec/delay.h"
#include "exec/places.h"
#include "exec/state.h"
#include "program/laws.h"

void law_open(struct engine *engine) {
    const struct grid *grid = &engine->plan->program->grid;
    bool wall = !engine->meeting.clock; /* in virtual time laws are part of the times */
    engine->law = (struct law_run){.of = wall ? engine->plan->config.costs->hetero : NULL};
    if (engine->law.of) engine->law.free_ns = MEM_ARRAY(int64_t, 2 * grid->stages * grid->chunks);
}

void law_close(struct engine *engine) {
    free(engine->law.free_ns);
}

/* --- groups --- */

static double bucket_bytes(const struct engine *engine, const struct instr *instr) {
    const struct chunk_plan *chunk = &engine->plan->chunk[chunk_of(engine, instr)];
    return (double)state_bytes(chunk->buckets.items[instr->bucket].elements);
}

/* What laws of links add to an operation of a group: it takes the slowest link of its members. */
static int64_t group_ns(const struct engine *engine, const struct instr *instr, double bytes,
                        enum cost_operation operation) {
    const struct run_config *config = &engine->plan->config;
    const struct grid *grid = &engine->plan->program->grid;
    if (engine->law.of->link_count == 0 || instr->group == INSTR_ALL) return 0;
    enum group_family family = engine->plan->program->group[instr->group];
    int index = group_of(grid, family, config->rank);
    struct cost_link slowest =
        program_law_link(engine->plan->program, engine->law.of, family, index);
    enum cost_collective collective = cost_net_of(config->costs, config->threads).collective;
    return (int64_t)cost_group_time(collective, slowest, group_size(grid, family, index), bytes,
                                    operation);
}

static int64_t operation_ns(const struct engine *engine, const struct instr *instr) {
    if (!instr_moves_bucket(instr))
        return group_ns(engine, instr, COST_EXCHANGE_BYTES, COST_EXCHANGE);
    double bytes = bucket_bytes(engine, instr) * instr_reduce_share(instr);
    return group_ns(engine, instr, bytes, COST_SUM);
}

/* --- messages --- */

/* When a message came, laws aside: when its sender began to move it, where the clocks of both are
 * one; else when the receiver saw it, which may be later. */
static int64_t arrival_ns(const struct engine *engine, const struct posted *posted) {
    bool known = posted->start_ns > 0 && !engine->plan->config.spread;
    return known ? posted->start_ns : posted->end_ns;
}

/* Messages of a link follow one another. */
static int64_t message_end_ns(struct engine *engine, const struct posted *posted) {
    const struct run_config *config = &engine->plan->config;
    const struct instr *instr = posted->instr;
    int channel = instr_channel(instr), back = channel % 2, from = channel / 2 + back,
        sender = grid_owner(&config->grid, from, config->cell.first_replica);
    struct cost_link link = hetero_link(engine->law.of, sender, config->rank);
    const struct micro_plan *micro = slot_of(engine, instr)->runnable->plan;
    double bytes = (double)micro->crossing[channel / 2 * PHASE_COUNT + back].bytes;
    int64_t *free_ns = &engine->law.free_ns[channel];
    if (link.latency == 0 && link.bytes_per_time == 0) return 0;
    int64_t came_ns = arrival_ns(engine, posted);
    *free_ns = (came_ns > *free_ns ? came_ns : *free_ns) + (int64_t)cost_moving(link, bytes);
    return *free_ns + (int64_t)link.latency;
}

/* Operations of a group follow one another, as the simulator has it. */
static int64_t operation_end_ns(struct engine *engine, const struct posted *posted) {
    int64_t more_ns = operation_ns(engine, posted->instr);
    if (more_ns == 0) return 0;
    int64_t *free_ns = &engine->law.group_free_ns[posted->instr->group];
    return *free_ns = (posted->end_ns > *free_ns ? posted->end_ns : *free_ns) + more_ns;
}

enum status law_hold(struct engine *engine, const struct posted *posted) {
    const struct instr_row *row = instr_row(posted->instr);
    int64_t end_ns = 0, begin_ns = clock_ns();
    if (!list_is_step(engine->list_name) || engine->law.of->link_count == 0) return STATUS_OK;
    if (row->meets == MEETS_PEER && instr_receives(posted->instr))
        end_ns = message_end_ns(engine, posted);
    if (row->meets == MEETS_GROUP) end_ns = operation_end_ns(engine, posted);
    if (end_ns <= begin_ns) return STATUS_OK;
    int64_t *comm_ns = &engine->step->times.of[TIME_COMM], before_ns = *comm_ns;
    enum status status = delay_until(engine, end_ns);
    *comm_ns = before_ns + clock_ns() - begin_ns;
    return status;
}

/* --- passes --- */

/* With the law `base` the time of a pass follows from its flops; else what it took is stretched. */
static double pass_ns(struct engine *engine, const struct instr *instr,
                      const struct hetero_pass *pass) {
    const struct plan *plan = engine->plan;
    const struct slot *slot = slot_of(engine, instr);
    double work_ns = (double)engine->law.spent_ns;
    if (plan->flop_ns > 0 && slot->runnable)
        work_ns = plan_pass_flops(plan, slot->runnable->plan, instr) * plan->flop_ns;
    return hetero_pass_ns(
        engine->law.of, pass,
        (double)(clock_ns() - engine->law.spent_ns - engine->state->laws.begin_ns), work_ns);
}

/* Segments after one that took too long wait less: what counts is the pass. */
static enum status wait_pass(struct engine *engine, const struct instr *instr) {
    struct law_run *law = &engine->law;
    struct hetero_pass pass = program_pass(engine->plan->program, engine->plan->config.seed,
                                           engine->plan->config.rank, engine->list_step, instr);
    bool timed = engine->plan->flop_ns > 0;
    int64_t now = clock_ns(), due = (int64_t)pass_ns(engine, instr, &pass),
            left = due - law->spent_ns - law->owed_ns;
    law->pass_spent_ns += law->spent_ns;
    law->pass_due_ns += due;
    law->spent_ns = 0;
    law->owed_ns = !pass.ends && left < 0 ? -left : 0;
    if (pass.ends) {
        engine->state->laws.passes += timed;
        engine->state->laws.late += timed && law->pass_spent_ns > law->pass_due_ns;
        law->pass_spent_ns = law->pass_due_ns = 0;
    }
    return left > 0 ? delay_until(engine, now + left) : STATUS_OK;
}

/* A pass that shares statistics stops at every exchange, and goes on later. */
enum status law_wait(struct engine *engine, const struct instr *instr, int64_t begin_ns,
                     int64_t comm_before_ns) {
    if (!list_is_step(engine->list_name)) return STATUS_OK;
    bool passes = instr_cost_kind(instr) >= 0;
    if (passes) {
        if (engine->state->laws.begin_ns == 0) engine->state->laws.begin_ns = begin_ns;
        engine->law.spent_ns +=
            clock_ns() - begin_ns - (engine->step->times.of[TIME_COMM] - comm_before_ns);
    }
    if (engine->awaiting) return STATUS_OK;
    if (passes) return wait_pass(engine, instr);
    if (instr->op == INSTR_MEET)
        return delay_until(engine,
                           clock_ns() + group_ns(engine, instr, COST_EXCHANGE_BYTES, COST_BARRIER));
    if (instr->op != INSTR_SERVE) return STATUS_OK;
    struct cost_link link = hetero_link(engine->law.of, 0, engine->plan->config.rank);
    return delay_until(engine, clock_ns() +
                                   (int64_t)(link.latency + cost_moving(link, PROGRAM_CALL_BYTES)));
}
