/* The numbers of buffers: each has one, and whoever posts and whoever awaits mean the same. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/log.h"
#include "program/resource.h"
#include "program/schedule.h"
#include "sync/sync.h"

enum { STAGES = 2, MICROS = 2 };

static struct program *pipes(unsigned sliced) {
    static const int buckets[] = {3, 2};
    struct schedule_config config = {
        .grid = {.stages = STAGES, .chunks = 1, .replicas = 2, .replicas_each = 1},
        .micro_batches = MICROS,
        .buckets = buckets};
    struct sync_config sync = {.buckets = buckets, .sliced = sliced};
    struct program *program = NULL;
    cr_assert_eq(schedule_build("1f1b", &config, &program), STATUS_OK);
    cr_assert_eq(sync_insert(sliced ? "zero" : "allreduce", program, &sync), STATUS_OK);
    return program;
}

static struct resource_map map_of(const struct program *program, int rank) {
    const struct rank_program *own = program_of(program, rank);
    return resource_map(program, own->grads, own->chunks, own->chunk);
}

Test(program_resource, kinds_stand_one_behind_the_other) {
    struct program *program = pipes(SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS);
    const struct rank_program *own = program_of(program, 0);
    struct resource_map map = map_of(program, 0);
    int slots = own->chunk[0].slots, grads = own->grads;
    cr_expect_eq(map.first[RESOURCE_COUNT], 3 + slots + grads * 3 + 3);
    for (int b = 0; b < map.first[RESOURCE_COUNT]; b++) {
        enum resource kind = resource_kind(&map, b);
        enum resource expected = b == 0                      ? RESOURCE_SEEDS
                                 : b == 1                    ? RESOURCE_LOSSES
                                 : b == 2                    ? RESOURCE_NORM
                                 : b < 3 + slots             ? RESOURCE_SLOT
                                 : b < 3 + slots + grads * 3 ? RESOURCE_GRADIENT
                                                             : RESOURCE_PARAMS;
        cr_expect_eq(kind, expected, "buffer %d", b);
        cr_expect_eq(resource_is_exchange(&map, b), b < 3);
        cr_expect_eq(resource_lasts(&map, b), kind == RESOURCE_NORM || kind == RESOURCE_PARAMS);
    }
    program_free(&program);
    program = pipes(0); /* parameters are not gathered: nothing is under way there */
    map = map_of(program, 0);
    cr_expect_eq(map.first[RESOURCE_PARAMS], map.first[RESOURCE_PARAMS + 1]);
    program_free(&program);
}

/* Whatever is posted in a body is found by an instruction that names the same buffer. */
Test(program_resource, what_is_posted_is_touched_by_the_same_instruction) {
    static const unsigned sets[] = {0, SLICED_STATE, SLICED_STATE | SLICED_GRADIENTS,
                                    SLICED_STATE | SLICED_GRADIENTS | SLICED_PARAMS};
    for (int s = 0; s < 4; s++) {
        struct program *program = pipes(sets[s]);
        int seen = 0, twice = 0;
        for (int rank = 0; rank < program->ranks; rank++) {
            const struct instr_list *body = program_list(program, rank, LIST_BODY);
            struct resource_map map = map_of(program, rank);
            for (int i = 0; i < body->count; i++) {
                const struct instr *instr = &body->items[i];
                const struct instr_row *row = instr_row(instr);
                if (row->queue != QUEUE_COMM) continue;
                struct posted_on on = resource_posted(&map, instr);
                for (int b = 0; b < on.count; b++) {
                    bool touched = false;
                    for (const char *letters = row->writes[0] ? row->writes : row->reads; *letters;
                         letters++) {
                        struct touched at = resource_touched(&map, instr, *letters);
                        touched |= at.count && resource_holds(&at, on.buffer[b]);
                    }
                    cr_expect(touched, "%s of rank %d", row->name, rank);
                }
                seen++;
                twice += on.count == 2;
            }
        }
        cr_expect_gt(seen, 0);
        cr_expect_eq(twice > 0, (sets[s] & SLICED_GRADIENTS) != 0, "set %u", sets[s]);
        program_free(&program);
    }
}

/* STEP awaits all gradients and parameters of the rank; a segment those of its bucket. */
Test(program_resource, what_instructions_touch) {
    struct program *program = pipes(SLICED_STATE | SLICED_PARAMS | SLICED_GRADIENTS);
    struct resource_map map = map_of(program, 0);
    struct instr step = instr_make(INSTR_STEP), pass = instr_make(INSTR_F);
    step.grad = 0;
    struct touched touched = resource_touched(&map, &step, 'g');
    cr_expect(touched.first == map.first[RESOURCE_GRADIENT] && touched.count == 3);
    touched = resource_touched(&map, &step, 'p');
    cr_expect(touched.first == map.first[RESOURCE_PARAMS] && touched.count == 3);
    pass.segment = 2;
    touched = resource_touched(&map, &pass, 'p');
    cr_expect(touched.first == map.first[RESOURCE_PARAMS] + 2 && touched.count == 1);
    struct instr call = instr_make(INSTR_CALL);
    cr_expect_eq(resource_touched(&map, &call, 'N').count, 0);
    call.flags = INSTR_CLIP;
    cr_expect_eq(resource_touched(&map, &call, 'N').first, map.first[RESOURCE_NORM]);
    cr_expect_eq(resource_touched(&map, &call, 'N').count, 1);
    program_free(&program);
}

Test(program_resource, letters_of_what_lasts) {
    char text[RESOURCE_LETTERS_BYTES];
    cr_expect_str_eq(resource_letters(1u << RESOURCE_PARAMS | 1u << RESOURCE_NORM, text), "np");
    cr_expect_eq(resource_find("pn"), 1 << RESOURCE_PARAMS | 1 << RESOURCE_NORM);
    cr_expect_eq(resource_find(""), 0);
    static const char *const bad[] = {"a", "g", "o", "nn", "z", "nk"};
    for (int i = 0; i < 6; i++) cr_expect_eq(resource_find(bad[i]), -1, "%s", bad[i]);
}
