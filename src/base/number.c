/* See number.h. strtoll and strtod do the arithmetic; what they would accept beyond plain decimal
 * is refused before. */
#include "base/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool number_digits(const char **at, int64_t *out) {
    if (!isdigit((unsigned char)**at)) return false;
    errno = 0;
    char *end;
    long long value = strtoll(*at, &end, 10);
    if (errno) return false;
    *at = end;
    *out = value;
    return true;
}

bool number_decimal(const char **at, double *out) {
    const char *start = *at + (**at == '-');
    if (!isdigit((unsigned char)start[0]) && !(start[0] == '.' && isdigit((unsigned char)start[1])))
        return false;
    if (start[0] == '0' && (start[1] == 'x' || start[1] == 'X')) return false;
    char *end;
    double value = strtod(*at, &end);
    if (!isfinite(value)) return false;
    *at = end;
    *out = value;
    return true;
}

bool number_int(const char *text, int64_t *out) {
    bool minus = *text == '-';
    int64_t value;
    text += minus;
    if (!number_digits(&text, &value) || *text) return false;
    *out = minus ? -value : value;
    return true;
}

bool number_real(const char *text, double *out) {
    double value;
    if (!number_decimal(&text, &value) || *text) return false;
    *out = value;
    return true;
}

bool number_quantity(const char *text, const struct number_unit *unit, size_t units, double *out) {
    double value;
    if (!number_decimal(&text, &value)) return false;
    for (size_t i = 0; i < units; i++) {
        if (strcmp(text, unit[i].name) != 0) continue;
        *out = value * unit[i].factor;
        return true;
    }
    return false;
}

/* Parts of a second are divided, not multiplied by 1e-6: then 20us is the double nearest to it. */
static bool small_duration(const char *text, double *seconds) {
    static const struct {
        struct number_unit unit;
        double divisor;
    } rows[] = {{{"ms", 1}, 1e3}, {{"us", 1}, 1e6}, {{"ns", 1}, 1e9}};
    double value;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!number_quantity(text, &rows[i].unit, 1, &value)) continue;
        *seconds = value / rows[i].divisor;
        return true;
    }
    return false;
}

bool number_duration(const char *text, double *seconds) {
    static const struct number_unit units[] = {
        {"", 1}, {"s", 1}, {"m", 60}, {"min", 60}, {"h", 3600}, {"d", 86400},
    };
    double value;
    if (small_duration(text, seconds)) return true;
    if (!number_quantity(text, units, sizeof units / sizeof units[0], &value) || !isfinite(value))
        return false;
    *seconds = value;
    return true;
}
