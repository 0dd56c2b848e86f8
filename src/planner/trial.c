/* See trial.h. The steps are those of a planned run (planned/planned.c), without what they measure
 * of this process; the simulation is that of sim/forecast.h. */
#include "planner/trial.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"
#include "sim/forecast.h"

/* What planning measures is never quite the same: as in planned/planned_memory.c. */
enum { APART_BYTES = 512 << 10 };

static void drop(void *context, enum log_level level, const char *text) {
    (void)context, (void)level, (void)text;
}

/* --- what auto chose --- */

/* It looks at costs of stages and at links; ZeRO and the sum over replicas are not among them. */
static struct planner_auto_key key_of(const struct planner_input *input,
                                      const struct planner_choice *choice) {
    bool alike = !input->costs->cluster && input->cores == 0;
    return (struct planner_auto_key){.stages = choice->stages,
                                     .micro_batches = choice->micro_batches,
                                     .replicas = alike ? 0 : choice->replicas,
                                     .balance = choice->balance,
                                     .recompute = choice->recompute != RECOMPUTE_NEVER};
}

const struct planner_auto *planner_auto_find(const struct planner_autos *autos,
                                             const struct planner_input *input,
                                             const struct planner_choice *choice) {
    struct planner_auto_key key = key_of(input, choice);
    for (int i = 0; i < autos->count; i++)
        if (memcmp(&autos->item[i]->key, &key, sizeof key) == 0) return autos->item[i];
    return NULL;
}

void planner_autos_free(struct planner_autos *autos) {
    for (int i = 0; i < autos->count; i++) {
        choice_free(&autos->item[i]->choice);
        free(autos->item[i]);
    }
    free(autos->item);
    *autos = (struct planner_autos){0};
}

struct trial {
    const struct planner_input *input;
    struct planner_autos *autos;
    struct planner_row *row;
    struct options options;
    struct run_config config;
    struct costs costs; /* with the crowd of these ranks */
    struct plan *plan;
    struct memory_estimate *memory; /* per position */
    struct forecast forecast;
    bool timed;
};

static void trial_free(struct trial *trial) {
    if (trial->timed) forecast_free(&trial->forecast);
    plan_free(&trial->plan);
    free(trial->memory);
    arena_free(&trial->options.arena);
}

/* --- memory --- */

static int64_t limit_of(const struct planner_input *input, int rank) {
    if (input->memory.limit_bytes > 0) return input->memory.limit_bytes + APART_BYTES;
    if (input->costs->cluster) return cluster_memory_bytes(input->costs->cluster, rank);
    return 0;
}

int64_t planner_over(const struct planner_input *input, const struct planner_choice *choice,
                     int64_t rank_bytes) {
    int64_t least = 0, machine = input->memory.machine_bytes;
    for (int r = 0; r < choice->ranks; r++) {
        int64_t limit = limit_of(input, r);
        if (limit > 0 && (r == 0 || rank_bytes - limit > least)) least = rank_bytes - limit;
    }
    if (least > 0) return least;
    return machine > 0 && rank_bytes > machine ? rank_bytes - machine : 0;
}

static int64_t position_bytes(const struct trial *trial, int position) {
    return (int64_t)memory_sum(&trial->memory[position]) + trial->input->memory.beside_bytes;
}

/* Of all ranks of this machine: what they share is there once. */
static int64_t over_machine(const struct trial *trial) {
    const struct planner_memory *memory = &trial->input->memory;
    const struct grid *grid = &trial->plan->config.grid;
    int64_t sum = memory->shared_bytes;
    if (memory->machine_bytes <= 0) return 0;
    for (int r = 0; r < trial->config.ranks; r++)
        sum += position_bytes(trial, grid_cell(grid, r).position) - memory->shared_bytes;
    return sum - memory->machine_bytes;
}

static void judge_memory(struct trial *trial) {
    struct planner_row *row = trial->row;
    const struct grid *grid = &trial->plan->config.grid;
    row->peak_bytes = row->over_bytes = 0;
    for (int p = 0; p < grid->stages; p++) {
        int64_t bytes = (int64_t)memory_sum(&trial->memory[p]);
        if (bytes <= row->peak_bytes) continue;
        row->peak_bytes = bytes;
        row->peak_rank = group_rank(grid, GROUP_PIPELINE, 0, p);
    }
    for (int r = 0; r < trial->config.ranks; r++) {
        int64_t limit = limit_of(trial->input, r),
                over = (int64_t)memory_sum(&trial->memory[grid_cell(grid, r).position]) - limit;
        if (limit > 0 && over > row->over_bytes) row->over_bytes = over;
    }
    int64_t over = over_machine(trial);
    if (row->over_bytes == 0 && over > 0 && trial->input->memory.limit_bytes == 0 &&
        !trial->input->costs->cluster)
        row->over_bytes = over;
    if (row->over_bytes > 0) row->state = PLANNER_TOO_LARGE;
}

static enum status count_memory(struct trial *trial) {
    struct plan *plan = trial->plan;
    int stages = plan->config.grid.stages;
    free(trial->memory);
    trial->memory = MEM_ARRAY(struct memory_estimate, stages);
    if (trial->input->complete) trial->input->complete(trial->input->context, plan);
    trial->memory[0] = plan->memory;
    for (int p = 1; p < stages; p++) {
        TRY(plan_memory_of(plan, group_rank(&plan->config.grid, GROUP_PIPELINE, 0, p),
                           &trial->memory[p]));
        trial->memory[p].library = plan->memory.library;
        trial->memory[p].trace = plan->memory.trace;
    }
    judge_memory(trial);
    return STATUS_OK;
}

/* --- plan --- */

static enum status make_plan(struct trial *trial, struct plan_pool *pool,
                             const struct run_config *config, const struct choice *chosen) {
    struct plan_given given = {.pool = pool, .chosen = chosen};
    plan_free(&trial->plan);
    TRY(plan_new(config, &given, &trial->plan));
    return count_memory(trial);
}

static const struct planner_auto *known_choice(const struct trial *trial) {
    bool is_auto = trial->row->choice.schedule == PLANNER_AUTO;
    return is_auto ? planner_auto_find(trial->autos, trial->input, &trial->row->choice) : NULL;
}

/* What was chosen is kept for others. NULL: nothing was. */
static const struct planner_auto *keep_choice(struct trial *trial) {
    struct planner_autos *autos = trial->autos;
    struct choice *choice = &trial->plan->choice;
    if (!choice->row_count) return NULL;
    struct planner_auto *kept = MEM_NEW(struct planner_auto);
    *kept =
        (struct planner_auto){.key = key_of(trial->input, &trial->row->choice), .choice = *choice};
    *choice = (struct choice){0};
    autos->item =
        mem_grow(autos->item, &autos->capacity, (size_t)autos->count + 1, sizeof *autos->item);
    return autos->item[autos->count++] = kept;
}

/* An order that auto chose without what it does not count of memory: as planned/planned.c does. */
static enum status plan_to_fit(struct trial *trial, struct plan_pool *pool) {
    int64_t limit = trial->config.memory_limit;
    const struct planner_auto *known = known_choice(trial);
    TRY(make_plan(trial, pool, &trial->config, known ? &known->choice : NULL));
    if (!known) known = keep_choice(trial);
    if (!known) return STATUS_OK;
    const struct choice *choice = &known->choice;
    int64_t uncounted = trial->row->peak_bytes - choice->most_bytes;
    if (limit <= 0 || !choice->row_count || trial->row->peak_bytes <= limit ||
        limit - uncounted < choice->least_bytes)
        return STATUS_OK;
    struct run_config less = resolve_for_limit(&trial->config, limit - uncounted);
    trial->row->state = PLANNER_BOUNDED;
    return make_plan(trial, pool, &less, NULL);
}

/* A fixed schedule that auto takes has a row of its own. */
static bool is_again(const struct trial *trial) {
    const struct planner_auto *known = known_choice(trial);
    const struct choice *choice = trial->plan->choice.row_count ? &trial->plan->choice
                                  : known                       ? &known->choice
                                                                : NULL;
    bool asked = option_is_given(trial->input->options, OPTION_strategy) &&
                 strcmp(trial->input->options->strategy, "auto") == 0;
    return choice && !asked && strcmp(choice->row[0].name, "greedy") != 0;
}

/* --- time --- */

/* Bytes that a rank sends in a step: messages, and its part of what its group sums and gathers. */
static int64_t sent_by(const struct trial *trial, int rank) {
    const struct program *program = trial->plan->program;
    const struct instr_list *body = program_list(program, rank, LIST_BODY);
    const struct sim_stage *stage = trial->forecast.costs.costs[0].stage;
    int64_t bytes = 0, shared = 0, members = group_size(&program->grid, GROUP_REPLICAS, 0);
    for (int i = 0; i < body->count; i++) {
        const struct instr *instr = &body->items[i];
        const struct sim_stage *of = &stage[instr->stage];
        if (instr->op == INSTR_SEND_F) bytes += of->message_bytes[SIM_FORWARD];
        if (instr->op == INSTR_SEND_B) bytes += of->message_bytes[SIM_BACKWARD];
        int ways = instr->op == INSTR_REDUCE                                 ? 2
                   : instr->op == INSTR_SCATTER || instr->op == INSTR_GATHER ? 1
                                                                             : 0;
        if (ways) shared += ways * of->bucket_bytes[instr->bucket];
    }
    return bytes + shared / members * (members - 1);
}

static void take_times(struct trial *trial) {
    struct planner_row *row = trial->row;
    const struct forecast *forecast = &trial->forecast;
    const struct grid *grid = &trial->plan->config.grid;
    row->step_ns = forecast->result.step;
    row->low_ns = forecast->low, row->high_ns = forecast->high;
    row->bubble = forecast->result.bubble;
    row->exposed_ns = forecast->result.exposed;
    row->sent_bytes = 0;
    for (int p = 0; p < grid->stages; p++) {
        int64_t bytes = sent_by(trial, group_rank(grid, GROUP_PIPELINE, 0, p));
        if (bytes > row->sent_bytes) row->sent_bytes = bytes;
    }
    int64_t budget = trial->input->budget_bytes;
    row->state = budget > 0 && row->sent_bytes > budget ? PLANNER_LOUD : PLANNER_TIMED;
}

/* How many threads share a core: as planned_crowd says of this machine. */
static double crowd_of(const struct trial *trial) {
    const struct planner_input *input = trial->input;
    if (input->cores == 0) return 0;
    double each = (double)trial->config.ranks * trial->config.threads / input->cores;
    return each > 1 ? each : 1;
}

static enum status run_trial(struct trial *trial, struct plan_pool *pool) {
    TRY(planner_configure(trial->input, &trial->row->choice, &trial->options, &trial->config));
    trial->costs = *trial->config.costs;
    TRY(plan_to_fit(trial, pool));
    if (is_again(trial)) trial->row->state = PLANNER_AGAIN;
    if (trial->row->state != PLANNER_BOUNDED) return STATUS_OK;
    if (!trial->costs.units && !trial->costs.simulated) trial->costs.crowd = crowd_of(trial);
    TRY(forecast_new(trial->plan, &trial->costs, false, &trial->forecast));
    trial->timed = true;
    take_times(trial);
    return STATUS_OK;
}

void planner_try(const struct planner_input *input, struct plan_pool *pool,
                 struct planner_autos *autos, struct planner_row *row) {
    static const struct log_sink silent = {.write = drop};
    const struct log_sink *before = log_use(&silent);
    SCOPED(trial_free) struct trial trial = {.input = input, .autos = autos, .row = row};
    row->state = PLANNER_BOUNDED;
    enum status status = run_trial(&trial, pool);
    if (status != STATUS_OK)
        row->state = status == STATUS_MEMORY ? PLANNER_TOO_LARGE : PLANNER_REFUSED;
    log_use(before);
}
