/* Files of others that become options: --placement and --deepspeed. They count as if their content
 * stood in the file of --config, and less than that: whatever the user named is kept. */
#ifndef RUN_OPTION_FILES_H
#define RUN_OPTION_FILES_H

#include "base/option.h"

/* Local, blocking (reads files). Sets the options that the files give and the user did not, and
 * checks all together again. `named` has what the user named: `options`, but for a run that is
 * resumed, which has kept others; these the files replace. Nothing without such files. The keys of
 * a DeepSpeed file that have no effect are said by whoever keeps the run. */
enum status run_option_files_apply(struct options *options, const struct options *named);

/* Local, blocking (reads the file). Refuses (STATUS_USAGE) ranks that --placement puts on another
 * host: `count` of them from `first` are on this one. */
enum status run_option_files_check_hosts(const struct options *options, int first, int count);

#endif
