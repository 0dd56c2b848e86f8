/* Rule 35: operations on buckets that are done in the order posted, as NCCL does them. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "program/pipeline.h"
#include "program/schedule.h"
#include "sync/sync.h"

/* Two replicas; the first and the last stage share a bucket. */
static struct program *tied(const char *name, int stages, const char *sync, unsigned sliced) {
    const struct pipeline_schedule *schedule = pipeline_find(name);
    struct grid grid = {.stages = stages,
                        .chunks = schedule->chunks,
                        .replicas = 2,
                        .replicas_each = 1,
                        .v_shape = schedule->v_shape};
    int last = grid.stages * grid.chunks - 1, buckets[32];
    for (int s = 0; s <= last; s++) buckets[s] = s == 0 ? 3 : s == last ? 2 : 1;
    bool apart = grid_position(&grid, 0) != grid_position(&grid, last);
    struct program_tie tie = {0, 2, last, apart ? 0 : INSTR_ALL};
    struct schedule_config config = {
        .grid = grid, .micro_batches = 4, .ties = &tie, .tie_count = 1, .buckets = buckets};
    struct program *program = NULL;
    cr_assert_eq(schedule_build(name, &config, &program), STATUS_OK);
    struct sync_config how = {.buckets = buckets, .sliced = sliced};
    cr_assert_eq(sync_insert(sync, program, &how), STATUS_OK);
    return program;
}

Test(program_in_order, sums_of_every_schedule_may_be) {
    for (int s = 0; s < pipeline_count(); s++) {
        const char *name = pipeline_at(s)->name;
        if (pipeline_at(s)->chunks == 0 || pipeline_at(s)->older)
            continue; /* never flushed: on CPUs */
        struct program *program = tied(name, 2, "allreduce", 0);
        cr_expect_eq(program_verify_in_order(program, NULL), STATUS_OK, "%s", name);
        program_free(&program);
    }
}

/* A rank scatters a window before it uses it again. The JOIN that it posted before that waits for
 * a rank that waits for a message from this one. */
Test(program_in_order, a_program_that_only_groups_of_their_own_can_run) {
    struct program *program = tied("looped-bfs", 2, "zero", SLICED_STATE | SLICED_GRADIENTS);
    char log[1024] = "";
    cr_expect_eq(program_verify(program, NULL), STATUS_OK);
    log_capture(log, sizeof log);
    enum status status = program_verify_in_order(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, "rule 35"), "%s", log);
    program_free(&program);
}
