/* --weights: parameters and buffers from a safetensors file, by name; private to src/exec. */
#ifndef EXEC_WEIGHTS_H
#define EXEC_WEIGHTS_H

#include "exec/store.h"

/* Local, blocking. Takes what fits, by name; see checkpoint_load_weights. */
enum status weights_load(struct store *store, const char *path);

#endif
