/* See estimate.h. */
#include "cost/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "base/log.h"

#define IQR_OF_DEVIATION 1.3489795003921634 /* of a normal distribution */
#define MEDIAN_ERROR 1.2533141373155003     /* sqrt(pi / 2): of its median, times sigma / sqrt(n) */

double measure_deviation(const struct measure *measure) {
    return measure->iqr / IQR_OF_DEVIATION;
}

double measure_median_error(const struct measure *measure) {
    if (measure->samples == 0) return 0;
    return MEDIAN_ERROR * measure_deviation(measure) / sqrt((double)measure->samples);
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double quantile(const double *sorted, int64_t count, double share) {
    double at = share * (double)(count - 1);
    int64_t below = (int64_t)at, above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
}

struct measure measure_of(double *values, int64_t count) {
    CHECK(count > 0, "%lld values", (long long)count);
    qsort(values, (size_t)count, sizeof *values, by_value);
    return (struct measure){.median = quantile(values, count, 0.5),
                            .iqr = quantile(values, count, 0.75) - quantile(values, count, 0.25),
                            .samples = count};
}

/* Its part of the variance around a common mean, times its samples. */
static double spread_around(const struct measure *measure, double mean) {
    double deviation = measure_deviation(measure), away = measure->median - mean;
    return (double)measure->samples * (deviation * deviation + away * away);
}

struct measure measure_pool(const struct measure *a, const struct measure *b) {
    if (a->samples == 0) return *b;
    if (b->samples == 0) return *a;
    double left = (double)a->samples, right = (double)b->samples, all = left + right;
    double mean = (left * a->median + right * b->median) / all;
    double variance = (spread_around(a, mean) + spread_around(b, mean)) / all;
    return (struct measure){.median = mean,
                            .iqr = sqrt(variance) * IQR_OF_DEVIATION,
                            .samples = a->samples + b->samples};
}

struct estimate estimate_of(const struct measure *measure, double times) {
    double deviation = measure_deviation(measure), variance = deviation * deviation;
    double error = times * measure_median_error(measure);
    return (struct estimate){.ns = times * measure->median,
                             .variance = times * variance + error * error};
}

struct estimate estimate_relative(double ns, double deviation) {
    return (struct estimate){.ns = ns, .variance = ns * deviation * ns * deviation};
}

struct estimate_interval estimate_interval(struct estimate estimate, double z) {
    double half = z * sqrt(estimate.variance), low = estimate.ns - half;
    return (struct estimate_interval){.low_ns = low > 0 ? low : 0, .high_ns = estimate.ns + half};
}
