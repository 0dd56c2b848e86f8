/* `stretto check --numeric`: a program against one device. */
#ifndef CLI_CHECK_NUMERIC_H
#define CLI_CHECK_NUMERIC_H

#include "base/option.h"

/* Local, blocking. Runs the program of the options (or that of --program) for some steps with
 * threads as ranks, then `single` with the same micro-batches and order of sums, and says whether
 * both trained the same, to the bit. STATUS_NO: they did not. */
enum status check_numeric(const struct options *options, int ranks);

#endif
