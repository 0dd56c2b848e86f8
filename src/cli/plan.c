/* `stretto plan`: which strategy? Searches all plans that the options leave open, ranks them by
 * their forecasts and says why the others are slower. Nothing is started. Exit 5: nothing fits. */
#include "base/log.h"
#include "cli/cli.h"
#include "run/outputs.h"
#include "view/ranking.h"

static enum status plan_with(const struct options *options) {
    SCOPED(planned_search_close) struct planned_search search = {0};
    TRY(outputs_check(options));
    TRY(planned_search(options, false, &search));
    TRY(planned_search_refuse(&search));
    if (options->json)
        ranking_json(&search, stdout);
    else if (!options->quiet)
        ranking_print(&search, stdout);
    if (!option_is_given(options, OPTION_write)) return STATUS_OK;
    return planned_search_write(&search, planned_search_first(&search), options->write);
}

enum status plan_run(const struct options *options) {
    log_quiet(options->quiet);
    return plan_with(options);
}
