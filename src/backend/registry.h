/* Names of backends, and what --device says. */
#ifndef BACKEND_REGISTRY_H
#define BACKEND_REGISTRY_H

#include "backend/backend.h"

/* Local. Name of row `index` of backend.def, those that the build lacks included; NULL behind the
 * last. */
const char *backend_name_at(int index);
/* Local, before other threads look. One more, of a test program: ours never calls it. */
void backend_add(const struct backend *backend);

/* Local. What --device says: "cuda:0,2" for local rank 1 is "cuda" and 2; without numbers, 0. The
 * backend is one of this build: STATUS_USAGE, logged. */
enum status device_named(const char *text, int local_rank, const char **backend, int *index);

/* Local. Which instruction set this process has tried and found to work; NULL when it has not. A
 * process started on the same machine with that text in the variable need not try again. */
const char *backend_tried_isa(void);
#define BACKEND_TRIED_ISA "STRETTO_TRIED_ISA"

#endif
