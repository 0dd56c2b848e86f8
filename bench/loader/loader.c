/* bench-loader SPEC [IMAGES [WORKERS [BATCH [SIZE]]]]: how fast the loader makes training batches,
 * with nobody but it at work. Prints images a second of wall time, and of processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "data/loader.h"

static double processor_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int64_t number(int count, char **words, int index, int64_t otherwise) {
    return index < count ? strtoll(words[index], NULL, 10) : otherwise;
}

/* Whole steps of training, `images` of them or a few more. */
static enum status take(struct loader *loader, int64_t images) {
    const struct step_batch *batch;
    for (int64_t taken = 0; taken < images; taken += batch->step_samples) {
        TRY(loader_next(loader, &batch));
        loader_release(loader);
    }
    return STATUS_OK;
}

int main(int count, char **words) {
    struct dataset *dataset;
    struct loader *loader;
    if (count < 2)
        return fprintf(stderr, "usage: %s SPEC [IMAGES WORKERS BATCH SIZE]\n", words[0]), 2;
    int64_t images = number(count, words, 2, 1000);
    struct dataset_config config = {.image_size = number(count, words, 5, 224)};
    struct loader_config loading = {.batch = number(count, words, 4, 32),
                                    .workers = (int)number(count, words, 3, 1)};
    if (dataset_open(words[1], &config, &dataset) != STATUS_OK) return 3;
    if (loader_open(dataset, &loading, &loader) != STATUS_OK) return 3;
    if (take(loader, loading.batch) != STATUS_OK) return 3;
    int64_t begin = clock_ns();
    double busy = processor_s();
    if (take(loader, images) != STATUS_OK) return 3;
    double wall = (double)(clock_ns() - begin) * 1e-9;
    printf("%.1f %.1f\n", (double)images / wall, (double)images / (processor_s() - busy));
    loader_free(&loader);
    dataset_free(&dataset);
    return 0;
}
