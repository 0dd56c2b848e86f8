/* See recorded.h. */
#include "exec/recorded.h"

#include <string.h>

struct train_course recorded_course(const struct train_state *state) {
    struct train_course course = {.norms = state->norms};
    if (!state->course) return course;
    course.part = state->course->part;
    while (course.count < state->course->count && course.part[course.count].step < state->done.step)
        course.count++;
    if (course.count == 0) course.count = 1;
    return course;
}

static void *copy_to(struct arena *arena, const void *from, size_t bytes) {
    return bytes ? memcpy(arena_new(arena, bytes), from, bytes) : NULL;
}

void recorded_copy(const struct train_course *course, struct arena *arena,
                   struct train_course *out) {
    *out = *course;
    out->part = copy_to(arena, course->part, (size_t)course->count * sizeof *course->part);
    out->norms.squares = copy_to(arena, course->norms.squares,
                                 (size_t)course->norms.blocks * sizeof(struct exact_sum));
}
