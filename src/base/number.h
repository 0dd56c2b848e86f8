/* Numbers as people write them, read strictly: plain decimal, no leading space, no hexadecimal, no
 * infinity, no NaN. Each function only says yes or no, and leaves its outputs alone on no; the
 * caller knows what would have been right. All local. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits, or a decimal number with an optional minus sign, from *at, which is moved behind. */
bool number_digits(const char **at, int64_t *out);
bool number_decimal(const char **at, double *out);

/* The whole text is one number. */
bool number_int(const char *text, int64_t *out);
bool number_real(const char *text, double *out);

/* The whole text is a decimal number and the name of one of the units. */
struct number_unit {
    const char *name;
    double factor;
};
bool number_quantity(const char *text, const struct number_unit *unit, size_t units, double *out);

/* The whole text is a time: "90" and "90s" are seconds; ns, us, ms, m or min, h, d. */
bool number_duration(const char *text, double *seconds);

#endif
