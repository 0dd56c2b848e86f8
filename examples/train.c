/* Training through the library: an epoch of digits, its accuracy, and the weights in a file.
 *
 *     cc examples/train.c $(pkg-config --cflags --libs stretto) -o train
 *     ./train model.safetensors
 */
#include <stdio.h>

#include <stretto.h>

int main(int argc, char **argv) {
    if (argc != 2) return fprintf(stderr, "usage: train FILE.safetensors\n"), 2;
    const char *options[] = {"--model", "mlp",  "--data", "digits", "--epochs",
                             "1",       "--lr", "0.1",    NULL};
    struct stretto_config config = {.size = sizeof config, .options = options};
    struct stretto_run *run;
    int code = stretto_open(&config, &run);

    struct stretto_step step = {.size = sizeof step};
    while (code == 0 && (code = stretto_step(run, &step)) == 0)
        printf("step %2lld  loss %.4f  %.2f ms\n", (long long)step.step, step.loss, step.step_ms);

    struct stretto_eval eval = {.size = sizeof eval};
    if (code == STRETTO_END) code = stretto_evaluate(run, &eval);
    if (code == 0)
        printf("accuracy %.2f%% of %lld samples\n", eval.acc1 * 100, (long long)eval.samples);
    if (code == 0) code = stretto_save(run, argv[1]);
    if (code != 0) fprintf(stderr, "train: %s\n", stretto_error());
    stretto_close(&run);
    return code;
}
