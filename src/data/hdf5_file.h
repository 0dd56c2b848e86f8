/* Matrices of integers out of an HDF5 file, read by a child process.
 *
 * libhdf5 crashes on some damaged files (about one in a thousand with a few bytes changed, 1.10.8),
 * and a damaged file must never end a training run without a message. So a short-lived child
 * parses, and a crash there is an error message here; this process never lets the library see a
 * file. */
#ifndef DATA_HDF5_FILE_H
#define DATA_HDF5_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct hdf5_matrix {
    const char *name;      /* of the dataset, set by the caller */
    int rank;              /* 1 or 2, set by the caller */
    int64_t rows, columns; /* both at least 1; columns is 1 for rank 1 */
    int32_t *values; /* [rows, columns], owned by the caller after success; clipped to 32 bits */
};

/* Local, blocking. Reads the named datasets of one file; on failure no matrix holds values. */
enum status hdf5_read(const char *path, struct hdf5_matrix *matrix, int count);
/* Local. "HDF5 1.10.8": the library in use; the one call of it that is made in this process. */
void hdf5_version(char *text, size_t bytes);

#endif
