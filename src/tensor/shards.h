/* Tensors of one safetensors file, of several that an index names (Hugging Face's
 * model.safetensors.index.json), or of NumPy's .npz, whose arrays become f32: read as if they were
 * one safetensors file, by the same calls as safetensors.h.
 *
 * Everything here is local and blocking. */
#ifndef TENSOR_SHARDS_H
#define TENSOR_SHARDS_H

#include "tensor/safetensors.h"

struct shards;

/* Opens and checks a file (.npz or else safetensors), or all files of an index, which lie beside
 * it: its map names every one of their tensors, with the file that has it. The caller closes it. */
enum status shards_open(const char *path, struct shards **out);
/* Accepts NULL. */
void shards_close(struct shards **shards);

/* Entries of the first file, then those of the next. Pointers live until the close. */
size_t shards_count(const struct shards *shards);
const struct safetensors_entry *shards_at(const struct shards *shards, size_t index);
bool shards_find(const struct shards *shards, const char *name, size_t *out);
enum status shards_read(const struct shards *shards, size_t index, void *buffer, size_t bytes);
enum status shards_read_part(const struct shards *shards, size_t index, uint64_t offset,
                             void *buffer, size_t bytes);

#endif
