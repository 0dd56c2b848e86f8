/* engine: what the executor itself costs.
 *
 * A step of empty instructions (FREE, whose handler does nothing) on one rank, through the same
 * path as `stretto train`: watched, traced, and with its row of the status table. What a step takes
 * is then what a program costs beside its kernels and messages.
 *
 *     build/bench-exec [instructions [steps]]
 *
 * By default 1000 instructions, 2000 steps; prints the best and the median step. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "planned/planned.h"
#include "run/recorder.h"

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static struct program *empty_program(const struct plan *plan, int instructions) {
    struct program *program = program_new(&plan->program->grid, 1, SUM_REPLICA);
    struct rank_program *rank = program_edit(program, 0);
    for (int i = 0; i < instructions; i++) program_add(rank, LIST_BODY, INSTR_FREE);
    return program;
}

static enum status time_steps(struct engine *engine, const struct train_observer *observer,
                              int steps, double *us) {
    struct step_result result;
    for (int i = 0; i < steps; i++) {
        TRY(engine_step(engine, &result));
        us[i] = (double)result.times.total_ns * 1e-3;
        observer->step(observer->context, &result);
    }
    return STATUS_OK;
}

/* The ring of the trace is as long as that of a run with so many instructions. */
static enum status run(struct planned_run *planned, int instructions, int steps, double *us) {
    struct control_row row = {0};
    struct recorder watch = {.row = &row};
    struct program *real = planned->plan->program,
                   *empty = empty_program(planned->plan, instructions);
    struct engine *engine = NULL;
    struct train_state state = train_fresh();
    state.observer = recorder_engine_observer(&watch);
    enum status status =
        engine_open(&(struct engine_config){.plan = planned->plan, .state = &state}, &engine);
    planned->plan->program = empty;
    watch.engine = &engine;
    if (status == STATUS_OK) status = recorder_open(planned, NULL, 0, &watch);
    struct train_observer train = recorder_train_observer(&watch);
    if (status == STATUS_OK) status = time_steps(engine, &train, steps, us);
    recorder_free(&watch);
    planned->plan->program = real;
    engine_close(&engine);
    program_free(&empty);
    return status;
}

int main(int argc, char **argv) {
    int instructions = argc > 1 ? atoi(argv[1]) : 1000, steps = argc > 2 ? atoi(argv[2]) : 2000;
    char *words[] = {"--model", "mlp", "--threads", "1", "--drop-last", "--steps", "1000000000"};
    struct options options;
    struct planned_run planned;
    if (instructions < 1 || steps < 1) return (int)fail(STATUS_USAGE, "counts are at least 1");
    enum status status = options_parse(COMMAND_TRAIN, 7, words, &options);
    if (status == STATUS_OK) status = planned_open(&options, NULL, &planned);
    if (status != STATUS_OK) return (int)status;
    double *us = MEM_ARRAY(double, steps);
    status = run(&planned, instructions, steps, us);
    qsort(us, (size_t)steps, sizeof *us, by_value);
    if (status == STATUS_OK)
        printf("%d empty instructions: %.1f us a step (best), %.1f us (median), %.1f ns each\n",
               instructions, us[0], us[steps / 2], us[0] * 1e3 / instructions);
    free(us);
    planned_close(&planned);
    return (int)status;
}
