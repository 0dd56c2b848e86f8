/* See reference.h. Stage by stage forward, then backward, for all micro-batches of the step. */
#include "reference.h"

#include "wires.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- expressions --- */

value reference_samples(int micro, int step) {
    return value_of(VALUE_SAMPLES, (value)micro, (value)step);
}

value reference_round(int pipeline, int round) {
    return value_of(VALUE_EVALUATED, (value)pipeline, (value)round);
}

static value params_of(int rank, int stage, int bucket) {
    return value_of(VALUE_PARAMS, value_of(VALUE_PARAMS, (value)rank, (value)stage), (value)bucket);
}

/* Copies of what another rank of the pipeline has begin as what it has. */
value reference_params(const struct program *program, int rank, int stage, int bucket) {
    const struct program_tie *tie = program_tie_at(program, stage, bucket);
    if (!tie || !tie_is_apart(tie)) return params_of(rank, stage, bucket);
    int by = grid_position(&program->grid, tie->stage) - grid_position(&program->grid, stage);
    return params_of(rank + by, tie->stage, tie->bucket);
}

value reference_statistics(int rank, int stage) {
    return value_of(VALUE_STATISTICS, (value)rank, (value)stage);
}

value reference_labels(int replica) {
    return value_of(VALUE_LABELS, (value)replica, 0);
}

value reference_pass(int stage, value samples, value input) {
    return value_of(VALUE_SHARED, (value)stage, value_of(VALUE_SHARED, samples, input));
}

value reference_read(int bucket, value params) {
    return value_of(VALUE_PARAMS, (value)bucket, params);
}

value reference_forward(value pass, value params, value shared) {
    return value_of(VALUE_FORWARD, value_of(VALUE_FORWARD, pass, params), shared);
}

value reference_evaluated(value pass, value params, value statistics) {
    return value_of(VALUE_EVALUATED, value_of(VALUE_FORWARD, pass, params), statistics);
}

value reference_loss(value forward) {
    return value_of(VALUE_LOSS, forward, 0);
}

value reference_moved(value statistics, value shared) {
    return value_of(VALUE_STATISTICS, statistics, shared);
}

value reference_kept(value forward, value gradient, value shared) {
    return value_of(VALUE_BACKWARD, value_of(VALUE_BACKWARD, forward, gradient), shared);
}

value reference_input_gradient(value kept, value params) {
    return value_of(VALUE_INPUT_GRADIENT, kept, params);
}

value reference_squares(int stage, int bucket, int slice, value gradient) {
    value where = value_of(VALUE_SQUARES, (value)stage, (value)bucket);
    return value_of(VALUE_SQUARES, value_of(VALUE_SQUARES, where, (value)slice), gradient);
}

/* Nothing is updated before it is known that the losses are finite. */
value reference_scale(value norm, value losses) {
    return value_of(VALUE_NORM, norm, losses);
}

value reference_updated(value params, value gradient, value scale) {
    return value_of(VALUE_STEP, value_of(VALUE_STEP, params, gradient), scale);
}

/* --- uses --- */

struct stage_shape reference_shape(const struct chunk_sizes *sizes) {
    return (struct stage_shape){reference_parts(sizes->buckets), sizes->kept};
}

int reference_making(const struct stage_shape *shape) {
    return shape->kept ? shape->buckets - 1 : shape->buckets;
}

int reference_own_uses(const struct stage_shape *shape, int bucket) {
    return shape->kept && bucket == shape->buckets - 1 ? reference_making(shape) : 1;
}

const struct program_tie *reference_shared_here(const struct program *program, int stage,
                                                int bucket) {
    const struct program_tie *tie = program_tie_of(program, stage);
    bool here = tie && !tie_is_apart(tie);
    return here && tie->stage == stage && tie->bucket == bucket ? tie : NULL;
}

bool reference_is_copy(const struct program *program, int stage, int bucket) {
    const struct program_tie *tie = program_tie_at(program, stage, bucket);
    return tie && tie_is_apart(tie) && tie->other == stage;
}

value reference_use(value kept, int stage, int bucket, int segment) {
    value where = value_of(VALUE_WEIGHT_GRADIENT, (value)stage, (value)bucket);
    return value_of(VALUE_WEIGHT_GRADIENT, kept, value_of(VALUE_USES, where, (value)segment));
}

value reference_tied(const value *uses, int count) {
    value sum = VALUE_NEUTRAL;
    for (int u = 0; u < count; u++)
        sum = sum == VALUE_NEUTRAL       ? uses[u]
              : uses[u] == VALUE_NEUTRAL ? sum
                                         : value_of(VALUE_USES, sum, uses[u]);
    return value_tied(sum);
}

value reference_delta(value common, value own) {
    return value_of(VALUE_DELTA, common, own);
}

value reference_outer(value common, value sum) {
    return value_of(VALUE_OUTER, common, sum);
}

value reference_mean(value sum) {
    return value_of(VALUE_MEAN, sum, 0);
}

/* --- a step --- */

struct reference reference_new(const struct program *program, bool shares,
                               const struct stage_shape *shape) {
    const struct grid *grid = &program->grid;
    int stages = grid->stages * grid->chunks;
    struct reference reference = {.program = program,
                                  .grid = *grid,
                                  .micros = program->micro_batches,
                                  .sum = program->sum,
                                  .clips = program_clips(program),
                                  .shares = shares,
                                  .stages = stages,
                                  .frozen = program->frozen,
                                  .shape = MEM_ARRAY(struct stage_shape, stages),
                                  .first = MEM_ARRAY(int, stages + 1),
                                  .overlaps = program->ahead > 0,
                                  .apart = program_is_apart(program),
                                  .mean_statistics = MEM_ARRAY(value, stages),
                                  .replica_norm = MEM_ARRAY(value, grid->replicas),
                                  .replica_losses = MEM_ARRAY(value, grid->replicas),
                                  .older = MEM_ARRAY(int, stages),
                                  .stage_norm = MEM_ARRAY(value, stages),
                                  .statistics = MEM_ARRAY(value, stages * grid->replicas)};
    memcpy(reference.shape, shape, (size_t)stages * sizeof *shape);
    for (int s = 0; s < stages; s++) reference.first[s + 1] = reference.first[s] + shape[s].buckets;
    reference.buckets = reference.first[stages];
    reference.params = MEM_ARRAY(value, reference.buckets);
    for (int s = 0; s < stages; s++) {
        const struct rank_program *own = program_of(program, grid_owner(grid, s, 0));
        reference.older[s] = own->chunk[grid_chunk(grid, s)].older;
        for (int r = 0; r < grid->replicas; r++)
            reference.statistics[r * stages + s] = reference_statistics(grid_owner(grid, s, 0), s);
        for (int b = 0; b < shape[s].buckets; b++)
            reference.params[reference.first[s] + b] =
                reference_params(program, grid_owner(grid, s, 0), s, b);
    }
    reference.common = MEM_ARRAY(value, reference.buckets + 1);
    reference.own = MEM_ARRAY(value, grid->replicas * reference.buckets + 1);
    for (int r = 0; r < grid->replicas; r++)
        memcpy(reference.own + r * reference.buckets, reference.params,
               (size_t)reference.buckets * sizeof(value));
    memcpy(reference.common, reference.params, (size_t)reference.buckets * sizeof(value));
    return reference;
}

void reference_free(struct reference *reference) {
    free(reference->shape);
    free(reference->first);
    free(reference->params);
    free(reference->statistics);
    free(reference->older);
    free(reference->stage_norm);
    free(reference->past);
    free(reference->own);
    free(reference->common);
    free(reference->mean_statistics);
    free(reference->replica_norm);
    free(reference->replica_losses);
}

static bool present(const struct reference *reference, int micro) {
    return !reference->samples || reference->samples[micro] > 0;
}

/* What the passes at one place of all replicas' steps share: each replica's own, 0 where it has no
 * samples. Without sharing a pass has its own alone. */
static value shared_by(const struct reference *reference, int stage, const value *own, int micro) {
    if (!reference->shares || stage < reference->frozen) return own[micro];
    value shared = 0;
    for (int r = 0; r < reference->grid.replicas; r++) {
        int at = r * reference->micros + micro % reference->micros;
        shared = value_of(VALUE_SHARED, shared, present(reference, at) ? own[at] : 0);
    }
    return shared;
}

static void move_statistics(struct reference *reference, int stage, const value *pass) {
    int micros = reference->micros;
    for (int r = 0; r < reference->grid.replicas && stage >= reference->frozen; r++) {
        value *moved = &reference->statistics[r * reference->stages + stage];
        for (int m = 0; m < micros; m++) {
            bool any = present(reference, r * micros + m);
            for (int o = 0; reference->shares && o < reference->grid.replicas; o++)
                any |= present(reference, o * micros + m);
            if (any)
                *moved = reference_moved(*moved, shared_by(reference, stage, pass, r * micros + m));
        }
    }
}

static value read_params(const struct reference *reference, int stage, const value *params) {
    const struct program_tie *tie = program_tie_of(reference->program, stage);
    value read = 0;
    for (int b = 0; b < reference->shape[stage].buckets; b++)
        read += reference_read(b, params[reference->first[stage] + b]);
    if (tie && !tie_is_apart(tie) && tie->other == stage)
        read += reference_read(INSTR_ALL, params[reference->first[tie->stage] + tie->bucket]);
    return read;
}

/* The parameters that the step is made with: those of so many updates ago, or the first. */
static value read_older(const struct reference *reference, int stage) {
    int version = reference->step - reference->older[stage];
    return read_params(reference, stage,
                       reference->past + (version < 0 ? 0 : version) * reference->buckets);
}

/* By the replica of a micro-batch. */
static value read_for(const struct reference *reference, int stage, int micro) {
    if (!reference->apart) return read_older(reference, stage);
    return read_params(reference, stage,
                       reference->own + micro / reference->micros * reference->buckets);
}

struct step {
    value *forward, *kept; /* per stage and micro-batch */
    value *pass, *gradient, *input;
    int total;
};

/* --- sums of gradients --- */

struct leaves {
    const struct reference *reference;
    const struct step *step;
    int stage, bucket, uses;
};

static struct leaves leaves_of(const struct reference *reference, const struct step *step,
                               int stage, int bucket) {
    const struct program_tie *tie = reference_shared_here(reference->program, stage, bucket);
    int uses = reference_own_uses(&reference->shape[stage], bucket);
    if (tie) uses += reference_making(&reference->shape[tie->other]);
    return (struct leaves){reference, step, stage, bucket, uses};
}

static value leaf(const struct leaves *of, int micro, int use) {
    const struct reference *reference = of->reference;
    int own = reference_own_uses(&reference->shape[of->stage], of->bucket), total = of->step->total;
    if (use < own)
        return reference_use(of->step->kept[of->stage * total + micro], of->stage, of->bucket, use);
    int other = reference_shared_here(reference->program, of->stage, of->bucket)->other;
    return reference_use(of->step->kept[other * total + micro], other, INSTR_ALL, use - own);
}

static value leaf_tied(const struct leaves *of, int micro) {
    value uses[MOST_USES];
    for (int u = 0; u < of->uses; u++) uses[u] = leaf(of, micro, u);
    return reference_tied(uses, of->uses);
}

/* A replica's, micro-batches in order use by use; the neutral element where it has none. */
static value replica_sum(const struct leaves *of, int replica) {
    value uses[MOST_USES];
    int micros = of->reference->micros;
    for (int u = 0; u < of->uses; u++) {
        uses[u] = VALUE_NEUTRAL;
        for (int m = replica * micros; m < (replica + 1) * micros; m++)
            if (present(of->reference, m)) uses[u] = value_sum(uses[u], leaf(of, m, u));
    }
    return reference_tied(uses, of->uses);
}

static value by_replica(const struct leaves *of, const struct leaves *joined) {
    int replicas = of->reference->grid.replicas;
    value *part = MEM_ARRAY(value, replicas);
    for (int r = 0; r < replicas; r++) {
        part[r] = replica_sum(of, r);
        if (joined) part[r] = value_sum(part[r], replica_sum(joined, r));
    }
    value total = value_tree(part, replicas);
    free(part);
    return total;
}

static value by_tree(const struct leaves *of) {
    value *part = MEM_ARRAY(value, of->step->total);
    int count = 0;
    for (int m = 0; m < of->step->total; m++)
        if (present(of->reference, m)) part[count++] = leaf_tied(of, m);
    value total = value_tree(part, count);
    free(part);
    return total;
}

static value by_micro_batch(const struct leaves *of, const struct leaves *joined) {
    int micros = of->reference->micros, replicas = of->reference->grid.replicas;
    value *level = MEM_ARRAY(value, replicas), total = VALUE_NEUTRAL;
    for (int m = 0; m < micros; m++) {
        int count = 0;
        for (int r = 0; r < replicas; r++) {
            int micro = r * micros + m;
            if (!present(of->reference, micro)) continue;
            level[count] = leaf_tied(of, micro);
            if (joined) level[count] = value_sum(level[count], leaf_tied(joined, micro));
            count++;
        }
        total = value_sum(total, value_tree(level, count));
    }
    free(level);
    return total;
}

/* The sum of one bucket, by the definition of the order. What two ranks share is the sum over both,
 * first use first. */
static value gradient_of(const struct reference *reference, const struct step *step, int stage,
                         int bucket) {
    const struct program_tie *tie = program_tie_at(reference->program, stage, bucket);
    struct leaves of = leaves_of(reference, step, stage, bucket), second;
    bool joins = tie && tie_is_apart(tie);
    if (joins) {
        of = leaves_of(reference, step, tie->stage, tie->bucket);
        second = leaves_of(reference, step, tie->other, tie->other_bucket);
    }
    if (reference->sum == SUM_TREE && !joins) return by_tree(&of);
    return (reference->sum == SUM_REPLICAS_FIRST ? by_micro_batch : by_replica)(&of, joins ? &second
                                                                                           : NULL);
}

/* --- passes --- */

static value seed_of(const struct reference *reference, int micro) {
    value seed = 0;
    if (reference->overlaps || reference->apart) return reference_labels(micro / reference->micros);
    for (int r = 0; r < reference->grid.replicas; r++) seed += reference_labels(r);
    return seed;
}

static void run_forward(struct reference *reference, struct step *step) {
    reference->losses = 0;
    for (int r = 0; r < reference->grid.replicas; r++) reference->replica_losses[r] = 0;
    for (int s = 0; s < reference->stages; s++) {
        value *forward = step->forward + s * step->total;
        int number = reference->overlaps ? reference->step : 0;
        for (int m = 0; m < step->total; m++)
            step->pass[m] = reference_pass(s, reference_samples(m, number), step->input[m]);
        for (int m = 0; m < step->total; m++) {
            if (!present(reference, m)) continue;
            forward[m] = reference_forward(step->pass[m], read_for(reference, s, m),
                                           shared_by(reference, s, step->pass, m));
            step->input[m] = value_of(VALUE_OUTPUT, forward[m], 0);
            if (s < reference->stages - 1) continue;
            reference->losses += reference_loss(forward[m]);
            reference->replica_losses[m / reference->micros] += reference_loss(forward[m]);
        }
        move_statistics(reference, s, step->pass);
    }
}

/* Stages from the last to the first. */
static void run_backward(struct reference *reference, struct step *step) {
    for (int m = 0; m < step->total; m++) step->gradient[m] = seed_of(reference, m);
    for (int s = reference->stages - 1; s >= reference->frozen; s--) {
        const value *forward = step->forward + s * step->total;
        value *kept = step->kept + s * step->total;
        for (int m = 0; m < step->total; m++)
            step->pass[m] = reference_pass(s, forward[m], step->gradient[m]);
        for (int m = 0; m < step->total; m++) {
            kept[m] = reference_kept(forward[m], step->gradient[m],
                                     shared_by(reference, s, step->pass, m));
            step->gradient[m] = reference_input_gradient(kept[m], read_for(reference, s, m));
        }
    }
}

static void update(struct reference *reference, const struct step *step) {
    int slices = group_size(&reference->grid, GROUP_REPLICAS, 0);
    value squares = 0, *gradient = MEM_ARRAY(value, reference->buckets);
    for (int s = reference->frozen; s < reference->stages; s++) {
        value before = squares;
        for (int b = 0; b < reference->shape[s].buckets; b++) {
            value *of = &gradient[reference->first[s] + b];
            *of = gradient_of(reference, step, s, b);
            for (int i = 0; i < slices && !reference_is_copy(reference->program, s, b); i++)
                squares += reference_squares(s, b, i, *of);
        }
        reference->stage_norm[s] = value_of(VALUE_NORM, squares - before, 0);
    }
    reference->norm = value_of(VALUE_NORM, squares, 0);
    value scale =
        reference->clips ? reference_scale(reference->norm, reference->losses) : VALUE_NONE;
    for (int b = reference->first[reference->frozen]; b < reference->buckets; b++)
        reference->params[b] = reference_updated(reference->params[b], gradient[b], scale);
    free(gradient);
}

/* --- replicas that train apart --- */

static value replica_gradient(const struct reference *reference, const struct step *step,
                              int replica, int stage, int bucket) {
    const struct program_tie *tie = program_tie_at(reference->program, stage, bucket);
    struct leaves of = leaves_of(reference, step, stage, bucket);
    if (!tie || !tie_is_apart(tie)) return replica_sum(&of, replica);
    of = leaves_of(reference, step, tie->stage, tie->bucket);
    struct leaves second = leaves_of(reference, step, tie->other, tie->other_bucket);
    return value_sum(replica_sum(&of, replica), replica_sum(&second, replica));
}

static void update_replica(struct reference *reference, const struct step *step, int replica) {
    int slices = group_size(&reference->grid, GROUP_REPLICAS, 0);
    value squares = 0, *gradient = MEM_ARRAY(value, reference->buckets),
          *own = reference->own + replica * reference->buckets;
    for (int s = 0; s < reference->stages; s++)
        for (int b = 0; b < reference->shape[s].buckets; b++) {
            value *of = &gradient[reference->first[s] + b];
            *of = replica_gradient(reference, step, replica, s, b);
            for (int i = 0; i < slices && !reference_is_copy(reference->program, s, b); i++)
                squares += reference_squares(s, b, i, *of);
        }
    reference->replica_norm[replica] = value_of(VALUE_NORM, squares, 0);
    bool chosen = program_chosen(reference->program) >= 0;
    value scale = reference->clips ? reference_scale(reference->replica_norm[replica],
                                                     chosen ? reference->replica_losses[replica]
                                                            : reference->losses)
                                   : VALUE_NONE;
    for (int b = 0; b < reference->buckets; b++)
        own[b] = reference_updated(own[b], gradient[b], scale);
    free(gradient);
}

/* By the fixed tree over the replicas. */
static value sum_of(const struct reference *reference, int bucket, bool delta) {
    int replicas = reference->grid.replicas;
    value *term = MEM_ARRAY(value, replicas);
    for (int r = 0; r < replicas; r++) {
        term[r] = reference->own[r * reference->buckets + bucket];
        if (delta) term[r] = reference_delta(reference->common[bucket], term[r]);
    }
    value sum = value_tree(term, replicas);
    free(term);
    return sum;
}

/* At one step all replicas average, at one pairs do, at one nobody; by stage, another way each. */
int reference_first_chosen(const struct program *program, int step, int position, int replica) {
    bool by_stage = program->group[program_chosen(program)] == GROUP_CHOSEN_BY_STAGE;
    switch ((step + (by_stage ? position : 0)) % 3) {
    case 0: return 0;
    case 1: return replica / 2 * 2;
    default: return replica;
    }
}

value reference_chosen(const value *given, int replicas) {
    value term[MOST_MEMBERS], only = VALUE_NONE;
    int count = 0;
    for (int r = 0; r < replicas; r++)
        if (given[r]) only = term[count++] = given[r];
    return count == 1 ? only : reference_mean(value_tree(term, count));
}

static void average_chosen(struct reference *reference, int stage, int bucket) {
    int replicas = reference->grid.replicas, position = grid_position(&reference->grid, stage);
    value *now = MEM_ARRAY(value, replicas);
    for (int r = 0; r < replicas; r++) {
        value given[MOST_MEMBERS] = {0};
        int first = reference_first_chosen(reference->program, reference->step, position, r);
        for (int o = 0; o < replicas; o++)
            if (reference_first_chosen(reference->program, reference->step, position, o) == first)
                given[o] = reference->own[o * reference->buckets + bucket];
        now[r] = reference_chosen(given, replicas);
    }
    for (int r = 0; r < replicas; r++) reference->own[r * reference->buckets + bucket] = now[r];
    free(now);
}

static void average(struct reference *reference) {
    bool chosen = program_chosen(reference->program) >= 0;
    for (int s = 0; chosen && s < reference->stages; s++)
        for (int b = 0; b < reference->shape[s].buckets; b++)
            average_chosen(reference, s, reference->first[s] + b);
    for (int b = 0; b < reference->buckets && reference->averages && !chosen; b++) {
        reference->common[b] = reference_outer(reference->common[b], sum_of(reference, b, true));
        for (int r = 0; r < reference->grid.replicas; r++)
            reference->own[r * reference->buckets + b] = reference->common[b];
    }
    for (int b = 0; b < reference->buckets; b++)
        reference->params[b] = reference_mean(sum_of(reference, b, false));
    for (int s = 0; s < reference->stages; s++) {
        reference->mean_statistics[s] = 0;
        for (int r = 0; r < reference->grid.replicas; r++)
            reference->mean_statistics[s] =
                value_of(VALUE_MEAN, reference->mean_statistics[s],
                         reference->statistics[r * reference->stages + s]);
    }
}

static void update_apart(struct reference *reference, const struct step *step) {
    for (int r = 0; r < reference->grid.replicas; r++) update_replica(reference, step, r);
    average(reference);
}

/* With the statistics of replica 0, or the mean of those that train apart. */
static void evaluate(struct reference *reference) {
    int pipelines = group_count(&reference->grid, GROUP_PIPELINE);
    reference->evaluation = 0;
    for (int i = 0; i < pipelines * ROUNDS; i++) {
        value samples = reference_round(i / ROUNDS, i % ROUNDS), input = 0, forward = 0;
        for (int s = 0; s < reference->stages; s++) {
            forward = reference_evaluated(
                reference_pass(s, samples, input), read_params(reference, s, reference->params),
                reference->apart ? reference->mean_statistics[s] : reference->statistics[s]);
            input = value_of(VALUE_OUTPUT, forward, 0);
        }
        reference->evaluation += reference_loss(forward);
    }
}

void reference_step(struct reference *reference, const int64_t *samples) {
    int total = reference->grid.replicas * reference->micros;
    reference->samples = samples;
    size_t bytes = (size_t)reference->buckets * sizeof(value);
    value *past = MEM_ARRAY(value, (reference->step + 1) * reference->buckets + 1);
    if (reference->past) memcpy(past, reference->past, (size_t)reference->step * bytes);
    memcpy(past + reference->step * reference->buckets, reference->params, bytes);
    free(reference->past);
    reference->past = past;
    struct step step = {.total = total,
                        .forward = MEM_ARRAY(value, reference->stages * total),
                        .kept = MEM_ARRAY(value, reference->stages * total),
                        .pass = MEM_ARRAY(value, total),
                        .gradient = MEM_ARRAY(value, total),
                        .input = MEM_ARRAY(value, total)};
    run_forward(reference, &step);
    run_backward(reference, &step);
    if (reference->apart)
        update_apart(reference, &step);
    else
        update(reference, &step);
    reference->step++;
    evaluate(reference);
    free(step.forward);
    free(step.kept);
    free(step.pass);
    free(step.gradient);
    free(step.input);
}
