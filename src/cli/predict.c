/* `stretto predict`: what a trained model makes of inputs. */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "data/input.h"
#include "run/begin.h"
#include "run/forward.h"
#include "run/predictions.h"
#include "run/trained.h"

static void say_done(const struct session *session, const struct eval_result *result) {
    char samples[TEXT_BYTES], wall[TEXT_BYTES], peak[TEXT_BYTES], predicted[TEXT_BYTES];
    char damaged[TEXT_BYTES + 32] = "";
    if (session->planned.dataset->skips_damaged && result->skipped > 0)
        snprintf(damaged, sizeof damaged, " (%lld damaged, without an answer)",
                 (long long)result->skipped);
    log_note("%s%s in %s, peak memory %s (predicted %s)",
             text_count(result->samples, "sample", samples), damaged,
             text_duration((double)result->ns * 1e-9, wall),
             text_size(result_peak_bytes(session), peak),
             text_size((int64_t)plan_bytes(session->planned.plan), predicted));
}

static enum status predict(struct session *session) {
    struct predictions *predictions = NULL;
    struct eval_result result; /* but there may be no labels */
    TRY(predictions_open(session, &predictions));
    struct forward forward = {.context = predictions, .output = predictions_add};
    TRY(predictions_close(&predictions, forward_run(session, &forward, &result)));
    if (forward_is_first(session)) say_done(session, &result);
    return STATUS_OK;
}

static bool is_of_files(const struct options *options) {
    return option_is_given(options, OPTION_input) && input_is_file(options->input);
}

/* The data that the model was trained on tell how its inputs look, and what its classes are called.
 */
static enum status predict_with(const struct options *options) {
    struct use use = {.run = predict};
    SCOPED(dataset_free) struct dataset *like = NULL;
    bool skip = strcmp(options->damaged, "skip") == 0;
    enum status status = STATUS_OK;
    if (is_of_files(options)) {
        TRY(trained_like(options, &like));
        status = input_open(options->input, like, skip, &use.dataset);
    }
    if (status == STATUS_OK) status = begin(options, &use);
    dataset_free(&use.dataset);
    return status;
}

enum status predict_run(const struct options *options) {
    log_quiet(options->quiet);
    TRY(predictions_check(options));
    return trained_with(options, predict_with);
}
