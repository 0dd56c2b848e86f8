/* report.html: one run on one page that needs nothing but itself: no network, readable in light and
 * dark and on a phone. Its only script is that of the timeline, which the page's policy knows by a
 * nonce; without a timeline there is none. It shows what summary.json and metrics.jsonl of the run
 * folder hold, and the texts that tell how the run was made. */
#ifndef RECORD_REPORT_H
#define RECORD_REPORT_H

#include <stdbool.h>

#include "base/status.h"
#include "record/summary.h"
#include "record/timeline.h"

/* The parts of a run whose plan changed on its way: the steps before each, what of its blocks is
 * frozen, its grid. */
struct report_course_part {
    int64_t step;
    int frozen, stages, replicas, micro_batches;
};
struct report_course {
    const struct report_course_part *part;
    int count, of; /* 0: it had one plan; blocks of the model */
    int64_t steps; /* done in all */
};

/* Everything is borrowed for the call; a text may be NULL and is then left out. Texts may hold
 * anything: they are escaped. */
struct report_input {
    const struct summary *summary;
    const char *notice;              /* a sentence that all figures must be read with */
    const char *command_lines;       /* a line for each start */
    const char *config_yaml;         /* of config.yml */
    const struct timeline *timeline; /* of a step; NULL: none was traced */
    struct report_course course;
    bool range_test;          /* the learning rate grew, to find a good one */
    const char *program_text; /* of program.txt; the first REPORT_PROGRAM_LINES lines are shown */
};
enum { REPORT_PROGRAM_LINES = 200 };

/* Local, blocking. Writes folder/report.html atomically from the input and the folder's
 * metrics.jsonl; metrics that are missing or damaged are said on the page and are no failure. */
enum status report_write(const char *folder, const struct report_input *input);

#endif
