/* An axis: the range that shows some values, where its ticks are, and what they are called. All
 * local and pure. */
#ifndef RECORD_AXIS_H
#define RECORD_AXIS_H

#include <stdbool.h>

#include "base/text.h"

enum axis_unit { AXIS_NUMBER, AXIS_PERCENT, AXIS_STEPS };
enum { AXIS_TICKS = 12 };

struct axis {
    enum axis_unit unit;
    bool log;
    double low, high; /* low < high always; on a log axis both are > 0 */
    double tick[AXIS_TICKS];
    int ticks;
    double tick_step; /* between ticks of a linear axis */
};

/* The axis for values from `low` to `high`, with about `most` ticks. A value axis ends on ticks;
 * percentages stay within 0 and 100%; steps keep their range and have whole ticks. */
struct axis axis_fit(enum axis_unit unit, bool log, double low, double high, int most);
/* Where a value lies, from 0 at the low end to 1; what lies outside is put on the edge. */
double axis_place(const struct axis *axis, double value);
/* "0.25", "40%", "20k"; returns `text`. */
const char *axis_label(const struct axis *axis, double value, char text[TEXT_BYTES]);

#endif
