/* See check.h. */
#include "check.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "golden.h"

static const double tolerance = 1e-4;

/* A gradient that is zero but for rounding (of a bias that softmax cancels, say) is held to a
 * thousandth of what is usual in the model. The usual is the middle one of the tensors' root mean
 * squares. */
static const double noise_fraction = 1e-3;

static double number(const json_t *row, const char *key) {
    json_t *value = json_object_get(row, key);
    cr_assert(json_is_number(value), "no %s in the vectors", key);
    return json_number_value(value);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double usual_gradient(const json_t *gradients) {
    size_t count = json_object_size(gradients), i = 0;
    double *sizes = MEM_ARRAY(double, count);
    json_t *row;
    const char *name;
    json_object_foreach((json_t *)gradients, name, row) sizes[i++] =
        number(row, "norm") / sqrt(number(row, "count"));
    qsort(sizes, count, sizeof *sizes, by_size);
    double middle = sizes[count / 2];
    free(sizes);
    return middle;
}

static void read_seeds(struct golden_check *check) {
    const json_t *seeds = json_object_get(check->vectors, "seeds");
    cr_assert_eq(json_array_size(seeds), GOLDEN_STEPS, "a seed a step is needed");
    for (size_t i = 0; i < GOLDEN_STEPS; i++)
        check->seeds[i] = (uint64_t)json_integer_value(json_array_get(seeds, i));
}

void golden_check_open(const char *model, struct golden_check *out) {
    struct golden_check check = {.model = model};
    char path[128];
    json_error_t error;
    snprintf(path, sizeof path, "tests/golden/%s.json", model);
    check.vectors = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    cr_assert(check.vectors, "%s: %s", path, error.text);
    read_seeds(&check);
    check.floor = noise_fraction * usual_gradient(json_object_get(check.vectors, "gradients"));
    *out = check;
}

void golden_check_close(struct golden_check *check) {
    if (getenv("GOLDEN_WORST"))
        fprintf(stderr, "%s: the worst error is %.2g of what is allowed\n", check->model,
                check->worst);
    json_decref(check->vectors);
    check->vectors = NULL;
}

static void agree(struct golden_check *check, double got, double want, double usual,
                  const char *what, const char *name, int index) {
    double allowed = tolerance * fmax(fabs(want), usual), error = fabs(got - want);
    check->worst = fmax(check->worst, error / allowed);
    cr_expect(error <= allowed, "%s: %s %d of %s is %.9g, PyTorch has %.9g (allowed %.2g)",
              check->model, what, index, name, got, want, allowed);
}

void golden_check_weights(struct golden_check *check, const float *weights, int64_t count) {
    double squares = 0, want = number(check->vectors, "weight_norm");
    for (int64_t i = 0; i < count; i++) squares += (double)weights[i] * weights[i];
    cr_assert(fabs(sqrt(squares) / want - 1) < 1e-6,
              "initial weights changed: remake the vectors with `make golden`");
}

static const json_t *terms_of(const struct golden_check *check, int step) {
    const json_t *terms = json_array_get(json_object_get(check->vectors, "losses"), (size_t)step);
    cr_assert(terms, "no losses of step %d", step);
    return terms;
}

void golden_check_term(struct golden_check *check, int step, int term, double got) {
    const json_t *want = json_array_get(terms_of(check, step), (size_t)term);
    cr_assert(want, "PyTorch's model has no loss term %d", term);
    agree(check, got, json_number_value(want), 0, "step", "the loss", step);
}

void golden_check_loss(struct golden_check *check, int step, double got) {
    const json_t *terms = terms_of(check, step), *term;
    double want = 0;
    size_t i;
    json_array_foreach(terms, i, term) want += json_number_value(term);
    agree(check, got, want, 0, "step", "the loss", step);
}

static void check_tensor(struct golden_check *check, const char *table, const char *name,
                         const float *values, int64_t count, double floor) {
    const json_t *row = json_object_get(json_object_get(check->vectors, table), name);
    if (!row && number(check->vectors, "every") > 1) return; /* one tensor of several */
    cr_assert(row, "PyTorch's model has no %s", name);
    cr_assert_eq((int64_t)number(row, "count"), count, "%s", name);
    double want = number(row, "norm"), squares = 0, root = sqrt((double)count);
    double usual = fmax(want / root, floor);
    for (int64_t i = 0; i < count; i++) squares += (double)values[i] * values[i];
    agree(check, sqrt(squares), want, usual * root, "norm", name, 0);
    for (int k = 0; k < GOLDEN_PROJECTIONS; k++) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++) sum += golden_sign(k, i) * (double)values[i];
        want = json_number_value(json_array_get(json_object_get(row, "projections"), (size_t)k));
        agree(check, sum, want, usual * root, "projection", name, k);
    }
    for (int k = 0; k < GOLDEN_SAMPLES; k++) {
        want = json_number_value(json_array_get(json_object_get(row, "samples"), (size_t)k));
        agree(check, values[golden_sample(k, count)], want, usual, "sample", name, k);
    }
}

void golden_check_gradient(struct golden_check *check, const char *name, const float *values,
                           int64_t count) {
    check_tensor(check, "gradients", name, values, count, check->floor);
}

void golden_check_buffer(struct golden_check *check, const char *name, const float *values,
                         int64_t count) {
    check_tensor(check, "buffers", name, values, count, 0);
}
