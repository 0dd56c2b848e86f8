/* The store as named tensors for files; private to src/exec. */
#ifndef EXEC_TENSORS_H
#define EXEC_TENSORS_H

#include "exec/store.h"
#include "tensor/safetensors.h"

/* Which part of the store a file holds. Older versions of the parameters, NAME.before.1 being the
 * one before the last update, are there where strategies keep them, as many of each as its stage
 * kept; what a stage misses of them at a load is the newest. Where replicas train apart the model
 * is their mean, PART_COMMON has what all had after the last average, with NAME.momentum of the
 * outer optimizer, and PART_REPLICAS what each has: replica.R.NAME, with its optimizer's state. */
enum tensor_part {
    PART_MODEL,
    PART_OPTIMIZER,
    PART_VERSIONS,
    PART_COMMON,
    PART_REPLICAS,
    PART_COUNT
};
/* "model", "optimizer" and so on: files are called PART.safetensors, or PART-N-of-M.safetensors.
 */
extern const char *const tensors_part_names[PART_COUNT];
/* Local. The part whose tensors a file of this name has, -1: none. */
int exec_tensor_part(const char *name);

/* A tensor that slices cut, whole and plain. */
struct whole_tensor {
    int array, item;
    void *plain;
};

/* What of the store a rank writes: everything it holds (all); or its share of what all ranks
 * write (state_writes). */
struct tensor_share {
    bool all, first_replica;
    const void *own_statistics; /* of PART_REPLICAS, as they lie; parameters are in gradient
                                   buffer 0, and replica is: */
    int replica;
    bool model;                       /* whatever this rank holds: every tensor of the model */
    const struct whole_tensor *whole; /* of cut tensors; borrowed */
    int whole_count;
};

/* Local. Bytes of all tensors of a part; how many tensors and bytes of it are a share. */
uint64_t tensors_bytes(const struct state_layout *layout, enum tensor_part part);
size_t tensors_count(const struct state_layout *layout, enum tensor_part part,
                     const struct tensor_share *share, uint64_t *bytes);
/* Local, blocking. Writes a share of a part. */
enum status tensors_write(struct store *store, enum tensor_part part,
                          const struct tensor_share *share, const char *path,
                          struct safetensors_mark *mark);
/* A tensor as plain bytes in memory: on its way from one plan to the next. */
struct tensor_value {
    enum tensor_part part;
    char *name;
    size_t bytes;
    void *plain; /* NULL: not at hand */
};
struct tensor_values {
    struct tensor_value *items; /* owned, names and bytes too */
    size_t count, capacity;
};
/* Local, blocking. Adds a share of a part. */
enum status tensors_keep(struct store *store, enum tensor_part part,
                         const struct tensor_share *share, struct tensor_values *out);
/* Local. The one of this part and name; NULL: there is none. */
const struct tensor_value *tensors_find_value(const struct tensor_values *values,
                                              const struct tensor_value *like);
void tensors_free_values(struct tensor_values **values);
/* Local, blocking. What replica `replica` of `replicas` has: read where the files have so many.
 * *found: how many they have. */
enum status tensors_read_replica(struct store *store, int replica, int replicas, const char *folder,
                                 char *const *paths, int count, int *found);
/* Calls `visit` for all tensors of a part of the model, alike on all ranks: with the array and the
 * item in which this rank holds it or slices of it, or -1. */
enum status tensors_each(const struct state_layout *layout, enum tensor_part part,
                         enum status (*visit)(void *context, const struct tensor_value *tensor,
                                              int array, int item),
                         void *context);
/* Local, blocking. Whether the files of a part, in a folder of this name, have every tensor of the
 * model once, with its shape, and no others. Reads their headers alone. */
enum status tensors_check(const struct state_layout *layout, enum tensor_part part,
                          const char *folder, char *const *paths, int count);
/* Local, blocking. Reads of a part what this rank holds, tensors or slices of them, from files that
 * tensors_check has seen. */
enum status tensors_read(struct store *store, enum tensor_part part, const char *folder,
                         char *const *paths, int count);

#endif
