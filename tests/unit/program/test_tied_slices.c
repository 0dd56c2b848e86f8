/* Parameters that two stages of one rank share, where replicas hold slices: the later stage reads
 * what the earlier one gathers, and its gradients are those of all its segments that have nodes. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "program/pipeline.h"
#include "program/resource.h"
#include "program/schedule.h"
#include "sync/sync.h"

enum { TIED = 2, LATER = 3, MICROS = 2 }; /* the shared bucket of stage 0; the other stage */

/* A V of two ranks, twice; the last bucket of stages 0 and 3 is kept. */
static struct program *v_of_slices(unsigned sliced) {
    static const int buckets[] = {3, 2, 2, 3};
    static const bool kept[] = {true, false, false, true};
    static const struct program_tie tie = {0, TIED, LATER, INSTR_ALL};
    struct schedule_config config = {
        .grid = {.stages = 2, .chunks = 2, .replicas = 2, .replicas_each = 1, .v_shape = true},
        .micro_batches = MICROS,
        .ties = &tie,
        .tie_count = 1,
        .buckets = buckets};
    struct sync_config sync = {.buckets = buckets, .sliced = SLICED_STATE | sliced, .kept = kept};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("zbv", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert("zero", program, &sync), STATUS_OK);
    return program;
}

static void expect_refused(const struct program *program, const char *why) {
    char log[512] = "";
    log_capture(log, sizeof log);
    enum status status = program_verify(program, NULL);
    log_capture(NULL, 0);
    cr_expect_eq(status, STATUS_USAGE);
    cr_expect(strstr(log, why), "%s", log);
}

Test(program_tied_slices, the_later_stage_may_keep_a_bucket_of_its_own) {
    for (unsigned what = SLICED_GRADIENTS; what <= (SLICED_GRADIENTS | SLICED_PARAMS); what += 2) {
        struct program *program = v_of_slices(what);
        cr_expect_eq(program_verify(program, NULL), STATUS_OK, "sliced %u", what);
        program_free(&program);
    }
}

/* A bucket that stage 0 does not keep is freed behind its F: stage 3 would read it all the same. */
Test(program_tied_slices, the_later_stage_reads_what_was_freed) {
    struct program *program = v_of_slices(SLICED_PARAMS);
    program->tie[0].bucket = 0;
    expect_refused(program,
                   "the parameters of bucket 0 of stage 0 that it reads were not gathered");
    program_free(&program);
}

/* Windows of other buckets would take its place while stage 3 still makes gradients of it. */
Test(program_tied_slices, a_bucket_that_is_not_kept_has_no_place_for_both) {
    struct program *program = v_of_slices(SLICED_GRADIENTS);
    for (int rank = 0; rank < program->ranks; rank += 2)
        program_edit(program, rank)->chunk[0].kept = 0;
    expect_refused(program, "tied bucket 2 of stage 0: rank 0 does not keep it");
    program_free(&program);
}

/* It awaits what it reads: so its passes name that bucket, besides the one their stage keeps. */
Test(program_tied_slices, passes_of_the_later_stage_touch_the_shared_bucket) {
    struct program *program = v_of_slices(SLICED_GRADIENTS | SLICED_PARAMS);
    const struct rank_program *own = program_of(program, 0);
    const struct chunk_sizes *sizes = own->chunk;
    struct resource_map map = resource_map(program, own->grads, own->chunks, sizes);
    struct instr pass = instr_make(INSTR_B);
    pass.stage = LATER;
    pass.segment = 0;
    pass.grad = 1;
    struct touched params = resource_touched(&map, &pass, 'p'),
                   grads = resource_touched(&map, &pass, 'g');
    cr_expect_eq(params.also_count, 2);
    cr_expect_eq(resource_bucket(&map, params.also[0]), sizes_bucket(sizes, 1, 2));
    cr_expect_eq(resource_bucket(&map, params.also[1]), sizes_bucket(sizes, 0, TIED));
    cr_expect_eq(grads.also_count, 2);
    cr_expect_eq(resource_bucket(&map, grads.also[0]), sizes_bucket(sizes, 1, sizes[1].windows));
    cr_expect_eq(resource_bucket(&map, grads.also[1]), sizes_bucket(sizes, 0, sizes[0].windows));
    pass.stage = 0;
    cr_expect_eq(resource_touched(&map, &pass, 'p').also_count, 1);
    program_free(&program);
}
