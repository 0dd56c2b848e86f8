/* Training with frozen blocks: what is frozen stays as it was, on every rank, and takes no memory
 * but its own. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kit.h"

#define NET                                                                                        \
    "--model resnet8 --data synthetic:size=8,channels=3,test_count=8,count=64 --batch 16 "         \
    "--steps 3 --device ref --threads 1 "
#define BERT                                                                                       \
    "--model bert-tiny --data synthetic:kind=tokens,seq=16,vocab=80,predictions=3,test_count=8,"   \
    "count=64 --batch 16 --steps 3 --device cpu --threads 1 "

static float *copy_of(const struct kit_run *run, const char *name, int64_t *count) {
    return kit_param(run, name, count);
}

/* Of the buffers of a batch norm: is what it has counted still 0? */
static bool moved(const struct kit_run *run, const char *name) {
    const struct store *store = engine_store(run->engine);
    const struct state_layout *layout = store->layout;
    for (int b = 0; b < layout->buffer_count; b++) {
        if (strcmp(layout->buffers[b].name, name) != 0) continue;
        int64_t batches = -1;
        cr_assert_eq(store_get(store, state_array(layout, ARRAY_BUFFER, 0), b, &batches),
                     STATUS_OK);
        return batches != 0;
    }
    cr_assert(false, "no buffer %s", name);
    return false;
}

static void check_stays(struct kit_run *run, const char *frozen, const char *trained) {
    int64_t counts[2], again[2];
    float *before[2] = {copy_of(run, frozen, &counts[0]), copy_of(run, trained, &counts[1])};
    kit_steps(run, -1);
    float *after[2] = {copy_of(run, frozen, &again[0]), copy_of(run, trained, &again[1])};
    cr_expect_arr_eq(before[0], after[0], (size_t)counts[0] * sizeof(float), "%s", frozen);
    cr_expect_arr_neq(before[1], after[1], (size_t)counts[1] * sizeof(float), "%s", trained);
    for (int i = 0; i < 2; i++) {
        free(before[i]);
        free(after[i]);
    }
}

Test(exec_freeze, what_is_frozen_stays_as_it_was) {
    struct kit_run *run = kit_open(NET "--freeze 1");
    check_stays(run, "layer1.0.conv2.weight", "layer2.0.conv1.weight");
    cr_expect(!moved(run, "layer1.0.bn2.num_batches_tracked"));
    cr_expect(moved(run, "layer2.0.bn1.num_batches_tracked"));
    kit_close(&run);
}

/* Weight decay reaches a tied parameter no more than its gradient does. */
Test(exec_freeze, a_tied_parameter_freezes_in_all_its_uses) {
    struct kit_run *run = kit_open(BERT "--freeze 1 --weight-decay 0.1");
    check_stays(run, "bert.embeddings.word_embeddings.weight",
                "cls.predictions.transform.dense.weight");
    kit_close(&run);
    run = kit_open(BERT "--freeze 1 --untie");
    check_stays(run, "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight");
    kit_close(&run);
}

/* The head alone: its weights are all that has gradients and optimizer state. */
Test(exec_freeze, memory_is_that_of_what_is_trained) {
    struct kit_run *whole = kit_open(NET), *head = kit_open(NET "--freeze 3");
    const struct memory_estimate *all = &whole->planned.plan->memory,
                                 *few = &head->planned.plan->memory;
    const struct state_layout *layout = head->planned.plan->store;
    cr_expect_eq(layout->held_count, 2);
    cr_expect_eq(few->gradients, (size_t)state_bytes(layout->gradient_elements));
    cr_expect_eq(few->state, few->gradients);
    cr_expect_lt(few->gradients, all->gradients / 20);
    cr_expect_eq(few->params, all->params);
    cr_expect_lt(few->activations, all->activations / 2, "%zu of %zu", few->activations,
                 all->activations);
    kit_close(&whole);
    kit_close(&head);
}

/* From its start a run whose frozen blocks are all of its pipeline's first stage: that rank has no
 * gradients at all. */
Test(exec_freeze, a_rank_may_have_no_gradients) {
    struct options options;
    struct kit_plan planned;
    kit_options(NET "--freeze 2 --strategy gpipe --stages 2 --replicas 2 -n 4 --cut layer3",
                &options);
    cr_assert_eq(kit_plan(&options, 0, 4, NULL, &planned), STATUS_OK);
    const struct plan *plan = planned.plan;
    cr_expect_eq(plan->program->frozen, 1);
    cr_expect_eq(plan->memory.gradients + plan->memory.state, 0);
    cr_expect_eq(plan->grads, 0);
    cr_expect_eq(plan->holdings.param_count, 0);
    cr_expect_gt(plan->holdings.frozen_count, 10);
    cr_expect_eq(plan_message_bytes(plan, 0, PHASE_BACKWARD), 0);
    /* What replicas give one another at the start lies where others reach it. */
    cr_expect_eq(plan_heap_bytes(plan) / 64,
                 (plan->memory.params + plan->memory.buffers + 63) / 64);
    kit_plan_free(&planned);
    options_free(&options);
}
