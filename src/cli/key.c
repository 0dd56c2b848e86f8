/* stretto key [FILE]: a new job secret, printed, or written to a new file nobody else may read. The
 * file is for --key on the hosts of a job; printed, it is for a pipe (`ssh host 'umask 077; cat >
 * job.key'`) or a batch system's own store of secrets. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "control/control.h"
#include "run/outputs.h"

static enum status print(const struct control_secret *secret) {
    char text[2 * CONTROL_SECRET_BYTES + 1];
    control_secret_text(secret, text);
    bool written = printf("%s\n", text) > 0 && fflush(stdout) == 0;
    explicit_bzero(text, sizeof text);
    if (!written) return fail(STATUS_DATA, "standard output: %s", strerror(errno));
    return STATUS_OK;
}

enum status key_run(const struct options *options) {
    struct control_secret secret;
    struct output output = {.kind = OUTPUT_SECRET, .label = "key"};
    if (options->argument_count) {
        output.path = options->argument[0];
        TRY(outputs_judge(&output, options));
    }
    TRY(control_secret_new(&secret));
    enum status status = options->argument_count
                             ? control_secret_save(options->argument[0], &secret)
                             : print(&secret);
    control_secret_wipe(&secret);
    return status;
}
