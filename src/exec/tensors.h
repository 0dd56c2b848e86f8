/* The store as named tensors for files; private to src/exec. */
#ifndef EXEC_TENSORS_H
#define EXEC_TENSORS_H

#include "exec/store.h"
#include "tensor/safetensors.h"

/* Which part of the store a file holds. */
enum tensor_part { PART_MODEL, PART_OPTIMIZER };

/* Local. Bytes of its tensors. */
uint64_t tensors_bytes(const struct store_layout *layout, enum tensor_part part);
/* Local, blocking. Writes a part. */
enum status tensors_write(struct store *store, enum tensor_part part, const char *path,
                          struct safetensors_mark *mark);
/* Local, blocking. Reads a part back: every tensor must be there with its shape, and nothing else.
 */
enum status tensors_read(struct store *store, enum tensor_part part, const char *path);

#endif
