/* The loader: threads that read the coming steps into a ring of buffers while the present one
 * trains.
 *
 * Memory is one region, laid out and counted before the start. What a step holds depends on the
 * data set, the sampler, the seed and the place in the run only, never on the number of workers.
 * Threads sleep on condition variables; they never spin. */
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "data/dataset.h"

enum { LOADER_DEPTH = 3 };

struct loader_config {
    enum split split;
    bool evaluate; /* in order, no augmentation, neither padded nor cut: each sample exactly once */
    int64_t batch; /* samples a step, over all replicas */
    int replicas;  /* R; 0 is 1 */
    int micro_batches; /* M, of one replica; 0 is 1. A step has G = R*M micro-batches */
    int first_micro; /* this loader makes micro-batches [first_micro, first_micro + micro_count) of
                        G; */
    int micro_count; /* 0: all from first_micro on */
    uint64_t seed;
    bool unpadded; /* as in struct sampler */
    bool drop_last;
    int64_t start_epoch, start_step; /* where to begin; start_step is within the epoch */
    int64_t end_step;  /* run-wide step to stop before; 0: endless, or one epoch when evaluating */
    int workers;       /* threads; 0 is 1 */
    uint32_t unwanted; /* bit f: field f is not made, if it may_miss; its memory is NULL */
    int depth;         /* steps in the ring; 0 is LOADER_DEPTH */
    bool asked;        /* steps are asked for one by one, and not in order */
};

/* All pointers into the loader's memory. field[f] is plain [samples, ...field shape], 64-byte
 * aligned. */
struct micro_batch {
    int64_t samples; /* 0 is possible in the short last step of an epoch */
    void *field[DATASET_MAX_FIELDS];
    const int64_t *sample_id;
    const uint64_t *sample_key; /* for dropout: from seed, run-wide step and sample id */
    int64_t
        label_count[DATASET_MAX_FIELDS]; /* entries other than LABEL_IGNORE; 0 for other fields */
};

struct step_batch {
    int64_t epoch, step_in_epoch,
        step;             /* step is run-wide: epoch * steps of an epoch + step_in_epoch */
    int64_t step_samples; /* of all G micro-batches, those of other loaders included */
    int64_t own_label_count[DATASET_MAX_FIELDS]; /* over this loader's micro-batches only */
    int micro_count;
    struct micro_batch micro[]; /* micro[i] is micro-batch first_micro + i */
};

/* Local. The bytes loader_open will map: all the loader's memory but its threads' stacks. */
size_t loader_bytes(const struct dataset *dataset, const struct loader_config *config);

/* Local. Steps of an epoch under this configuration. */
int64_t loader_steps(const struct dataset *dataset, const struct loader_config *config);

/* Local. Starts the threads and the reading ahead. `dataset` must outlive the loader; the caller
 * owns *out. STATUS_USAGE where the configuration asks for no step at all. */
struct loader;
enum status loader_open(const struct dataset *dataset, const struct loader_config *config,
                        struct loader **out);

/* Local, blocking until the step is read; one consumer thread. *out is the loader's, valid until it
 * is released; NULL with STATUS_OK after the last step. A failed read surfaces here, at its step
 * or, since reading is ahead, a few steps before it; and again at every later call. */
enum status loader_next(struct loader *loader, const struct step_batch **out);
/* Local, not blocking. Of a loader that is asked: the step to be read next, run-wide, of the
 * micro-batches from `first_micro` on; as many as the ring has room for. They come in this order.
 */
void loader_ask(struct loader *loader, int64_t step, int first_micro);
/* Local. Gives the oldest step not yet released back; up to depth - 1 may be held while asking for
 * more. */
void loader_release(struct loader *loader);

/* Local. All its memory, for whoever copies from it. */
void loader_memory(const struct loader *loader, void **memory, size_t *bytes);

/* Local. Processor time of the workers so far, and the samples they read in it. */
struct loader_spent {
    int64_t ns, samples;
};
struct loader_spent loader_spent(struct loader *loader);

/* Local, blocking for the reads under way. Everything held becomes invalid; reading goes on from
 * there. */
void loader_seek(struct loader *loader, int64_t epoch, int64_t step_in_epoch);

/* Local, blocking for the reads under way. At any time; sets *loader to NULL, accepts NULL there.
 */
void loader_free(struct loader **loader);

#endif
