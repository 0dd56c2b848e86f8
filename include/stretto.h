/* Stretto as a library: the public header. Everything else under src/ may change between versions.
 *
 * A run is opened with the options of `stretto train`, as text, and stepped by the caller:
 *
 *     const char *options[] = {"--model", "resnet8", "--data", "digits", "--seed", "1"};
 *     struct stretto_run *run;
 *     struct stretto_step step;
 *     int code = stretto_open(6, options, &run); // what is wrong is on standard error
 *     if (code != 0) return code;
 *     while ((code = stretto_step(run, &step)) == 0) printf("%g\n", step.loss);
 *     if (code == STRETTO_END) code = stretto_save(run, "model.safetensors");
 *     stretto_close(&run);
 *
 * Signal handlers of the caller that may run during a step must use SA_ONSTACK with a stack of
 * their own (sigaltstack): kernels of oneDNN keep the stack register in memory of their own.
 *
 * All calls are local and blocking; a run belongs to the thread that opened it. Functions return 0,
 * or the exit code that the command would end with (docs/usage.md), after saying why on standard
 * error. */
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

/* What the shared library exports; all other names are hidden. */
#define STRETTO_API __attribute__((visibility("default")))

/* The version of the library that is linked, as "0.1.0"; static. */
STRETTO_API const char *stretto_version(void);

/* The whole command: stretto_main(argc, argv) is what the binary does. Returns the exit code. */
STRETTO_API int stretto_main(int argc, char **argv);

struct stretto_run;

/* Plans a run of one rank and takes its memory; nothing is written to disk. The caller owns *run.
 * Options about output and checkpoints have no effect here, those that ask for more ranks are
 * refused (the command starts ranks: stretto_main). */
STRETTO_API int stretto_open(int count, const char *const *options, struct stretto_run **run);
/* Accepts NULL and a closed run; sets *run to NULL. */
STRETTO_API void stretto_close(struct stretto_run **run);

/* What the plan knows before the first step. */
struct stretto_plan {
    int64_t params, steps, steps_per_epoch, batch;
    size_t predicted_peak_bytes;
};
STRETTO_API int stretto_plan(const struct stretto_run *run, struct stretto_plan *plan);

struct stretto_step {
    int64_t step, epoch; /* counted from 0 */
    double loss, lr, grad_norm, step_ms;
};
/* Runs the next step. STRETTO_END after the last one. */
#define STRETTO_END (-1)
STRETTO_API int stretto_step(struct stretto_run *run, struct stretto_step *step);

struct stretto_eval {
    int64_t samples;
    double loss, acc1, acc5; /* accuracies are fractions, NaN where the model has none */
};
/* Evaluates on the whole test split. */
STRETTO_API int stretto_evaluate(struct stretto_run *run, struct stretto_eval *eval);

/* Parameters by name, as in the ecosystem's state dicts: elements of one (-1: no such name), a copy
 * of its values in row major order, and new values for it. `count` must be its number of elements.
 */
STRETTO_API int64_t stretto_param_count(const struct stretto_run *run, const char *name);
STRETTO_API int stretto_param_get(const struct stretto_run *run, const char *name, float *values,
                                  int64_t count);
STRETTO_API int stretto_param_set(struct stretto_run *run, const char *name, const float *values,
                                  int64_t count);

/* Parameters and buffers to and from a safetensors file; loading takes the folder of a run as well.
 */
STRETTO_API int stretto_save(struct stretto_run *run, const char *path);
STRETTO_API int stretto_load(struct stretto_run *run, const char *path);

#ifdef __cplusplus
}
#endif
#endif
