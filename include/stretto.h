/* Stretto as a library: the public header. Everything else under src/ may change between versions.
 *
 * A run is opened with the options of `stretto train`, as text, and stepped by the caller:
 *
 *     struct stretto_config config = {.size = sizeof config,
 *                                     .words = "--model resnet8 --strategy 1f1b -n 2"};
 *     struct stretto_step step = {.size = sizeof step};
 *     struct stretto_run *run;
 *     int code = stretto_open(&config, &run);
 *     while (code == 0 && (code = stretto_step(run, &step)) == 0) printf("%g\n", step.loss);
 *     if (code == STRETTO_END) code = stretto_save(run, "model.safetensors");
 *     if (code != 0) fprintf(stderr, "%s\n", stretto_error());
 *     stretto_close(&run);
 *
 * The caller's own models, operations, losses and data sets are rows that it adds beside the
 * built-in ones (stretto_own.h): --model and --data then take their names, here and in
 * stretto_main, with every strategy. docs/library.md explains all of it; examples/ shows it.
 *
 * Results. Functions return 0, or the exit code that the command would end with; stretto_error()
 * has the text. Nothing is printed; warnings and notes go to the configuration's log function.
 *
 * Ranks. Those of -n are threads of this process. A program that was started as one rank of several
 * (mpirun, srun, torchrun's variables) is that rank; then the calls marked "all ranks" are made by
 * every process, in the same order and with equal arguments.
 *
 * Threads. A run computes on threads of its own, signals blocked. Any thread may use it, one at a
 * time: a call waits for the one before. Several runs may be open and used at once; a child of fork
 * opens its own.
 *
 * Versions. Handles are opaque. Structs begin with their size, as the caller was compiled, and grow
 * at their ends; what is added is 0 for older callers. stretto_open refuses a library that is older
 * than the header, or of another major version. */
#ifndef STRETTO_H
#define STRETTO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STRETTO_VERSION_MAJOR 0
#define STRETTO_VERSION_MINOR 1
#define STRETTO_VERSION_PATCH 0
#define STRETTO_VERSION                                                                            \
    (STRETTO_VERSION_MAJOR * 10000 + STRETTO_VERSION_MINOR * 100 + STRETTO_VERSION_PATCH)

/* What the shared library exports; all other names are hidden. */
#define STRETTO_API __attribute__((visibility("default")))

/* The version of the library that is linked, as "0.1.0"; static. */
STRETTO_API const char *stretto_version(void);

/* The whole command: stretto_main(argc, argv) is what the binary does, with the rows that this
 * program has added. It prints, takes signals and starts processes as the binary does. Returns the
 * exit code. */
STRETTO_API int stretto_main(int argc, char **argv);

/* --- results --- */

enum {
    STRETTO_END = -1, /* of stretto_step: the last step is done */
    STRETTO_OK = 0,
    STRETTO_NO = 1,      /* the answer is no */
    STRETTO_USAGE = 2,   /* options, names, shapes, arguments */
    STRETTO_DATA = 3,    /* data or files */
    STRETTO_PEER = 4,    /* another rank was lost; resume from a checkpoint */
    STRETTO_MEMORY = 5,  /* out of memory, predicted or real */
    STRETTO_NUMERIC = 6, /* a loss, gradient or parameter is not finite */
    STRETTO_BUG = 7
};
/* Why the last call of this thread that failed did: one to three lines. Valid until the next one
 * that fails; "" before the first. */
STRETTO_API const char *stretto_error(void);

/* --- runs --- */

struct stretto_run;

enum { STRETTO_LOG_ERROR, STRETTO_LOG_WARNING, STRETTO_LOG_NOTE };

struct stretto_config {
    size_t size;
    const char *const *options; /* as on the command line, NULL at the end */
    /* Every message of the run, from any of its threads, one at a time; NULL: they are dropped
     * (errors are in stretto_error all the same). Must not call functions of this header. */
    void (*log)(void *context, int level, const char *text);
    void *log_context;
    /* Samples that stretto_forward should run at a time where it is given no more; 0: as many as
     * evaluation does. With forward_only evaluation runs so many, too, and memory is for no more.
     */
    int64_t forward_batch;
    /* 1: the run only uses a model, by stretto_forward and stretto_evaluate. It has no memory for
     * gradients and optimizer; stretto_step, stretto_checkpoint and stretto_resume are refused. */
    int forward_only;
    int reserved;
    /* More options behind the others, in one text with blanks between them; NULL: none. */
    const char *words;
    /* A model of the caller's own, which is added where it is not there yet; the options may still
     * name another. NULL: the one that they name. */
    const struct stretto_model *model;
};

/* All ranks. Plans a run and takes its memory; nothing is written to disk. Options about output,
 * saving and evaluating at intervals have no effect here. The caller closes *run. */
#define stretto_open(config, run) stretto_open_version(STRETTO_VERSION, config, run)
STRETTO_API int stretto_open_version(int header, const struct stretto_config *config,
                                     struct stretto_run **run);
/* Accepts NULL and a closed run; sets *run to NULL. After a failure of a step nothing else can be
 * done with a run. */
STRETTO_API void stretto_close(struct stretto_run **run);

/* What the plan knows before the first step. */
struct stretto_plan {
    size_t size;
    int64_t params, steps, steps_per_epoch, batch;
    int64_t predicted_peak_bytes; /* of the rank that needs most, as far as known here */
    int ranks, rank;              /* of the job; the first of this process */
};
STRETTO_API int stretto_plan(struct stretto_run *run, struct stretto_plan *plan);

struct stretto_step {
    size_t size;
    int64_t step, epoch;   /* counted from 0 */
    double loss, acc1, lr; /* acc1: fraction, NaN where the model has none */
    double grad_norm;      /* NaN: not known yet, as without --clip on several ranks */
    double step_ms;
};
/* All ranks. Runs the next step. STRETTO_END after the last one. */
STRETTO_API int stretto_step(struct stretto_run *run, struct stretto_step *step);

/* All ranks. The learning rate of the steps from now on, whatever the policy says; a negative or
 * NaN one gives it back to the policy. Not part of a checkpoint. */
STRETTO_API int stretto_set_lr(struct stretto_run *run, double lr);

struct stretto_eval {
    size_t size;
    int64_t samples;
    double loss, acc1, acc5; /* fractions; NaN: there is none. acc5: of six classes or more */
};
/* All ranks. Evaluates on the whole test split. */
STRETTO_API int stretto_evaluate(struct stretto_run *run, struct stretto_eval *eval);

/* All ranks. Runs forward on `samples` samples of the caller's own, as in evaluation: field[i] is
 * the i-th field of the data set, [samples, ...its shape]; NULL for those that the output does not
 * depend on, such as labels. The output, [samples, ...its shape] of f32, goes to `output`, which
 * has room for `count` elements: stretto_output_elements times the samples. */
STRETTO_API int stretto_forward(struct stretto_run *run, int64_t samples, const void *const field[],
                                int field_count, float *output, int64_t count);
/* Elements of the output of one sample: the logits of a classifier. Below 0: the model has none. */
STRETTO_API int64_t stretto_output_elements(struct stretto_run *run);

/* Elements of a field of the data set in one sample. Below 0: it has none of this name. */
STRETTO_API int64_t stretto_field_elements(struct stretto_run *run, const char *field);

/* --- parameters --- */

enum { STRETTO_MAX_RANK = 5 };

/* Parameters by name, as in the ecosystem's state dicts; buffers (running statistics of batch norm)
 * stand behind them. All are f32 but counters, which are i64. */
struct stretto_tensor {
    size_t size;
    const char *name;   /* valid until the close */
    int dtype, trained; /* trained: a parameter, no buffer */
    int rank;
    int64_t dim[STRETTO_MAX_RANK], count; /* of elements */
};
/* The index-th one, from 0; STRETTO_END behind the last. By name; STRETTO_USAGE: there is none. */
STRETTO_API int stretto_tensor_at(struct stretto_run *run, int index,
                                  struct stretto_tensor *tensor);
STRETTO_API int stretto_tensor_find(struct stretto_run *run, const char *name,
                                    struct stretto_tensor *tensor);
/* All ranks. A copy of one in row major order; new values for it. `bytes` must be its size. */
STRETTO_API int stretto_get(struct stretto_run *run, const char *name, void *values, size_t bytes);
STRETTO_API int stretto_set(struct stretto_run *run, const char *name, const void *values,
                            size_t bytes);

/* --- files --- */

/* All ranks. Parameters and buffers to and from a safetensors file, whichever ranks hold them; rank
 * 0's process writes. Loading takes the folder of a run or a checkpoint as well, and what fits by
 * name and shape: the rest keeps its values, and the log says which. */
STRETTO_API int stretto_save(struct stretto_run *run, const char *path);
STRETTO_API int stretto_load(struct stretto_run *run, const char *path);

/* All ranks. All that a run needs to go on as if it had never stopped, in FOLDER/step-NNNNNNNN, of
 * which the newest two are kept; back from the newest whole one, also on another number of ranks.
 * STRETTO_END: there is none. */
STRETTO_API int stretto_checkpoint(struct stretto_run *run, const char *folder);
STRETTO_API int stretto_resume(struct stretto_run *run, const char *folder);

#ifdef __cplusplus
}
#endif

#include "stretto_own.h"

#endif
