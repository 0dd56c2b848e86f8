/* Timelines for tests of the drawings: a 1F1B pipeline in virtual time, from costs, with sends,
 * receives, a reduction, memory and its critical path; once as predicted, once with a slow rank and
 * jitter as if measured. Written for the tests alone: the real schedules are not needed to test a
 * picture. All functions are local; what a sample points to lives until sample_free. */
#ifndef TESTS_RECORD_SAMPLE_H
#define TESTS_RECORD_SAMPLE_H

#include "base/mem.h"
#include "record/timeline.h"

enum { SAMPLE_F, SAMPLE_B, SAMPLE_RECV, SAMPLE_SEND, SAMPLE_REDUCE, SAMPLE_STEP, SAMPLE_LOAD };
enum { SAMPLE_KINDS = SAMPLE_LOAD + 1 };
extern const struct timeline_kind sample_kinds[SAMPLE_KINDS];

struct sample_costs {
    int64_t load, f, b, c, reduce, step; /* time */
    int slow_rank;                       /* its work takes slow_percent more */
    int slow_percent, jitter_percent;
    int64_t skew; /* begin of the last rank */
};

struct sample {
    int stages, micros;
    struct timeline timeline;
    struct timeline_row *rows;
    struct timeline_lane *lanes[TIMELINE_VERSIONS];
    struct timeline_arrow *arrows[TIMELINE_VERSIONS];
    struct arena arena;
};

extern const struct sample_costs sample_predicted, sample_measured;

/* Rows and kinds, without a version. */
void sample_make(struct sample *sample, int stages, int micros);
/* Runs the pipeline at these costs and adds it as a version. */
void sample_version(struct sample *sample, int version, const struct sample_costs *costs);
void sample_free(struct sample *sample);

#endif
