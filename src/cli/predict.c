#include "base/log.h"
#include "cli/cli.h"

enum status predict_run(const struct options *options) {
    (void)options;
    return fail(STATUS_USAGE, "not yet");
}
