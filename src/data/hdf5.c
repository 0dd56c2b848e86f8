/* hdf5:FILE[,key=value,...]: people's own arrays, the named datasets of one HDF5 file. */
#include <stdlib.h>

#include "data/arrays.h"
#include "data/hdf5_file.h"

enum { Y_RANK_MOST = 2, X_RANK_LEAST = 2, X_RANK_MOST = 4 };

static struct hdf5_array wanted(const struct array_spec *spec, int role) {
    bool labels = role == ARRAY_Y || role == ARRAY_TEST_Y;
    return (struct hdf5_array){.name = spec->name[role],
                               .hint = "x=NAME and y=NAME choose others: "
                                       "hdf5:FILE,x=train/images,y=train/labels",
                               .type_hint = labels ? ARRAY_REAL_LABELS : NULL,
                               .kind = labels ? HDF5_WHOLE : HDF5_NUMBERS,
                               .rank_least = labels ? 1 : X_RANK_LEAST,
                               .rank_most = labels ? Y_RANK_MOST : X_RANK_MOST,
                               .optional = !spec->needed[role]};
}

static enum status read_arrays(const struct array_spec *spec, struct array out[ARRAY_ROLES]) {
    struct hdf5_array array[ARRAY_ROLES];
    for (int role = 0; role < ARRAY_ROLES; role++) array[role] = wanted(spec, role);
    TRY(hdf5_read(spec->path, array, ARRAY_ROLES));
    enum status status = STATUS_OK;
    for (int role = 0; role < ARRAY_ROLES; role++) {
        if (!array[role].values) continue;
        char *label = mem_format("%s: %s", spec->path, spec->name[role]);
        if (status == STATUS_OK)
            status = array_new(label, (enum array_role)role, array[role].dtype, &array[role].shape,
                               &out[role]);
        free(label);
        if (status == STATUS_OK)
            out[role].values = array[role].values;
        else
            free(array[role].values);
    }
    return status;
}

static enum status hdf5_data_open(const char *argument, const struct dataset_config *config,
                                  struct dataset *out) {
    return arrays_open("hdf5", read_arrays, argument, config, out);
}

extern const struct dataset_ops dataset_hdf5;
const struct dataset_ops dataset_hdf5 = {
    .name = "hdf5",
    .argument = "FILE[,...]",
    .help = "your own images or rows of numbers: named datasets of an HDF5 file",
    .library = hdf5_version,
    .open = hdf5_data_open,
    .read = arrays_read,
    .close = arrays_close,
};
