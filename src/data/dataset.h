/* Data sets: what a sample is made of, and how one is read.
 *
 * A data set is opened from a spec, "name" or "name:argument" (digits, mnist:DIR,
 * synthetic:classes=100). Both splits are read whole and checked then, so that reading a sample
 * later neither fails on a bad file nor depends on one that is replaced meanwhile. A new data set
 * is one file, which exports its struct dataset_ops as dataset_NAME, and one row in dataset.def. */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/augment.h"
#include "tensor/tensor.h"

enum split { SPLIT_TRAIN, SPLIT_TEST, SPLIT_COUNT };

enum { DATASET_MAX_FIELDS = 8 };

/* One part of a sample. Images: "image" f32 [C,H,W], "label" i32 []. Token rows (wiki):
 * "input_ids", "segment_ids", "input_mask" i32 [T], "masked_positions", "masked_labels" i32 [K],
 * "next_sentence" i32 []; unused predictions have position 0 and label LABEL_IGNORE. */
struct field {
    const char *name;
    enum dtype dtype;
    struct shape shape; /* of one sample */
    bool is_label;
    int64_t limit; /* integer values are in [0, limit), or LABEL_IGNORE in labels; 0 for fields of
                      reals */
};

struct dataset_config {
    int64_t image_size;          /* images are resized to this side; 0: the data's own */
    bool size_of_model;          /* nobody asked for it: a trained model has it */
    int64_t seq;                 /* tokens a row; 0: the data's own */
    enum augment_policy augment; /* of training images; AUGMENT_STANDARD (0): the data's own */
    bool skip_damaged; /* samples whose files are damaged are left out; else they are an error */
    bool whole;        /* without a test split all samples are one, and are to train on, too; else
                          some are kept for testing */
    bool unlabelled;   /* labels may be missing: then all are LABEL_IGNORE */
};

/* Read-only once open; owned by whoever opened it. */
struct dataset {
    const struct dataset_ops *ops;
    char *spec;
    int field_count;
    struct field field[DATASET_MAX_FIELDS];
    uint32_t may_miss; /* bit f: a read leaves field f out where it has no memory to go to */
    int64_t count[SPLIT_COUNT]; /* samples, at least 1 each */
    bool undivided;             /* both splits are all samples */
    int64_t classes;            /* values of "label", or of "next_sentence" */
    int64_t vocab;              /* token ids; 0 for images */
    const float *mean, *std;    /* per channel, applied to pixels in [0,1]; NULL: not normalised */
    enum frame frame;           /* how a picture of another size becomes an image */
    const char *const *names;   /* of the classes; NULL: they have none */
    uint64_t content_hash; /* of samples and transforms: equal on two ranks when the data are */
    int64_t damaged;       /* samples left out because their files are damaged; 0: all are there */
    bool skips_damaged;    /* a sample without a label is one whose file turned out to be damaged */
    size_t bytes;          /* memory held while open */
    size_t scratch_bytes;  /* memory that the reading of a sample needs */
    void *state;           /* the implementation's own, owned */
};

/* An implementation. `open` gets the text after the colon (NULL when there is none) and fills
 * everything in `out` but ops, which is there, and spec; on failure it leaves nothing behind.
 * `read` may be called from many threads, each with scratch_bytes of its own, 64-byte aligned. */
struct dataset_ops {
    const char *name;
    /* For help: "DIR", "FILE[,...]", "[key=value,...]"; NULL: takes none. What begins with DIR or
     * FILE is a path, up to the first comma where more may follow. */
    const char *argument;
    const char *help;
    const char
        *needs; /* not built in: the library this build was made without; then open is NULL */
    /* Local. Name and version of the library that reads its files; NULL: none but our own. */
    void (*library)(char *text, size_t bytes);
    const void *own; /* of data sets that were added: what is free to them */
    enum status (*open)(const char *argument, const struct dataset_config *config,
                        struct dataset *out);
    enum status (*read)(const struct dataset *dataset, enum split split, int64_t index,
                        uint64_t key, void *scratch, void *const out[]);
    /* Opens files of inputs without labels, for a model of data like `like`. The fields of `out`
     * are there, the first is what they hold; all else but classes and spec is filled. With `skip`
     * damaged files are left out. `like` stays until it is closed. NULL: it has no such files. */
    enum status (*inputs)(const char *paths, const struct dataset *like, bool skip,
                          struct dataset *out);
    /* Local. Calls `visit` with the files below its path that the argument names. NULL: it names
     * none. */
    void (*named)(const char *argument, void (*visit)(void *context, const char *path),
                  void *context);
    /* The path of the file that holds a sample, the caller's to free; NULL: none does. */
    char *(*file)(const struct dataset *dataset, enum split split, int64_t index);
    void (*close)(struct dataset *dataset);
};

/* Local. The row of that name; NULL: none has it. */
const struct dataset_ops *dataset_find(const char *name);
/* Local. The index-th data set of the registration table, NULL past the end; for help and
 * completion. */
const struct dataset_ops *dataset_at(int index);

/* Local, any thread. Adds a row behind those of dataset.def, for the rest of the process; `ops` and
 * all it points to stay. STATUS_USAGE for a name that is taken, or where there is no more room. */
enum status dataset_add(const struct dataset_ops *ops);

/* Local, blocking (reads the files). STATUS_USAGE for an unknown or incomplete spec, STATUS_DATA
 * for bad files. The caller owns *out and closes it with dataset_free. */
enum status dataset_open(const char *spec, const struct dataset_config *config,
                         struct dataset **out);
void dataset_free(struct dataset **dataset);

/* Local, thread safe. Writes sample `index` of `split`: field f goes to out[f], the caller's memory
 * of dataset_field_bytes; NULL for a field that may_miss: it is not read. `key` drives the random
 * training transforms: the same key gives the same bytes; 0 applies none, which is how evaluation
 * reads. */
enum status dataset_read(const struct dataset *dataset, enum split split, int64_t index,
                         uint64_t key, void *const out[]);
/* The same without allocating: `scratch` is the caller's, scratch_bytes, 64-byte aligned. */
enum status dataset_read_in(const struct dataset *dataset, enum split split, int64_t index,
                            uint64_t key, void *scratch, void *const out[]);

/* Local. Calls `visit` with the paths that a spec names, whether or not they are there: its file or
 * folder, and files in it that it names; nothing of a spec that is wrong. dataset_absolute gives
 * the same spec with its path from the root, which the caller frees. */
void dataset_paths(const char *spec, void (*visit)(void *context, const char *path), void *context);
char *dataset_absolute(const char *spec);

/* Local, thread safe. The path of the one file that a sample is read from, which the caller frees;
 * NULL where samples have no files of their own. */
char *dataset_file(const struct dataset *dataset, enum split split, int64_t index);

/* Local. Bytes of one sample's field; index of the field of that name, -1 when there is none. */
size_t dataset_field_bytes(const struct dataset *dataset, int field);
int dataset_field(const struct dataset *dataset, const char *name);

#endif
