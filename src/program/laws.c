/* See laws.h. */
#include "program/laws.h"

#include "program/ahead.h"

/* Number k is what replica k mod R has in step k div R. Segments of forward come in descending
 * order.
 */
struct hetero_pass program_pass(const struct program *program, uint64_t seed, int rank,
                                int64_t step, const struct instr *instr) {
    const struct grid *grid = &program->grid;
    int replica = grid_cell(grid, rank).first_replica +
                  (program->ahead > 0 ? 0 : instr->micro / program->micro_batches);
    int buckets = program_of(program, rank)->chunk[grid_chunk(grid, instr->stage)].buckets,
        last = instr_is_forward(instr) ? 0 : buckets - 1;
    return (struct hetero_pass){.seed = seed,
                                .rank = rank,
                                .number =
                                    ahead_step(program, instr, step) * grid->replicas + replica,
                                .micro = instr->micro % program->micro_batches,
                                .stage = instr->stage,
                                .kind = instr_cost_kind(instr),
                                .ends = !instr_is_segment(instr) || instr->segment == last};
}

struct cost_link program_law_link(const struct program *program, const struct hetero *law,
                                  enum group_family family, int index) {
    struct cost_link slowest = {0};
    for (size_t i = 0; i < law->link_count; i++) {
        const int *rank = law->link[i].rank;
        if (group_of(&program->grid, family, rank[0]) == index &&
            group_of(&program->grid, family, rank[1]) == index)
            slowest = cost_slower_link(slowest, law->link[i].more);
    }
    return slowest;
}
