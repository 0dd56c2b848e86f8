/* `stretto train`. What it does is a session (run/session.h). */
#include <signal.h>

#include "base/display.h"
#include "base/log.h"
#include "cli/cli.h"
#include "run/begin.h"
#include "run/best.h"
#include "run/resume.h"

static enum status train(const struct options *options) {
    return begin(options, NULL);
}

static enum status train_with(const struct options *options) {
    return best_with(options, train);
}

enum status train_run(const struct options *options) {
    log_quiet(options->quiet);
    signal(SIGPIPE, SIG_IGN); /* whoever looked on has gone: no reason to lose the training */
    display_open();
    return resume_with(options, train_with);
}
