/* A whole array as a .npy file, for tests that read one. */
#ifndef TESTS_TENSOR_NPY_WHOLE_H
#define TESTS_TENSOR_NPY_WHOLE_H

#include "tensor/npy.h"

static inline enum status npy_write(const char *path, enum dtype dtype, const struct shape *shape,
                                    const void *data) {
    struct npy_writer writer;
    TRY(npy_begin(path, dtype, shape, &writer));
    enum status status = npy_emit(&writer, data, (size_t)shape_count(shape) * dtype_bytes(dtype));
    if (status == STATUS_OK) return npy_end(&writer);
    npy_abandon(&writer);
    return status;
}

#endif
