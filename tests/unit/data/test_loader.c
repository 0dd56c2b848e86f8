/* The loader: the same bytes for any number of workers and any place it starts from, every sample
 * where the sampler puts it, errors that come out, an end at any time. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "data/sampler.h"

static struct dataset *open_or_fail(const char *spec) {
    struct dataset *dataset = NULL;
    cr_assert_eq(dataset_open(spec, &(struct dataset_config){0}, &dataset), STATUS_OK, "%s", spec);
    return dataset;
}

static struct loader *start(const struct dataset *dataset, struct loader_config config) {
    struct loader *loader = NULL;
    cr_assert_eq(loader_open(dataset, &config, &loader), STATUS_OK);
    return loader;
}

static const struct step_batch *next(struct loader *loader) {
    const struct step_batch *batch = NULL;
    cr_assert_eq(loader_next(loader, &batch), STATUS_OK);
    return batch;
}

static uint64_t hash_step(const struct dataset *dataset, const struct step_batch *batch) {
    uint64_t hash = hash64(HASH64_START, batch, offsetof(struct step_batch, micro_count));
    for (int m = 0; m < batch->micro_count; m++) {
        const struct micro_batch *micro = &batch->micro[m];
        size_t samples = (size_t)micro->samples;
        hash = hash64(hash, &micro->samples, sizeof micro->samples);
        hash = hash64(hash, micro->sample_id, samples * 8);
        hash = hash64(hash, micro->sample_key, samples * 8);
        hash = hash64(hash, micro->label_count, sizeof micro->label_count);
        for (int f = 0; f < dataset->field_count; f++)
            hash = hash64(hash, micro->field[f], samples * dataset_field_bytes(dataset, f));
    }
    return hash;
}

static uint64_t hash_steps(const struct dataset *dataset, struct loader *loader, int64_t count) {
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct step_batch *batch = next(loader);
        cr_assert_not_null(batch);
        uint64_t one = hash_step(dataset, batch);
        hash = hash64(hash, &one, sizeof one);
        loader_release(loader);
    }
    return hash;
}

static const struct loader_config plain = {
    .split = SPLIT_TRAIN, .batch = 50, .replicas = 2, .micro_batches = 3, .seed = 11};

/* 3 epochs of 333 samples: each has a short last step. */
static const char *const small = "synthetic:count=333,test_count=77,channels=1,size=6";

Test(data_loader, same_bytes_for_any_workers_and_depth) {
    struct dataset *dataset = open_or_fail(small);
    uint64_t want = 0;
    for (int workers = 1; workers <= 5; workers++) {
        struct loader_config config = plain;
        config.workers = workers;
        config.depth = workers % 4 + 1;
        struct loader *loader = start(dataset, config);
        uint64_t hash = hash_steps(dataset, loader, 3 * loader_steps(dataset, &config));
        if (workers == 1) want = hash;
        cr_assert_eq(hash, want, "%d workers", workers);
        loader_free(&loader);
        cr_assert_null(loader);
    }
    dataset_free(&dataset);
}

/* A stage that reads no images gets none; what it does get is the same. Labels are always made. */
Test(data_loader, unwanted_images_are_not_made) {
    static const char *const specs[] = {small, "digits"};
    for (size_t s = 0; s < sizeof specs / sizeof *specs; s++) {
        struct dataset *dataset = open_or_fail(specs[s]);
        struct loader_config config = plain, without = plain;
        without.unwanted = ~0u;
        int image = dataset_field(dataset, "image"), label = dataset_field(dataset, "label");
        size_t images = LOADER_DEPTH * 50 * dataset_field_bytes(dataset, image);
        cr_assert_leq(loader_bytes(dataset, &without) + images, loader_bytes(dataset, &config));
        struct loader *whole = start(dataset, config), *less = start(dataset, without);
        const struct micro_batch *want = next(whole)->micro, *have = next(less)->micro;
        cr_assert_null(have->field[image]);
        cr_assert_eq(have->samples, want->samples);
        cr_assert_eq(have->label_count[label], want->label_count[label]);
        cr_assert_arr_eq(have->field[label], want->field[label], (size_t)want->samples * 4);
        loader_free(&whole);
        loader_free(&less);
        dataset_free(&dataset);
    }
}

Test(data_loader, samples_are_dealt_and_read_as_declared) {
    struct dataset *dataset = open_or_fail(small);
    struct sampler sampler = {.samples = 333,
                              .batch = 50,
                              .replicas = 2,
                              .micro_batches = 3,
                              .seed = 11,
                              .shuffle = true};
    struct loader *loader = start(dataset, plain);
    int64_t order[334], id[50], steps = sampler_steps(&sampler);
    float image[36];
    int32_t label;
    cr_assert_eq(steps, loader_steps(dataset, &plain));
    for (int64_t step = 0; step < 2 * steps; step++) {
        const struct step_batch *batch = next(loader);
        cr_assert(batch->step == step && batch->epoch == step / steps &&
                  batch->step_in_epoch == step % steps);
        cr_assert_eq(batch->step_samples, sampler_step_samples(&sampler, step % steps));
        sampler_order(&sampler, batch->epoch, order);
        int64_t labels = 0;
        for (int m = 0; m < batch->micro_count; m++) {
            const struct micro_batch *micro = &batch->micro[m];
            cr_assert_eq(sampler_deal(&sampler, order, step % steps, m, id), micro->samples);
            cr_assert_eq((uintptr_t)micro->field[0] % 64, 0);
            for (int64_t i = 0; i < micro->samples; i++) {
                cr_assert_eq(micro->sample_id[i], id[i]);
                dataset_read(dataset, SPLIT_TRAIN, id[i], 0, (void *[]){image, &label});
                cr_assert_eq(memcmp(image, (float *)micro->field[0] + i * 36, sizeof image), 0);
                cr_assert_eq(label, ((int32_t *)micro->field[1])[i]);
            }
            cr_assert_eq(micro->label_count[1], micro->samples);
            labels += micro->samples;
        }
        cr_assert_eq(batch->own_label_count[1], labels);
        cr_assert_eq(labels, batch->step_samples);
        loader_release(loader);
    }
    loader_free(&loader);
    dataset_free(&dataset);
}

Test(data_loader, replicas_make_the_micro_batches_of_the_whole) {
    struct dataset *dataset = open_or_fail(small);
    struct loader_config config = plain;
    struct loader *whole = start(dataset, config), *part[2];
    for (int r = 0; r < 2; r++) {
        config.first_micro = 3 * r;
        config.micro_count = 3;
        part[r] = start(dataset, config);
    }
    for (int step = 0; step < 15; step++) {
        const struct step_batch *all = next(whole);
        for (int r = 0; r < 2; r++) {
            const struct step_batch *own = next(part[r]);
            cr_assert_eq(own->micro_count, 3);
            cr_assert_eq(own->step_samples, all->step_samples);
            for (int m = 0; m < 3; m++) {
                const struct micro_batch *a = &own->micro[m], *b = &all->micro[3 * r + m];
                cr_assert_eq(a->samples, b->samples);
                cr_assert_eq(memcmp(a->sample_key, b->sample_key, (size_t)a->samples * 8), 0);
                cr_assert_eq(memcmp(a->field[0], b->field[0], (size_t)a->samples * 36 * 4), 0);
            }
            loader_release(part[r]);
        }
        loader_release(whole);
    }
    loader_free(&whole);
    for (int r = 0; r < 2; r++) loader_free(&part[r]);
    dataset_free(&dataset);
}

Test(data_loader, starts_anywhere_and_seeks) {
    struct dataset *dataset = open_or_fail(small);
    int64_t steps = loader_steps(dataset, &plain);
    uint64_t want[64];
    struct loader *loader = start(dataset, plain);
    for (int64_t i = 0; i < 3 * steps; i++) want[i] = hash_steps(dataset, loader, 1);
    for (int64_t at = 0; at < 3 * steps; at += 2) {
        loader_seek(loader, at / steps, at % steps);
        cr_assert_eq(hash_steps(dataset, loader, 1), want[at], "sought step %lld", (long long)at);
        struct loader_config config = plain;
        config.start_epoch = at / steps;
        config.start_step = at % steps;
        config.workers = 2;
        struct loader *fresh = start(dataset, config);
        cr_assert_eq(hash_steps(dataset, fresh, 1), want[at], "started at step %lld",
                     (long long)at);
        loader_free(&fresh);
    }
    loader_free(&loader);
    dataset_free(&dataset);
}

/* In any order, any replica's part: the bytes of whoever goes through all steps. */
Test(data_loader, steps_are_asked_for) {
    static const struct {
        int64_t step;
        int first_micro;
    } asked[] = {{8, 3}, {1, 0}, {1, 3}, {0, 0}, {20, 0}};
    struct dataset *dataset = open_or_fail(small);
    struct loader_config config = plain;
    config.micro_count = 3;
    config.drop_last = true;
    config.asked = true;
    struct loader *loader = start(dataset, config);
    loader_ask(loader, asked[0].step, asked[0].first_micro);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        struct loader_config one = plain;
        one.micro_count = 3;
        one.drop_last = true;
        one.first_micro = asked[i].first_micro;
        struct loader *other = start(dataset, one);
        loader_seek(other, asked[i].step / 6, asked[i].step % 6);
        if (i + 1 < sizeof asked / sizeof *asked)
            loader_ask(loader, asked[i + 1].step, asked[i + 1].first_micro);
        cr_expect_eq(hash_steps(dataset, loader, 1), hash_steps(dataset, other, 1), "%zu", i);
        loader_free(&other);
    }
    loader_free(&loader);
    dataset_free(&dataset);
}

Test(data_loader, ends_at_the_given_step) {
    struct dataset *dataset = open_or_fail(small);
    struct loader_config config = plain;
    config.end_step = 9;
    struct loader *loader = start(dataset, config);
    hash_steps(dataset, loader, 9);
    cr_assert_null(next(loader));
    cr_assert_null(next(loader));
    loader_free(&loader);
    dataset_free(&dataset);
}

Test(data_loader, evaluation_sees_each_sample_once) {
    struct dataset *dataset = open_or_fail(small);
    struct loader_config config = {
        .split = SPLIT_TEST, .evaluate = true, .batch = 20, .replicas = 3, .workers = 2};
    struct loader *loader = start(dataset, config);
    for (int round = 0; round < 2; round++) {
        int seen[77] = {0};
        int64_t steps = 0;
        const struct step_batch *batch;
        while ((batch = next(loader))) {
            cr_assert_eq(batch->step_samples, steps == 3 ? 17 : 20);
            for (int m = 0; m < batch->micro_count; m++)
                for (int64_t i = 0; i < batch->micro[m].samples; i++)
                    seen[batch->micro[m].sample_id[i]]++;
            steps++;
            loader_release(loader);
        }
        cr_assert_eq(steps, 4);
        for (int i = 0; i < 77; i++) cr_assert_eq(seen[i], 1);
        loader_seek(loader, 0, 0);
    }
    loader_free(&loader);
    dataset_free(&dataset);
}

Test(data_loader, several_steps_may_be_held) {
    struct dataset *dataset = open_or_fail(small);
    struct loader *loader = start(dataset, plain);
    const struct step_batch *first = next(loader);
    uint64_t hash = hash_step(dataset, first);
    next(loader);
    next(loader);
    cr_assert_eq(hash_step(dataset, first), hash);
    for (int i = 0; i < 3; i++) loader_release(loader);
    cr_assert_eq(next(loader)->step, 3);
    loader_free(&loader);
    dataset_free(&dataset);
}

static int thread_count(void) {
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    while (folder && readdir(folder)) count++;
    if (folder) closedir(folder);
    return count;
}

Test(data_loader, closes_at_any_time_and_leaves_no_thread) {
    struct dataset *dataset = open_or_fail(small);
    struct loader *warm_up =
        start(dataset, plain); /* a sanitizer starts a thread of its own with the first */
    loader_free(&warm_up);
    usleep(10000);
    int before = thread_count();
    for (int i = 0; i < 60; i++) {
        struct loader_config config = plain;
        config.workers = i % 4 + 1;
        struct loader *loader = start(dataset, config);
        for (int taken = 0; taken < i % 3; taken++) next(loader);
        loader_free(&loader);
    }
    struct loader *none = NULL;
    loader_free(&none);
    for (int i = 0; i < 1000 && thread_count() > before; i++)
        usleep(1000); /* /proc is late after a join */
    cr_assert_leq(thread_count(), before);
    dataset_free(&dataset);
}

/* A data set whose 200th sample cannot be read. */
static enum status bad_read(const struct dataset *dataset, enum split split, int64_t index,
                            uint64_t key, void *scratch, void *const out[]) {
    (void)scratch;
    (void)dataset, (void)split, (void)key;
    if (index == 200) return STATUS_DATA;
    *(int32_t *)out[0] = (int32_t)index;
    return STATUS_OK;
}

static const struct dataset_ops bad_ops = {.name = "bad", .read = bad_read};
static struct dataset bad = {.ops = &bad_ops,
                             .spec = "bad",
                             .field_count = 1,
                             .field = {{.name = "x", .dtype = DTYPE_I32}},
                             .count = {400, 400}};

Test(data_loader, failed_read_surfaces) {
    for (int workers = 1; workers <= 3; workers++) {
        struct loader_config config = {.batch = 32, .evaluate = true, .workers = workers};
        struct loader *loader = start(&bad, config);
        const struct step_batch *batch;
        enum status status;
        int steps = 0;
        while ((status = loader_next(loader, &batch)) == STATUS_OK && batch) {
            steps++;
            loader_release(loader);
        }
        cr_assert_eq(status, STATUS_DATA);
        cr_assert_leq(steps, 6, "sample 200 is in step 6, which must not come out");
        cr_assert_eq(loader_next(loader, &batch), STATUS_DATA, "it fails again");
        loader_free(&loader);
    }
}

Test(data_loader, no_step_is_an_error) {
    struct dataset *dataset = open_or_fail(small);
    struct loader *loader = NULL;
    char text[512];
    log_capture(text, sizeof text);
    struct loader_config config = {.batch = 400, .drop_last = true};
    cr_assert_eq(loader_open(dataset, &config, &loader), STATUS_USAGE);
    cr_assert(strstr(text, "333") && strstr(text, "400"), "%s", text);
    log_capture(NULL, 0);
    dataset_free(&dataset);
}

Test(data_loader, memory_is_as_predicted) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    cr_skip_test("the sanitizer's own memory would be counted");
#endif
    struct dataset *dataset = open_or_fail("synthetic:count=4000,size=64");
    struct loader_config config = {.batch = 256, .micro_batches = 2, .workers = 2, .depth = 3};
    size_t predicted = loader_bytes(dataset, &config), images = (size_t)3 * 256 * 3 * 64 * 64 * 4;
    cr_assert(predicted > images && predicted < images + (1 << 18), "%zu", predicted);
    size_t before = mem_resident_bytes();
    struct loader *loader = start(dataset, config);
    hash_steps(dataset, loader, 6);
    size_t used = mem_resident_bytes() - before;
    cr_assert(used < predicted + (2 << 20), "%zu used, %zu predicted", used, predicted);
    cr_assert(used > predicted - predicted / 10, "%zu used, %zu predicted", used, predicted);
    loader_free(&loader);
    dataset_free(&dataset);
}
