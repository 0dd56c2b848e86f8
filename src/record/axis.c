/* Ticks at 1, 2 or 5 times a power of ten: the only spacings people read without counting. */
#include "record/axis.h"

#include <float.h>
#include <math.h>

#include "record/html.h"

static const double WIDEST = 1e300; /* so that a range never overflows */

/* The smallest of 1, 2, 5 x 10^k that is at least `size`. */
static double round_up(double size) {
    double power = pow(10, floor(log10(size))), part = size / power;
    return (part <= 1.0001 ? 1 : part <= 2.0001 ? 2 : part <= 5.0001 ? 5 : 10) * power;
}

static double round_down(double size) {
    double power = pow(10, floor(log10(size) + 1e-9)), part = size / power;
    return (part >= 4.9999 ? 5 : part >= 1.9999 ? 2 : 1) * power;
}

static void add_tick(struct axis *axis, double value) {
    if (axis->ticks < AXIS_TICKS) axis->tick[axis->ticks++] = value;
}

/* 1, 2 and 5 of each decade where that is not too many; else decades, as many apart as needed. */
static void log_ticks(struct axis *axis, int most) {
    double first = floor(log10(axis->low) + 1e-9), last = log10(axis->high) + 1e-9;
    bool fine = log10(axis->high / axis->low) * 3 < 2 * most - 1;
    int apart = fine ? 1 : (int)ceil((last - first) / most);
    static const double parts[] = {1, 2, 5};
    for (double k = first; k <= last; k += apart) {
        for (int i = 0; i < (fine ? 3 : 1); i++) {
            double value = parts[i] * pow(10, k);
            if (value >= axis->low * 0.9999 && value <= axis->high * 1.0001) add_tick(axis, value);
        }
    }
}

static void linear_ticks(struct axis *axis) {
    double first = ceil(axis->low / axis->tick_step - 1e-6);
    for (int i = 0; i < AXIS_TICKS; i++) {
        double value = (first + i) * axis->tick_step;
        if (value > axis->high + axis->tick_step * 1e-6) break;
        add_tick(axis, value);
    }
}

/* A range of no width gets some, around the value. */
static void widen(struct axis *axis) {
    double size = fmax(fabs(axis->low), fabs(axis->high));
    if (axis->high - axis->low > size * 1e-9 && axis->high - axis->low > DBL_MIN * 1e9) return;
    double pad = axis->unit == AXIS_STEPS ? 0.5 : size > DBL_MIN * 1e9 ? size * 0.1 : 1;
    axis->low -= pad;
    axis->high += pad;
}

/* A range that begins near zero begins at zero: heights can then be compared. */
static void begin_at_zero(struct axis *axis) {
    if (axis->unit == AXIS_NUMBER && axis->low > 0 && axis->low < 0.35 * axis->high) axis->low = 0;
}

static void keep_percent(struct axis *axis) {
    if (axis->unit != AXIS_PERCENT) return;
    axis->low = fmin(fmax(axis->low, 0), 0.99);
    axis->high = fmax(fmin(axis->high, 1), axis->low + 0.01);
}

struct axis axis_fit(enum axis_unit unit, bool log, double low, double high, int most) {
    struct axis axis = {unit, log, fmax(low, -WIDEST), fmin(high, WIDEST), {0}, 0, 1};
    if (log) {
        axis.low = round_down(fmax(low, 1e-300));
        axis.high = fmax(round_up(axis.high), axis.low * 10);
        log_ticks(&axis, most);
        return axis;
    }
    widen(&axis);
    begin_at_zero(&axis);
    keep_percent(&axis);
    axis.tick_step = round_up((axis.high - axis.low) / most);
    if (unit == AXIS_STEPS)
        axis.tick_step = fmax(axis.tick_step, 1);
    else {
        axis.low = floor(axis.low / axis.tick_step + 1e-6) * axis.tick_step;
        axis.high = ceil(axis.high / axis.tick_step - 1e-6) * axis.tick_step;
    }
    linear_ticks(&axis);
    return axis;
}

double axis_place(const struct axis *axis, double value) {
    if (axis->log && value <= 0) return 0;
    double part = axis->log ? (log(value) - log(axis->low)) / (log(axis->high) - log(axis->low))
                            : (value - axis->low) / (axis->high - axis->low);
    return fmin(fmax(part, 0), 1);
}

/* Decimals that tell ticks `step` apart. */
static int decimals(double step) {
    int places = -(int)floor(log10(step) + 1e-6);
    return places < 0 ? 0 : places;
}

const char *axis_label(const struct axis *axis, double value, char text[TEXT_BYTES]) {
    double size = fmax(fabs(axis->low), fabs(axis->high)), step = axis->tick_step;
    if (!axis->log && fabs(value) < step * 1e-3) /* what is left of 3 x 0.1 - 0.3, and -0 */
        snprintf(text, TEXT_BYTES, axis->unit == AXIS_PERCENT ? "0%%" : "0");
    else if (axis->unit == AXIS_PERCENT)
        snprintf(text, TEXT_BYTES, "%.*f%%", decimals(step * 100), value * 100);
    else if (axis->log || size >= 1e10 || size < 1e-3)
        html_number(value, text);
    else if (size >= 1e7)
        snprintf(text, TEXT_BYTES, "%.*fM", decimals(step / 1e6), value / 1e6);
    else if (size >= 1e4)
        snprintf(text, TEXT_BYTES, "%.*fk", decimals(step / 1e3), value / 1e3);
    else
        snprintf(text, TEXT_BYTES, "%.*f", decimals(step), value);
    return text;
}
