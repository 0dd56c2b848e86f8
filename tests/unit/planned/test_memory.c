/* What the ranks of a machine need together, and what it is compared with. */
#include <criterion/criterion.h>
#include <string.h>

#include "../exec/kit.h"
#include "base/log.h"
#include "base/text.h"
#include "planned/planned.h"

enum { RANKS = 8 };
#define MIB ((size_t)1 << 20)

static struct options options;
static struct planned_run planned;

/* Eight ranks of one machine; each of them needs 522 MiB. */
static void open_eight(const char *more, bool to_start) {
    char line[256];
    struct rank_info info = {.ranks = RANKS, .local_ranks = RANKS, .to_start = to_start};
    snprintf(
        line, sizeof line,
        "--model mlp --device ref --threads 1 --batch 64 -n 8 --data synthetic:size=8,count=64,"
        "test_count=8 %s",
        more);
    kit_options(line, &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    size_t now = plan_bytes(planned.plan);
    cr_assert_lt(now, 522 * MIB);
    planned.plan->memory.activations += 522 * MIB - now;
}

static void close_eight(void) {
    planned_close(&planned);
    options_free(&options);
}

static enum status check(char *log, size_t bytes) {
    log_capture(log, bytes);
    enum status status = planned_check_memory(&planned);
    log_capture(NULL, 0);
    return status;
}

Test(planned_memory, ranks_of_a_machine_are_counted_together) {
    char log[1024] = "";
    open_eight("", true);
    planned.available_bytes = 1536 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "the 8 ranks of this machine would need") && strstr(log, "522 MiB each"),
              "%s", log);
    cr_expect(strstr(log, "what is available is 1.5 GiB"), "%s", log);
    planned.available_bytes = 8 * 600 * MIB;
    cr_expect_eq(planned_check_memory(&planned), STATUS_OK);
    planned.available_bytes = 0; /* unknown: nothing to compare with */
    cr_expect_eq(planned_check_memory(&planned), STATUS_OK);
    close_eight();
}

/* Stages differ: the message has both ends, and names the one that needs most. */
Test(run_memory, ranks_that_differ_are_told_apart) {
    char log[1024] = "", low[TEXT_BYTES], high[TEXT_BYTES], both[3 * TEXT_BYTES];
    struct rank_info info = {.ranks = 2, .local_ranks = 2, .to_start = true};
    kit_options("--model mlp --device ref --threads 1 --batch 64 -n 2 --strategy gpipe "
                "--data synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    planned.position[1].activations += 100 * MIB;
    planned.available_bytes = (int64_t)MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    snprintf(both, sizeof both, "%s to %s each",
             text_size((int64_t)planned_position_bytes(&planned, 0), low),
             text_size((int64_t)planned_position_bytes(&planned, 1), high));
    cr_expect(strstr(log, both), "%s", log);
    cr_expect(strstr(log, "largest at the peak of rank 0: "), "%s", log);
    close_eight();
    kit_options("--model mlp --device ref --threads 1 --batch 64 -n 2 --strategy gpipe "
                "--data synthetic:size=8,count=64,test_count=8 --memory-limit 1M",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    planned.position[1].activations += 100 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "rank 1 would need"), "%s", log);
    close_eight();
}

/* Before ranks meet, what is left does not count: siblings may have taken theirs already. */
Test(planned_memory, before_ranks_meet_the_whole_machine_counts) {
    char log[1024] = "";
    open_eight("", false);
    planned.available_bytes = 1 * MIB;
    planned.total_bytes = 8 * 600 * MIB;
    cr_expect_eq(planned_check_alone(&planned), STATUS_OK);
    planned.total_bytes = 0;
    cr_expect_eq(planned_check_alone(&planned), STATUS_OK);
    planned.total_bytes = 1536 * MIB;
    log_capture(log, sizeof log);
    cr_expect_eq(planned_check_alone(&planned), STATUS_MEMORY);
    log_capture(NULL, 0);
    cr_expect(strstr(log, "the 8 ranks of this machine would need"), "%s", log);
    close_eight();
    open_eight("--memory-limit 521M", false);
    planned.total_bytes = 1024 * 1024 * MIB;
    cr_expect_eq(planned_check_alone(&planned), STATUS_MEMORY);
    close_eight();
}

/* Another stage may need less than this one. */
Test(planned_memory, before_stages_meet_each_counts_alone) {
    struct rank_info info = {.rank = 1, .ranks = 2, .local_ranks = 2};
    kit_options("--model mlp --device ref --threads 1 --batch 64 -n 2 --strategy gpipe "
                "--data synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    planned.plan->memory.activations += 500 * MIB;
    planned.total_bytes = 600 * MIB;
    cr_expect_eq(planned_check_alone(&planned), STATUS_OK);
    planned.total_bytes = 400 * MIB;
    cr_expect_eq(planned_check_alone(&planned), STATUS_MEMORY);
    close_eight();
}

/* The second machine has the later stages. */
Test(planned_memory, a_machine_counts_its_own_stages) {
    struct rank_info info = {.ranks = 4, .local_ranks = 2, .to_start = true};
    kit_options("--model mlp --device ref --threads 1 --batch 64 --strategy gpipe --stages 4 "
                "--data synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    planned.position[2].activations += 100 * MIB;
    size_t first = planned_machine_bytes(&planned);
    planned.first_local = 2;
    cr_expect_gt(planned_machine_bytes(&planned), first + 90 * MIB);
    close_eight();
}

Test(planned_memory, one_rank_is_counted_alone) {
    open_eight("", false);
    planned.local_ranks = 1;
    planned.available_bytes = 1536 * MIB;
    cr_expect_eq(planned_check_memory(&planned), STATUS_OK);
    close_eight();
}

Test(planned_memory, what_processes_share_is_counted_once) {
    open_eight("", false);
    size_t one = plan_bytes(planned.plan);
    cr_expect_gt(planned.code_bytes, 0);
    cr_expect_lt(planned.code_bytes, planned.plan->memory.library);
    cr_expect_eq(planned_machine_bytes(&planned), RANKS * one - (RANKS - 1) * planned.code_bytes);
    planned.to_start = true; /* then each will also hold what this process held before its plan */
    cr_expect_eq(planned_machine_bytes(&planned),
                 RANKS * (one + planned.before.own_bytes) - (RANKS - 1) * planned.code_bytes);
    close_eight();
}

/* They have one library among them, and each a part of it in its estimate. */
Test(planned_memory, what_threads_share_is_in_their_estimates_already) {
    open_eight("", false);
    size_t alone = planned.plan->memory.library;
    close_eight();
    open_eight("--spawn threads", false);
    cr_expect_lt(planned.plan->memory.library, alone);
    cr_expect_eq(planned.code_bytes, 0);
    cr_expect_eq(planned_machine_bytes(&planned), RANKS * plan_bytes(planned.plan));
    close_eight();
}

Test(planned_memory, a_limit_that_is_given_is_a_ranks_and_replaces_the_machines) {
    char log[1024] = "";
    open_eight("--memory-limit 523M", true);
    planned.available_bytes = 1 * MIB;
    cr_expect_eq(planned_check_memory(&planned), STATUS_OK);
    close_eight();
    open_eight("--memory-limit 521M", true);
    planned.available_bytes = 1024 * 1024 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "a rank would need 522 MiB, --memory-limit is 521 MiB"), "%s", log);
    close_eight();
}

/* --- clusters --- */

/* Each rank by its own device: the third of four lacks most, though another has less. */
Test(planned_memory, a_cluster_judges_each_rank_by_its_device) {
    static const char text[] =
        "classes:\n"
        "  - {name: a, ranks: 2, gflops_per_s: 1, memory_gib: 1, memory_gb_per_s: 1}\n"
        "  - {name: b, ranks: 2, gflops_per_s: 1, memory_gib: 0.5, memory_gb_per_s: 1}\n"
        "links: {in_host: {latency_us: 1, bandwidth_gb_per_s: 1}}\n";
    struct cluster cluster;
    struct planned_fit fit;
    char log[1024] = "";
    struct rank_info info = {.ranks = 4, .local_ranks = 4, .to_start = true};
    kit_options("--model mlp --device ref --threads 1 --batch 64 --strategy gpipe --stages 4 "
                "--data synthetic:size=8,count=64,test_count=8",
                &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
    cr_assert_eq(cluster_parse("c.yml", text, strlen(text), &cluster), STATUS_OK);
    cr_expect(!planned_fit(&planned, &fit));
    planned.costs->cluster = &cluster;
    planned.options.cluster = "c.yml";
    planned.options.command = COMMAND_SIMULATE;
    planned.available_bytes = 1; /* this machine does not count */
    cr_expect(planned_fit(&planned, &fit) && fit.fits && fit.lacking == 0 && !fit.limited);
    cr_expect_eq(check(log, sizeof log), STATUS_OK);
    planned.position[0].activations += 900 * MIB; /* fits its device */
    cr_expect(planned_fit(&planned, &fit) && fit.fits && fit.rank == 0);
    planned.position[2].activations += 600 * MIB; /* does not */
    cr_expect(planned_fit(&planned, &fit) && !fit.fits && fit.rank == 2 && fit.lacking == 1);
    cr_expect_eq(fit.has_bytes, 512 * MIB);
    cr_expect_str_eq(fit.class, "b");
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "rank 2 would need") &&
                  strstr(log, "the memory of its device (b of c.yml) is 512 MiB"),
              "%s", log);
    /* Who trains does so on this machine, and in virtual time for the device too. */
    planned.options.command = COMMAND_TRAIN;
    planned.available_bytes = 4096 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_OK);
    planned.costs->simulated = true;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    planned.position[2].activations -= 600 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_OK);
    planned.available_bytes = 1;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    planned.costs->cluster = NULL;
    cluster_free(&cluster);
    close_eight();
}

/* --- ZeRO --- */

/* The plan of rank 0 of four replicas of vit-tiny. */
static void open_zero(int stage, int micro_batches, const char *accumulate) {
    char line[320];
    struct rank_info info = {.ranks = 4, .local_ranks = 4, .to_start = true};
    snprintf(line, sizeof line,
             "--model vit-tiny --optimizer adamw --threads 1 --batch 16 -n 4 --strategy zero%d "
             "--micro-batches %d --zero-accumulate %s --patch 4 --data "
             "synthetic:size=32,channels=3,count=64,test_count=8",
             stage, micro_batches, accumulate);
    kit_options(line, &options);
    cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
}

/* Parameters, gradients and AdamW's two moments: `whole` P and `sliced` P / R of 16 P bytes. */
static void expect_shards(int whole, int sliced) {
    const struct memory_estimate *memory = &planned.plan->memory;
    double count = (double)graph_param_elements(planned.plan->micro[0].graph),
           want = whole * count + sliced * count / 4,
           have = (double)(memory->params + memory->gradients + memory->state);
    cr_expect_lt(have, 1.05 * want, "%.0f bytes, not %dP + %dP/R = %.0f", have, whole, sliced,
                 want);
    cr_expect_gt(have, 0.95 * want, "%.0f bytes, not %dP + %dP/R = %.0f", have, whole, sliced,
                 want);
}

/* Of `places` windows each has the largest bucket that lies there. */
static size_t window_bytes(int places) {
    const struct bucket_list *buckets = &planned.plan->chunk[0].buckets;
    int64_t elements = 0;
    for (int w = 0; w < places; w++) {
        int64_t most = 0;
        for (int b = w; b < buckets->count; b += places)
            if (buckets->items[b].elements > most) most = buckets->items[b].elements;
        elements += most;
    }
    return (size_t)elements * sizeof(float);
}

Test(planned_memory, shards_of_zero_have_the_sizes_of_its_formulas) {
    static const struct {
        int stage, micro_batches;
        const char *accumulate;
        int whole, sliced;
    } rows[] = {{1, 1, "local", 8, 8},   {2, 1, "local", 4, 12},   {3, 1, "local", 0, 16},
                {1, 2, "scatter", 8, 8}, {2, 2, "scatter", 4, 12}, {3, 2, "scatter", 0, 16},
                {1, 2, "local", 8, 8},   {2, 2, "local", 8, 8},    {3, 2, "local", 4, 12}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_zero(rows[i].stage, rows[i].micro_batches, rows[i].accumulate);
        const struct chunk_sizes *sizes = &planned.plan->sizes[0];
        expect_shards(rows[i].whole, rows[i].sliced);
        cr_expect_eq(planned.plan->memory.in_flight, window_bytes(sizes->windows), "row %zu", i);
        cr_expect_eq(planned.plan->memory.gathered, window_bytes(sizes->gathered), "row %zu", i);
        cr_expect_eq(sizes->gathered > 0, rows[i].stage == 3);
        close_eight();
    }
}

/* Every part of the sum has a name of its own. */
Test(planned_memory, parts_add_up_to_the_prediction) {
    struct memory_part part, other;
    size_t sum = 0;
    open_zero(3, 1, "local");
    for (int i = 0; memory_part(&planned.plan->memory, i, &part); i++) {
        sum += part.bytes;
        for (int j = 0; j < i && memory_part(&planned.plan->memory, j, &other); j++)
            cr_expect_str_neq(part.name, other.name);
    }
    cr_expect_eq(sum, plan_bytes(planned.plan));
    close_eight();
}

/* Copies are those of what a rank holds: the last stage of resnet18 has the large tensors. */
Test(planned_memory, a_stage_copies_its_own_tensors) {
    size_t copies[2];
    for (int rank = 0; rank < 2; rank++) {
        struct rank_info info = {.rank = rank, .ranks = 2, .local_ranks = 2, .to_start = true};
        kit_options(
            "--model resnet18-cifar --device ref --threads 1 --batch 4 -n 2 --strategy gpipe "
            "--micro-batches 2 --data synthetic:size=32,channels=3,count=16,test_count=4",
            &options);
        cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
        copies[rank] = planned.plan->memory.staging;
        close_eight();
    }
    cr_expect_eq(copies[1], (size_t)512 * 512 * 9 * sizeof(float));
    cr_expect_lt(copies[0], copies[1] / 8);
}

/* The word embedding is the output layer's weight, too: two stages of every replica have it, and
 * compare theirs before a save. With ZeRO they compare slices, or (of stage 1) whole parameters. */
Test(planned_memory, shared_tensors_are_copied_on_every_rank_that_has_them) {
    const size_t words = (size_t)2000 * 128 * sizeof(float);
    static const struct {
        const char *more;
        int parts; /* of the tensor that a rank beside the first replica copies: 1 / parts */
    } rows[] = {{"", 1}, {" --zero-stage 1", 1}, {" --zero-stage 3", 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int rank = 0; rank < 6; rank++) {
            struct rank_info info = {.rank = rank, .ranks = 6, .local_ranks = 6, .to_start = true};
            char line[512];
            snprintf(line, sizeof line,
                     "--model gpt2-nano --device ref --threads 1 --batch 12 -n 6 --strategy 1f1b "
                     "--stages 3 --replicas 2 --micro-batches 6 --data "
                     "synthetic:kind=text,seq=8,vocab=2000,count=24,test_count=4%s",
                     rows[i].more);
            kit_options(line, &options);
            cr_assert_eq(planned_open(&options, &info, &planned), STATUS_OK);
            size_t have = planned.plan->memory.staging, want = words / (size_t)rows[i].parts;
            bool shares = rank % 3 != 1;
            if (shares) cr_expect_geq(have, want, "rank %d%s: %zu", rank, rows[i].more, have);
            if (i == 0 && shares) cr_expect_eq(have, words, "rank %d: %zu", rank, have);
            if (i == 0 && !shares) cr_expect_lt(have, words / 2, "rank %d: %zu", rank, have);
            close_eight();
        }
    }
}
