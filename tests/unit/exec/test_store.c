/* The store's arrays: what a layout costs, and that ranks which own slices of the parameters do,
 * all together, what one rank does with all of them. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "kit.h"

enum { STEPS = 3, RANKS = 2 };
static const struct optim_config adam = {
    .lr = 0.1, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-8};

static struct state_config config_of(const struct kit_run *run, int grads) {
    return (struct state_config){.graph = run->planned.plan->micro[0].graph,
                                 .optimizer = optim_find("adam"),
                                 .grads = grads,
                                 .decay = {true, false, true},
                                 .array = {[ARRAY_GRAD] = {.memory = MEMORY_COMM}}};
}

static struct comm *lone_comm(size_t heap_bytes) {
    struct comm_config config = {.rank = 0, .size = 1, .heap_bytes = heap_bytes};
    struct comm *comm = NULL;
    cr_assert_eq(comm_open("self", &config, &comm), STATUS_OK);
    return comm;
}

static struct store *open_store(const struct kit_run *run, const struct state_layout *layout,
                                struct comm *comm) {
    struct store *store = NULL;
    cr_assert_eq(store_new(layout, run->planned.plan->device, comm, NULL, &store), STATUS_OK);
    return store;
}

/* --- layouts --- */

Test(exec_store, a_layout_tells_what_it_costs) {
    struct kit_run *run = kit_open("--model resnet8 --data digits --device ref --threads 1");
    struct state_config config = config_of(run, 3);
    struct state_layout *layout = state_layout_new(&config);
    size_t whole = (size_t)layout->param_elements * 4;
    cr_expect_eq(layout->param_elements % NORM_BLOCK, 0);
    cr_expect_eq(state_kind_bytes(layout, ARRAY_PARAM), whole);
    cr_expect_eq(state_kind_bytes(layout, ARRAY_GRAD), 3 * whole);
    cr_expect_eq(state_kind_bytes(layout, ARRAY_STATE), 2 * whole);
    cr_expect_eq(state_heap_bytes(layout), 3 * whole);
    cr_expect_gt(state_kind_bytes(layout, ARRAY_BUFFER), 0);
    state_layout_free(&layout);
    struct slice quarter = {NORM_BLOCK, 7 * NORM_BLOCK};
    config.owned = &quarter;
    config.owned_count = 1;
    config.array[ARRAY_STATE].sliced = true;
    config.array[ARRAY_PARAM].memory = MEMORY_COMM;
    layout = state_layout_new(&config);
    cr_expect_eq(state_kind_bytes(layout, ARRAY_STATE), 2 * 7 * NORM_BLOCK * 4);
    cr_expect_eq(state_heap_bytes(layout), 4 * whole);
    int state = state_array(layout, ARRAY_STATE, 1);
    cr_expect_eq(state_place(layout, state, NORM_BLOCK + 5, 7), 5);
    cr_expect_eq(state_place(layout, state, 0, 10), -1);
    cr_expect_eq(state_place(layout, state, 7 * NORM_BLOCK, 2 * NORM_BLOCK), -1);
    state_layout_free(&layout);
    kit_close(&run);
}

/* A parameter that is used twice has a second gradient behind all others. */
Test(exec_store, further_uses_lie_in_the_tail) {
    struct kit_run *run =
        kit_open("--model bert-tiny --data synthetic:kind=tokens,seq=16,vocab=200,predictions=3 "
                 "--device ref --threads 1 --batch 2");
    const struct state_layout *layout = run->planned.plan->store;
    int further = 0;
    for (int u = 0; u < layout->use_count; u++) {
        const struct state_use *use = &layout->uses[u];
        further += use->number > 0;
        cr_expect_eq(use->begin >= layout->param_elements, use->number > 0);
    }
    cr_expect_gt(further, 0);
    struct store *store = engine_store(run->engine);
    struct bucket all = {.count = layout->held_count, .elements = layout->param_elements};
    cr_assert_eq(store_zero(store, 0, &all), STATUS_OK);
    for (int u = 0; u < layout->use_count; u++) {
        struct elements gradient = store_use_gradient(store, 0, u);
        for (int64_t i = 0; i < gradient.count; i++)
            cr_assert(signbit(((float *)gradient.data)[i]), "use %d", u);
        for (int64_t i = 0; i < gradient.count; i++) ((float *)gradient.data)[i] = 1 + (float)u;
    }
    cr_assert_eq(store_tie(store, 0, &all), STATUS_OK);
    for (int u = 0; u < layout->use_count; u++) {
        const struct state_use *use = &layout->uses[u];
        if (use->number != 1) continue;
        struct elements first = store_tensor(store, state_array(layout, ARRAY_GRAD, 0), use->param);
        cr_expect_eq(((float *)first.data)[0], (float)(1 + u - 1) + (float)(1 + u), "%s",
                     layout->params[use->param].name);
    }
    kit_close(&run);
}

/* --- slices --- */

/* A gradient for every element that a store holds, whatever its slices. */
static void set_gradients(struct store *store, int step) {
    int array = state_array(store->layout, ARRAY_GRAD, 0);
    const struct array_layout *layout = &store->layout->arrays[array];
    for (int s = 0; s < layout->slice_count; s++) {
        struct slice slice = layout->slices[s];
        struct elements part = store_elements(store, array, slice.begin, slice.count);
        for (int64_t i = 0; i < slice.count; i++)
            ((float *)part.data)[i] = sinf((float)(slice.begin + i) + (float)step);
    }
}

static void update(struct store *store, int step) {
    struct optim_step view = {.config = &adam, .step = step, .lr = 0.1f, .gradient_scale = 1};
    int32_t bad = 0;
    set_gradients(store, step);
    cr_assert_eq(store_update(store, &view, NULL, 0, &bad), STATUS_OK);
    cr_expect(!bad);
}

/* Blocks dealt round, three at a time: slices cut parameters in their middle. */
static int deal_slices(const struct state_layout *all, int rank, struct slice *out) {
    int count = 0;
    int64_t each = 3 * NORM_BLOCK;
    for (int64_t begin = rank * each; begin < all->param_elements; begin += RANKS * each) {
        int64_t left = all->param_elements - begin;
        out[count++] = (struct slice){begin, left < each ? left : each};
    }
    return count;
}

static void compare(const struct store *part, const struct store *whole, const char *what) {
    int array = state_array(whole->layout, ARRAY_PARAM, 0);
    for (int s = 0; s < part->layout->owned_count; s++) {
        struct slice slice = part->layout->owned[s];
        struct elements a = store_elements(part, array, slice.begin, slice.count),
                        b = store_elements(whole, array, slice.begin, slice.count);
        cr_expect_eq(memcmp(a.data, b.data, elements_bytes(&a)), 0, "%s, slice %d", what, s);
    }
}

static void check_slices(struct kit_run *run, bool gradients, bool params, const char *what) {
    struct state_config config = config_of(run, 1);
    struct state_layout *all = state_layout_new(&config);
    struct comm *comm = lone_comm(4 * state_heap_bytes(all));
    struct store *whole = open_store(run, all, comm);
    cr_assert_eq(store_init(whole, config.graph, 1), STATUS_OK);
    for (int step = 0; step < STEPS; step++) update(whole, step);
    struct exact_sum squares = {0}, sum = {0};
    cr_assert_eq(store_squares(whole, 0, &squares), STATUS_OK);
    struct slice *slices = MEM_ARRAY(struct slice, all->param_elements / NORM_BLOCK);
    for (int rank = 0; rank < RANKS; rank++) {
        config.owned = slices;
        config.owned_count = deal_slices(all, rank, slices);
        config.array[ARRAY_STATE].sliced = true;
        config.array[ARRAY_GRAD].sliced = gradients;
        config.array[ARRAY_PARAM].sliced = params;
        struct state_layout *layout = state_layout_new(&config);
        struct store *part = open_store(run, layout, comm);
        struct exact_sum own = {0};
        cr_assert_eq(store_init(part, config.graph, 1), STATUS_OK);
        for (int step = 0; step < STEPS; step++) update(part, step);
        cr_assert_eq(store_squares(part, 0, &own), STATUS_OK);
        compare(part, whole, what);
        exact_merge(&sum, &own);
        store_free(&part);
        state_layout_free(&layout);
    }
    cr_expect_eq(exact_total(&sum), exact_total(&squares));
    free(slices);
    store_free(&whole);
    comm_close(&comm);
    state_layout_free(&all);
}

Test(exec_store, owners_of_slices_do_what_one_rank_does) {
    struct kit_run *run = kit_open("--model resnet8 --data digits --device cpu --threads 1");
    check_slices(run, false, false, "sliced state");
    check_slices(run, true, false, "sliced state and gradients");
    check_slices(run, true, true, "sliced state, gradients and parameters");
    kit_close(&run);
}

/* What is not owned is left alone, and nothing is told of it. */
Test(exec_store, an_update_keeps_to_what_is_owned) {
    struct kit_run *run = kit_open("--model mlp --data digits --device ref --threads 1");
    struct slice first = {0, NORM_BLOCK};
    struct state_config config = config_of(run, 1);
    config.owned = &first;
    config.owned_count = 1;
    config.array[ARRAY_STATE].sliced = true;
    struct state_layout *layout = state_layout_new(&config);
    struct comm *comm = lone_comm(state_heap_bytes(layout));
    struct store *store = open_store(run, layout, comm);
    float *params = store->held[state_array(layout, ARRAY_PARAM, 0)].data;
    params[NORM_BLOCK] = NAN;
    params[NORM_BLOCK + 1] = 5;
    update(store, 0);
    cr_expect_neq(params[5], 0);
    cr_expect(isnan(params[NORM_BLOCK]) && params[NORM_BLOCK + 1] == 5);
    struct optim_step view = {.config = &adam, .step = 1, .lr = 0.1f, .gradient_scale = 1};
    int32_t bad = 0;
    params[7] = INFINITY;
    cr_assert_eq(store_update(store, &view, NULL, 0, &bad), STATUS_OK);
    cr_expect(bad);
    store_free(&store);
    comm_close(&comm);
    state_layout_free(&layout);
    kit_close(&run);
}

/* --- parameters that others gather --- */

struct gatherer {
    struct kit_run *run;
    struct comm *comm;
    struct store *whole;
    pthread_t thread;
    bool done;
};

/* State is sliced; each rank updates its slice and all gather the parameters, as ZeRO does. */
static void *gather(void *argument) {
    struct gatherer *self = argument;
    struct state_config config = config_of(self->run, 1);
    const struct state_layout *all = self->whole->layout;
    struct slice own;
    comm_slice(comm_world(self->comm), all->param_elements, comm_rank(self->comm), &own.begin,
               &own.count);
    config.owned = &own;
    config.owned_count = 1;
    config.array[ARRAY_STATE].sliced = true;
    config.array[ARRAY_PARAM].memory = MEMORY_COMM;
    struct state_layout *layout = state_layout_new(&config);
    struct store *store = open_store(self->run, layout, self->comm);
    cr_assert_eq(store_init(store, config.graph, 1), STATUS_OK);
    int params = state_array(layout, ARRAY_PARAM, 0);
    for (int step = 0; step < STEPS; step++) {
        struct comm_request *request;
        update(store, step);
        cr_assert_eq(comm_all_gather(comm_world(self->comm), store->held[params].data,
                                     store->held[params].count, &request),
                     STATUS_OK);
        cr_assert_eq(comm_wait(&request), STATUS_OK);
    }
    self->done = memcmp(store->held[params].data, self->whole->held[params].data,
                        elements_bytes(&store->held[params])) == 0;
    comm_barrier(comm_world(self->comm));
    store_free(&store);
    state_layout_free(&layout);
    return NULL;
}

Test(exec_store, gathered_parameters_live_in_communicator_memory) {
    struct kit_run *run = kit_open("--model resnet8 --data digits --device ref --threads 1");
    struct state_config config = config_of(run, 1);
    struct state_layout *all = state_layout_new(&config);
    struct comm *lone = lone_comm(state_heap_bytes(all)), *comm[RANKS];
    struct store *whole = open_store(run, all, lone);
    struct gatherer rank[RANKS];
    cr_assert_eq(store_init(whole, config.graph, 1), STATUS_OK);
    for (int step = 0; step < STEPS; step++) update(whole, step);
    cr_assert_eq(comm_open_threads(RANKS, 2 * state_heap_bytes(all), 0, comm), STATUS_OK);
    for (int r = 0; r < RANKS; r++) {
        rank[r] = (struct gatherer){.run = run, .comm = comm[r], .whole = whole};
        cr_assert_eq(pthread_create(&rank[r].thread, NULL, gather, &rank[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        pthread_join(rank[r].thread, NULL);
        cr_expect(rank[r].done, "rank %d has other parameters than one rank alone", r);
        comm_close(&comm[r]);
    }
    store_free(&whole);
    comm_close(&lone);
    state_layout_free(&all);
    kit_close(&run);
}
