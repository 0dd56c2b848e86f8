/* Stretto as a library: the public header. Everything else under src/ may change between versions.
 *
 * A run is opened with the options of `stretto train`, as text, and stepped by the caller:
 *
 *     struct stretto_config config = {
 *         .size = sizeof config,
 *         .options = (const char *[]){"--model", "resnet8", "--strategy", "1f1b", "-n", "2",
 * NULL}}; struct stretto_run *run; struct stretto_step step = {.size = sizeof step}; int code =
 * stretto_open(&config, &run); while (code == 0 && (code = stretto_step(run, &step)) == 0)
 * printf("%g\n", step.loss); if (code == STRETTO_END) code = stretto_save(run,
 * "model.safetensors"); if (code != 0) fprintf(stderr, "%s\n", stretto_error());
 *     stretto_close(&run);
 *
 * The caller's own models, operations, losses and data sets are rows that it adds beside the
 * built-in ones: --model and --data then take their names, here and in stretto_main, with every
 * strategy. docs/library.md explains all of it; examples/ shows it.
 *
 * Results. Functions return 0, or the exit code that the command would end with; stretto_error()
 * has the text. Nothing is written to standard output or standard error; warnings and notes go to
 * the log function of the configuration.
 *
 * Ranks. Those of -n are threads of this process. A program that was started as one rank of several
 * (mpirun, srun, torchrun's variables) is that rank; then the calls marked "all ranks" are made by
 * every process, in the same order and with equal arguments.
 *
 * Threads. A run computes on threads of its own, on which signals are blocked. Any thread may use
 * it, one at a time: a call waits for the one before. Several runs may be open and used at once.
 *
 * Versions. Handles are opaque. Structs begin with their size, as the caller was compiled, and grow
 * at their ends; what is added is 0 for older callers, and means what was before. stretto_open
 * refuses a library that is older than the header, or of another major version. */
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
     * evaluation does. */
    int64_t forward_batch;
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
    double loss, acc1, acc5; /* accuracies are fractions, NaN where the model has none */
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

/* --- own data sets --- */

enum { STRETTO_F32 = 0, STRETTO_F64 = 1, STRETTO_I32 = 4, STRETTO_I64 = 5 };
enum { STRETTO_TRAIN = 0, STRETTO_TEST = 1 };
enum { STRETTO_IGNORE = -100 }; /* a label that no loss counts */

/* A part of a sample. */
struct stretto_field {
    const char *name;
    int dtype;     /* STRETTO_F32 or STRETTO_I32 */
    int label;     /* 1: what a loss is compared with; its count divides that loss */
    int64_t limit; /* of i32: values are in [0, limit), or STRETTO_IGNORE in labels */
    int rank;      /* of one sample; 0: a single value */
    int64_t dim[STRETTO_MAX_RANK];
    int64_t reserved[2];
};

struct stretto_data {
    size_t size;
    const char *name; /* what --data takes */
    const struct stretto_field *fields;
    int field_count;                          /* 1 to 8 */
    int64_t train_count, test_count, classes; /* 1 at least, each */
    uint64_t version; /* of the contents: ranks and checkpoints must agree on it */
    /* Writes a sample, field f to out[f]. From many threads at once. A key that is not 0 is for
     * random changes of training samples, the same key for the same ones. Not 0: it cannot be
     * read. */
    int (*read)(void *context, int split, int64_t index, uint64_t key, void *const out[]);
    void *context;
};
/* Adds a row beside the built-in ones, for the rest of the process: all that it points to stays
 * valid. STRETTO_USAGE for one that is not whole, or a name that is taken. */
STRETTO_API int stretto_add_data(const struct stretto_data *data);

/* --- own models --- */

struct stretto_graph;
typedef int stretto_value; /* of a graph; below 0: none, after a misfit */

struct stretto_model {
    size_t size;
    const char *name; /* what --model takes */
    /* Builds the forward graph by the calls below, and its losses; once for each size of
     * micro-batches, in training and evaluation, on any rank's thread. */
    void (*build)(struct stretto_graph *graph, void *context);
    void *context;
    /* What holds where the options do not say: "sgd" (NULL), "adam", "adamw"; 0.01; 0; none (0). */
    const char *optimizer;
    double lr, weight_decay, clip;
};
STRETTO_API int stretto_add_model(const struct stretto_model *model); /* as stretto_add_data */

/* What a graph is for. */
STRETTO_API int64_t stretto_batch(const struct stretto_graph *graph); /* samples */
STRETTO_API int stretto_training(const struct stretto_graph *graph);
STRETTO_API int64_t
stretto_classes(const struct stretto_graph *graph); /* --classes, or the data's */

/* Values. After a misfit (a shape that does not fit, say) they are below 0, later calls on them do
 * nothing, and opening the run fails with the reason. Names are those of layers in `stretto
 * explain`, of parameters NAME.weight, NAME.bias. They are copied. No two layers have the same. */
STRETTO_API stretto_value stretto_input(struct stretto_graph *graph, const char *field);
enum { STRETTO_ZERO, STRETTO_ONE, STRETTO_UNIFORM, STRETTO_NORMAL };
STRETTO_API stretto_value stretto_param(struct stretto_graph *graph, const char *name, int rank,
                                        const int64_t *dim, int init, float scale);
/* The rank of a value, its dimensions in dim (NULL: not wanted); below 0: none. */
STRETTO_API int stretto_shape(const struct stretto_graph *graph, stretto_value value,
                              int64_t dim[STRETTO_MAX_RANK]);
/* A misfit that the model finds itself. */
STRETTO_API void stretto_refuse(struct stretto_graph *graph, const char *name, const char *why);
/* What follows belongs to the next block: what --recompute and ZeRO treat as one. */
STRETTO_API void stretto_next_block(struct stretto_graph *graph);

/* Layers, with parameters of torch's names, shapes and initial distributions. */
STRETTO_API stretto_value stretto_linear(struct stretto_graph *graph, const char *name,
                                         stretto_value x, int64_t out);
STRETTO_API stretto_value stretto_conv2d(struct stretto_graph *graph, const char *name,
                                         stretto_value x, int64_t out, int kernel, int stride,
                                         int pad, int bias);
STRETTO_API stretto_value stretto_batch_norm(struct stretto_graph *graph, const char *name,
                                             stretto_value x);
STRETTO_API stretto_value stretto_layer_norm(struct stretto_graph *graph, const char *name,
                                             stretto_value x, float epsilon);
STRETTO_API stretto_value stretto_embedding(struct stretto_graph *graph, const char *name,
                                            stretto_value ids, int64_t rows, int64_t width);

/* Operations without parameters. */
STRETTO_API stretto_value stretto_relu(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_gelu(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_tanh(struct stretto_graph *graph, const char *name,
                                       stretto_value x);
STRETTO_API stretto_value stretto_softmax(struct stretto_graph *graph, const char *name,
                                          stretto_value x);
STRETTO_API stretto_value stretto_dropout(struct stretto_graph *graph, const char *name,
                                          stretto_value x, float probability);
/* q, k, v [B,T,C], or packed in q [B,T,3C] where k and v are -1. */
STRETTO_API stretto_value stretto_attention(struct stretto_graph *graph, const char *name,
                                            stretto_value q, stretto_value k, stretto_value v,
                                            int heads, int causal);
STRETTO_API stretto_value stretto_max_pool(struct stretto_graph *graph, const char *name,
                                           stretto_value x, int kernel, int stride, int pad);
STRETTO_API stretto_value stretto_avg_pool(struct stretto_graph *graph, const char *name,
                                           stretto_value x, int kernel, int stride, int pad);
STRETTO_API stretto_value stretto_global_pool(struct stretto_graph *graph, const char *name,
                                              stretto_value x); /* [B,C,H,W] to [B,C] */
STRETTO_API stretto_value stretto_add(struct stretto_graph *graph, const char *name,
                                      stretto_value a, stretto_value b);
STRETTO_API stretto_value stretto_matmul(struct stretto_graph *graph, const char *name,
                                         stretto_value a, stretto_value b, float scale);
STRETTO_API stretto_value stretto_concat(struct stretto_graph *graph, const char *name, int axis,
                                         stretto_value a, stretto_value b);
STRETTO_API stretto_value stretto_slice(struct stretto_graph *graph, const char *name,
                                        stretto_value x, int axis, int64_t begin, int64_t end);
STRETTO_API stretto_value stretto_reshape(struct stretto_graph *graph, const char *name,
                                          stretto_value x, int rank, const int64_t *dim);
STRETTO_API stretto_value stretto_flatten(struct stretto_graph *graph, const char *name,
                                          stretto_value x); /* [B,...] to [B,n] */
STRETTO_API stretto_value stretto_transpose(struct stretto_graph *graph, const char *name,
                                            stretto_value x, const int *order);

/* Ends of a model: a term of the loss, which is divided by the labels of a step that count; and
 * what stretto_forward gives, where that is not what the first loss compares with its labels
 * (logits, or the first input of an own loss). The labels are an input of a field that is a label.
 */
STRETTO_API void stretto_cross_entropy(struct stretto_graph *graph, const char *name,
                                       stretto_value logits, stretto_value labels, float smoothing);
STRETTO_API void stretto_loss(struct stretto_graph *graph, const char *name, stretto_value sum,
                              stretto_value labels); /* sum: f64, of an own operation */
STRETTO_API void stretto_output(struct stretto_graph *graph, stretto_value value);

/* --- own operations --- */

enum { STRETTO_OP_MAX_IN = 4, STRETTO_OP_MAX_OUT = 2 };

struct stretto_type {
    int dtype, rank;
    int64_t dim[STRETTO_MAX_RANK];
};

/* Elements of a tensor of this type. */
STRETTO_API int64_t stretto_elements(const struct stretto_type *type);

/* One use of an operation. The first dimension is the batch, which differs from graph to graph. */
struct stretto_call {
    void *context; /* as given to stretto_apply */
    int in_count, out_count;
    struct stretto_type in[STRETTO_OP_MAX_IN], out[STRETTO_OP_MAX_OUT];
};

enum { STRETTO_READS_IN = 1, STRETTO_READS_OUT = 2 };

/* Everything that it does must follow from its inputs alone: it runs on any rank, and again where
 * activations are recomputed. Tensors are row major. */
struct stretto_op {
    size_t size;
    const char *name;
    /* Sets out_count and out[] from in[]. Not 0: the inputs do not fit, and why[] (of `bytes`) says
     * so. NULL: one output like the first input. An own loss has one output of STRETTO_F64, rank 0:
     * the sum over the samples. */
    int (*shape)(struct stretto_call *call, char *why, size_t bytes);
    void (*forward)(const struct stretto_call *call, const void *const in[], void *const out[]);
    /* Gradients of the inputs (f32), written, not added; those that nobody wants are NULL in d_in.
     * d_out[i] is NULL where none flows. Of an own loss d_out[0] is one f32, the factor of all
     * gradients. NULL: no gradient passes. */
    void (*backward)(const struct stretto_call *call, const void *const in[],
                     const void *const out[], const void *const d_out[], void *const d_in[]);
    unsigned backward_reads; /* STRETTO_READS_...: what is kept for it; others are NULL. 0: both */
    double (*flops)(const struct stretto_call *call); /* of forward; NULL: one an element */
};
/* Applies an operation, which stays valid as rows do. Its first output; all of them in out[] (NULL:
 * not wanted). */
STRETTO_API stretto_value stretto_apply(struct stretto_graph *graph, const char *name,
                                        const struct stretto_op *op, void *context, int in_count,
                                        const stretto_value *in, stretto_value *out);

#ifdef __cplusplus
}
#endif
#endif
