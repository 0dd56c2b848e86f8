/* Measured times, and forecasts made of them with an interval. All local and pure.
 *
 * A measurement keeps the median and the interquartile range, which a few outliers do not move; for
 * arithmetic the range is taken as that of a normal distribution. An estimate is a sum of such
 * times: a value and its variance. Two things make a forecast uncertain, and they add up
 * differently: the noise of each run is new every time (variance grows with the number of uses),
 * the error of the measured median is the same every time (variance grows with its square).
 * Rejected: minima and maxima, which grow without bound with the number of samples. */
#ifndef COST_ESTIMATE_H
#define COST_ESTIMATE_H

#include <stdint.h>

struct measure {
    double median, iqr; /* in one unit, nanoseconds or a rate */
    int64_t samples;    /* 0: not measured */
};

/* The standard deviation that belongs to an interquartile range. */
double measure_deviation(const struct measure *measure);
/* ... of its median: how far off another measurement's may be for its few samples alone. */
double measure_median_error(const struct measure *measure);
/* Median and interquartile range of `count` values, which are sorted in place; by linear
 * interpolation between neighbours. */
struct measure measure_of(double *values, int64_t count);
/* Two measurements of one thing as one: mean of the medians by samples, spread of both together.
 * The order does not matter. */
struct measure measure_pool(const struct measure *a, const struct measure *b);

struct estimate {
    double ns, variance;
};

/* `times` uses of something measured. */
struct estimate estimate_of(const struct measure *measure, double times);
/* A time whose relative standard deviation is known. */
struct estimate estimate_relative(double ns, double deviation);

#define ESTIMATE_Z90 1.6448536269514722 /* 90% of a normal distribution lie within this */
struct estimate_interval {
    double low_ns, high_ns;
};
/* The value plus and minus z standard deviations, not below 0. */
struct estimate_interval estimate_interval(struct estimate estimate, double z);

#endif
