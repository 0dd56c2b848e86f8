/* The simulator moved on from outside: in whatever order ranks are asked, the times are those of
 * sim_run, to the bit; and what was saved between two steps goes on as if it had not been. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "kit.h"
#include "program/ahead.h"
#include "program/pipeline.h"
#include "sim/live.h"

enum { STEPS = 4, MOST_RANKS = 8 };

/* Where a rank is: `come` tells that it is in the middle of an instruction. */
struct cursor {
    int64_t step;
    int at;
    bool begun, come, asleep;
};

struct drive {
    const struct program *program;
    struct sim_live *live;
    struct cursor rank[MOST_RANKS];
    uint64_t key, drawn;
};

static void wake(struct drive *drive) {
    for (int rank; (rank = sim_live_woken(drive->live)) >= 0;) drive->rank[rank].asleep = false;
}

/* What fills a pipeline is of no step before the first. */
static bool is_left_out(const struct drive *drive, int rank) {
    const struct cursor *own = &drive->rank[rank];
    const struct instr *instr = &program_list(drive->program, rank, LIST_BODY)->items[own->at];
    return !ahead_runs(drive->program, instr, own->step, 0, INT64_MAX);
}

/* One move of a rank; the end of a list has no instruction behind it. */
static void move(struct drive *drive, int rank) {
    struct cursor *own = &drive->rank[rank];
    int count = program_list(drive->program, rank, LIST_BODY)->count;
    if (!own->begun) sim_live_begin(drive->live, rank, LIST_BODY, own->step);
    own->begun = true;
    while (own->at < count && is_left_out(drive, rank)) own->at++;
    if (!own->come && !sim_live_come(drive->live, rank, own->at)) {
        own->asleep = true;
    } else if (own->at == count) {
        if (own->step >= 0) sim_live_end(drive->live, rank);
        *own = (struct cursor){.step = own->step + 1};
    } else {
        own->come = !sim_live_ran(drive->live, rank, own->at);
        own->asleep = own->come;
        own->at += !own->come;
    }
    wake(drive);
}

/* All ranks up to a step, by chance. */
static void drive_to(struct drive *drive, int64_t step) {
    for (int moves = 0, ranks = drive->program->ranks, left = ranks; left > 0; moves++) {
        int rank = (int)(rng_word(drive->key, drive->drawn++) % (uint32_t)ranks);
        cr_assert(moves < 1000000, "the ranks are stuck");
        if (!drive->rank[rank].asleep && drive->rank[rank].step < step) move(drive, rank);
        left = 0;
        for (int r = 0; r < ranks; r++) left += drive->rank[r].step < step;
    }
}

static double told(const struct sim_kit *kit, int steps) {
    struct sim_input input = kit->input;
    struct sim_result result;
    input.costs = &kit->costs;
    input.steps = steps;
    cr_assert_eq(sim_run(&input, &result), STATUS_OK);
    double step = result.step;
    sim_result_free(&result);
    return step;
}

static void compare(const struct sim_case *of, const struct hetero *law, uint64_t key) {
    struct sim_kit kit;
    sim_kit_new(of, (struct sim_units){1.1, 0.7, 0.9, 0.3}, &kit);
    for (int s = 0; s < kit.program->grid.stages * kit.program->grid.chunks; s++)
        kit.stage[s].step = 0.37 + s, kit.stage[s].copy[SIM_FORWARD] = 0.05;
    kit.input.net.hetero = law;
    kit.input.costs = &kit.costs;
    struct drive drive = {
        .program = kit.program, .live = sim_live_new(&kit.input, NULL), .key = key};
    for (int n = 0; n < STEPS; n++) {
        drive_to(&drive, n + 1);
        double took = sim_live_step(drive.live, n), want = told(&kit, n + 1);
        cr_expect_eq(took, want, "%s, step %d: %.17g, not %.17g", of->schedule, n, took, want);
        if (n != 1) continue;
        int count = sim_live_save(drive.live, NULL);
        double *numbers = MEM_ARRAY(double, count);
        cr_expect_eq(sim_live_save(drive.live, numbers), count);
        double clock = sim_live_clock(drive.live, 0);
        sim_live_free(&drive.live);
        drive.live = sim_live_new(&kit.input, NULL);
        cr_expect(sim_live_load(drive.live, numbers, count, true));
        cr_expect_eq(sim_live_clock(drive.live, 0), clock);
        for (int r = 0; r < kit.program->ranks; r++) drive.rank[r] = (struct cursor){.step = n + 1};
        free(numbers);
        /* The end of the step before is not known any more: the clocks are looked at instead. */
        drive_to(&drive, n + 2);
        double first = 0, second = 0, third = told(&kit, n + 2);
        for (int s = 1; s <= n + 1; s++) first += told(&kit, s);
        for (int r = 0; r < kit.program->ranks; r++)
            if (sim_live_clock(drive.live, r) > second) second = sim_live_clock(drive.live, r);
        cr_expect_float_eq(second - first, third, 1e-9, "%s: after a pause", of->schedule);
        n++;
    }
    sim_live_free(&drive.live);
    sim_kit_free(&kit);
}

Test(sim_live, any_order_of_ranks_gives_the_times_of_the_simulator) {
    struct cluster_slow slow = {.ranks = {1, 1}, .factor = 1.7};
    struct hetero law = {.slow = &slow, .slow_count = 1, .probability = 0.4, .transient_ns = 2.3};
    for (int i = 0; i < pipeline_count(); i++) {
        const char *name = pipeline_at(i)->name;
        struct sim_case one = {name, 2, 0, 1, 4, 0, 0}, many = {name, 2, 0, 2, 4, 2, 1};
        if (pipeline_at(i)->older) continue;  /* steps overlap: see test_ahead.c */
        if (pipeline_at(i)->driven) continue; /* the kit has none */
        for (uint64_t key = 0; key < 3; key++) {
            compare(&one, NULL, key);
            compare(&one, &law, key);
            compare(&many, &law, key);
        }
    }
    struct sim_case ddp = {"single", 1, 1, 4, 1, 3, 0};
    compare(&ddp, NULL, 0);
    compare(&ddp, &law, 1);
}

/* Of another program only the latest clock is taken. */
Test(sim_live, another_program_begins_at_the_latest_clock) {
    struct sim_case two = {"gpipe", 2, 0, 1, 2, 0, 0}, three = {"gpipe", 3, 0, 1, 2, 0, 0};
    struct sim_kit kit, other;
    sim_kit_new(&two, (struct sim_units){1, 1, 1, 0}, &kit);
    sim_kit_new(&three, (struct sim_units){1, 1, 1, 0}, &other);
    kit.input.costs = &kit.costs, other.input.costs = &other.costs;
    struct drive drive = {.program = kit.program, .live = sim_live_new(&kit.input, NULL)};
    drive_to(&drive, 1);
    double numbers[1024];
    int count = sim_live_save(drive.live, NULL);
    cr_assert(count < 1024);
    sim_live_save(drive.live, numbers);
    struct sim_live *live = sim_live_new(&other.input, NULL);
    cr_expect_not(sim_live_load(live, numbers, count, true));
    for (int r = 0; r < 3; r++) cr_expect_eq(sim_live_clock(live, r), 3 * (2 + 2 - 1));
    sim_live_free(&live);
    sim_live_free(&drive.live);
    sim_kit_free(&kit);
    sim_kit_free(&other);
}

/* Messages are under way between two steps: what was saved then goes on as if it had not been. */
static void pause_and_compare(const struct sim_case *of, uint64_t key) {
    struct hetero law = {.probability = 0.4, .transient_ns = 2.3};
    struct sim_kit kit;
    sim_kit_new(of, (struct sim_units){1.1, 0.7, 0.9, 0.3}, &kit);
    kit.input.net.hetero = &law;
    kit.input.costs = &kit.costs;
    for (int64_t pause = 1; pause < 6; pause++) {
        double clock[2][MOST_RANKS];
        for (int pauses = 0; pauses < 2; pauses++) {
            struct drive drive = {
                .program = kit.program, .live = sim_live_new(&kit.input, NULL), .key = key};
            for (int r = 0; r < kit.program->ranks; r++) drive.rank[r].step = -kit.program->ahead;
            drive_to(&drive, pause);
            if (pauses) {
                int count = sim_live_save(drive.live, NULL);
                double *numbers = MEM_ARRAY(double, count);
                sim_live_save(drive.live, numbers);
                sim_live_free(&drive.live);
                drive.live = sim_live_new(&kit.input, NULL);
                cr_expect(sim_live_load(drive.live, numbers, count, true));
                free(numbers);
            }
            drive_to(&drive, 8);
            for (int r = 0; r < kit.program->ranks; r++)
                clock[pauses][r] = sim_live_clock(drive.live, r);
            sim_live_free(&drive.live);
        }
        for (int r = 0; r < kit.program->ranks; r++)
            cr_expect_eq(clock[0][r], clock[1][r], "%s, rank %d: %.17g, not %.17g", of->schedule, r,
                         clock[1][r], clock[0][r]);
    }
    sim_kit_free(&kit);
}

Test(sim_live, messages_under_way_go_on_behind_a_pause) {
    struct sim_case cases[] = {{"pipedream", 3, 0, 1, 1, 0, 0},
                               {"pipedream", 2, 0, 2, 1, 2, 1},
                               {"pipedream-2bw", 3, 0, 1, 3, 0, 0},
                               {"pipedream-2bw", 4, 0, 2, 5, 2, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t key = 0; key < 2; key++) pause_and_compare(&cases[i], key);
}
