/* A candidate as options, so that it is resolved as a run that somebody typed: the command that is
 * printed in the end is this very list. */
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "plan/plan_auto.h"
#include "plan/resolve.h"
#include "planner/planner.h"
#include "program/auto.h"
#include "program/pipeline.h"

static enum status set_text(struct options *options, enum option_id id, const char *text) {
    return option_set(options, id, text, option_rows[id].name, OPTION_FROM_COMMAND_LINE);
}

static enum status set_number(struct options *options, enum option_id id, int64_t value) {
    char text[TEXT_BYTES];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return set_text(options, id, text);
}

const char *planner_schedule_name(const struct planner_choice *choice) {
    if (choice->schedule == PLANNER_AUTO) return PIPELINE_AUTO;
    return choice->schedule == PLANNER_WHOLE ? "single" : pipeline_at(choice->schedule)->name;
}

/* dp says besides how ranks are started. */
static const char *strategy_of(const struct planner_choice *choice, const struct options *options) {
    static const char *const zero[] = {"ddp", "zero1", "zero2", "zero3"};
    bool dp = option_is_given(options, OPTION_strategy) && strcmp(options->strategy, "dp") == 0;
    if (choice->stages > 1) return planner_schedule_name(choice);
    if (choice->ranks == 1) return "single";
    return dp ? "dp" : zero[choice->zero_stage];
}

static enum status apply_pipeline(const struct planner_choice *choice, struct options *options) {
    bool any = choice->schedule >= 0 && pipeline_at(choice->schedule)->any_chunks;
    TRY(set_number(options, OPTION_stages, choice->stages));
    TRY(set_number(options, OPTION_replicas, choice->replicas));
    if (any) TRY(set_number(options, OPTION_virtual_stages, choice->chunks));
    option_reset(options, OPTION_schedule);
    if (!choice->zero_stage) option_reset(options, OPTION_zero_stage);
    if (!choice->zero_stage) option_reset(options, OPTION_sync);
    if (choice->zero_stage) TRY(set_number(options, OPTION_zero_stage, choice->zero_stage));
    if (choice->balance == (int)balance_find(options->balance)) return STATUS_OK;
    return set_text(options, OPTION_balance, balance_name((enum balance)choice->balance));
}

/* Of several hosts nobody can be told how many ranks are here. */
static enum status apply_ranks(const struct planner_choice *choice, const struct costs *costs,
                               struct options *options) {
    enum { LOCAL_MOST = 1024 };
    bool here = !costs->cluster || costs->cluster->hosts == 1;
    option_reset(options, OPTION_local_ranks);
    if (here && choice->ranks > 1 && choice->ranks <= LOCAL_MOST)
        return set_number(options, OPTION_local_ranks, choice->ranks);
    if (choice->stages > 1) return STATUS_OK;
    option_reset(options, OPTION_stages);
    option_reset(options, OPTION_replicas);
    return choice->ranks > 1 ? set_number(options, OPTION_replicas, choice->ranks) : STATUS_OK;
}

enum status planner_apply(const struct planner_choice *choice, const struct costs *costs,
                          struct options *options) {
    enum recompute_policy recompute = (enum recompute_policy)choice->recompute;
    TRY(set_text(options, OPTION_strategy, strategy_of(choice, options)));
    TRY(apply_ranks(choice, costs, options));
    TRY(set_number(options, OPTION_micro_batches, choice->micro_batches));
    option_reset(options, OPTION_micro_batch_size);
    if (recompute != RECOMPUTE_NEVER || option_is_given(options, OPTION_recompute))
        TRY(set_text(options, OPTION_recompute, recompute_policy_name(recompute)));
    return choice->stages > 1 ? apply_pipeline(choice, options) : STATUS_OK;
}

enum status planner_configure(const struct planner_input *input,
                              const struct planner_choice *choice, struct options *options,
                              struct run_config *out) {
    struct resolve_place place = {.ranks = choice->ranks,
                                  .threads = input->threads,
                                  .saves = input->options->save_ranks,
                                  .dry = true};
    *options = *input->options;
    options->arena = (struct arena){0};
    TRY(planner_apply(choice, input->costs, options));
    TRY(set_number(options, OPTION_threads, input->threads));
    TRY(resolve_run(options, input->model, input->dataset, &place, out));
    out->costs = input->costs;
    resolve_limit(input->costs, out);
    return STATUS_OK;
}
