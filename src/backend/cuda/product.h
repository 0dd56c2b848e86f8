/* Products by cuBLASLt and convolutions by cuDNN: made once, run often. Internal to
 * src/backend/cuda. All calls are local; running is asynchronous on the stream. */
#ifndef BACKEND_CUDA_PRODUCT_H
#define BACKEND_CUDA_PRODUCT_H

#include "backend/cuda/cuda.h"

/* --- product.c --- */

/* A stack of products c = scale * a b of row-major matrices: strides in elements. */
struct cuda_matrix {
    enum dtype dtype;
    int64_t step;   /* from one row to the next */
    int64_t next;   /* from one matrix of the stack to the next */
    bool transpose; /* stored [columns,rows] */
    size_t align;   /* bytes that addresses are a multiple of */
};
struct cuda_product_spec {
    int64_t rows, inner, columns, batch;
    struct cuda_matrix a, b, c;
    float scale;
    bool bias; /* of c's type, a number a column, is added before c is rounded */
};
enum status cuda_product_new(struct cuda_device *device, const struct cuda_product_spec *spec,
                             struct cuda_product **out);
void cuda_product_free(struct cuda_product **product);
size_t cuda_product_scratch(const struct cuda_product *product);
enum status cuda_product_run(struct cuda_device *device, const struct cuda_product *product,
                             const void *a, const void *b, const void *bias, void *c, void *scratch,
                             CUstream stream);

/* --- engine.c --- */

/* A convolution by cuDNN, in one of three directions: the operation of `call` on nhwc tensors.
 * STATUS_NO, logging nothing: it has no engine for it. */
enum status cuda_engine_new(struct cuda_device *device, const struct op_call *call,
                            struct cuda_engine **out);
void cuda_engine_free(struct cuda_engine **engine);
size_t cuda_engine_scratch(const struct cuda_engine *engine);
const char *cuda_engine_name(const struct cuda_engine *engine);
enum status cuda_engine_run(struct cuda_device *device, const struct cuda_engine *engine,
                            void *const in[], void *out, void *scratch, CUstream stream);

#endif
