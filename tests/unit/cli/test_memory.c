/* What the ranks of a machine need together, and what it is compared with. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/job.h"
#include "../exec/kit.h"
#include "base/log.h"

enum { RANKS = 8 };
#define MIB ((size_t)1 << 20)

static struct options options;
static struct job job;

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
    cr_assert_eq(job_open(&options, &info, &job), STATUS_OK);
    size_t now = plan_bytes(job.plan);
    cr_assert_lt(now, 522 * MIB);
    job.plan->memory.activations += 522 * MIB - now;
}

static void close_eight(void) {
    job_close(&job);
    options_free(&options);
}

static enum status check(char *log, size_t bytes) {
    log_capture(log, bytes);
    enum status status = job_check_memory(&job);
    log_capture(NULL, 0);
    return status;
}

Test(cli_memory, ranks_of_a_machine_are_counted_together) {
    char log[1024] = "";
    open_eight("", true);
    job.available_bytes = 1536 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "the 8 ranks of this machine would need") && strstr(log, "522 MiB each"),
              "%s", log);
    cr_expect(strstr(log, "what is available is 1.5 GiB"), "%s", log);
    job.available_bytes = 8 * 600 * MIB;
    cr_expect_eq(job_check_memory(&job), STATUS_OK);
    job.available_bytes = 0; /* unknown: nothing to compare with */
    cr_expect_eq(job_check_memory(&job), STATUS_OK);
    close_eight();
}

Test(cli_memory, one_rank_is_counted_alone) {
    open_eight("", false);
    job.local_ranks = 1;
    job.available_bytes = 1536 * MIB;
    cr_expect_eq(job_check_memory(&job), STATUS_OK);
    close_eight();
}

Test(cli_memory, what_processes_share_is_counted_once) {
    open_eight("", false);
    size_t one = plan_bytes(job.plan);
    cr_expect_gt(job.code_bytes, 0);
    cr_expect_lt(job.code_bytes, job.plan->memory.library);
    cr_expect_eq(job_machine_bytes(&job), RANKS * one - (RANKS - 1) * job.code_bytes);
    job.to_start = true; /* then each will also hold what this process held before its plan */
    cr_expect_eq(job_machine_bytes(&job),
                 RANKS * (one + job.before.own_bytes) - (RANKS - 1) * job.code_bytes);
    close_eight();
}

/* They have one library among them, and each a part of it in its estimate. */
Test(cli_memory, what_threads_share_is_in_their_estimates_already) {
    open_eight("", false);
    size_t alone = job.plan->memory.library;
    close_eight();
    open_eight("--spawn threads", false);
    cr_expect_lt(job.plan->memory.library, alone);
    cr_expect_eq(job.code_bytes, 0);
    cr_expect_eq(job_machine_bytes(&job), RANKS * plan_bytes(job.plan));
    close_eight();
}

Test(cli_memory, a_limit_that_is_given_is_a_ranks_and_replaces_the_machines) {
    char log[1024] = "";
    open_eight("--memory-limit 523M", true);
    job.available_bytes = 1 * MIB;
    cr_expect_eq(job_check_memory(&job), STATUS_OK);
    close_eight();
    open_eight("--memory-limit 521M", true);
    job.available_bytes = 1024 * 1024 * MIB;
    cr_expect_eq(check(log, sizeof log), STATUS_MEMORY);
    cr_expect(strstr(log, "a rank would need 522 MiB, --memory-limit is 521 MiB"), "%s", log);
    close_eight();
}
