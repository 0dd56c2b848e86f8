/* `stretto simulate`: what a run would take, without the ranks it is for. The program of all ranks
 * is made and verified as for a run, then run in virtual time. */

#include "base/json.h"
#include "base/log.h"
#include "cli/cli.h"
#include "planned/planned_search.h"
#include "run/best.h"
#include "run/outputs.h"
#include "run/resume.h"
#include "view/explain_freeze.h"
#include "view/fit.h"
#include "view/view_forecast.h"

/* The first part of a course in all detail, and the others by what their steps take. */
static enum status show(const struct view_forecast *view, const struct options *options) {
    enum status status = STATUS_OK;
    if (options->json) {
        json_t *root = view_forecast_json(view), *course = NULL;
        if (course_changes(&view->planned->course))
            status = explain_course_json(view->planned, &course);
        if (course) json_object_set_new(root, "course", course);
        json_print(root, JSON_REAL_PRECISION(12), stdout);
        json_decref(root);
    } else if (!options->quiet) {
        fit_print(view->planned, VIEW_NAME_COLUMNS, stdout);
        view_forecast_print(view, stdout);
        status = explain_course_print(view->planned, true, stdout);
    }
    if (status != STATUS_OK) return status;
    return option_is_given(options, OPTION_draw) ? view_forecast_draw(view, options->draw)
                                                 : STATUS_OK;
}

static enum status simulate_with(const struct options *options) {
    int ranks;
    TRY(planned_ranks_asked(options, &ranks));
    struct rank_info info = planned_info_to_forecast(options, ranks);
    SCOPED(planned_close) struct planned_run planned = {0};
    SCOPED(view_forecast_close) struct view_forecast view = {0};
    struct planned_fit fit;
    TRY(outputs_check(options));
    TRY(planned_open(options, &info, &planned));
    TRY(view_forecast_open(&planned, false, &view));
    TRY(show(&view, options));
    return planned_fit(&planned, &fit) ? planned_check_memory(&planned) : STATUS_OK;
}

static enum status simulate_best(const struct options *options) {
    return best_with(options, simulate_with);
}

enum status simulate_run(const struct options *options) {
    log_quiet(options->quiet);
    return resume_with(options, simulate_best);
}
