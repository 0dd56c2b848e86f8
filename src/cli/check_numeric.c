/* See check_numeric.h.
 *
 * The other half of the proof: the verifier knows what instructions mean, not what kernels, sums
 * and messages do. This is a sample: some steps on this machine.
 *
 * What one device runs is made from the options of the run: all that say what is trained, none that
 * say how it is spread. */
#include "cli/check_numeric.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "base/text.h"
#include "exec/answer.h"
#include "exec/checkpoint.h"
#include "plan/strategy.h"
#include "planned/planned.h"
#include "program/pipeline.h"
#include "run/fault.h"
#include "sync/sync.h"

enum { NUMERIC_STEPS = 3 }; /* unless --steps says otherwise */

/* One of the two trainings. */
struct side {
    const struct options *options;
    int ranks;
    struct planned_run *planned; /* per rank */
    struct bytes agreed;         /* of auto: rank 0's program */
    struct rank_fault {
        struct fault fault; /* for tests */
        struct engine *engine;
    } * fault;                         /* per rank; NULL: none */
    struct engine_observer *observers; /* likewise */
    struct answer answer;
};

static enum status plan_rank(void *context, int rank, const struct plan **out) {
    struct side *side = context;
    const struct planned_run *first = &side->planned[0];
    struct rank_info info = {.ranks = side->ranks};
    if (rank > 0) info = planned_info_beside(first, rank, side->ranks, &side->agreed);
    info.local_ranks = side->ranks;
    TRY(planned_open(side->options, &info, &side->planned[rank]));
    *out = side->planned[rank].plan;
    if (rank > 0) return STATUS_OK;
    if (plan_is_auto(&first->plan->config)) side->agreed = plan_text(first->plan);
    return planned_check_memory(first);
}

/* The ranks of replica 0 read files; the start list brings everything to the others. */
static enum status ready(void *context, int rank, struct engine *engine) {
    struct side *side = context;
    const struct grid_cell *cell = &engine_plan(engine)->config.cell;
    if (side->fault) side->fault[rank].engine = engine;
    if (cell->role != GRID_STAGE || cell->first_replica > 0) return STATUS_OK;
    if (!option_is_set(side->options, OPTION_weights)) return STATUS_OK;
    return checkpoint_load_weights(engine, side->options->weights);
}

static void on_starting(void *context, const struct instr *instr, int64_t step, int64_t now_ns) {
    struct rank_fault *rank = context;
    (void)now_ns;
    fault_corrupt(engine_store(rank->engine),
                  fault_trigger(&rank->fault, instr_row(instr)->name, step + 1));
}

static enum status read_faults(struct side *side) {
    side->fault = MEM_ARRAY(struct rank_fault, side->ranks);
    side->observers = MEM_ARRAY(struct engine_observer, side->ranks);
    for (int r = 0; r < side->ranks; r++) {
        TRY(fault_read(r, &side->fault[r].fault));
        side->observers[r] =
            (struct engine_observer){.context = &side->fault[r], .starting = on_starting};
    }
    return STATUS_OK;
}

static enum status train_side(struct side *side) {
    side->planned = MEM_ARRAY(struct planned_run, side->ranks);
    struct answer_config config = {.ranks = side->ranks,
                                   .context = side,
                                   .plan = plan_rank,
                                   .ready = ready,
                                   .observers = side->observers,
                                   .keep_params = true};
    return answer_train(&config, &side->answer);
}

static void free_side(struct side *side) {
    answer_free(&side->answer);
    for (int r = side->planned ? side->ranks - 1 : -1; r >= 0; r--)
        planned_close(&side->planned[r]);
    bytes_free(&side->agreed);
    free(side->planned);
    free(side->fault);
    free(side->observers);
}

/* --- one device --- */

static enum status set(struct options *options, enum option_id id, char *text_owned) {
    SCOPED_FREE char *where = mem_format("--%s", option_rows[id].name);
    enum status status = option_set(options, id, text_owned, where, OPTION_FROM_COMMAND_LINE);
    free(text_owned);
    return status;
}

/* What is trained, not how it is spread. */
static bool is_shared(enum option_id id) {
    enum option_group group = option_rows[id].group;
    return group == OPTION_GROUP_MODEL || group == OPTION_GROUP_OPTIMIZER ||
           group == OPTION_GROUP_NUMERICS || id == OPTION_drop_last || id == OPTION_freeze;
}

static enum status options_of_one(const struct options *options, const struct plan *plan,
                                  struct options *out) {
    const struct run_config *config = &plan->config;
    for (int id = 0; id < OPTION_COUNT; id++)
        if (is_shared((enum option_id)id) && option_is_given(options, (enum option_id)id))
            TRY(set(out, (enum option_id)id, option_text(options, (enum option_id)id)));
    TRY(set(out, OPTION_strategy, mem_text("single")));
    TRY(set(out, OPTION_batch, mem_format("%lld", (long long)config->batch)));
    TRY(set(out, OPTION_deal, mem_format("%dx%d", config->replicas, config->micro_batches)));
    TRY(set(out, OPTION_sum, mem_text(sum_order_name(plan->program->sum))));
    TRY(set(out, OPTION_threads, mem_format("%d", config->threads)));
    TRY(set(out, OPTION_steps, mem_format("%lld", (long long)config->steps)));
    return options_check(out);
}

/* --- the answer --- */

/* The first parameter that differs; -1: none. */
struct differing {
    int param;
    int64_t elements, of;
    double most;
};

static struct differing first_differing(const struct side *many, const struct side *one) {
    const struct state_layout *layout = many->planned[0].plan->store;
    struct differing found = {.param = -1};
    for (int p = 0; p < layout->param_count && found.param < 0; p++) {
        const float *a = many->answer.param[p], *b = one->answer.param[p];
        int64_t count = shape_count(&layout->params[p].type.shape);
        if (memcmp(a, b, (size_t)count * sizeof *a) == 0) continue;
        found = (struct differing){.param = p, .of = count};
        for (int64_t i = 0; i < count; i++) {
            found.elements += memcmp(&a[i], &b[i], sizeof *a) != 0;
            found.most = fmax(found.most, fabs((double)a[i] - (double)b[i]));
        }
    }
    return found;
}

static void print_text(const struct side *many, const struct side *one, const char *what) {
    const struct plan *plan = many->planned[0].plan;
    struct differing first = first_differing(many, one);
    char steps[TEXT_BYTES], ranks[TEXT_BYTES];
    printf("%s %s of %s %s single --deal %dx%d --sum %s", what ? "differs   " : "equal     ",
           text_count(plan->config.steps, "step", steps), text_count(many->ranks, "rank", ranks),
           what ? "are not those of" : "are to the bit those of", plan->config.replicas,
           plan->config.micro_batches, sum_order_name(plan->program->sum));
    if (!what) printf(": param_hash %016" PRIx64, many->answer.params);
    if (what && first.param < 0) printf(": other %s", what);
    if (first.param >= 0)
        shown_print(stdout, ": %s differs first, %lld of %lld elements, by at most %g",
                    plan->store->params[first.param].name, (long long)first.elements,
                    (long long)first.of, first.most);
    printf("\n");
}

static void print_json(const struct side *many, const struct side *one, const char *what) {
    const struct plan *plan = many->planned[0].plan;
    struct differing first = first_differing(many, one);
    char hash[2][17];
    snprintf(hash[0], sizeof hash[0], "%016" PRIx64, many->answer.params);
    snprintf(hash[1], sizeof hash[1], "%016" PRIx64, one->answer.params);
    json_auto_t *root = json_pack("{s:b, s:i, s:I, s:s, s:s, s:s, s:s?}", "equal", !what, "ranks",
                                  many->ranks, "steps", (json_int_t)plan->config.steps, "sum",
                                  sum_order_name(plan->program->sum), "param_hash", hash[0],
                                  "single_param_hash", hash[1], "differs", what);
    json_t *param = first.param < 0 ? json_null()
                                    : json_pack("{s:s, s:I, s:I, s:f}", "name",
                                                plan->store->params[first.param].name, "elements",
                                                (json_int_t)first.elements, "of",
                                                (json_int_t)first.of, "most", first.most);
    json_object_set_new(root, "first", param);
    json_print(root, 0, stdout);
}

static enum status compare(const struct side *many, const struct side *one) {
    const char *what = answer_difference(&many->answer, &one->answer);
    if (many->options->json)
        print_json(many, one, what);
    else if (what || !many->options->quiet)
        print_text(many, one, what);
    return what ? STATUS_NO : STATUS_OK;
}

static enum status train_both(struct side *many, struct side *one, struct options *options) {
    TRY(read_faults(many));
    TRY(train_side(many));
    TRY(options_of_one(many->options, many->planned[0].plan, options));
    one->options = options;
    TRY(train_side(one));
    return compare(many, one);
}

/* One device has nothing to compare with. */
static enum status refuse_versions(const struct options *options) {
    const struct strategy *strategy = options->strategy ? strategy_find(options->strategy) : NULL;
    const char *name = option_is_given(options, OPTION_schedule) ? options->schedule
                       : strategy                                ? strategy->schedule
                                                                 : "single";
    const struct pipeline_schedule *schedule = pipeline_find(name);
    const struct sync_policy *sync = option_is_given(options, OPTION_sync)
                                         ? sync_find(options->sync)
                                     : strategy ? sync_find(strategy->sync)
                                                : NULL;
    if (sync && sync->apart)
        return fail(STATUS_USAGE,
                    "--numeric: replicas of --sync %s train apart, which is another training than "
                    "one device's\n  without --numeric the program is proved, or --sync allreduce",
                    sync->name);
    if (!schedule || !schedule->older) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--numeric: schedule %s reads older weights, which is another training than one "
                "device's\n  make test-equal holds it against a replay of its rule",
                name);
}

enum status check_numeric(const struct options *given, int ranks) {
    struct options options = *given, alone;
    struct side many = {.options = &options, .ranks = ranks}, one = {.ranks = 1};
    if (option_is_given(given, OPTION_delay))
        return fail(STATUS_USAGE, "--numeric with --delay: passes that wait compute nothing");
    TRY(refuse_versions(given));
    if (!option_is_given(given, OPTION_steps)) {
        options.steps = NUMERIC_STEPS;
        option_resolve(&options, OPTION_steps);
    }
    options_init(COMMAND_TRAIN, &alone);
    enum status status = train_both(&many, &one, &alone);
    free_side(&one);
    free_side(&many);
    options_free(&alone);
    return status;
}
