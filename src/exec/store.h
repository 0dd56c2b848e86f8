/* The store: parameters, their gradients, optimizer state and buffers of a rank.
 *
 * Parameters lie in one flat array of floats in the layouts the graph chose, each padded to a
 * multiple of NORM_BLOCK elements; gradients and optimizer state are arrays of the same shape, so
 * an update is one pass. A gradient array has a tail for the further uses of shared parameters.
 * Padding is and stays zero. What leaves the store (files, hashes) is plain. */
#ifndef EXEC_STORE_H
#define EXEC_STORE_H

#include "backend/backend.h"
#include "comm/comm.h"
#include "graph/graph.h"
#include "optim/optim.h"

struct store_item {
    const char *name;
    struct tensor_type type;
    const struct layout *layout;
    int64_t begin, count; /* parameters: elements of the arrays; buffers: bytes, from the start of
                             the buffers */
};

struct store {
    struct device *device;
    struct comm *comm; /* owns the gradient arrays: other ranks read and write them */
    const struct optim_rule *optimizer;
    int param_count, buffer_count, use_count, grad_count;
    struct store_item *params, *buffers;
    int64_t *use_begin; /* per use of the graph: where its gradient starts in a gradient array */
    int *use_param, *use_rank; /* its parameter, and which use of it (0: the first) */
    int64_t param_elements, gradient_elements;
    float *param, **grad, *state[OPTIM_MAX_STATES];
    char *buffer;
    size_t buffer_bytes;
    struct optim_span *spans;
};

struct store_size {
    size_t param_elements, gradient_elements, buffer_bytes;
};

/* Local. Elements a parameter of a lowered graph takes in the arrays, padding included. */
int64_t store_param_span(const struct graph *graph, int param);
/* Local. What a store for this lowered training graph will take. */
struct store_size store_size(const struct graph *graph);

/* Local. Memory for `grads` gradient arrays and the optimizer's state, all zero. The caller owns
 * it; graph and device must outlive it. Weight decay reaches a class of parameters where
 * decay[class]. */
enum status store_new(const struct graph *graph, struct device *device, struct comm *comm,
                      int grads, const struct optim_rule *optimizer, const bool decay[3],
                      struct store **out);
void store_free(struct store **store);

/* Local. Initial values, keyed by seed, name and element. */
enum status store_init(struct store *store, const struct graph *graph, uint64_t seed);

/* Local, blocking. One tensor between an array of the store and plain host memory. `array` is
 * store->param, a state, or a gradient array; buffers have calls of their own. */
enum status store_get(const struct store *store, int param, const float *array, void *plain);
enum status store_put(struct store *store, int param, float *array, const void *plain);
void store_get_buffer(const struct store *store, int buffer, void *plain);
void store_put_buffer(struct store *store, int buffer, const void *plain);

/* Local, blocking. Content hashes over plain bytes and names, in order. */
enum status store_param_hash(const struct store *store, uint64_t *out);
uint64_t store_buffer_hash(const struct store *store);

/* Local. Gradient arithmetic: a += b over everything; further uses into the first, in graph order.
 */
void store_sum(struct store *store, int into, int from);
void store_tie(struct store *store, int grad, int first_param, int count);
/* Local. Fills a gradient array with -0, the neutral element of addition to the last bit. */
void store_zero(struct store *store, int grad);
/* Local. Adds `count` floats on the team. */
void store_add(float *into, const float *from, int64_t count);

#endif
