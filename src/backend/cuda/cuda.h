/* The cuda backend's own types: device, layouts, kernels, and how one is launched.
 *
 * A kernel of the table is a call, the layouts it wants and gives, and a function that enqueues it:
 * launches of our own kernels, a product by cuBLASLt, a convolution by cuDNN, or several of these.
 * Images lie with the channels last ("nhwc"), weights of convolutions likewise; everything else is
 * plain. Internal to src/backend/cuda. All calls are local. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include <stdbool.h>

#include "backend/backend.h"
#include "backend/cuda/args_rows.h"
#include "backend/cuda/library.h"

enum cuda_kernel_id {
#define KERNEL(name, args) CUDA_KERNEL_##name,
#include "backend/cuda/kernels.def"
#undef KERNEL
    CUDA_KERNEL_COUNT
};

struct cuda_layout {
    struct layout base;
    struct cuda_layout *next;
};

struct cuda_device {
    struct device base;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel[CUDA_KERNEL_COUNT];
    cublasLtHandle_t blas;
    cudnnHandle_t dnn;
    int processors;              /* multiprocessors */
    int major, minor;            /* compute capability */
    struct cuda_layout *layouts; /* interned; owned */
    bool said_host;              /* that some operations run on the host */
    size_t taken, peak;          /* bytes of memory_new */
    volatile uint32_t *mark;     /* pinned: see watch.h */
};

struct cuda_kernel;
typedef enum status cuda_run(struct cuda_kernel *kernel, void *const in[], void *const out[],
                             void *scratch, CUstream stream);

struct cuda_product; /* product.h */
struct cuda_engine;

struct cuda_kernel {
    struct kernel base;
    struct op_call call;
    cuda_run *run;
    char name[64];
    unsigned typed; /* inputs read in their own type, a bit each; others are f32 to the kernel */
    size_t widened[OP_MAX_IN];       /* where in the scratch those are that come narrow */
    struct cuda_planes planes;       /* of x, where it is seen as planes */
    int64_t rows, columns;           /* of x, where it is seen as rows */
    int64_t chunk_rows, chunks;      /* of sums over rows */
    struct cuda_product *product[4]; /* owned */
    struct cuda_engine *engine;      /* owned */
    struct op_call inner; /* convolution: what the engine computes, before types are met */
    size_t part[5];       /* where parts of the scratch begin */
    void *host_in[OP_MAX_IN], *host_out[OP_MAX_OUT],
        *host_scratch; /* of operations that run on the host; owned */
};

/* What makes a kernel of an operation: layouts, scratch, name and run. `in` are the layouts the
 * inputs have, NULL: free to choose. STATUS_NO: this call is not for it. */
typedef enum status cuda_make(struct cuda_kernel *kernel, const struct layout *const in[]);

/* --- device.c --- */

static inline struct cuda_device *cuda_device_of(struct device *device) {
    return (struct cuda_device *)device;
}
/* Makes the device's context that of this thread. */
enum status cuda_enter(struct cuda_device *device);
/* A failure of the driver, logged: STATUS_MEMORY where there is none left, else STATUS_BUG. */
enum status cuda_fail(CUresult result, const char *what);
#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        CUresult cuda_result_ = cuda_call.call;                                                    \
        if (cuda_result_ != CUDA_SUCCESS) return cuda_fail(cuda_result_, #call);                   \
    } while (0)
CUstream cuda_stream_of(struct stream *stream);
/* cuBLASLt and cuDNN, opened when the first kernel needs them. */
enum status cuda_need_blas(struct cuda_device *device);
enum status cuda_need_dnn(struct cuda_device *device);

/* How many GPUs there are, at least one: STATUS_USAGE, logged, else; their names in one line. */
enum status cuda_count(int *count);
void cuda_list(int count, char *text, size_t bytes);

/* parts.c: a slot of struct backend */
bool cuda_backend_part(int index, const char **name, char *text, size_t bytes);

/* --- launch.c --- */
/* Enqueues one of our kernels over `count` elements; over rows, a block or a warp each; over a grid
 * of 32 columns by `chunks`. `args` is the struct that kernels.def names. */
enum status cuda_launch_elements(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                                 const void *args, CUstream stream);
/* The same for kernels whose threads take eight elements at once. */
enum status cuda_launch_wide(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                             const void *args, CUstream stream);
/* The same for kernels that keep a group of channels: a grid that fills the device. */
enum status cuda_launch_groups(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                               const void *args, CUstream stream);
/* A grid of `blocks` by `pieces`. */
enum status cuda_launch_blocks(struct cuda_device *device, enum cuda_kernel_id id, int64_t blocks,
                               int64_t pieces, const void *args, CUstream stream);
enum status cuda_launch_rows(struct cuda_device *device, enum cuda_kernel_id id, int64_t rows,
                             const void *args, CUstream stream);
enum status cuda_launch_warps(struct cuda_device *device, enum cuda_kernel_id id, int64_t rows,
                              const void *args, CUstream stream);
enum status cuda_launch_columns(struct cuda_device *device, enum cuda_kernel_id id, int64_t columns,
                                int64_t chunks, const void *args, CUstream stream);
/* Loads the embedded fatbin into the device's context. */
enum status cuda_load_kernels(struct cuda_device *device);

/* --- layout.c --- */
const struct layout *cuda_plain(struct device *device, const struct tensor_type *type);
/* Channels last of a tensor of rank 4; plain where that is the same. */
const struct layout *cuda_image(struct device *device, const struct tensor_type *type);
/* Either, as `like` is. */
const struct layout *cuda_like(struct device *device, const struct tensor_type *type,
                               const struct layout *like);
bool cuda_is_image(const struct layout *layout);
/* Steps from one element to the next along each dimension. */
void cuda_steps(const struct layout *layout, int64_t step[SHAPE_MAX_RANK]);
/* A tensor seen as planes: [B,C,...]. */
struct cuda_planes cuda_planes_of(const struct layout *layout);

/* --- kernel.c --- */
/* All inputs and outputs plain; all real ones of rank 4 with the channels last; all of x's shape
 * (but the batch) as x is, the rest plain. */
void cuda_want_plain(struct cuda_kernel *kernel);
void cuda_want_images(struct cuda_kernel *kernel);
void cuda_want_like(struct cuda_kernel *kernel, const struct layout *x);
struct cuda_reals cuda_in(const struct cuda_kernel *kernel, int index, void *const in[]);
struct cuda_reals cuda_out(const struct cuda_kernel *kernel, int index, void *const out[]);
/* Takes `bytes` of scratch as part `index`. */
void cuda_part(struct cuda_kernel *kernel, int index, size_t bytes);
static inline void *cuda_part_at(const struct cuda_kernel *kernel, int index, void *scratch) {
    return (char *)scratch + kernel->part[index];
}
/* Cuts rows into chunks for sums of `pairs` doubles a column, in part 0 of the scratch. */
void cuda_cut_rows(struct cuda_kernel *kernel, int64_t rows, int64_t columns, int pairs);
/* Enqueues sums of the columns of x[rows,columns] into y, by the chunks of cuda_cut_rows. */
enum status cuda_sum_columns(const struct cuda_kernel *kernel, struct cuda_reals x,
                             struct cuda_reals y, void *scratch, CUstream stream);
/* How a copy is done fastest, once its addresses and steps are known. */
void cuda_copy_widen(struct cuda_copy *args);
static inline struct cuda_device *cuda_kernel_device(const struct cuda_kernel *kernel) {
    return cuda_device_of(kernel->base.device);
}

/* --- the families of operations --- */

cuda_make cuda_convolution, cuda_linear, cuda_linear_bwd_data, cuda_linear_bwd_weight, cuda_matmul;
cuda_make cuda_batch_norm, cuda_batch_norm_bwd, cuda_batch_norm_eval, cuda_batch_norm_track;
cuda_make cuda_batch_norm_stats, cuda_batch_norm_merge, cuda_batch_norm_apply;
cuda_make cuda_batch_norm_bwd_stats, cuda_batch_norm_bwd_apply, cuda_layer_norm,
    cuda_layer_norm_bwd;
cuda_make cuda_map, cuda_map_bwd, cuda_dropout, cuda_softmax, cuda_softmax_bwd, cuda_loss;
cuda_make cuda_loss_bwd, cuda_top_k, cuda_attention, cuda_attention_bwd, cuda_gather,
    cuda_gather_bwd;
cuda_make cuda_embedding, cuda_embedding_bwd, cuda_pool, cuda_pool_bwd, cuda_on_host;
cuda_make cuda_add, cuda_sum_batch, cuda_concat, cuda_slice, cuda_slice_bwd, cuda_expand;
cuda_make cuda_transpose, cuda_reorder, cuda_exchange;

/* --- arrays.c: slots of struct backend --- */

enum status cuda_array_copy(struct device *device, void *to, const void *from, size_t bytes,
                            struct stream *stream);
enum status cuda_array_fill(struct device *device, const struct elements *to, float value,
                            struct stream *stream);
enum status cuda_array_add(struct device *device, const struct elements *into,
                           const struct elements *from, struct stream *stream);
enum status cuda_array_squares(struct device *device, const struct elements *of, double *sums,
                               struct stream *stream);
enum status cuda_array_sum(struct device *device, const double *sums, int64_t count,
                           struct exact_sum *total, struct stream *stream);
enum status cuda_array_decide(struct device *device, const struct exact_sum *squares,
                              const struct exact_sum *losses, const struct optim_limits *limits,
                              struct optim_decision *out, int32_t *stop, struct stream *stream);
enum status cuda_array_check(struct device *device, const struct elements *of, int32_t *bad,
                             struct stream *stream);
enum status cuda_array_update(struct device *device, const struct optim_update *update,
                              int32_t *bad, struct stream *stream);
/* kernel.c */
bool cuda_supports(struct device *device, const struct op_call *call);
enum status cuda_kernel_create(struct device *device, const struct op_call *call,
                               const struct layout *const in[], struct kernel **out);
void cuda_kernel_free(struct kernel *kernel);
enum status cuda_kernel_run(struct kernel *kernel, void *const in[], void *const out[],
                            void *scratch, struct stream *stream);

#endif
