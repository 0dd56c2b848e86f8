/* speed: instructions a second that the simulator runs.
 *
 *     build/bench-simulator [stages [replicas [micro-batches [steps [rounds]]]]]
 *
 * A 1f1b program, by default of 1,024 ranks with 256 micro-batches each, is built once. What is
 * timed is sim_run from the program to its result: making it ready, running it and giving all
 * memory back; every pipeline is run. Time is that of the processor, and the best of the rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/schedule.h"
#include "sim/run.h"
#include "sync/sync.h"

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static enum status build(int stages, int replicas, int micros, struct program **out) {
    struct schedule_config config = {
        .grid = {.stages = stages, .chunks = 1, .replicas = replicas, .replicas_each = 1},
        .micro_batches = micros};
    int *buckets = MEM_ARRAY(int, stages);
    for (int s = 0; s < stages; s++) buckets[s] = 1;
    enum status status = schedule_build("1f1b", &config, out);
    if (status == STATUS_OK)
        status = sync_insert(replicas > 1 ? "allreduce" : "none", *out,
                             &(struct sync_config){.buckets = buckets});
    free(buckets);
    return status;
}

static enum status measure(const struct sim_input *input, int rounds) {
    double best = 0;
    int64_t instructions = 0;
    for (int i = 0; i < rounds; i++) {
        struct sim_result result;
        double begin = cpu_s();
        TRY(sim_run(input, &result));
        instructions = result.instructions;
        sim_result_free(&result);
        double s = cpu_s() - begin;
        if (i == 0 || s < best) best = s;
    }
    printf("%d step(s)%s: %lld instructions in %.1f ms, %.1f million a second\n", input->steps,
           input->record ? ", recorded" : "", (long long)instructions, best * 1e3,
           (double)instructions / best * 1e-6);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    int number[] = {1024, 1, 256, 1, 5};
    for (int i = 0; i < 5 && i + 1 < argc; i++) number[i] = atoi(argv[i + 1]);
    for (int i = 0; i < 5; i++)
        if (number[i] < 1) return (int)fail(STATUS_USAGE, "counts are at least 1");
    struct program *program = NULL;
    struct sim_stage *stage = MEM_ARRAY(struct sim_stage, number[0]);
    for (int s = 0; s < number[0]; s++)
        stage[s] = (struct sim_stage){.pass = {1, 2, 1, 1}, .kept_bytes = 1, .kept_half_bytes = 1};
    struct sim_costs costs = {.stage = stage};
    struct sim_input input = {
        .costs = &costs, .net = {.link = {.latency = 0.1}}, .steps = number[3], .apart = true};
    enum status status = build(number[0], number[1], number[2], &program);
    input.program = program;
    for (int record = 0; record < 2 && status == STATUS_OK; record++) {
        input.record = record;
        status = measure(&input, number[4]);
    }
    program_free(&program);
    free(stage);
    return (int)status;
}
