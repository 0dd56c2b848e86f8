/* NumPy's files: .npy (one array) and .npz (a ZIP archive of them), read and written.
 *
 * The reader takes formats 1.0, 2.0 and 3.0, both orders of elements, both orders of bytes, and
 * hands out values in row-major order as one of our own types. It reads through a buffer of fixed
 * size, so that an array never lies in memory twice. Files are not mapped: one that shrinks under
 * us is an error, not a signal. Arrays of Python objects would need pickle, which runs code from
 * the file: they are refused, and so are texts, dates and records. The writer makes NumPy's bytes,
 * whole or not at all.
 *
 * Everything here is local and blocking. One struct npy may be read by several threads at once. */
#ifndef TENSOR_NPY_H
#define TENSOR_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"
#include "tensor/tensor.h"

struct npy; /* an open file */

/* Opens a .npy or .npz file, which its first bytes tell, and checks the directory of an archive;
 * the caller closes it. Or the same on memory, which the caller keeps alive; `name` is for
 * messages.
 */
enum status npy_open(const char *path, struct npy **out);
enum status npy_parse(const char *name, const void *data, size_t count, struct npy **out);
void npy_close(struct npy **file); /* accepts NULL */

/* The arrays of the file, and their names: those of an archive without ".npy", "" for a .npy file.
 * A name lives until the close. */
size_t npy_count(const struct npy *file);
const char *npy_name(const struct npy *file, size_t index);
bool npy_find(const struct npy *file, const char *name, size_t *out);

struct npy_array {
    char type[4];       /* "f4", "u1" */
    bool real;          /* f2, f4, f8; else whole numbers */
    int element_bytes;  /* in the file */
    bool column_major;  /* in the file */
    bool big_endian;    /* in the file */
    struct shape shape; /* rank 0 to SHAPE_MAX_RANK; a dimension may be 0 */
};
/* Reads and checks the header of one array; its length agrees with the file's then. */
enum status npy_describe(const struct npy *file, size_t index, struct npy_array *out);

/* Reads all values into `out`, the caller's memory of `bytes`, which must be what the shape needs.
 * DTYPE_F32 takes every type; DTYPE_I64 whole numbers that fit; DTYPE_U8 u1 and b1. */
enum status npy_read(const struct npy *file, size_t index, enum dtype dtype, void *out,
                     size_t bytes);

/* The same of `count` rows of the first dimension from `first` on, for arrays larger than memory:
 * of a .npy file in row-major order alone (npy_has_rows). Any thread. */
bool npy_has_rows(const struct npy *file, const struct npy_array *array);
enum status npy_read_rows(const struct npy *file, enum dtype dtype, int64_t first, int64_t count,
                          void *out);

/* Writing an array, part by part in row-major order. Types that NumPy lacks (bf16) are
 * refused. npy_end writes what was promised whole under its name; npy_abandon leaves nothing. */
struct npy_writer {
    struct file_writer file;
    uint64_t left; /* bytes still to come */
};
enum status npy_begin(const char *path, enum dtype dtype, const struct shape *shape,
                      struct npy_writer *out);
enum status npy_emit(struct npy_writer *writer, const void *data, size_t bytes);
enum status npy_end(struct npy_writer *writer);
void npy_abandon(struct npy_writer *writer);

#endif
