/* Which classes a model takes for which: counted sample by sample, added up over ranks, shown to
 * people and written whole.
 *
 * Everything here is local. Where there are too many classes for a table of all pairs only what
 * belongs to each class is counted. */
#ifndef RECORD_CONFUSION_H
#define RECORD_CONFUSION_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/status.h"

enum { CONFUSION_MOST = 4096 }; /* classes of a table of pairs */

struct confusion {
    int64_t classes;
    /* Of one array: per class its samples, those taken for it, those of it taken for it; then
     * [label][taken for], or NULL. */
    int64_t *samples, *taken, *right, *pairs;
    const char *const *names; /* the caller's, of the first `named` classes */
    int64_t named;
};

/* The caller frees it. A model may have more classes than its data have names. */
void confusion_new(int64_t classes, const char *const *names, int64_t named, struct confusion *out);
void confusion_free(struct confusion *confusion);
void confusion_add(struct confusion *confusion, int64_t label, int64_t taken);
/* All its numbers, to be added up over ranks; how many there are, also before it is made. */
int64_t *confusion_numbers(const struct confusion *confusion);
int64_t confusion_count(int64_t classes);

/* For people: a row for each class, and the table of pairs while it fits a screen; of many classes
 * the worst, and the most frequent mistakes. */
void confusion_print(const struct confusion *confusion, FILE *out);
/* An object: "classes" (a list, each with its figures) and "confusion" (rows by label; null where
 * there is none). The caller owns it. */
json_t *confusion_json(const struct confusion *confusion);
/* A line for each class: number, name, samples, right, recall, precision, then its row of pairs. */
void confusion_csv(const struct confusion *confusion, FILE *out);

#endif
