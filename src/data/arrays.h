/* What the data sets of people's own arrays share: npy:DIR and hdf5:FILE.
 *
 * Such a data set is up to four arrays: x and y of the training split, and of the test split. x is
 * [N,D] (features), [N,H,W] or [N,C,H,W] or [N,H,W,C] (images), y is [N] or [N,1]. Each kind of
 * file only reads its arrays; all that follows (keys, shapes, labels, normalisation, the test split
 * where there is none) is here. Values are read once, into the memory they stay in: 8-bit images as
 * bytes, all else as float32. */
#ifndef DATA_ARRAYS_H
#define DATA_ARRAYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem.h"
#include "data/dataset.h"

/* In the order of the splits: x and y of SPLIT_TRAIN, then of SPLIT_TEST. */
enum array_role { ARRAY_X, ARRAY_Y, ARRAY_TEST_X, ARRAY_TEST_Y, ARRAY_ROLES };

enum array_order { LAYOUT_AUTO, LAYOUT_NCHW, LAYOUT_NHWC };

/* What stood behind the data set's name: "PATH,key=value,...". */
struct array_spec {
    char *text; /* owned; the names and the path are parts of it */
    const char *path;
    const char *name[ARRAY_ROLES];
    bool needed[ARRAY_ROLES]; /* it must be there */
    enum array_order layout;
    int64_t classes;   /* 0: from the labels */
    float *mean, *std; /* owned; NULL: not given */
    int mean_count, std_count;
};
/* Local. `kind` is for messages. Samples to train on are needed, and their labels unless
 * `unlabelled`; and what a key names. */
enum status array_spec_parse(const char *kind, const char *argument, bool unlabelled,
                             struct array_spec *out);
void array_spec_free(struct array_spec *spec);

struct array {
    char *label;      /* for messages, owned: file and name; NULL: there is no such array */
    enum dtype dtype; /* x: u8 or f32; y: i32 or i64 */
    struct shape shape;
    void *values; /* row major, owned */
};
/* Local. Checks what an array is said to be; its values are for the caller to add. `label` is
 * copied. */
enum status array_new(const char *label, enum array_role role, enum dtype dtype,
                      const struct shape *shape, struct array *out);
/* Local. What its values take in memory. */
size_t array_bytes(const struct array *array);
void array_free(struct array *array);

/* What to do with labels that are reals, lines of a message. */
#define ARRAY_REAL_LABELS                                                                          \
    "classes are whole numbers from 0: array.astype('int64') makes them\n"                         \
    "  numbers to predict (regression) take a loss of your own: docs/library.md"

/* Reads the arrays that the spec names; leaves out those that are not there and not
 * needed. What it has read on failure is freed by the caller. */
typedef enum status array_reader(const struct array_spec *spec, struct array out[ARRAY_ROLES]);

/* The open, but for the reader, and the read and close of such a data set's ops. */
enum status arrays_open(const char *kind, array_reader *reader, const char *argument,
                        const struct dataset_config *config, struct dataset *out);
enum status arrays_read(const struct dataset *dataset, enum split split, int64_t index,
                        uint64_t key, void *scratch, void *const out[]);
void arrays_close(struct dataset *dataset);

#endif
