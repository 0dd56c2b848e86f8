/* Answers: each line of numbers on standard input is a sample; each line of output is its class and
 * how sure that is.
 *
 *     cc examples/serve.c $(pkg-config --cflags --libs stretto) -lm -o serve
 *     ./serve --model mlp --data digits --weights model.safetensors < lines
 *
 * It serves one sample at a time and trains nothing: `forward_batch` and `forward_only` plan for
 * that. Behind a socket it is
 *     socat TCP-LISTEN:7000,bind=127.0.0.1,fork EXEC:'./serve ...' */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <stretto.h>

/* Reads `count` numbers of a line; how many there were, -1 at the end. */
static int64_t read_line(float *values, int64_t count) {
    static char *line;
    static size_t room;
    int64_t found = 0;
    if (getline(&line, &room, stdin) < 0) return free(line), line = NULL, -1;
    for (char *at = line, *end; *at; at = end) {
        float value = strtof(at, &end);
        if (end == at) break;
        if (found < count) values[found] = value;
        found++;
    }
    return found;
}

static void answer(const float *logits, int64_t classes) {
    int64_t best = 0;
    double sum = 0;
    for (int64_t c = 1; c < classes; c++)
        if (logits[c] > logits[best]) best = c;
    for (int64_t c = 0; c < classes; c++) sum += exp((double)logits[c] - (double)logits[best]);
    printf("%lld %.4f\n", (long long)best, 1 / sum);
    fflush(stdout);
}

int main(int argc, char **argv) {
    (void)argc;
    struct stretto_config config = {.size = sizeof config,
                                    .options = (const char *const *)(argv + 1),
                                    .forward_batch = 1,
                                    .forward_only = 1};
    struct stretto_run *run = NULL;
    int code = stretto_open(&config, &run);
    int64_t classes = code == 0 ? stretto_output_elements(run) : 0,
            pixels = code == 0 ? stretto_field_elements(run, "image") : 0, found;
    float *image = calloc((size_t)pixels + 1, sizeof *image),
          *logits = calloc((size_t)classes + 1, sizeof *logits);
    while (code == 0 && (found = read_line(image, pixels)) >= 0) {
        if (found != pixels) {
            printf("error: %lld numbers, %lld are needed\n", (long long)found, (long long)pixels);
            continue;
        }
        code = stretto_forward(run, 1, (const void *[]){image, NULL}, 2, logits, classes);
        if (code == 0) answer(logits, classes);
    }
    if (code != 0) fprintf(stderr, "serve: %s\n", stretto_error());
    free(image);
    free(logits);
    stretto_close(&run);
    return code;
}
