/* Each small model against PyTorch in float64, trained by the executor as `stretto train` would:
 * planned memory, loader, programs. The samples of the golden batches are a data set of its own
 * kind, shuffled beforehand in such a way that the sampler's shuffle puts them back into order. */
#include <criterion/criterion.h>
#include <string.h>

#include "check.h"
#include "data/sampler.h"
#include "exec/engine.h"
#include "golden.h"

/* state of the data set */
struct golden_data {
    struct graph *graph; /* forward, for the inputs' shapes */
    int64_t *position;   /* of each sample in the run */
    void *rows[GOLDEN_STEPS][DATASET_MAX_FIELDS];
    int input[DATASET_MAX_FIELDS]; /* value of each field */
};

static enum status golden_read(const struct dataset *dataset, enum split split, int64_t index,
                               uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    (void)key;
    const struct golden_data *data = dataset->state;
    int64_t position = split == SPLIT_TRAIN ? data->position[index] : 0;
    for (int f = 0; f < dataset->field_count; f++) {
        size_t bytes = dataset_field_bytes(dataset, f);
        const char *rows = data->rows[position / data->graph->batch][f];
        memcpy(out[f], rows + (size_t)(position % data->graph->batch) * bytes, bytes);
    }
    return STATUS_OK;
}

static const struct dataset_ops golden_ops = {.name = "golden", .read = golden_read};

static bool is_label(const struct graph *graph, const char *name) {
    for (int i = 0; i < graph->loss_count; i++)
        if (strcmp(graph->losses[i].label, name) == 0) return true;
    return false;
}

static void add_field(struct dataset *dataset, struct golden_data *data, int value,
                      const uint64_t seeds[]) {
    const struct value *input = &data->graph->values[value];
    int f = dataset->field_count++;
    struct field field = {.name = input->name, .dtype = input->type.dtype};
    field.shape.rank = input->type.shape.rank - 1;
    memcpy(field.shape.dim, input->type.shape.dim + 1, sizeof field.shape.dim - sizeof(int64_t));
    field.is_label = is_label(data->graph, input->name);
    dataset->field[f] = field;
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        data->rows[step][f] = mem_new(tensor_type_bytes(&input->type));
        golden_fill(data->graph, value, seeds[step], step, data->rows[step][f]);
    }
}

static void data_open(const struct golden_case *gold, const uint64_t seeds[], struct dataset *out) {
    struct golden_data *data = MEM_NEW(struct golden_data);
    cr_assert_eq(golden_build(gold, &data->graph), STATUS_OK);
    int64_t count = GOLDEN_STEPS * gold->batch;
    *out = (struct dataset){.ops = &golden_ops, .spec = mem_text("golden"), .state = data};
    out->count[SPLIT_TRAIN] = count;
    out->count[SPLIT_TEST] = gold->batch;
    out->classes = gold->classes ? gold->classes : 2;
    for (int i = 0; i < data->graph->input_count; i++)
        if (golden_is_sample(data->graph, data->graph->inputs[i]))
            add_field(out, data, data->graph->inputs[i], seeds);
    int64_t *order = MEM_ARRAY(int64_t, count);
    data->position = MEM_ARRAY(int64_t, count);
    sampler_permutation(count, GOLDEN_WEIGHT_SEED, order);
    for (int64_t i = 0; i < count; i++) data->position[order[i]] = i;
    free(order);
}

static void data_close(struct dataset *dataset) {
    struct golden_data *data = dataset->state;
    for (int step = 0; step < GOLDEN_STEPS; step++)
        for (int f = 0; f < dataset->field_count; f++) free(data->rows[step][f]);
    graph_free(&data->graph);
    free(data->position);
    free(data);
    free(dataset->spec);
}

static struct run_config run_of(const struct golden_case *gold, const struct dataset *dataset,
                                const char *backend, int micro_batches) {
    const struct model *model = model_find(gold->model);
    struct optim_config optim = golden_optim();
    return (struct run_config){
        .model = model,
        .dataset = dataset,
        .shape = golden_config(gold),
        .schedule = "single",
        .sync = "none",
        .ranks = 1,
        .replicas = 1,
        .micro_batches = micro_batches,
        .batch = gold->batch,
        .eval_batch = gold->batch,
        .optimizer = optim_find(model->optimizer),
        .optim = optim,
        .lr = {.policy = LR_CONST, .base = optim.lr, .total_steps = GOLDEN_STEPS},
        .grid = grid_flat(1, 1),
        .cell = {GRID_STAGE, 0, 0, 1},
        .steps = GOLDEN_STEPS,
        .steps_per_epoch = GOLDEN_STEPS,
        .device = backend,
        .threads = 1,
        .seed = GOLDEN_WEIGHT_SEED,
        .costs = &cost_rules,
        .workers = 1,
    };
}

static void check_gradients(struct golden_check *check, const struct store *store) {
    int gradients = state_array(store->layout, ARRAY_GRAD, 0);
    for (int i = 0; i < store->layout->param_count; i++) {
        const struct state_item *item = &store->layout->params[i];
        int64_t count = shape_count(&item->type.shape);
        float *plain = MEM_ARRAY(float, count);
        cr_assert_eq(store_get(store, gradients, i, plain), STATUS_OK);
        golden_check_gradient(check, item->name, plain, count);
        free(plain);
    }
}

static void check_buffers(struct golden_check *check, const struct store *store) {
    int buffers = state_array(store->layout, ARRAY_BUFFER, 0);
    for (int i = 0; i < store->layout->buffer_count; i++) {
        const struct state_item *item = &store->layout->buffers[i];
        if (item->type.dtype != DTYPE_F32) continue;
        int64_t count = shape_count(&item->type.shape);
        float *plain = MEM_ARRAY(float, count);
        cr_assert_eq(store_get(store, buffers, i, plain), STATUS_OK);
        golden_check_buffer(check, item->name, plain, count);
        free(plain);
    }
}

static void train(struct golden_check *check, const struct plan *plan, int steps) {
    struct engine *engine = NULL;
    struct train_state state = train_fresh();
    struct engine_config config = {.plan = plan, .state = &state};
    cr_assert_eq(engine_open(&config, &engine), STATUS_OK);
    for (int step = 0; step < steps; step++) {
        struct step_result result;
        cr_assert_eq(engine_step(engine, &result), STATUS_OK);
        golden_check_loss(check, step, result.loss);
        if (step > 0) continue;
        check_gradients(check, engine_store(engine));
        check_buffers(check, engine_store(engine));
    }
    engine_close(&engine);
}

static void golden(const char *model, const char *backend, int micro_batches, int steps) {
    const struct golden_case *gold = golden_find(model);
    struct golden_check check;
    struct dataset dataset;
    struct plan *plan = NULL;
    golden_check_open(model, &check);
    data_open(gold, check.seeds, &dataset);
    struct run_config config = run_of(gold, &dataset, backend, micro_batches);
    cr_assert_eq(plan_new(&config, NULL, &plan), STATUS_OK);
    train(&check, plan, steps);
    plan_free(&plan);
    data_close(&dataset);
    golden_check_close(&check);
}

#define GOLDEN(test, model, batch, channels, side, classes, patch, tokens, predictions, ref_steps) \
    Test(golden_exec, test) {                                                                      \
        golden(model, "cpu", 1, GOLDEN_STEPS);                                                     \
    }
#define LOGITS(...)
#include "golden.def"
#undef LOGITS
#undef GOLDEN

/* Micro-batches change nothing but the order of sums where no layer looks at the whole batch. */
Test(golden_exec, mlp_in_two_micro_batches) {
    golden("mlp", "cpu", 2, GOLDEN_STEPS);
}

Test(golden_exec, lenet_in_four_micro_batches) {
    golden("lenet", "cpu", 4, GOLDEN_STEPS);
}

Test(golden_exec, vit_micro_in_eight_micro_batches) {
    golden("vit-micro", "cpu", 8, GOLDEN_STEPS);
}

Test(golden_exec, bert_tiny_in_two_micro_batches) {
    golden("bert-tiny", "cpu", 2, GOLDEN_STEPS);
}
