/* The store: parameters, their gradients, optimizer state and buffers of a rank, as the arrays of a
 * state_layout in memory.
 *
 * An array is named by its number (state_array), a tensor in it by that and the number of the
 * parameter or buffer. Its elements are in the layouts the graph chose; what leaves the store
 * (files, hashes) is plain. Arithmetic is the device's: nobody else reads or writes the elements.
 */
#ifndef EXEC_STORE_H
#define EXEC_STORE_H

#include "backend/plane.h"
#include "base/exact.h"
#include "plan/buckets.h"
#include "plan/state_layout.h"
#include "program/program.h"

struct store {
    const struct state_layout *layout;
    struct device *device;
    struct stream *stream; /* on which arithmetic is enqueued; whoever reads waits for it */
    struct comm *comm;     /* owns arrays that others read and write */
    struct plane *plane;   /* likewise, where there is one; NULL: there is none */
    struct elements *held; /* per array: the elements of its slices */
    void **shared;         /* per array: where others reach it, if not there; NULL: nowhere else */
    struct optim_span *spans;
    int *span_first;         /* per owned slice: its spans; one more at the end */
    int64_t updates;         /* so far: the number of the newest version of the parameters */
    struct store_told *told; /* device memory: what it tells of an array */
};

/* Local. Takes the memory of all arrays, all zero. The caller owns the store; layout, device and
 * communicator must outlive it. store_free accepts NULL and clears the pointer. */
enum status store_new(const struct state_layout *layout, struct device *device, struct comm *comm,
                      struct plane *plane, struct store **out);
void store_free(struct store **store);

/* Local, blocking. Initial values, keyed by seed, name and element, wherever they are held. */
enum status store_init(struct store *store, const struct graph *graph, uint64_t seed);

/* Local. Where elements lie in memory; they must be held, in one slice. Of a whole array; of a
 * parameter or buffer in it; of the gradient of a use. */
struct elements store_elements(const struct store *store, int array, int64_t begin, int64_t count);
struct elements store_tensor(const struct store *store, int array, int item);
struct elements store_use_gradient(const struct store *store, int grad, int use);

/* Local. Where a whole bucket lies: its gradients in a buffer; its parameters; one parameter, for
 * the kernels that read it. Where gradients or parameters are sliced this is a window (of
 * gradients: buffer 1), and holds the bucket only from the instruction that fills the window to the
 * one that frees it. */
struct elements store_bucket_gradient(const struct store *store, int grad,
                                      const struct bucket *bucket);
struct elements store_bucket_params(const struct store *store, const struct bucket *bucket);
struct elements store_read_param(const struct store *store, int param);
/* Local. Memory of the communicator that is free between steps, of the same size on all replicas.
 */
const struct elements *store_staging(const struct store *store);
/* Local. Where other ranks reach what lies at an address of such an array. That is the address
 * itself, or, of a device that is apart, memory of the host that it is copied to and from. */
void *store_shared(const struct store *store, const void *address);

/* Local, blocking. One tensor between an array and plain host memory: out of an array that holds
 * all of it; into whatever of it is held. */
enum status store_get(const struct store *store, int array, int item, void *plain);
enum status store_put(struct store *store, int array, int item, const void *plain);

/* Local, pure. Content hash of one tensor, whose plain elements these are: of bytes and name.
 * Hashes of several are added. */
uint64_t store_item_hash(const struct state_item *item, const void *plain);
/* Local, blocking. One tensor's, added to *sum; of all buffers that this rank answers for. */
enum status store_add_hash(const struct store *store, int array, int item, uint64_t *sum);
enum status store_buffer_hash(const struct store *store, uint64_t *out);

/* Local, asynchronous on the device. Gradient arithmetic, by bucket of a gradient buffer: a += b;
 * the gradients of further uses of its parameters into those of the first, in graph order; all of
 * it -0, the neutral element of addition to the last bit. What a kernel made into the gradient of a
 * use, added or (first) copied. */
enum status store_sum(struct store *store, int into, int from, const struct bucket *bucket);
enum status store_tie(struct store *store, int grad, const struct bucket *bucket);
enum status store_zero(struct store *store, int grad, const struct bucket *bucket);
enum status store_collect(struct store *store, int grad, int use, const void *made, bool first);

/* Local, asynchronous on the device. Where gradients or parameters are sliced: zeros where no
 * parameter of the bucket is; the slice of this rank (of the bucket) out of the window of
 * gradients, added or (first) copied; the own parameters into their window. */
enum status store_clear_padding(struct store *store, int grad, const struct bucket *bucket);
enum status store_take_slice(struct store *store, int grad, const struct bucket *bucket,
                             const struct slice *slice, bool first, struct stream *stream);
enum status store_give_slice(struct store *store, const struct bucket *bucket,
                             const struct slice *slice, struct stream *stream);

/* Local, asynchronous on the device, in whose memory *total, *decision and *bad are. Over the
 * slices this rank owns: squares, of what it answers for, added up block by block in f64 and then
 * exactly, to *total; the same of one parameter; the optimizer's update as was decided (NULL: by
 * the step's own scale), and *bad is set where a parameter is not finite afterwards. */
enum status store_squares(struct store *store, int grad, struct exact_sum *total);
enum status store_param_squares(struct store *store, int grad, int param, struct exact_sum *total);
enum status store_update(struct store *store, const struct optim_step *step,
                         const struct optim_decision *decision, int grad, int32_t *bad);
/* Local, blocking. Whether elements of this device are finite. */
enum status store_all_finite(const struct store *store, const struct elements *elements,
                             bool *finite);

#endif
