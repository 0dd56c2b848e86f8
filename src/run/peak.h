/* How fast the device of a rank multiplies at best: what `mfu` is a part of.
 *
 * Measured, not looked up: cores of a container, clocks and instruction sets differ from what a
 * table of processors says. The measure is the linear layer that the run itself would use, of a
 * size that keeps a team busy and stays in the caches, the best of all tries of some 100 ms. At the
 * end of a run, when its peak memory is known already: a start stays short, and the matrices count
 * nowhere.
 */
#ifndef RUN_PEAK_H
#define RUN_PEAK_H

#include "backend/backend.h"

/* Local, blocking (0.1 s). Floating-point operations a second of products of `dtype` on the
 * device's team; NAN where that would take long (the reference backend) or fails. */
double peak_flops(struct device *device, enum dtype dtype);

#endif
