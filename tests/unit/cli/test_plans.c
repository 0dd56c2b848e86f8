/* How often a command plans: once in a process for each plan. Making one takes the time of graphs,
 * kernels and programs, so nobody makes one to look something up. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "../../options_line.h"
#include "../exec/kit.h"
#include "base/file.h"
#include "cli/cli.h"
#include "planned/planned.h"

#define LINE                                                                                       \
    "--model mlp --device ref --threads 1 --batch 8 --data "                                       \
    "synthetic:size=8,channels=1,count=20,test_count=8 --micro-batches 2 "
#define TWO "-n 2 --strategy "

static int plans_of(enum option_command command, enum status (*run)(const struct options *),
                    const char *line) {
    struct options options;
    int before = plan_count();
    cr_assert_eq(options_of_line(command, line, &options), STATUS_OK);
    cr_assert(freopen("/dev/null", "w", stdout));
    cr_expect_eq(run(&options), STATUS_OK, "%s", line);
    options_free(&options);
    return plan_count() - before;
}

/* Of one process: what others are forked for counts there. With --recompute it compares four plans,
 * of which it has made one already. */
Test(cli_plans, commands_that_do_not_train) {
    static const struct {
        const char *line;
        int explains;
    } cases[] = {{LINE, 1},
                 {LINE TWO "gpipe", 1},
                 {LINE TWO "zbv --spawn threads --model resnet8", 1},
                 {LINE TWO "ddp", 1},
                 {LINE TWO "auto --costs f=1,i=1,w=1", 1},
                 {LINE "--stages 2 --strategy rpc", 1},
                 {LINE TWO "gpipe --recompute always", RECOMPUTE_POLICY_COUNT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line = cases[i].line;
        int explained = plans_of(COMMAND_EXPLAIN, explain_run, line),
            simulated = plans_of(COMMAND_SIMULATE, simulate_run, line);
        cr_expect_eq(explained, cases[i].explains, "explain %s: %d", line, explained);
        cr_expect_eq(simulated, 1, "simulate %s: %d", line, simulated);
    }
    cr_expect_eq(plans_of(COMMAND_CHECK, check_run, LINE TWO "gpipe"), 1);
    cr_expect_eq(plans_of(COMMAND_CHECK, check_run, LINE TWO "gpipe --memory-limit 1GiB"), 1);
    /* That of the proof, which has no kernels; of each rank; of the one device they are compared
     * with. */
    cr_expect_eq(plans_of(COMMAND_CHECK, check_run, LINE TWO "gpipe --numeric --steps 1"), 4);
}

/* Ranks of one process have a plan each. */
Test(cli_plans, rank_threads) {
    char *folder = kit_folder(),
         *line =
             mem_format(LINE TWO "gpipe --spawn threads --steps 1 --quiet --out %s/run", folder);
    int plans = plans_of(COMMAND_TRAIN, train_run, line);
    cr_expect_eq(plans, 2, "%d", plans);
    folder_remove(folder);
    free(folder);
    free(line);
}

/* As a run of processes does: the launcher plans, and so does each of the ranks that it starts. */
Test(cli_plans, processes) {
    static const struct rank_info processes[] = {
        {.ranks = 2, .local_ranks = 2, .to_start = true, .weighed = true},
        {.rank = 0, .ranks = 2, .local_ranks = 2},
        {.rank = 1, .ranks = 2, .local_ranks = 2}};
    static const char *const lines[] = {LINE TWO "gpipe", LINE TWO "zb-h1", LINE TWO "auto"};
    for (size_t i = 0; i < 9; i++) {
        struct options options;
        struct planned_run planned;
        int before = plan_count();
        kit_options(lines[i / 3], &options);
        cr_assert_eq(planned_open(&options, &processes[i % 3], &planned), STATUS_OK);
        cr_expect_eq(plan_count() - before, 1, "%s, process %zu: %d", lines[i / 3], i % 3,
                     plan_count() - before);
        /* Every rank is known all the same to who speaks for them. */
        cr_expect_eq(planned.position != NULL, i % 3 < 2);
        planned_close(&planned);
        options_free(&options);
    }
}
