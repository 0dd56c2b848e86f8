/* What is not finite: which value was the first, and how that is told; private to src/exec. */
#ifndef EXEC_NUMERIC_H
#define EXEC_NUMERIC_H

#include "exec/state.h"

/* Local. Logs which value was the first to be not finite in the step under way; returns
 * STATUS_NUMERIC. The same of the norm of a step whose STEP has run. */
enum status numeric_failure(struct engine *engine, const char *what, double value);
enum status numeric_failure_of_norm(struct engine *engine, const struct step *step);
/* Local. The first parameter whose gradient, of a buffer that STEP reads, is not finite here. */
const char *numeric_bad_gradient(const struct engine *engine, int grad);
/* Local. The same of an evaluation, and of a parameter after the step's update. */
enum status numeric_failure_of_evaluation(struct engine *engine, double loss);
enum status numeric_failure_of_update(struct engine *engine, const struct step *step);

#endif
