/* gpu-steps [--seed N]: whole trainings on a device, in TAP: its memory is as predicted, and none
 * is taken after the second step.
 *
 * Predicted and taken are compared with the libraries' part of both, which NVML tells. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../options_line.h"
#include "base/log.h"
#include "exec/engine.h"
#include "plan/resolve.h"
#include "tap.h"

static const char *const lines[] = {
    "--model resnet18-cifar --data synthetic:size=32,channels=3,count=2560 --batch 128",
    "--model resnet18-cifar --data synthetic:size=32,channels=3,count=2560 --batch 128 --dtype "
    "bf16",
    "--model vit-tiny --data synthetic:size=32,channels=3,count=2560 --batch 128 --dtype f16",
    "--model gpt2-nano --data synthetic:kind=text,seq=128,vocab=5000,count=2560 --batch 64 "
    "--micro-batches 2"};

enum { STEPS = 20 };

struct run {
    struct options options;
    struct dataset *dataset;
    struct costs *costs;
    struct plan *plan;
    struct train_state state;
    struct engine *engine;
};

static enum status begin(const char *line, struct run *run) {
    struct resolve_place place = {.ranks = 1, .threads = 1};
    struct run_config config;
    TRY(options_of_line(COMMAND_TRAIN, line, &run->options));
    const struct model *model = model_find(run->options.model);
    TRY(resolve_data(&run->options, model, &run->dataset));
    TRY(resolve_run(&run->options, model, run->dataset, &place, &config));
    TRY(resolve_costs(&run->options, true, 1, &config, &run->costs));
    TRY(plan_new(&config, NULL, &run->plan));
    run->state = train_fresh();
    TRY(engine_open(&(struct engine_config){.plan = run->plan, .state = &run->state},
                    &run->engine));
    return engine_start(run->engine);
}

static enum status steps(struct run *run, int count) {
    struct step_result result;
    for (int i = 0; i < count; i++) TRY(engine_step(run->engine, &result));
    return STATUS_OK;
}

static void end(struct run *run) {
    engine_close(&run->engine);
    plan_free(&run->plan);
    cost_free(&run->costs);
    dataset_free(&run->dataset);
    options_free(&run->options);
}

static void judge(const char *device, const char *line) {
    struct run run = {0};
    struct device_bytes early = {0}, late = {0};
    char all[512];
    snprintf(all, sizeof all, "%s --device %s --steps %d", line, device, STEPS);
    enum status status = begin(all, &run);
    if (status == STATUS_OK) status = steps(&run, 2);
    if (status == STATUS_OK) run.plan->device->backend->memory_bytes(run.plan->device, &early);
    if (status == STATUS_OK) status = steps(&run, STEPS - 2);
    if (status == STATUS_OK) run.plan->device->backend->memory_bytes(run.plan->device, &late);
    tap(status == STATUS_OK && early.peak == late.peak && early.libraries == late.libraries,
        "%s: nothing is taken after step 2: %zu and %zu bytes, libraries %zu and %zu", line,
        early.peak, late.peak, early.libraries, late.libraries);
    double predicted = run.plan ? (double)plan_bytes(run.plan) : NAN,
           taken = (double)(late.peak + (late.libraries ? late.libraries : late.expected));
    tap(fabs(predicted / taken - 1) <= 0.05, "%s: %.1f MiB predicted, %.1f taken", line,
        predicted / 0x1p20, taken / 0x1p20);
    end(&run);
}

int main(int argc, char **argv) {
    struct tap_options options = tap_begin(argc, argv);
    struct device *device = NULL;
    if (!tap_open(&options, &device)) return 0;
    device_close(&device);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!options.only || strstr(lines[i], options.only)) judge(options.backend, lines[i]);
    return tap_end();
}
