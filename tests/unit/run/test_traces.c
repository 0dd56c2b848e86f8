/* Times of other ranks in trace.json: by the clock of rank 0, which may be theirs too. */
#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/machine.h"
#include "run/traces.h"

/* On a busy machine a rank looks at the clock long after the others: its times stay as they are. */
Test(run_traces, ranks_of_one_clock_are_not_shifted) {
    static const int64_t late_ns[] = {0, 1, 99999999, 100000000, 30000000000, -30000000000};
    for (size_t i = 0; i < sizeof late_ns / sizeof *late_ns; i++) {
        struct traces_clock mine = {7, 1000}, same = {7, 1000 + late_ns[i]},
                            other = {8, 1000 + late_ns[i]}, unknown = {0, 1000 + late_ns[i]},
                            neither = {0, 1000};
        cr_expect_eq(traces_shift(&mine, &same), 0);
        cr_expect_eq(traces_shift(&mine, &other), -late_ns[i]);
        cr_expect_eq(traces_shift(&neither, &unknown), -late_ns[i]);
    }
}

Test(run_traces, processes_of_a_machine_have_one_clock) {
    uint64_t clock = machine_clock("");
    int how;
    pid_t pid = fork();
    if (pid == 0) _exit(machine_clock("") != clock);
    cr_assert_eq(waitpid(pid, &how, 0), pid);
    cr_expect(clock != 0 && how == 0);
}
