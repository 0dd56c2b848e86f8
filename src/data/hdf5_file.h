/* Arrays of numbers out of an HDF5 file, read by a child process.
 *
 * libhdf5 crashes on some damaged files (about one in a thousand with a few bytes changed, 1.10.8),
 * and a damaged file must never end a training run without a message. So a short-lived child
 * parses, and a crash there is an error message here; this process never lets the library see a
 * file. */
#ifndef DATA_HDF5_FILE_H
#define DATA_HDF5_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "tensor/tensor.h"

enum hdf5_kind { HDF5_WHOLE, HDF5_NUMBERS }; /* integers alone; reals, too */

struct hdf5_array {
    /* Set by the caller: the dataset's name, "x" or "group/x"; what it may be. */
    const char *name;
    enum hdf5_kind kind;
    int rank_least, rank_most;
    /* Not there is no error: `values` stays NULL then. */
    bool optional;
    const char *hint;      /* where it is missing: how to name another; NULL is nothing to say */
    const char *type_hint; /* where it holds something else; likewise */
    /* Integers are i32, clipped; numbers are u8 where the file has unsigned bytes, else f32. */
    enum dtype dtype;
    struct shape shape; /* every dimension at least 1 */
    void *values;       /* row major; the caller frees them after success */
};

/* Local, blocking. Reads the named datasets of one file; on failure no array holds values. */
enum status hdf5_read(const char *path, struct hdf5_array *array, int count);
/* Local. "HDF5 1.10.8": the library in use; the one call of it that is made in this process. */
void hdf5_version(char *text, size_t bytes);

#endif
