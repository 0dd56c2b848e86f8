/* `stretto plan`: which strategy? Searches all plans that the options leave open, ranks them by
 * their forecasts and says why the others are slower. Nothing is started. Exit 5: nothing fits. */
#include "base/log.h"
#include "base/text.h"
#include "cli/cli.h"
#include "run/outputs.h"
#include "view/ranking.h"
#include "view/ranking_draw.h"

static enum status show(const struct planned_search *search,
                        const struct planned_what_if *what_if) {
    const struct options *options = &search->options;
    bool text = !options->json && !options->quiet;
    if (options->json) ranking_json(search, what_if, stdout);
    if (text) ranking_print(search, stdout);
    if (text && what_if) ranking_print_what_if(search, what_if, stdout);
    if (option_is_given(options, OPTION_draw)) TRY(ranking_draw(search, options->draw));
    if (!option_is_given(options, OPTION_write)) return STATUS_OK;
    return planned_search_write(search, planned_search_first(search), options->write);
}

/* A picture could not be clicked on. */
static enum status check_draw(const struct options *options) {
    if (!option_is_given(options, OPTION_draw) || text_ends_in(options->draw, ".html"))
        return STATUS_OK;
    return fail(STATUS_USAGE, "--draw %s: plan draws a page\n  a name that ends in .html",
                options->draw);
}

static enum status plan_with(const struct options *options) {
    SCOPED(planned_search_close) struct planned_search search = {0};
    SCOPED(planned_what_if_close) struct planned_what_if what_if = {0};
    bool asked = option_is_given(options, OPTION_what_if);
    TRY(check_draw(options));
    TRY(outputs_check(options));
    TRY(planned_search(options, false, &search));
    TRY(planned_search_refuse(&search));
    if (asked) TRY(planned_what_if(&search, &what_if));
    return show(&search, asked ? &what_if : NULL);
}

enum status plan_run(const struct options *options) {
    log_quiet(options->quiet);
    return plan_with(options);
}
