/* When something is not finite: find out where it began.
 *
 * Parameters have not moved yet when a loss is found to be so (STEP comes after), nor where STEP
 * awaits the norm of the gradients, so the step can be run again, one node at a time, and the first
 * output that is not finite names the cause. Slow, and only on the way out. A stage of a pipeline
 * is not run again: what it receives is gone, and the ranks that would send it once more are
 * ending, too. */
#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "exec/numeric.h"
#include "exec/queues.h"
#include "exec/tally.h"

struct search {
    const struct engine *engine;
    const struct graph *graph;
    int node; /* found, or -1 */
};

/* A device that fails here has said so itself, and finds nothing. */
static bool is_bad(const struct store *store, struct elements elements) {
    bool finite;
    return store_all_finite(store, &elements, &finite) == STATUS_OK && !finite;
}

/* The buffer that backward writes. */
static int grad_of(const struct store *store) {
    return store->layout->grad_shift ? GRAD_WINDOWS : 0;
}

/* The elements of a value in its slot, or, of a gradient, in its buffer. */
static struct elements elements_of(const struct store *store, const struct value *value,
                                   void *address) {
    int64_t count = (int64_t)(value->layout->bytes / dtype_bytes(value->type.dtype));
    if (value->use < 0) return (struct elements){value->type.dtype, address, count};
    struct elements all = store_use_gradient(store, grad_of(store), value->use);
    return elements_part(&all, 0, count);
}

static bool node_is_bad(void *context, const struct runnable *runnable, int slot, int n) {
    struct search *search = context;
    const struct graph *graph = runnable->plan->graph;
    const struct node *node = &graph->nodes[n];
    for (int i = 0; i < node->out_count; i++) {
        const struct value *value = &graph->values[node->out[i]];
        bool real = value->type.dtype == DTYPE_F32 || dtype_is_narrow(value->type.dtype);
        if (!real || !value->layout) continue;
        const struct store *store = search->engine->store;
        void *address = runnable->slot[slot].address[node->out[i]];
        if (!is_bad(store, elements_of(store, value, address))) continue;
        search->graph = graph;
        search->node = n;
        return true;
    }
    return false;
}

/* Of a sliced array: what of the tensor this rank holds. */
static bool is_bad_part(const struct store *store, int array, const struct state_item *item) {
    const struct array_layout *of = &store->layout->arrays[array];
    for (int i = 0; i < of->slice_count; i++) {
        const struct slice *slice = &of->slices[i];
        int64_t begin = slice->begin > item->begin ? slice->begin : item->begin,
                end = slice->begin + slice->count, last = item->begin + item->count;
        if (end > last) end = last;
        if (begin < end && is_bad(store, store_elements(store, array, begin, end - begin)))
            return true;
    }
    return false;
}

static const char *bad_param(const struct engine *engine, int *value) {
    const struct store *store = engine->store;
    for (int p = 0; p < store->layout->param_count; p++) {
        const struct state_item *item = state_param(store->layout, p);
        if (!state_holds(item)) continue;
        *value = engine->plan->micro[0].graph->params[p].value;
        if (is_bad_part(store, state_param_array(store->layout, p), item)) return item->name;
    }
    return NULL;
}

const char *numeric_bad_gradient(const struct engine *engine, int grad) {
    const struct store *store = engine->store;
    if (engine->plan->grads == 0) return NULL; /* of a driver, or of frozen stages */
    int array = state_array(store->layout, ARRAY_GRAD, grad);
    for (int p = 0; p < store->layout->param_count; p++) {
        if (!state_holds(&store->layout->params[p])) continue;
        if (is_bad_part(store, array, &store->layout->params[p]))
            return store->layout->params[p].name;
    }
    return NULL;
}

/* The operation that reads a parameter first: where the damage enters. */
static const char *reader_of(const struct graph *graph, int param) {
    for (int n = 0; n < graph->node_count; n++) {
        const struct node *node = &graph->nodes[n];
        for (int i = 0; i < node->in_count && node->op != OP_REORDER; i++) {
            int value = graph->values[node->in[i]].root, producer = graph->values[value].producer;
            bool copy = producer >= 0 && graph->nodes[producer].op == OP_REORDER &&
                        graph->nodes[producer].in[0] == param;
            if (value == param || copy) return op_def(node->op)->name;
        }
    }
    return "no operation";
}

/* No group: the other ranks are not here, so nothing is exchanged and nothing awaited. */
static void run_alone(struct engine *engine, struct runnable *runnable,
                      const struct pass_config *pass) {
    struct pass_run run = {.runnable = runnable, .config = *pass};
    pass_begin(&run);
    engine->comm_status = pass_go_on(engine, &run);
}

/* Into slot 0, wherever that takes them from. */
static void give_inputs(struct engine *engine, struct runnable *runnable, int micro) {
    struct slot slot = {
        .step = engine->step, .runnable = runnable, .micro = micro, .used = engine->slot[0].used};
    if (!engine->apart)
        bind_inputs(engine->step, runnable, 0, &engine->step->batch->micro[micro]);
    else if (queues_load(engine, &slot, 0) != STATUS_OK ||
             queues_give_seeds(engine, &slot, 0) != STATUS_OK || queues_await(engine) != STATUS_OK)
        log_note("the samples did not reach the device");
}

/* The gradient buffer is overwritten by this, which no longer matters; "fresh" keeps temporaries
 * out of it. Where statistics are shared this rank's stand for all: the others may be done with
 * theirs. */
static int search_micro(struct engine *engine, int micro, struct search *search) {
    const struct step *step = engine->step;
    const struct micro_batch *samples = &step->batch->micro[micro];
    if (samples->samples == 0) return -1;
    const struct micro_plan *plan = plan_micro(engine->plan, samples->samples, true);
    struct runnable *runnable = &engine->runnable[plan - engine->plan->micro];
    give_inputs(engine, runnable, micro);
    search->node = -1;
    struct pass_config pass = {.pass = PASS_FORWARD,
                               .segment = INSTR_ALL,
                               .grad = -1,
                               .pure = true,
                               .after = node_is_bad,
                               .context = search};
    run_alone(engine, runnable, &pass);
    if (search->node >= 0) return search->node;
    pass.again = plan_placement(engine->plan, plan, 0, 0)->life.recompute.again;
    pass.fresh = true;
    int segments = pass.again && engine->plan->forms.blocks ? engine->plan->sizes[0].buckets : 1;
    for (int e = 0; e < segments && search->node < 0; e++) {
        pass.segment = segments > 1 ? e : INSTR_ALL;
        pass.pass = PASS_AGAIN;
        pass.grad = -1;
        if (pass.again) run_alone(engine, runnable, &pass);
        pass.pass = engine->plan->split ? PASS_INPUT_HALF : PASS_BACKWARD;
        pass.grad = grad_of(engine->store);
        run_alone(engine, runnable, &pass);
    }
    if (search->node >= 0 || !engine->plan->split) return search->node;
    pass.segment = INSTR_ALL;
    pass.pass = PASS_WEIGHT_HALF;
    run_alone(engine, runnable, &pass);
    return search->node;
}

/* Whose it is: this rank's where it found it here, else another's whose own loss shows it. */
static void blame(struct engine *engine, bool here) {
    int own = comm_rank(engine->comm), losses = engine->plan->micro[0].graph->loss_count;
    int whose = here ? own : COMM_ANOTHER;
    if (engine->plan->program->ahead > 0 || program_is_apart(engine->plan->program))
        engine->failed_alone = true;
    const struct step *step = engine->step;
    for (int m = 0; m < step_reports(step) && whose == COMM_ANOTHER; m++) {
        int rank = step_reporter(step, m, own);
        if (rank != own && !isfinite(tally_loss(&step->shares[m].tally, losses))) whose = rank;
    }
    comm_blame(engine->comm, whose);
}

/* Where steps overlap gradients are not clipped. */
static const char *hint_of(const struct engine *engine) {
    return engine->plan->program->ahead > 0 ? "  a lower --lr may help"
                                            : "  a lower --lr or --clip may help";
}

struct moment {
    char text[48];
};

/* "step 7", counted as progress and metrics do; where steps overlap, "step 7, stage 1": others are
 * at other steps. */
static struct moment moment_of(const struct engine *engine, const struct step *step) {
    struct moment moment;
    char stage[24] = "";
    if (engine->plan->program->ahead > 0)
        snprintf(stage, sizeof stage, ", stage %d", engine->plan->config.cell.position);
    snprintf(moment.text, sizeof moment.text, "step %lld%s", (long long)step->number + 1, stage);
    return moment;
}

/* Stages pass on what is not finite, so many ranks may have it; one that has it in a parameter says
 * so itself. Of the others the one with the loss is named. */
static enum status failure_of_stages(struct engine *engine, const char *what, double value) {
    const struct run_config *config = &engine->plan->config;
    const char *param = numeric_bad_gradient(engine, 0), *hint = hint_of(engine);
    bool overlaps = engine->plan->program->ahead > 0;
    struct moment moment = moment_of(engine, engine->step);
    const char *when = moment.text;
    blame(engine, overlaps || /* each rank looks at what it has itself */
                      !isfinite(tally_loss(&engine->step->share.tally,
                                           engine->plan->micro[0].graph->loss_count)));
    if (overlaps) /* no training of one device would show it */
        return fail(STATUS_NUMERIC, "%s: %s is %g: parameters of this rank are finite%s%s%s\n%s",
                    when, what, value, param ? ", the gradient of " : "", param ? param : "",
                    param ? " is not" : "", hint);
    return fail(STATUS_NUMERIC,
                "%s: %s is %g: parameters of this rank are finite%s%s%s\n"
                "  --resume with --strategy single --stages 1 -n 1 --deal %dx%d finds the first "
                "tensor that is not\n%s",
                when, what, value, param ? ", the gradient of " : "", param ? param : "",
                param ? " is not" : "", config->grid.replicas, config->micro_batches, hint);
}

enum status numeric_failure(struct engine *engine, const char *what, double value) {
    const struct moment moment = moment_of(engine, engine->step);
    const char *step = moment.text, *hint = hint_of(engine);
    if (isnan(value)) value = NAN; /* its sign means nothing, and printf shows it */
    int bad;
    TRY(queues_await(engine)); /* also for steps behind this one, which change no parameter */
    const char *param = bad_param(engine, &bad);
    if (param) {
        blame(engine, true);
        return fail(STATUS_NUMERIC, "%s: %s is %g: parameter %s, read by %s, is not finite %s\n%s",
                    step, what, value, param, reader_of(engine->plan->micro[0].graph, bad),
                    engine->step->number ? "since the update before" : "from the start", hint);
    }
    const struct grid *grid = &engine->plan->config.grid;
    if (engine->plan->chunk_count < grid->stages * grid->chunks ||
        grid->stages * grid->chunks > 1) /* what other stages sent for it is gone */
        return failure_of_stages(engine, what, value);
    struct search search = {.engine = engine, .node = -1};
    if (engine->store->layout->param_shift) {
        blame(engine, false);
        return fail(STATUS_NUMERIC,
                    "%s: %s is %g; which tensor was the first is not searched for where "
                    "parameters are sliced\n  --zero-stage 2 shows it\n%s",
                    step, what, value, hint);
    }
    for (int m = 0; engine->step->batch && m < engine->step->batch->micro_count; m++) {
        if (search_micro(engine, m, &search) < 0) continue;
        const struct node *node = &search.graph->nodes[search.node];
        blame(engine, true);
        return fail(STATUS_NUMERIC,
                    "%s: %s is %g: first not finite is tensor %s, made by %s (%s) on "
                    "micro-batch %d\n%s",
                    step, what, value, search.graph->values[node->out[0]].name,
                    op_def(node->op)->name, node->phase == PHASE_FORWARD ? "forward" : "backward",
                    m, hint);
    }
    blame(engine, false);
    if (comm_blamed(engine->comm) >= 0)
        return fail(STATUS_NUMERIC, "%s: %s is %g: that of rank %d is not finite\n%s", step, what,
                    value, comm_blamed(engine->comm), hint);
    return fail(STATUS_NUMERIC, "%s: %s is %g: each tensor is finite, their sum is not\n%s", step,
                what, value, hint);
}

/* The step's loss and gradients were finite. Ranks that hold the same parameters all see it, unless
 * they are no longer the same; of slices, who owns the one. So others may wait for this one. */
enum status numeric_failure_of_update(struct engine *engine, const struct step *step) {
    int bad;
    engine->failed_alone = true;
    blame(engine, true);
    const char *param = bad_param(engine, &bad);
    return fail(STATUS_NUMERIC, "%s: parameter %s, read by %s, is not finite after the update\n%s",
                moment_of(engine, step).text, param, reader_of(engine->plan->micro[0].graph, bad),
                hint_of(engine));
}

/* The step's micro-batches are gone, and its gradients may be. */
enum status numeric_failure_of_norm(struct engine *engine, const struct step *step) {
    const char *param = step->bad_gradient;
    blame(engine, !step->own_is_finite);
    return fail(
        STATUS_NUMERIC,
        "step %lld: the norm of the gradients is %g: %s%s%s\n"
        "  the update did not wait for it (--clip 0); nothing of it is saved. --resume with "
        "--clip 1e30 stops before the update\n%s",
        (long long)step->number + 1, isnan(step->grad_norm) ? NAN : step->grad_norm,
        param ? "the gradient of " : "those of this rank are ", param ? param : "finite",
        param ? " is not finite" : "", hint_of(engine));
}

/* Between steps there is no micro-batch to search in; parameters tell all that can be told. */
enum status numeric_failure_of_evaluation(struct engine *engine, double loss) {
    int bad;
    if (isnan(loss)) loss = NAN;
    const char *param = bad_param(engine, &bad);
    int losses = engine->plan->micro[0].graph->loss_count;
    blame(engine, param || !isfinite(tally_loss(&engine->step->share.tally, losses)));
    char when[32] = "";
    bool forward = engine->plan->config.forward; /* what was trained elsewhere */
    if (!forward) snprintf(when, sizeof when, "after step %lld: ", (long long)engine->step->number);
    return fail(STATUS_NUMERIC, "%sthe loss of the evaluation is %g%s%s%s%s%-s%s", when, loss,
                param ? ": parameter " : "", param ? param : "", param ? ", read by " : "",
                param ? reader_of(engine->plan->micro[0].graph, bad) : "", forward ? "" : "\n",
                forward ? "" : hint_of(engine));
}
