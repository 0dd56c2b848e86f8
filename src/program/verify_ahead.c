/* Proofs about steps that overlap (ahead.h) and about versions of the parameters.
 *
 * A pass says how many updates before its step the version was made that it reads. So the version
 * does not depend on when the pass runs, and F and B of a micro-batch read the same one. It must
 * exist already, and STEP must not have overwritten it: a rank keeps the newest version and the
 * `older` ones before it. */
#include <string.h>

#include "base/log.h"
#include "program/ahead.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

/* Enough to fill a pipeline, to have it full for some steps, and to drain it. */
int verify_ahead_steps(const struct program *program) {
    return program->ahead > 0 ? 2 * program->ahead + 3 : 1;
}

int verify_micro(const struct walk *walk) {
    return walk->program->ahead > 0 ? walk->step * walk->micros + walk->instr->micro
                                    : walk->instr->micro;
}

static enum status refuse(const char *what) {
    return fail(STATUS_USAGE, "program refused by rule %d in the header: %s", RULE_AHEAD, what);
}

static bool keeps_older(const struct program *program) {
    bool older = false;
    for (int k = 0; k < program->kind_count; k++)
        for (int c = 0; c < program->kinds[k].chunks; c++)
            older |= program->kinds[k].chunk[c].older > 0;
    return older;
}

/* Ranks keep room for `ahead` steps, so some forward must be that many steps ahead. */
static bool is_reached(const struct program *program) {
    bool reached = false;
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            reached |= body->items[i].op == INSTR_F &&
                       body->items[i].micro / program->micro_batches >= program->ahead;
    }
    return reached;
}

enum status verify_ahead(const struct program *program) {
    const struct grid *grid = &program->grid;
    if (program->ahead == 0 && !keeps_older(program)) return STATUS_OK;
    if (program_is_forward(program)) return refuse("a program without a step keeps no versions");
    if (grid->drivers + grid->servers > 0) return refuse("where steps overlap nobody drives them");
    if (grid->chunks > 1 || grid->replicas_each > 1)
        return refuse("where steps overlap a rank has one stage of one replica");
    if (program->ahead >= grid->stages && program->ahead > 0)
        return refuse("forwards run ahead by as many steps as there are stages, or more");
    if (program->sliced || program->tie_count > 0)
        return refuse("where steps overlap parameters are whole, and one stage's alone");
    if (program_has_last(program)) return refuse("where steps overlap none is shorter");
    if (program_shares(program)) return refuse("where steps overlap no statistics are shared");
    if (program_clips(program)) return refuse("where steps overlap no STEP awaits a norm");
    if (!is_reached(program)) return refuse("no forward is as many steps ahead as it says");
    int64_t micros = (int64_t)program->micro_batches * verify_ahead_steps(program);
    return micros <= PROGRAM_MAX_MICROS ? STATUS_OK : refuse("too many micro-batches are ahead");
}

/* Passes of an evaluation read the newest version. */
enum status verify_version(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (!strchr(instr_row(instr)->operands, 'v') || walk->list != LIST_BODY) return STATUS_OK;
    if (instr->stage < walk->program->frozen) return STATUS_OK; /* its parameters stay */
    int older = walk->own->chunk[verify_chunk(walk)].older,
        behind = instr->version == INSTR_ALL ? 0 : instr->version;
    int64_t wanted = ahead_step(walk->program, instr, walk->step) - behind;
    if (behind != older)
        return verify_broken(walk, RULE_VERSIONS, nobody,
                             "it reads v%d, where the stage keeps %d older versions", behind,
                             older);
    if (wanted > walk->updates)
        return verify_broken(walk, RULE_VERSIONS, nobody,
                             "the version of update %d is not made yet", (int)wanted);
    if (wanted < 0) wanted = 0; /* the first one */
    if (wanted < walk->updates - older)
        return verify_broken(walk, RULE_VERSIONS, nobody, "the version of update %d is overwritten",
                             (int)wanted);
    return STATUS_OK;
}
