/* Any bytes as a .npy or .npz file; of what was accepted every array is read in every way. */
#include "fuzz.h"
#include "tensor/npy.h"

static void read_as(const struct npy *file, size_t index, enum dtype dtype) {
    struct npy_array array;
    fuzz_begin();
    enum status status = npy_describe(file, index, &array);
    fuzz_end(status);
    if (status != STATUS_OK) return;
    size_t bytes = (size_t)shape_count(&array.shape) * dtype_bytes(dtype);
    void *values = malloc(bytes + 1);
    fuzz_begin();
    fuzz_end(npy_read(file, index, dtype, values, bytes));
    free(values);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct npy *file = NULL;
    fuzz_begin();
    enum status status = npy_parse("input", data, size, &file);
    fuzz_end(status);
    for (size_t i = 0; status == STATUS_OK && i < npy_count(file); i++) {
        size_t found = 0;
        if (!npy_find(file, npy_name(file, i), &found) || found != i)
            fuzz_wrong("a name not found again");
        read_as(file, i, DTYPE_F32);
        read_as(file, i, DTYPE_I64);
        read_as(file, i, DTYPE_U8);
    }
    npy_close(&file);
    return 0;
}
