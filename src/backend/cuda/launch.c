/* Loading our kernels and launching them. Each takes one struct by value. */
#include "backend/cuda/cuda.h"

#include <string.h>

#include "base/log.h"

extern const unsigned char cuda_fatbin[];

enum { ROW_THREADS = CUDA_ROW_THREADS, ELEMENT_THREADS = 256, COLUMNS = 32, ROWS = 8 };
/* Blocks beyond this loop over what is left. */
enum { MOST_BLOCKS = 1 << 20 };

static const char *const names[] = {
#define KERNEL(name, args) "stretto_" #name,
#include "backend/cuda/kernels.def"
#undef KERNEL
};

enum status cuda_load_kernels(struct cuda_device *device) {
    CUresult result = cuda_call.cuModuleLoadData(&device->module, cuda_fatbin);
    if (result != CUDA_SUCCESS) {
        const char *text = NULL;
        char driver[64];
        cuda_call.cuGetErrorString(result, &text);
        cuda_library_version(CUDA_LIBRARY_DRIVER, driver, sizeof driver);
        return fail(
            STATUS_USAGE,
            "cuda:%d does not load our kernels: %s\n"
            "  they are of CUDA %d.%d, the driver is for %s: install a newer one, or --device cpu",
            device->base.index, text ? text : "unknown error", CUDA_VERSION / 1000,
            CUDA_VERSION % 1000 / 10, driver);
    }
    for (int i = 0; i < CUDA_KERNEL_COUNT; i++)
        TRY_CUDA(cuModuleGetFunction(&device->kernel[i], device->module, names[i]));
    return STATUS_OK;
}

static enum status launch(struct cuda_device *device, enum cuda_kernel_id id,
                          const unsigned grid[2], const unsigned block[2], const void *args,
                          CUstream stream) {
    void *parameters[] = {(void *)args};
    CUresult result = cuda_call.cuLaunchKernel(device->kernel[id], grid[0], grid[1], 1, block[0],
                                               block[1], 1, 0, stream, parameters, NULL);
    return result == CUDA_SUCCESS ? STATUS_OK : cuda_fail(result, names[id]);
}

static unsigned at_most(int64_t blocks) {
    return (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

enum status cuda_launch_elements(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                                 const void *args, CUstream stream) {
    unsigned grid[] = {at_most((count + ELEMENT_THREADS - 1) / ELEMENT_THREADS), 1};
    if (count == 0) return STATUS_OK;
    return launch(device, id, grid, (unsigned[]){ELEMENT_THREADS, 1}, args, stream);
}

enum status cuda_launch_wide(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                             const void *args, CUstream stream) {
    enum { GROUP = 8 };
    return cuda_launch_elements(device, id, (count + GROUP - 1) / GROUP, args, stream);
}

enum status cuda_launch_blocks(struct cuda_device *device, enum cuda_kernel_id id, int64_t blocks,
                               int64_t pieces, const void *args, CUstream stream) {
    unsigned grid[] = {(unsigned)blocks, (unsigned)pieces};
    return launch(device, id, grid, (unsigned[]){ELEMENT_THREADS, 1}, args, stream);
}

enum status cuda_launch_groups(struct cuda_device *device, enum cuda_kernel_id id, int64_t count,
                               const void *args, CUstream stream) {
    enum { GROUP = 8, BLOCKS_EACH = 8 };
    int64_t blocks = (count / GROUP + ELEMENT_THREADS - 1) / ELEMENT_THREADS;
    int64_t most = (int64_t)device->processors * BLOCKS_EACH;
    return cuda_launch_blocks(device, id, blocks < most ? blocks : most, 1, args, stream);
}

enum status cuda_launch_rows(struct cuda_device *device, enum cuda_kernel_id id, int64_t rows,
                             const void *args, CUstream stream) {
    if (rows == 0) return STATUS_OK;
    return launch(device, id, (unsigned[]){at_most(rows), 1}, (unsigned[]){ROW_THREADS, 1}, args,
                  stream);
}

enum status cuda_launch_warps(struct cuda_device *device, enum cuda_kernel_id id, int64_t rows,
                              const void *args, CUstream stream) {
    enum { WARP = 32 };
    return cuda_launch_elements(device, id, rows * WARP, args, stream);
}

enum status cuda_launch_columns(struct cuda_device *device, enum cuda_kernel_id id, int64_t columns,
                                int64_t chunks, const void *args, CUstream stream) {
    unsigned grid[] = {(unsigned)((columns + COLUMNS - 1) / COLUMNS), (unsigned)chunks};
    return launch(device, id, grid, (unsigned[]){COLUMNS, ROWS}, args, stream);
}
