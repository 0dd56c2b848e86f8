/* The executor on a device whose memory the host cannot read or write, as that of a GPU: pages are
 * accessible while the backend runs, and to nobody else. Who reaches past the backend's table ends
 * with SIGSEGV. */
#include <criterion/criterion.h>
#include <sys/mman.h>

#include "kit.h"

enum { MOST_REGIONS = 64 };
static struct far_region {
    void *memory;
    size_t bytes;
} regions[MOST_REGIONS];
static int depth; /* of calls of the backend */
static const struct backend *near;

static void protect(int how) {
    for (int i = 0; i < MOST_REGIONS; i++)
        if (regions[i].memory) cr_assert_eq(mprotect(regions[i].memory, regions[i].bytes, how), 0);
}

static void enter(void) {
    if (depth++ == 0) protect(PROT_READ | PROT_WRITE);
}

static enum status leave(enum status status) {
    if (--depth == 0) protect(PROT_NONE);
    return status;
}

static enum status far_new(struct device *device, size_t bytes, const char *what, void **out) {
    (void)device, (void)what;
    int i = 0;
    while (i < MOST_REGIONS && regions[i].memory) i++;
    cr_assert_lt(i, MOST_REGIONS);
    void *memory = mmap(NULL, bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    regions[i] = (struct far_region){memory, bytes + 1};
    *out = memory;
    return STATUS_OK;
}

static void far_free(struct device *device, void *memory, size_t bytes) {
    (void)device;
    for (int i = 0; memory && i < MOST_REGIONS; i++)
        if (regions[i].memory == memory) regions[i].memory = NULL;
    if (memory) munmap(memory, bytes + 1);
}

#define FAR(name, parameters, ...)                                                                 \
    static enum status far_##name parameters {                                                     \
        enter();                                                                                   \
        return leave(near->name(__VA_ARGS__));                                                     \
    }
FAR(kernel_run,
    (struct kernel * kernel, void *const in[], void *const out[], void *scratch,
     struct stream *stream),
    kernel, in, out, scratch, stream)
FAR(copy_in,
    (struct device * device, void *to, const void *host, size_t bytes, struct stream *stream),
    device, to, host, bytes, stream)
FAR(copy_out,
    (struct device * device, void *host, const void *from, size_t bytes, struct stream *stream),
    device, host, from, bytes, stream)
FAR(array_sum,
    (struct device * device, const double *sums, int64_t count, struct exact_sum *total,
     struct stream *stream),
    device, sums, count, total, stream)
FAR(array_decide,
    (struct device * device, const struct exact_sum *squares, double clip,
     struct optim_decision *out, int32_t *stop, struct stream *stream),
    device, squares, clip, out, stop, stream)
FAR(array_copy,
    (struct device * device, void *to, const void *from, size_t bytes, struct stream *stream),
    device, to, from, bytes, stream)
FAR(array_fill,
    (struct device * device, const struct elements *to, float value, struct stream *stream), device,
    to, value, stream)
FAR(array_add,
    (struct device * device, const struct elements *into, const struct elements *from,
     struct stream *stream),
    device, into, from, stream)
FAR(array_squares,
    (struct device * device, const struct elements *of, double *sums, struct stream *stream),
    device, of, sums, stream)
FAR(array_check,
    (struct device * device, const struct elements *of, int32_t *bad, struct stream *stream),
    device, of, bad, stream)
FAR(array_update,
    (struct device * device, const struct optim_update *update, int32_t *bad,
     struct stream *stream),
    device, update, bad, stream)

struct trained {
    double loss, eval_loss;
    uint64_t hash;
};

static struct trained train(const char *line, bool far_away) {
    struct kit_run run = {0};
    struct step_result step = {0};
    struct eval_result eval;
    kit_options(line, &run.options);
    cr_assert_eq(kit_plan(&run.options, 0, 1, NULL, &run.job), STATUS_OK);
    struct device *device = run.job.plan->device;
    near = device->backend;
    struct backend table = *near;
    table.memory_new = far_new, table.memory_free = far_free;
    table.kernel_run = far_kernel_run;
    table.copy_in = far_copy_in, table.copy_out = far_copy_out;
    table.array_copy = far_array_copy, table.array_fill = far_array_fill;
    table.array_add = far_array_add, table.array_squares = far_array_squares;
    table.array_sum = far_array_sum, table.array_decide = far_array_decide;
    table.apart = true;
    table.array_check = far_array_check, table.array_update = far_array_update;
    if (far_away) device->backend = &table;
    run.state = train_fresh();
    cr_assert_eq(kit_engine(run.job.plan, &run.state, NULL, &run.engine), STATUS_OK);
    step = kit_steps(&run, -1);
    cr_assert_eq(engine_settle(run.engine), STATUS_OK);
    cr_assert_eq(engine_evaluate(run.engine, &eval), STATUS_OK);
    struct trained trained = {step.loss, eval.loss, kit_hash(&run)};
    engine_close(&run.engine);
    device->backend = near;
    kit_plan_free(&run.job);
    options_free(&run.options);
    return trained;
}

Test(exec_far_memory, the_backend_alone_touches_it, .timeout = 120) {
    static const char *const lines[] = {
        "--model mlp --device ref --threads 1 --steps 3 --micro-batches 2 --clip 1",
        "--model resnet8 --data synthetic:count=8,test_count=4,size=8,channels=1,classes=3 "
        "--device ref --threads 1 --batch 8 --steps 2 --deal 2x1 --sync-bn"};
    for (int i = 0; i < 2; i++) {
        struct trained here = train(lines[i], false), far_away = train(lines[i], true);
        cr_expect_eq(here.hash, far_away.hash, "%s", lines[i]);
        cr_expect_eq(here.loss, far_away.loss, "%s", lines[i]);
        cr_expect_eq(here.eval_loss, far_away.eval_loss, "%s", lines[i]);
    }
}
