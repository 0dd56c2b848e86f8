/* Fine-tuning: weights of torchvision's resnet18 under a new head, on data of this program's own.
 *
 *     python -c 'import torchvision, safetensors.torch as s
 *     s.save_file(torchvision.models.resnet18(weights="DEFAULT").state_dict(), "r18.safetensors")'
 *     cc examples/finetune.c $(pkg-config --cflags --libs stretto) -o finetune
 *     ./finetune r18.safetensors tuned.safetensors [--model resnet18 and other options]
 *
 * The data have 4 classes, the file's head has 1,000: it does not fit and starts anew, which the
 * log says. */
#include <stdio.h>
#include <stretto.h>

enum { SIZE = 32, CLASSES = 4, MOST_OPTIONS = 64 };

/* Pictures of a bright bar: across or upright, in the first half or the second. */
static int read_picture(void *context, int split, int64_t index, uint64_t key, void *const out[]) {
    float *pixel = out[0];
    int kind = (int)(index % CLASSES), at = (int)(index / CLASSES % (SIZE / 2 - 4));
    (void)context, (void)split, (void)key;
    for (int i = 0; i < 3 * SIZE * SIZE; i++) {
        int along = kind / 2 ? i % SIZE : i / SIZE % SIZE, begin = at + kind % 2 * (SIZE / 2);
        pixel[i] = along >= begin && along < begin + 4 ? 2 : -1;
    }
    *(int32_t *)out[1] = kind;
    return 0;
}

static void show(void *context, int level, const char *text) {
    (void)context;
    if (level != STRETTO_LOG_ERROR) printf("%s\n", text);
}

int main(int argc, char **argv) {
    static const struct stretto_field fields[] = {
        {.name = "image", .dtype = STRETTO_F32, .rank = 3, .dim = {3, SIZE, SIZE}},
        {.name = "label", .dtype = STRETTO_I32, .label = 1, .limit = CLASSES}};
    static const struct stretto_data data = {.size = sizeof data,
                                             .name = "bars",
                                             .fields = fields,
                                             .field_count = 2,
                                             .train_count = 256,
                                             .test_count = 32,
                                             .classes = CLASSES,
                                             .read = read_picture};
    const char *options[MOST_OPTIONS] = {"--data",  "bars", "--lr",    "0.01", "--epochs", "2",
                                         "--model", NULL,   "--batch", "32",   NULL};
    if (argc < 3 || argc > MOST_OPTIONS - 12)
        return fprintf(stderr, "usage: finetune WEIGHTS TUNED [options]\n"), 2;
    options[7] = "resnet18";
    for (int i = 3; i < argc; i++) options[7 + i] = argv[i]; /* later ones count */

    struct stretto_config config = {.size = sizeof config, .options = options, .log = show};
    struct stretto_run *run = NULL;
    struct stretto_step step = {.size = sizeof step};
    struct stretto_eval eval = {.size = sizeof eval};
    int code = stretto_add_data(&data);
    if (code == 0) code = stretto_open(&config, &run);
    if (code == 0) code = stretto_load(run, argv[1]);
    while (code == 0 && (code = stretto_step(run, &step)) == 0)
        printf("step %2lld  loss %.4f\n", (long long)step.step, step.loss);
    if (code == STRETTO_END) code = stretto_evaluate(run, &eval);
    if (code == 0) printf("accuracy %.1f%%\n", eval.acc1 * 100);
    if (code == 0) code = stretto_save(run, argv[2]);
    if (code != 0) fprintf(stderr, "finetune: %s\n", stretto_error());
    stretto_close(&run);
    return code;
}
