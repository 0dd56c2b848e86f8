/* What a process and its machine have used of the cores so far: two readings, on one thread and
 * with a time between them, say who kept the cores busy. All local; reads /proc.
 *
 * `root` is put before /proc: "" but for tests. What cannot be read is -1. */
#ifndef BASE_LOAD_H
#define BASE_LOAD_H

#include <stdint.h>

struct load {
    int64_t at_ns;
    int64_t own_ns;    /* cores' time of this process */
    int64_t wait_ns;   /* in which the calling thread could have run, and had no core */
    int64_t busy_ns;   /* cores' time of the machine, of all processes */
    int64_t stolen_ns; /* that a hypervisor gave to others */
};
struct load load_now(const char *root);
/* What came between two readings; -1 where either is. */
struct load load_between(const struct load *begin, const struct load *end);

#endif
