/* `stretto explain`: what a run would do, before anything runs. */
#include "view/explain.h"

#include <stdlib.h>

#include "base/log.h"
#include "cli/cli.h"
#include "planned/planned_search.h"
#include "run/best.h"
#include "run/outputs.h"
#include "run/resume.h"
#include "run/session.h"
#include "run/start.h"
#include "run/transition.h"
#include "view/fit.h"

static void print(const struct view_forecast *view) {
    const struct planned_run *planned = view->planned;
    const struct options *options = &planned->options;
    bool text = !options->json && !options->quiet;
    if (options->json) explain_print_json(view, stdout);
    if (text) fit_print(planned, EXPLAIN_NAME_COLUMNS, stdout);
    if (text) explain_print(view, true, stdout);
    for (int i = 0; i < options->show.count && text; i++) {
        printf("\n%s\n", options->show.item[i]);
        explain_show(planned, options->show.item[i], stdout);
    }
    if (view_forecast_is_wanted(options) && text) {
        printf("\nforecast\n");
        view_forecast_print(view, stdout);
    }
}

/* The plan with its forecast: a row, or all of it where an option asks for one. */
static enum status print_with_forecast(const struct planned_run *planned) {
    const struct options *options = &planned->options;
    SCOPED(view_forecast_close) struct view_forecast view = {0};
    TRY(view_forecast_open(planned, false, &view));
    print(&view);
    if (option_is_given(options, OPTION_draw)) TRY(view_forecast_draw(&view, options->draw));
    return STATUS_OK;
}

/* Whether train could resume: is there a whole checkpoint, of a run that this one may go on with.
 */
static enum status check_checkpoint(const struct planned_run *planned) {
    struct session session = {.planned = *planned, .folder = mem_text(planned->options.out)};
    struct checkpoint_state state = train_fresh().done;
    bool found;
    session.planned.course = course_copy(&planned->course);
    session_facts(&session);
    char *folder = folder_path(planned->options.out, "checkpoints");
    enum status status = transition_plan(&session, folder);
    struct checkpoint_config config = {.folder = folder,
                                       .facts = session.facts,
                                       .fact_count = session.fact_count,
                                       .plan = session_plan(&session)};
    if (status == STATUS_OK) status = checkpoint_resume(&config, NULL, &state, &found);
    if (status == STATUS_OK) status = session_check_step(&session, state.step);
    transition_free(&session);
    course_free(&session.planned.course);
    summary_free(&session.summary);
    arena_free(&session.arena);
    free(session.folder);
    free(folder);
    return status;
}

/* Of a cluster all ranks, unless the options or a launcher say how many. */
static enum status take_cluster(const struct options *options, struct start *start) {
    int ranks;
    TRY(planned_ranks_asked(options, &ranks));
    bool asked = option_is_given(options, OPTION_cluster) && start->kind == START_ONE;
    if (asked && ranks > 1) start->info = planned_info_to_forecast(options, ranks);
    return STATUS_OK;
}

/* The plan, then whether train would take it here. */
static enum status explain_with(const struct options *options) {
    SCOPED(planned_close) struct planned_run planned = {0};
    struct start start;
    TRY(start_find(options, &start));
    TRY(take_cluster(options, &start));
    if (start_keeps_run(&start)) TRY(outputs_check(options));
    TRY(planned_open(options, &start.info, &planned));
    TRY(print_with_forecast(&planned));
    TRY(start_check(&start, &planned));
    start_advise(&planned);
    if (options->resume && start_keeps_run(&start)) TRY(check_checkpoint(&planned));
    if (option_is_set(options, OPTION_save_program))
        TRY(explain_save_program(planned.plan, options->save_program));
    return STATUS_OK;
}

static enum status explain_best(const struct options *options) {
    return best_with(options, explain_with);
}

enum status explain_run(const struct options *options) {
    log_quiet(options->quiet);
    return resume_with(options, explain_best);
}
