/* An operation of a program's own that keeps other ranks waiting: they say so. */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "stretto.h"

static sem_t said; /* that somebody waits */
static bool was_said;
static char waits[500];

static void hear(void *context, int level, const char *text) {
    (void)context, (void)level;
    if (!strstr(text, "waits") || *waits) return;
    snprintf(waits, sizeof waits, "%s", text);
    sem_post(&said);
}

/* Until the other rank has complained of it; a minute is for one that never does. */
static void slow(const struct stretto_call *call, const void *const in[], void *const out[]) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 60;
    if (!was_said) was_said = sem_timedwait(&said, &end) == 0;
    memcpy(out[0], in[0], (size_t)stretto_elements(&call->in[0]) * sizeof(float));
}

static void slow_back(const struct stretto_call *call, const void *const in[],
                      const void *const out[], const void *const d_out[], void *const d_in[]) {
    (void)in, (void)out;
    memcpy(d_in[0], d_out[0], (size_t)stretto_elements(&call->in[0]) * sizeof(float));
}

static const struct stretto_op slow_op = {
    .size = sizeof slow_op, .name = "slow", .forward = slow, .backward = slow_back};

static void slow_end(struct stretto_graph *graph, void *context) {
    stretto_value x = stretto_linear(
        graph, "fc1", stretto_flatten(graph, "flat", stretto_input(graph, "image")), 20);
    (void)context;
    x = stretto_linear(graph, "kinds", x, stretto_classes(graph));
    x = stretto_apply(graph, "slow", &slow_op, NULL, 1, &x, NULL);
    stretto_cross_entropy(graph, "loss", x, stretto_input(graph, "label"), 0);
}

Test(run_own_wait, long_waits_are_told, .timeout = 120) {
    static const struct stretto_model model = {
        .size = sizeof model, .name = "slow", .build = slow_end};
    struct stretto_config config = {.size = sizeof config,
                                    .model = &model,
                                    .log = hear,
                                    .words =
                                        "--data digits --threads 1 --steps 1 -n 2 --strategy gpipe "
                                        "--cut kinds --stall-after 10ms"};
    struct stretto_step step = {.size = sizeof step};
    struct stretto_run *run;
    cr_assert_eq(sem_init(&said, 0, 0), 0);
    cr_assert_eq(stretto_open(&config, &run), 0, "%s", stretto_error());
    cr_assert_eq(stretto_step(run, &step), 0, "%s", stretto_error());
    stretto_close(&run);
    cr_expect(was_said, "nobody complained");
    cr_expect(strstr(waits, "rank 0") && strstr(waits, "rank 1 is at step 1 "), "%s", waits);
}
