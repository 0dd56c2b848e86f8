/* Whether bf16 is faster than f32 here. Instructions do not tell: bf16 has no Winograd
 * convolutions, and some machines have the type but no faster products. So a matrix product and a
 * convolution are measured. What is found is said and never used: bits follow from options, not
 * from a clock. */
#ifndef RUN_NARROW_GAIN_H
#define RUN_NARROW_GAIN_H

#include "planned/planned.h"

/* Speed in bf16 over that in f32. */
struct narrow_gain {
    double product, convolution;
};

/* Local, blocking for some 0.2 s. On a device of one thread that takes both types. */
enum status narrow_gain_measure(struct device *device, struct narrow_gain *out);
/* Local. The speed of all products and convolutions of a graph, by those two. */
double narrow_gain_of(const struct graph *graph, const struct narrow_gain *gain);

/* Local, blocking. Says so where a run with --dtype bf16 would be slower than with f32. Measured on
 * one thread of a forked process, since kernels would count as memory of the run. */
void narrow_gain_say(const struct planned_run *planned);

#endif
