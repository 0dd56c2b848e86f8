/* See planner.h. A heap of candidates by their bounds: the one on top gets a better bound, then a
 * plan, and is done when it comes to the top with what its plan takes. So every candidate that was
 * not planned has a bound above all that are wanted. */
#include "planner/planner.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "graph/layers.h"
#include "planner/bound.h"
#include "planner/list.h"
#include "planner/trial.h"
#include "program/pipeline.h"

const char *planner_family_name(enum planner_family family) {
    static const char *const names[] = {
#define FAMILY(NAME, name) name,
#include "planner/family.def"
    };
    return names[family];
}

static enum planner_family family_of(const struct planner_choice *choice) {
    static const enum planner_family flat[] = {FAMILY_DDP, FAMILY_ZERO1, FAMILY_ZERO2,
                                               FAMILY_ZERO3};
    if (choice->ranks == 1) return FAMILY_SINGLE;
    if (choice->stages == 1) return flat[choice->zero_stage];
    if (choice->schedule >= 0 && pipeline_at(choice->schedule)->older) return FAMILY_OVERLAPPED;
    return choice->replicas == 1 ? FAMILY_PIPELINE : FAMILY_PIPELINES;
}

int planner_kind(const struct planner_choice *choice) {
    bool again = choice->recompute != RECOMPUTE_NEVER;
    return (int)family_of(choice) + (again ? FAMILY_COUNT : 0);
}

/* --- the order --- */

/* auto stands behind the rows of pipeline.def. */
static int schedule_rank(const struct planner_choice *choice) {
    return choice->schedule == PLANNER_AUTO ? pipeline_count() : choice->schedule;
}

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* Then, so that each has its place: what is simpler. */
static int compare_choices(const struct planner_choice *a, const struct planner_choice *b) {
    int order = compare_numbers(a->ranks, b->ranks);
    if (!order) order = compare_numbers(schedule_rank(a), schedule_rank(b));
    if (!order) order = compare_numbers(a->chunks, b->chunks);
    if (!order) order = compare_numbers(a->stages, b->stages);
    if (!order) order = compare_numbers(a->micro_batches, b->micro_batches);
    if (!order) order = compare_numbers(a->zero_stage, b->zero_stage);
    if (!order) order = compare_numbers(a->recompute, b->recompute);
    return order ? order : compare_numbers(a->balance, b->balance);
}

/* Step, peak, ranks, row of pipeline.def. Where steps overlap a step is of another batch: there as
 * everywhere time of a sample counts, since all candidates have one batch. */
static int compare_rows(const struct planner_row *a, const struct planner_row *b) {
    bool one = a->state == PLANNER_TIMED, other = b->state == PLANNER_TIMED;
    if (one != other) return one ? -1 : 1;
    if (a->step_ns != b->step_ns) return a->step_ns < b->step_ns ? -1 : 1;
    int order = one ? compare_numbers(a->peak_bytes, b->peak_bytes) : 0;
    return order ? order : compare_choices(&a->choice, &b->choice);
}

static int by_rank(const void *a, const void *b) {
    return compare_rows(a, b);
}

/* --- the heap --- */

enum level { LEVEL_WHOLE, LEVEL_SHAPE, LEVEL_STAGES, LEVEL_ORDER, LEVEL_KNOWN, LEVEL_TIMED };

struct search {
    const struct planner_input *input;
    struct plan_pool *pool;
    struct planner_bounds bounds;
    struct planner_autos autos;
    struct planner_rows rows;
    int64_t *heap; /* rows */
    int8_t *level; /* per row */
    int64_t heap_count;
    int done, done_of[PLANNER_KINDS]; /* that came to the top with what they take */
    struct planner_result *result;
};

/* Of equal times the one with less memory is first: candidates that may be as fast as a timed one
 * are looked at before it is done. */
static bool comes_before(const struct search *search, int64_t a, int64_t b) {
    const struct planner_row *one = &search->rows.item[a], *other = &search->rows.item[b];
    if (one->step_ns != other->step_ns) return one->step_ns < other->step_ns;
    if (search->level[a] != search->level[b]) return search->level[a] < search->level[b];
    if (search->level[a] == LEVEL_TIMED) return compare_rows(one, other) < 0;
    return a < b;
}

static void swap(struct search *search, int64_t a, int64_t b) {
    int64_t row = search->heap[a];
    search->heap[a] = search->heap[b];
    search->heap[b] = row;
}

static void sink(struct search *search, int64_t at) {
    for (int64_t least = at;; at = least) {
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < search->heap_count; child++)
            if (comes_before(search, search->heap[child], search->heap[least])) least = child;
        if (least == at) return;
        swap(search, at, least);
    }
}

static void remove_top(struct search *search) {
    swap(search, 0, --search->heap_count);
    sink(search, 0);
}

/* --- looking --- */

/* Memory that is too small for what the bound counts is for all the rest, too. */
static void refine(struct search *search, int64_t at) {
    struct planner_row *row = &search->rows.item[at];
    struct planner_bounds *bounds = &search->bounds;
    enum level level = (enum level)search->level[at]++;
    bool same = false;
    enum status status = STATUS_OK;
    if (level == LEVEL_SHAPE) status = planner_is_again(bounds, &row->choice, &same);
    if (status == STATUS_OK && !same)
        status = level == LEVEL_WHOLE   ? planner_bound_shape(bounds, row)
                 : level == LEVEL_SHAPE ? planner_bound_stages(bounds, row)
                                        : planner_bound_order(bounds, NULL, row);
    row->over_bytes = planner_over(search->input, &row->choice, row->peak_bytes);
    if (status != STATUS_OK)
        row->state = PLANNER_REFUSED;
    else if (same)
        row->state = PLANNER_AGAIN;
    else if (row->over_bytes > 0)
        row->state = PLANNER_TOO_LARGE;
}

static bool asks_auto(const struct planner_input *input) {
    return option_is_given(input->options, OPTION_strategy) &&
           strcmp(input->options->strategy, "auto") == 0;
}

/* What auto chose for another ZeRO stage it chooses here, too. */
static bool is_known(const struct search *search, int64_t at) {
    const struct planner_choice *choice = &search->rows.item[at].choice;
    return choice->schedule == PLANNER_AUTO && search->level[at] == LEVEL_ORDER &&
           planner_auto_find(&search->autos, search->input, choice);
}

static void take_known(struct search *search, int64_t at) {
    struct planner_row *row = &search->rows.item[at];
    const struct planner_auto *known =
        planner_auto_find(&search->autos, search->input, &row->choice);
    bool greedy = strcmp(known->choice.row[0].name, "greedy") == 0;
    search->level[at] = LEVEL_KNOWN;
    if (!greedy && !asks_auto(search->input))
        row->state = PLANNER_AGAIN;
    else if (planner_bound_order(&search->bounds, known, row) != STATUS_OK)
        row->state = PLANNER_REFUSED;
}

static void look(struct search *search, int64_t at) {
    struct planner_row *row = &search->rows.item[at];
    if (search->level[at] < LEVEL_ORDER) {
        refine(search, at);
    } else if (is_known(search, at)) {
        take_known(search, at);
    } else {
        double bound = row->step_ns;
        planner_try(search->input, search->pool, &search->autos, row);
        if (row->state == PLANNER_TIMED && bound > search->result->closest_bound * row->step_ns)
            search->result->closest_bound = bound / row->step_ns;
        search->level[at] = LEVEL_TIMED;
        search->result->planned++;
    }
    if (row->state == PLANNER_BOUNDED || row->state == PLANNER_TIMED)
        sink(search, 0);
    else
        remove_top(search);
}

/* It is wanted while there are too few rows, or none of its kind. */
static bool is_wanted(const struct search *search, const struct planner_row *row) {
    return search->done < search->input->best || search->done_of[planner_kind(&row->choice)] == 0 ||
           search->input->exhaustive;
}

static void search_all(struct search *search) {
    while (search->heap_count > 0) {
        int64_t top = search->heap[0];
        const struct planner_row *row = &search->rows.item[top];
        if (!is_wanted(search, row)) {
            remove_top(search);
        } else if (search->level[top] == LEVEL_TIMED) {
            search->done++;
            search->done_of[planner_kind(&row->choice)]++;
            remove_top(search);
        } else {
            look(search, top);
        }
    }
}

static enum status fill_heap(struct search *search) {
    search->heap = MEM_ARRAY(int64_t, search->rows.count + 1);
    search->level = MEM_ARRAY(int8_t, search->rows.count + 1);
    for (int64_t i = 0; i < search->rows.count; i++) {
        search->heap[search->heap_count++] = i;
        TRY(planner_bound_whole(&search->bounds, &search->rows.item[i]));
    }
    for (int64_t i = search->heap_count / 2; i >= 0; i--) sink(search, i);
    return STATUS_OK;
}

/* --- the whole --- */

/* One rank, with nothing of the options that lay ranks out: what all candidates have in common. */
static enum status configure_base(const struct planner_input *input, struct options *options,
                                  struct run_config *out) {
    static const struct planner_choice one = {.ranks = 1,
                                              .stages = 1,
                                              .replicas = 1,
                                              .micro_batches = 1,
                                              .schedule = PLANNER_WHOLE,
                                              .chunks = 1};
    struct planner_input alone = *input;
    struct options free_of = *input->options;
    for (int id = 0; id < OPTION_COUNT; id++)
        if (option_rows[id].commands & OPTION_OF_LAYOUT) option_reset(&free_of, (enum option_id)id);
    alone.options = &free_of;
    TRY(planner_configure(&alone, &one, options, out));
    out->balance = balance_find(input->options->balance);
    if (!option_is_given(input->options, OPTION_cut)) return STATUS_OK;
    out->cut = (const char *const *)input->options->cut.item;
    out->cut_count = input->options->cut.count;
    return STATUS_OK;
}

static int count_layers(const struct graph *graph) {
    SCOPED(layers_free) struct layer_list layers = layers_of(graph);
    return layers.count;
}

static bool has_batch_norm(const struct graph *graph) {
    for (int n = 0; n < graph->forward_count; n++)
        if (graph->nodes[n].op == OP_BATCH_NORM || graph->nodes[n].op == OP_BATCH_NORM_STATS)
            return true;
    return false;
}

static void take_rows(struct search *search) {
    struct planner_result *result = search->result;
    result->row = search->rows.item;
    result->row_count = search->rows.count;
    search->rows = (struct planner_rows){0};
    qsort(result->row, (size_t)result->row_count, sizeof *result->row, by_rank);
    for (int k = 0; k < PLANNER_KINDS; k++) result->best_of[k] = -1;
    for (int64_t i = 0; i < result->row_count; i++) {
        const struct planner_row *row = &result->row[i];
        int *best = &result->best_of[planner_kind(&row->choice)];
        result->timed += row->state == PLANNER_TIMED;
        result->too_large += row->state == PLANNER_TOO_LARGE;
        result->refused += row->state == PLANNER_REFUSED;
        result->bounded += row->state == PLANNER_BOUNDED;
        result->uses_all |= row->choice.ranks == search->input->ranks;
        if (row->state == PLANNER_TIMED && *best < 0) *best = (int)i;
    }
}

static enum status search_with(struct search *search, const struct run_config *base) {
    const struct planner_input *input = search->input;
    const struct graph *graph;
    TRY(plan_pool_graph(search->pool, base, base->batch, &graph));
    int layers = count_layers(graph);
    planner_bounds_new(input, base, search->pool, layers, graph_param_elements(graph),
                       &search->bounds);
    TRY(planner_list(input, layers, &search->rows));
    TRY(fill_heap(search));
    search_all(search);
    take_rows(search);
    search->result->batch_norm = has_batch_norm(graph);
    if (!search->result->uses_all)
        search->result->nearest_batch = planner_nearest_batch(input, layers);
    return STATUS_OK;
}

static void search_free(struct search *search) {
    planner_bounds_free(&search->bounds);
    planner_autos_free(&search->autos);
    plan_pool_free(&search->pool);
    free(search->rows.item);
    free(search->heap);
    free(search->level);
}

enum status planner_search(const struct planner_input *input, struct planner_result *out) {
    struct options options = {0};
    struct run_config base;
    struct planner_result result = {0};
    struct search search = {.input = input, .result = &result};
    enum status status = configure_base(input, &options, &base);
    if (status == STATUS_OK) status = plan_pool_new(&base, &search.pool);
    if (status == STATUS_OK) status = search_with(&search, &base);
    search_free(&search);
    arena_free(&options.arena);
    if (status == STATUS_OK)
        *out = result;
    else
        planner_free(&result);
    return status;
}

enum status planner_measure(const struct planner_input *input, const struct planner_choice *choice,
                            struct planner_row *out) {
    struct options options = {0};
    struct run_config base;
    struct search search = {.input = input};
    enum status status = configure_base(input, &options, &base);
    if (status == STATUS_OK) status = plan_pool_new(&base, &search.pool);
    *out = (struct planner_row){.choice = *choice};
    if (status == STATUS_OK) planner_try(input, search.pool, &search.autos, out);
    search_free(&search);
    arena_free(&options.arena);
    return status;
}

void planner_free(struct planner_result *result) {
    free(result->row);
    *result = (struct planner_result){0};
}
