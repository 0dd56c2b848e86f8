/* How the ring works.
 *
 * Slots hold steps. Step number n (counted from the start of this loader) lives in slot n % depth;
 * `made` steps have been dealt, `taken` handed out, `released` given back: released <= taken <=
 * made <= released + depth. A worker either deals the next step (one at a time: it may have to
 * shuffle a new epoch) or claims a few of the oldest step's unread samples, and works on them
 * without the lock.
 *
 * Two condition variables: workers wait on `work` (a slot was released, a step was dealt, stop),
 * the consumer on `ready` (a step is complete, a read failed, the workers are quiet). */
#include "data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/thread.h"
#include "data/sampler.h"

enum { ALIGN = 64, CLAIM = 16 }; /* samples claimed at once */

struct slot {
    struct step_batch *batch;
    int64_t samples, claimed, done; /* of all its micro-batches, in their order */
    int64_t step;                   /* that was asked for, and from where on: */
    int first_micro;
};

struct loader {
    const struct dataset *dataset;
    struct loader_config config;
    struct sampler sampler;
    int64_t steps;        /* of an epoch */
    struct region region; /* everything below that is not a plain number */
    struct slot *slots;
    int64_t *order;      /* of epoch order_epoch; the dealing worker's */
    int64_t order_epoch; /* -1: none yet */
    pthread_t *threads;
    int thread_count;
    char *scratch; /* of all workers, one behind the other */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work, ready;
    int64_t first, last; /* run-wide steps: of step number 0, and the one to stop before */
    int64_t made, taken, released;
    int64_t asked;      /* steps */
    int busy;           /* workers working without the lock */
    bool dealing, hold; /* a step is being dealt; nothing new is to be begun */
    bool stop;
    int running; /* workers that have begun */
    struct loader_spent spent;
    enum status status; /* the first failure */
};

/* --- configuration and memory --- */

static struct loader_config with_defaults(struct loader_config config) {
    if (config.replicas == 0) config.replicas = 1;
    if (config.micro_batches == 0) config.micro_batches = 1;
    if (config.micro_count == 0)
        config.micro_count = config.replicas * config.micro_batches - config.first_micro;
    if (config.workers == 0) config.workers = 1;
    if (config.depth == 0) config.depth = LOADER_DEPTH;
    return config;
}

static struct sampler sampler_of(const struct dataset *dataset,
                                 const struct loader_config *config) {
    return (struct sampler){.samples = dataset->count[config->split],
                            .batch = config->batch,
                            .replicas = config->replicas,
                            .micro_batches = config->micro_batches,
                            .seed = config->seed,
                            .unpadded = config->unpadded,
                            .shuffle = !config->evaluate,
                            .drop_last = config->drop_last,
                            .exactly_once = config->evaluate};
}

static size_t aligned(size_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Hands out pieces of a region, or only counts them while `base` is NULL. */
struct carver {
    char *base;
    size_t used;
};

static void *carve(struct carver *carver, size_t bytes) {
    size_t at = carver->used;
    carver->used += aligned(bytes);
    return carver->base ? carver->base + at : NULL;
}

static bool is_made(const struct loader *loader, int field) {
    return !((loader->config.unwanted & loader->dataset->may_miss) >> field & 1);
}

static void carve_micro(struct carver *carver, const struct loader *loader, int64_t most,
                        struct micro_batch *micro) {
    const struct dataset *dataset = loader->dataset;
    struct micro_batch made = {0};
    for (int f = 0; f < dataset->field_count; f++)
        if (is_made(loader, f))
            made.field[f] = carve(carver, (size_t)most * dataset_field_bytes(dataset, f));
    made.sample_id = carve(carver, (size_t)most * sizeof *made.sample_id);
    made.sample_key = carve(carver, (size_t)most * sizeof *made.sample_key);
    if (micro) *micro = made;
}

/* The one description of the layout: counts with loader->region empty, lays out otherwise. */
static size_t carve_all(struct loader *loader) {
    const struct loader_config *config = &loader->config;
    const struct sampler *sampler = &loader->sampler;
    struct carver carver = {loader->region.base, 0};
    int64_t most = sampler_micro_most(sampler), positions = sampler_positions(sampler);
    loader->threads = carve(&carver, (size_t)config->workers * sizeof *loader->threads);
    loader->scratch =
        carve(&carver, (size_t)config->workers * aligned(loader->dataset->scratch_bytes));
    loader->slots = carve(&carver, (size_t)config->depth * sizeof *loader->slots);
    loader->order =
        carve(&carver, (size_t)(positions > sampler->samples ? positions : sampler->samples) * 8);
    for (int s = 0; s < config->depth; s++) {
        struct step_batch *batch =
            carve(&carver, sizeof *batch + (size_t)config->micro_count * sizeof batch->micro[0]);
        if (batch) {
            batch->micro_count = config->micro_count;
            loader->slots[s].batch = batch;
        }
        for (int m = 0; m < config->micro_count; m++)
            carve_micro(&carver, loader, most, batch ? &batch->micro[m] : NULL);
    }
    return carver.used;
}

/* What is left after this cannot go wrong by the caller's numbers. */
static enum status check_config(const struct dataset *dataset, const struct loader_config *config) {
    int64_t micro_batches = (int64_t)config->replicas * config->micro_batches;
    CHECK(config->replicas >= 1 && config->micro_batches >= 1, "%d replicas, %d micro-batches",
          config->replicas, config->micro_batches);
    CHECK(config->first_micro >= 0 && config->micro_count >= 1 &&
              config->first_micro + config->micro_count <= micro_batches,
          "micro-batches %d + %d of %lld", config->first_micro, config->micro_count,
          (long long)micro_batches);
    CHECK(config->workers >= 1 && config->depth >= 1, "%d workers, depth %d", config->workers,
          config->depth);
    if (config->batch < 1)
        return fail(STATUS_USAGE, "batch of %lld samples, must be at least 1",
                    (long long)config->batch);
    struct sampler sampler = sampler_of(dataset, config);
    if (sampler_steps(&sampler) < 1)
        return fail(STATUS_USAGE,
                    "%s: %lld samples make no whole step of %lld, and the short one is dropped\n"
                    "  use a smaller --batch, or leave --drop-last out",
                    dataset->spec, (long long)sampler.samples, (long long)config->batch);
    return STATUS_OK;
}

size_t loader_bytes(const struct dataset *dataset, const struct loader_config *config) {
    struct loader loader = {.dataset = dataset, .config = with_defaults(*config)};
    loader.sampler = sampler_of(dataset, &loader.config);
    return carve_all(&loader);
}

int64_t loader_steps(const struct dataset *dataset, const struct loader_config *config) {
    struct loader_config full = with_defaults(*config);
    struct sampler sampler = sampler_of(dataset, &full);
    return sampler_steps(&sampler);
}

/* --- workers --- */

static struct slot *slot_of(struct loader *loader, int64_t number) {
    return &loader->slots[number % loader->config.depth];
}

static int first_micro_of(const struct loader *loader, const struct slot *slot) {
    return loader->config.asked ? slot->first_micro : loader->config.first_micro;
}

/* Writes ids and keys of a step; the slot is nobody else's meanwhile. */
static void deal(struct loader *loader, int64_t step, struct slot *slot) {
    struct step_batch *batch = slot->batch;
    const struct sampler *sampler = &loader->sampler;
    batch->step = step;
    batch->epoch = step / loader->steps;
    batch->step_in_epoch = step % loader->steps;
    batch->step_samples = sampler_step_samples(sampler, batch->step_in_epoch);
    memset(batch->own_label_count, 0, sizeof batch->own_label_count);
    if (loader->order_epoch != batch->epoch) sampler_order(sampler, batch->epoch, loader->order);
    loader->order_epoch = batch->epoch;
    uint64_t step_key = rng_key(rng_key_text(loader->config.seed, "sample"), (uint64_t)step);
    slot->samples = slot->claimed = slot->done = 0;
    for (int m = 0; m < batch->micro_count; m++) {
        struct micro_batch *micro = &batch->micro[m];
        int64_t *id = (int64_t *)micro->sample_id;
        uint64_t *key = (uint64_t *)micro->sample_key;
        memset(micro->label_count, 0, sizeof micro->label_count);
        micro->samples = sampler_deal(sampler, loader->order, batch->step_in_epoch,
                                      first_micro_of(loader, slot) + m, id);
        for (int64_t i = 0; i < micro->samples; i++) key[i] = rng_key(step_key, (uint64_t)id[i]);
        slot->samples += micro->samples;
    }
}

/* The micro-batch that sample `at` of a step falls into; *at becomes its place there. */
static struct micro_batch *micro_at(struct step_batch *batch, int64_t *at) {
    struct micro_batch *micro = batch->micro;
    while (*at >= micro->samples) *at -= micro++->samples;
    return micro;
}

static enum status read_sample(const struct loader *loader, struct step_batch *batch, int64_t at,
                               void *scratch) {
    const struct dataset *dataset = loader->dataset;
    const struct loader_config *config = &loader->config;
    struct micro_batch *micro = micro_at(batch, &at);
    void *out[DATASET_MAX_FIELDS];
    for (int f = 0; f < dataset->field_count; f++)
        out[f] = is_made(loader, f)
                     ? (char *)micro->field[f] + (size_t)at * dataset_field_bytes(dataset, f)
                     : NULL;
    uint64_t id = (uint64_t)micro->sample_id[at];
    uint64_t key =
        rng_key(rng_key(rng_key_text(config->seed, "augment"), (uint64_t)batch->epoch), id);
    if (key == 0) key = 1; /* 0 would mean no augmentation */
    return dataset_read_in(dataset, config->split, (int64_t)id, config->evaluate ? 0 : key, scratch,
                           out);
}

/* All samples of a step are there: what is left is counting its labels. */
static void count_labels(const struct dataset *dataset, struct step_batch *batch) {
    for (int f = 0; f < dataset->field_count; f++) {
        if (!dataset->field[f].is_label) continue;
        for (int m = 0; m < batch->micro_count; m++) {
            struct micro_batch *micro = &batch->micro[m];
            const int32_t *label = micro->field[f];
            int64_t entries = micro->samples * shape_count(&dataset->field[f].shape);
            if (dataset->field[f].dtype != DTYPE_I32) /* a target of reals counts as one */
                micro->label_count[f] = micro->samples;
            else
                for (int64_t i = 0; i < entries; i++)
                    micro->label_count[f] += label[i] != LABEL_IGNORE;
            batch->own_label_count[f] += micro->label_count[f];
        }
    }
}

/* The two kinds of work; both are entered and left with the lock held, and let go of it in between.
 */
static void work_deal(struct loader *loader) {
    int64_t number = loader->made;
    struct slot *slot = slot_of(loader, number);
    loader->dealing = true;
    loader->busy++;
    pthread_mutex_unlock(&loader->lock);
    deal(loader, loader->config.asked ? slot->step : loader->first + number, slot);
    pthread_mutex_lock(&loader->lock);
    loader->busy--;
    loader->dealing = false;
    loader->made++;
    pthread_cond_broadcast(&loader->work);
    pthread_cond_signal(&loader->ready); /* a step without samples is complete now */
}

static void work_read(struct loader *loader, struct slot *slot, void *scratch) {
    int64_t from = slot->claimed, to = from + CLAIM < slot->samples ? from + CLAIM : slot->samples;
    slot->claimed = to;
    loader->busy++;
    pthread_mutex_unlock(&loader->lock);
    enum status status = STATUS_OK;
    int64_t begin = clock_thread_ns();
    for (int64_t i = from; i < to && status == STATUS_OK; i++)
        status = read_sample(loader, slot->batch, i, scratch);
    int64_t ns = clock_thread_ns() - begin;
    pthread_mutex_lock(&loader->lock);
    loader->spent.ns += ns;
    loader->spent.samples += to - from;
    loader->busy--;
    if (status != STATUS_OK && loader->status == STATUS_OK) loader->status = status;
    slot->done += to - from;
    if (slot->done == slot->samples && loader->status == STATUS_OK)
        count_labels(loader->dataset, slot->batch);
    pthread_cond_signal(&loader->ready);
}

static struct slot *unclaimed_slot(struct loader *loader) {
    for (int64_t number = loader->taken; number < loader->made; number++) {
        struct slot *slot = slot_of(loader, number);
        if (slot->claimed < slot->samples) return slot;
    }
    return NULL;
}

static bool can_deal(const struct loader *loader) {
    if (loader->config.asked) return !loader->dealing && loader->made < loader->asked;
    return !loader->dealing && loader->made - loader->released < loader->config.depth &&
           loader->first + loader->made < loader->last;
}

static void *worker(void *argument) {
    struct loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    void *scratch =
        loader->scratch + (size_t)loader->running++ * aligned(loader->dataset->scratch_bytes);
    while (!loader->stop) {
        bool idle = loader->hold || loader->status != STATUS_OK;
        struct slot *slot = idle ? NULL : unclaimed_slot(loader);
        if (slot)
            work_read(loader, slot, scratch);
        else if (!idle && can_deal(loader))
            work_deal(loader);
        else
            pthread_cond_wait(&loader->work, &loader->lock);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

/* --- the consumer's side --- */

static void place(struct loader *loader, int64_t epoch, int64_t step_in_epoch) {
    const struct loader_config *config = &loader->config;
    loader->first = epoch * loader->steps + step_in_epoch;
    loader->last = config->end_step ? config->end_step : INT64_MAX;
    if (config->evaluate && !config->end_step) loader->last = (epoch + 1) * loader->steps;
    loader->made = loader->taken = loader->released = loader->asked = 0;
    loader->status = STATUS_OK;
}

static enum status start_threads(struct loader *loader) {
    for (; loader->thread_count < loader->config.workers; loader->thread_count++)
        TRY(thread_start(&loader->threads[loader->thread_count], worker, loader));
    return STATUS_OK;
}

enum status loader_open(const struct dataset *dataset, const struct loader_config *config,
                        struct loader **out) {
    struct loader_config full = with_defaults(*config);
    TRY(check_config(dataset, &full));
    struct region region;
    TRY(region_map(loader_bytes(dataset, &full), "the data loader", &region));
    struct loader *loader = MEM_NEW(struct loader);
    *loader =
        (struct loader){.dataset = dataset, .config = full, .region = region, .order_epoch = -1};
    loader->sampler = sampler_of(dataset, &full);
    loader->steps = sampler_steps(&loader->sampler);
    carve_all(loader);
    place(loader, full.start_epoch, full.start_step);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->ready, NULL);
    enum status status = start_threads(loader);
    if (status != STATUS_OK) {
        loader_free(&loader);
        return status;
    }
    *out = loader;
    return STATUS_OK;
}

static bool complete(struct loader *loader, int64_t number) {
    const struct slot *slot = slot_of(loader, number);
    return number < loader->made && slot->done == slot->samples;
}

enum status loader_next(struct loader *loader, const struct step_batch **out) {
    pthread_mutex_lock(&loader->lock);
    CHECK(loader->taken - loader->released < loader->config.depth,
          "all %d steps of the ring are held", loader->config.depth);
    bool ended = !loader->config.asked && loader->first + loader->taken >= loader->last;
    while (!ended && loader->status == STATUS_OK && !complete(loader, loader->taken))
        pthread_cond_wait(&loader->ready, &loader->lock);
    enum status status = loader->status;
    if (status == STATUS_OK) *out = ended ? NULL : slot_of(loader, loader->taken++)->batch;
    pthread_mutex_unlock(&loader->lock);
    return status;
}

void loader_ask(struct loader *loader, int64_t step, int first_micro) {
    pthread_mutex_lock(&loader->lock);
    CHECK(loader->config.asked && loader->asked - loader->released < loader->config.depth,
          "step %lld has no room in a ring of %d", (long long)step, loader->config.depth);
    struct slot *slot = slot_of(loader, loader->asked);
    slot->step = step;
    slot->first_micro = first_micro;
    loader->asked++;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

void loader_release(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    CHECK(loader->released < loader->taken, "%lld steps were handed out, one more is released",
          (long long)loader->taken);
    loader->released++;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

void loader_memory(const struct loader *loader, void **memory, size_t *bytes) {
    *memory = loader->region.base;
    *bytes = loader->region.bytes;
}

struct loader_spent loader_spent(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    struct loader_spent spent = loader->spent;
    pthread_mutex_unlock(&loader->lock);
    return spent;
}

void loader_seek(struct loader *loader, int64_t epoch, int64_t step_in_epoch) {
    pthread_mutex_lock(&loader->lock);
    loader->hold = true;
    while (loader->busy > 0) pthread_cond_wait(&loader->ready, &loader->lock);
    place(loader, epoch, step_in_epoch);
    loader->hold = false;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
}

void loader_free(struct loader **loader) {
    struct loader *gone = *loader;
    if (!gone) return;
    pthread_mutex_lock(&gone->lock);
    gone->stop = true;
    pthread_cond_broadcast(&gone->work);
    pthread_mutex_unlock(&gone->lock);
    for (int t = 0; t < gone->thread_count; t++) pthread_join(gone->threads[t], NULL);
    pthread_cond_destroy(&gone->ready);
    pthread_cond_destroy(&gone->work);
    pthread_mutex_destroy(&gone->lock);
    region_free(&gone->region);
    free(gone);
    *loader = NULL;
}
