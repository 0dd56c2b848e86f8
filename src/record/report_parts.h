/* Parts of report.html, between report.c and report_parts.c only. Each writes its part of the page;
 * all are local and errors stay in the stream. */
#ifndef RECORD_REPORT_PARTS_H
#define RECORD_REPORT_PARTS_H

#include <stdio.h>

#include "record/curves.h"
#include "record/report.h"
#include "record/summary.h"

/* The content of <style>. */
extern const char report_style[];

/* The figures that tell most, as cards. */
void report_cards(FILE *stream, const struct summary *summary);
/* Where the time of a step went, as one stacked bar. */
void report_time(FILE *stream, const struct summary *summary);
/* Of several ranks: how long each took by itself, and what it sent. Nothing for one. */
void report_ranks(FILE *stream, const struct summary *summary, const struct curves *curves);
/* Peak memory of each rank, predicted and measured. */
void report_memory(FILE *stream, const struct summary *summary);
/* Of strategies that keep versions of the parameters; of others nothing. */
void report_staleness(FILE *stream, const struct summary *summary);

/* Of a run whose plan changed on its way; of others nothing. */
void report_course(FILE *stream, const struct report_course *course, const struct curves *curves);

#endif
