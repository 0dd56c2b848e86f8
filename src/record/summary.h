/* summary.json: what a run was and how it went, one object with the keys of summary.def, each
 * present in every file; what was not measured is null. Code fills the struct field by field:
 * summary.step_ms.p50 = 3.2. */
#ifndef RECORD_SUMMARY_H
#define RECORD_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/status.h"

#define SUMMARY_NO_INT                                                                             \
    INT64_MIN /* an integer that was not measured; a real is then NaN, a text NULL */
enum summary_flag { SUMMARY_NO_FLAG = -1, SUMMARY_OFF = 0, SUMMARY_ON = 1 };

struct summary_hash {
    bool known;
    uint64_t value;
};
struct summary_ints { /* one a rank; an entry may be SUMMARY_NO_INT; count 0: not measured */
    int64_t *item;
    int count;
};
struct summary_reals { /* likewise, an entry may be NaN */
    double *item;
    int count;
};

#define SUMMARY_TYPE_TEXT const char *
#define SUMMARY_TYPE_INT int64_t
#define SUMMARY_TYPE_REAL double
#define SUMMARY_TYPE_FLAG enum summary_flag
#define SUMMARY_TYPE_HASH struct summary_hash
#define SUMMARY_TYPE_INTS struct summary_ints
#define SUMMARY_TYPE_REALS struct summary_reals

struct summary {
#define FIELD(kind, key, meaning) SUMMARY_TYPE_##kind key;
#define GROUP(key) struct {
#define MEMBER(group, key, meaning) double key;
#define END(key)                                                                                   \
    }                                                                                              \
    key;
#include "record/summary.def"
#undef FIELD
#undef GROUP
#undef MEMBER
#undef END
    struct arena arena; /* of texts and arrays made by the functions below */
};

/* Local. Nothing measured. summary_free gives back the arena and leaves the struct as new. */
void summary_init(struct summary *summary);
void summary_free(struct summary *summary);

/* Local. A copy of a text (NULL stays NULL), and arrays with nothing measured; they live as long as
 * the summary. */
const char *summary_text(struct summary *summary, const char *text);
struct summary_ints summary_ints_new(struct summary *summary, int count);
struct summary_reals summary_reals_new(struct summary *summary, int count);

/* Local. The rank that has most, -1 when no rank was measured. */
int summary_largest(const struct summary_ints *ints);

/* Local. The text of summary.json; errors stay in the stream. */
void summary_emit(FILE *stream, const struct summary *summary);
/* Local, blocking. Writes the file atomically. */
enum status summary_write(const struct summary *summary, const char *path);
/* Local, blocking. Reads a file back into a new summary (the caller frees it); every key must be
 * there and of its kind, keys we do not know are passed over. */
enum status summary_read(const char *path, struct summary *out);
/* Local, blocking. Whether a file reads as a summary of any version of ours. Says nothing. */
bool summary_is_ours(const char *path);

#endif
