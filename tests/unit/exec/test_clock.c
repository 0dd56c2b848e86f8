/* What the executor itself costs. */
#include <criterion/criterion.h>

#include "kit.h"

struct gaps {
    int64_t end_ns; /* of the instruction before */
    int seen, apart;
};

static void note_gap(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                     int64_t end_ns) {
    struct gaps *gaps = context;
    (void)step;
    if (instr->op != INSTR_FREE) return;
    gaps->seen++;
    gaps->apart += gaps->end_ns && begin_ns != gaps->end_ns;
    gaps->end_ns = end_ns;
}

/* Reading it takes as long as all else that the executor does for an instruction: what awaits
 * nothing begins as the one before it ended. */
Test(exec_clock, the_clock_is_read_once_an_instruction) {
    struct gaps gaps = {0};
    struct engine_observer observer = {.context = &gaps, .instr = note_gap};
    struct kit_run *run =
        kit_open_watched(&observer, "--model mlp --device ref --threads 1 --steps 2");
    struct rank_program *own = program_edit(run->planned.plan->program, 0);
    for (int i = 0; i < 100; i++) program_add(own, LIST_BODY, INSTR_FREE);
    kit_steps(run, 1);
    cr_expect_eq(gaps.seen, 100);
    cr_expect_eq(gaps.apart, 0, "%d gaps", gaps.apart);
    kit_close(&run);
}
