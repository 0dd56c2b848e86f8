/* See reference.h. Stage by stage forward, then backward, for all micro-batches of the step. */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* --- expressions --- */

value reference_samples(int micro) {
    return value_of(VALUE_SAMPLES, (value)micro, 0);
}

value reference_params(int rank) {
    return value_of(VALUE_PARAMS, (value)rank, 0);
}

value reference_labels(int replica) {
    return value_of(VALUE_LABELS, (value)replica, 0);
}

value reference_pass(int stage, value samples, value input) {
    return value_of(VALUE_SHARED, (value)stage, value_of(VALUE_SHARED, samples, input));
}

value reference_forward(value pass, value params, value shared) {
    return value_of(VALUE_FORWARD, value_of(VALUE_FORWARD, pass, params), shared);
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

value reference_leaf(value kept, int bucket) {
    return value_of(VALUE_WEIGHT_GRADIENT, kept, (value)bucket);
}

value reference_squares(int stage, int bucket, value gradient) {
    return value_of(VALUE_SQUARES, value_of(VALUE_SQUARES, (value)stage, (value)bucket), gradient);
}

/* Nothing is updated before it is known that the losses are finite. */
value reference_clipped(value params, value norm, value losses) {
    return value_of(VALUE_STEP, params, value_of(VALUE_NORM, norm, losses));
}

/* --- a step --- */

struct reference reference_new(const struct program *program, const int64_t *samples, bool shares,
                               const int *buckets) {
    const struct grid *grid = &program->grid;
    int stages = grid->stages * grid->chunks;
    struct reference reference = {.grid = *grid,
                                  .micros = program->micro_batches,
                                  .sum = program->sum,
                                  .clips = program_clips(program),
                                  .shares = shares,
                                  .samples = samples,
                                  .stages = stages,
                                  .buckets = MEM_ARRAY(int, stages),
                                  .params = MEM_ARRAY(value, stages),
                                  .statistics = MEM_ARRAY(value, stages * grid->replicas)};
    for (int s = 0; s < stages; s++) {
        reference.buckets[s] = buckets[s];
        reference.params[s] =
            value_of(VALUE_PARAMS, reference_params(grid_owner(grid, s, 0)), (value)s);
    }
    return reference;
}

void reference_free(struct reference *reference) {
    free(reference->buckets);
    free(reference->params);
    free(reference->statistics);
}

static bool present(const struct reference *reference, int micro) {
    return !reference->samples || reference->samples[micro] > 0;
}

/* What the passes at one place of all replicas' steps share: each replica's own, 0 where it has no
 * samples. Without sharing a pass has its own alone. */
static value shared_by(const struct reference *reference, const value *own, int micro) {
    if (!reference->shares) return own[micro];
    value shared = 0;
    for (int r = 0; r < reference->grid.replicas; r++) {
        int at = r * reference->micros + micro % reference->micros;
        shared = value_of(VALUE_SHARED, shared, present(reference, at) ? own[at] : 0);
    }
    return shared;
}

static void move_statistics(struct reference *reference, int stage, const value *pass) {
    int micros = reference->micros;
    for (int r = 0; r < reference->grid.replicas; r++) {
        value *moved = &reference->statistics[r * reference->stages + stage];
        for (int m = 0; m < micros; m++) {
            bool any = present(reference, r * micros + m);
            for (int o = 0; reference->shares && o < reference->grid.replicas; o++)
                any |= present(reference, o * micros + m);
            if (any) *moved = reference_moved(*moved, shared_by(reference, pass, r * micros + m));
        }
    }
}

/* The sum of one bucket's leaves, by the definition of the order. */
static value add_leaves(const struct reference *reference, const value *kept, int bucket) {
    int micros = reference->micros, replicas = reference->grid.replicas, count = 0;
    bool by_micro = reference->sum == SUM_REPLICAS_FIRST, tree = reference->sum == SUM_TREE;
    int outer = by_micro ? micros : replicas, inner = by_micro ? replicas : micros;
    value *part = MEM_ARRAY(value, micros * replicas + 1), *level = MEM_ARRAY(value, replicas + 1);
    value total = VALUE_NEUTRAL;
    for (int o = 0; o < outer; o++) {
        value sum = VALUE_NEUTRAL;
        int found = 0;
        for (int i = 0; i < inner; i++) {
            int micro = by_micro ? i * micros + o : o * micros + i;
            if (!present(reference, micro)) continue;
            value leaf = reference_leaf(kept[micro], bucket);
            if (tree)
                part[count++] = value_tied(leaf);
            else if (by_micro)
                level[found++] = value_tied(leaf);
            else
                sum = value_sum(sum, leaf);
        }
        if (by_micro)
            total = value_sum(total, value_tree(level, found));
        else if (!tree && sum != VALUE_NEUTRAL)
            part[count++] = value_tied(sum);
    }
    if (!by_micro) total = value_tree(part, count);
    free(part);
    free(level);
    return total;
}

static value seed_of(const struct reference *reference) {
    value seed = 0;
    for (int r = 0; r < reference->grid.replicas; r++) seed += reference_labels(r);
    return seed;
}

struct step {
    value *forward, *pass; /* per stage and micro-batch; per micro-batch */
    value *gradient, *kept, *input;
    int total;
};

static void run_forward(struct reference *reference, struct step *step) {
    reference->losses = 0;
    for (int s = 0; s < reference->stages; s++) {
        value *forward = step->forward + s * step->total;
        for (int m = 0; m < step->total; m++)
            step->pass[m] = reference_pass(s, reference_samples(m), step->input[m]);
        for (int m = 0; m < step->total; m++) {
            if (!present(reference, m)) continue;
            forward[m] = reference_forward(step->pass[m], reference->params[s],
                                           shared_by(reference, step->pass, m));
            step->input[m] = value_of(VALUE_OUTPUT, forward[m], 0);
            if (s == reference->stages - 1) reference->losses += reference_loss(forward[m]);
        }
        move_statistics(reference, s, step->pass);
    }
}

/* The gradient of every bucket, stages from the last to the first. */
static void run_backward(struct reference *reference, struct step *step, value **out) {
    for (int m = 0; m < step->total; m++) step->gradient[m] = seed_of(reference);
    for (int s = reference->stages - 1; s >= 0; s--) {
        const value *forward = step->forward + s * step->total;
        for (int m = 0; m < step->total; m++)
            step->pass[m] = reference_pass(s, forward[m], step->gradient[m]);
        for (int m = 0; m < step->total; m++) {
            step->kept[m] =
                reference_kept(forward[m], step->gradient[m], shared_by(reference, step->pass, m));
            step->gradient[m] = value_of(VALUE_INPUT_GRADIENT, step->kept[m], 0);
        }
        for (int b = 0; b < reference->buckets[s]; b++)
            out[s][b] = add_leaves(reference, step->kept, b);
    }
}

static void update(struct reference *reference, value **gradient) {
    value squares = 0;
    for (int s = 0; s < reference->stages; s++)
        for (int b = 0; b < reference->buckets[s]; b++)
            squares += reference_squares(s, b, gradient[s][b]);
    reference->norm = value_of(VALUE_NORM, squares, 0);
    for (int s = 0; s < reference->stages; s++) {
        for (int b = 0; b < reference->buckets[s]; b++)
            reference->params[s] = value_of(VALUE_STEP, reference->params[s], gradient[s][b]);
        if (reference->clips)
            reference->params[s] =
                reference_clipped(reference->params[s], reference->norm, reference->losses);
    }
}

void reference_step(struct reference *reference) {
    int total = reference->grid.replicas * reference->micros;
    struct step step = {.total = total,
                        .forward = MEM_ARRAY(value, reference->stages * total),
                        .pass = MEM_ARRAY(value, total),
                        .gradient = MEM_ARRAY(value, total),
                        .kept = MEM_ARRAY(value, total),
                        .input = MEM_ARRAY(value, total)};
    value **gradient = MEM_ARRAY(value *, reference->stages);
    for (int s = 0; s < reference->stages; s++)
        gradient[s] = MEM_ARRAY(value, reference->buckets[s] + 1);
    run_forward(reference, &step);
    run_backward(reference, &step, gradient);
    update(reference, gradient);
    for (int s = 0; s < reference->stages; s++) free(gradient[s]);
    free(gradient);
    free(step.forward);
    free(step.pass);
    free(step.gradient);
    free(step.kept);
    free(step.input);
}
