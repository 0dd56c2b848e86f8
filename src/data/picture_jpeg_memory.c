/* See picture_jpeg.h. Arrays that libjpeg calls virtual, since they could be on a disk, are whole
 * in the block. Rows of samples are padded to whole vectors, which its vector code writes. */
#include "data/picture_jpeg.h"

#include <string.h>

#include <jerror.h>

struct jvirt_sarray_control {
    JSAMPARRAY rows;
    JDIMENSION width, height;
    struct jvirt_sarray_control *next;
};

struct jvirt_barray_control {
    JBLOCKARRAY rows;
    JDIMENSION width, height;
    struct jvirt_barray_control *next;
};

enum { ROW_ALIGN = 64 };

static struct picture_jpeg_memory *memory_of(j_common_ptr info) {
    return (struct picture_jpeg_memory *)info->mem;
}

static void *take(j_common_ptr info, int pool, size_t bytes) {
    (void)pool;
    void *at = picture_take(memory_of(info)->block, bytes);
    if (!at) ERREXIT1(info, JERR_OUT_OF_MEMORY, 0);
    return at;
}

static JSAMPARRAY take_samples(j_common_ptr info, int pool, JDIMENSION width, JDIMENSION rows) {
    size_t stride = ((size_t)width + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    JSAMPARRAY table = take(info, pool, rows * sizeof *table);
    JSAMPROW samples = take(info, pool, rows * stride);
    for (JDIMENSION r = 0; r < rows; r++) table[r] = samples + r * stride;
    return table;
}

static JBLOCKARRAY take_blocks(j_common_ptr info, int pool, JDIMENSION width, JDIMENSION rows) {
    JBLOCKARRAY table = take(info, pool, rows * sizeof *table);
    JBLOCKROW blocks = take(info, pool, (size_t)rows * width * sizeof(JBLOCK));
    for (JDIMENSION r = 0; r < rows; r++) table[r] = blocks + (size_t)r * width;
    return table;
}

static jvirt_sarray_ptr ask_samples(j_common_ptr info, int pool, boolean zero, JDIMENSION width,
                                    JDIMENSION height, JDIMENSION most) {
    (void)zero, (void)most; /* all are zeroed, and any number of rows can be had at once */
    struct picture_jpeg_memory *memory = memory_of(info);
    jvirt_sarray_ptr array = take(info, pool, sizeof *array);
    *array = (struct jvirt_sarray_control){NULL, width, height, memory->samples};
    memory->samples = array;
    return array;
}

static jvirt_barray_ptr ask_blocks(j_common_ptr info, int pool, boolean zero, JDIMENSION width,
                                   JDIMENSION height, JDIMENSION most) {
    (void)zero, (void)most;
    struct picture_jpeg_memory *memory = memory_of(info);
    jvirt_barray_ptr array = take(info, pool, sizeof *array);
    *array = (struct jvirt_barray_control){NULL, width, height, memory->coefficients};
    memory->coefficients = array;
    return array;
}

static void make_asked(j_common_ptr info) {
    struct picture_jpeg_memory *memory = memory_of(info);
    for (; memory->samples; memory->samples = memory->samples->next) {
        jvirt_sarray_ptr array = memory->samples;
        array->rows = take_samples(info, JPOOL_IMAGE, array->width, array->height);
        for (JDIMENSION r = 0; r < array->height; r++) memset(array->rows[r], 0, array->width);
    }
    for (; memory->coefficients; memory->coefficients = memory->coefficients->next) {
        jvirt_barray_ptr array = memory->coefficients;
        array->rows = take_blocks(info, JPOOL_IMAGE, array->width, array->height);
        memset(array->rows[0], 0, (size_t)array->height * array->width * sizeof(JBLOCK));
    }
}

static JSAMPARRAY see_samples(j_common_ptr info, jvirt_sarray_ptr array, JDIMENSION row,
                              JDIMENSION count, boolean writable) {
    (void)writable;
    if (row + count > array->height) ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + row;
}

static JBLOCKARRAY see_blocks(j_common_ptr info, jvirt_barray_ptr array, JDIMENSION row,
                              JDIMENSION count, boolean writable) {
    (void)writable;
    if (row + count > array->height) ERREXIT(info, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + row;
}

/* The block is given back as a whole, by its owner. */
static void give_back(j_common_ptr info, int pool) {
    (void)info, (void)pool;
}

static void end(j_common_ptr info) {
    (void)info;
}

struct jpeg_memory_mgr *picture_jpeg_memory(struct picture_jpeg_memory *memory,
                                            struct picture_memory *block) {
    *memory = (struct picture_jpeg_memory){.table = {.alloc_small = take,
                                                     .alloc_large = take,
                                                     .alloc_sarray = take_samples,
                                                     .alloc_barray = take_blocks,
                                                     .request_virt_sarray = ask_samples,
                                                     .request_virt_barray = ask_blocks,
                                                     .realize_virt_arrays = make_asked,
                                                     .access_virt_sarray = see_samples,
                                                     .access_virt_barray = see_blocks,
                                                     .free_pool = give_back,
                                                     .self_destruct = end,
                                                     .max_memory_to_use = (long)block->bytes,
                                                     .max_alloc_chunk = 1000000000L},
                                           .block = block};
    return &memory->table;
}
