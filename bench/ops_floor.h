/* What a step takes at least: the rates of the machine, and the dense operations alone. All local,
 * blocking; times are the best of several runs, in ns. */
#ifndef BENCH_OPS_FLOOR_H
#define BENCH_OPS_FLOOR_H

#include "backend/backend.h"

/* The clock of this bench: with one thread that of the processor, else that of the wall. */
int64_t floor_clock_ns(const struct device *device);

/* FLOP/ns of the register tile in the nearest cache, on one thread times the team. */
double floor_peak(struct device *device);
/* Bytes/ns, read and written, of a copy that no cache holds. */
double floor_copy_rate(struct device *device);
/* oneDNN alone on the shapes of a convolution or linear call, in the layouts it likes best; weights
 * and images need no reorder. 0: it is no such call, or oneDNN has nothing for it. */
double floor_onednn_ns(struct device *device, const struct op_call *call, int repeats);
/* A kernel alone, again and again on the same tensors. */
double floor_kernel_ns(struct kernel *kernel, void *const in[], void *const out[], void *scratch,
                       int repeats);

#endif
