/* The recorded course of a run, course.jsonl: a row for each part, which --course replays.
 *
 * A row is a JSON object on a line of its own: step (updates done before the part), frozen and of
 * (blocks that are frozen, and that the model has beside its head), ranks, stages, replicas,
 * micro_batches and batch. Replicas x micro_batches is the same in all rows: the samples of a step
 * are dealt alike whatever the grid is. */
#ifndef PLAN_COURSE_FILE_H
#define PLAN_COURSE_FILE_H

#include <stdio.h>

#include "base/mem.h"
#include "plan/course.h"

enum { COURSE_FILE_BYTES = 8 << 20 };

struct course_file {
    const char *name;
    struct course_part *part; /* in the arena */
    int count, blocks, ranks;
    int64_t batch;
};

/* Local. STATUS_DATA, with line and field, for what no run has written. */
enum status course_file_parse(const char *name, const char *text, size_t bytes, struct arena *arena,
                              struct course_file *out);
/* Local, blocking. */
enum status course_file_read(const char *path, struct arena *arena, struct course_file *out);

/* Local. A row. */
void course_file_print(const struct course *course, const struct course_part *part, FILE *out);

#endif
