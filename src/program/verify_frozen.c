/* What is proven of frozen stages: they are the first ones, and nothing of theirs has to do with
 * gradients. What follows from that is proven where it belongs: a slot of theirs has fewer facts
 * (fact.def), and the gradients that are not theirs are missed by nobody, since they have no
 * buckets.
 */
#include <string.h>

#include "base/log.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

bool verify_trains(const struct walk *walk) {
    const struct program *program = walk->program;
    bool trains = false;
    for (int c = 0; walk->cell.role == GRID_STAGE && c < walk->own->chunks; c++)
        trains |= grid_stage(&program->grid, walk->cell.position, c) >= program->frozen;
    return trains;
}

/* Whether an instruction has to do with gradients of its stage, or sends them to the stage before.
 */
static bool is_of_gradients(const struct instr *instr) {
    const struct instr_row *row = instr_row(instr);
    return instr->op == INSTR_R || row->time == TIME_BACKWARD || instr_goes_back(instr) ||
           strchr(row->operands, 'g') || instr->flags & INSTR_BACKWARD;
}

enum status verify_not_frozen(const struct walk *walk) {
    const struct instr *instr = walk->instr;
    int frozen = walk->program->frozen;
    if (!strchr(instr_row(instr)->operands, 's') || frozen == 0) return STATUS_OK;
    if (instr->stage >= frozen && (instr->stage > frozen || instr->op != INSTR_SEND_B))
        return STATUS_OK;
    if (instr->stage == frozen)
        return verify_broken(walk, RULE_FROZEN, nobody,
                             "stage %d is frozen, and takes no gradients", frozen - 1);
    if (is_of_gradients(instr))
        return verify_broken(walk, RULE_FROZEN, nobody, "stage %d is frozen, and has no gradients",
                             instr->stage);
    if (instr->flags & INSTR_AGAIN)
        return verify_broken(walk, RULE_FROZEN, nobody,
                             "stage %d is frozen: nothing of it is made again", instr->stage);
    return STATUS_OK;
}

static enum status refuse_frozen(const char *what, int stage) {
    return fail(STATUS_USAGE, "program refused by rule %d in the header: stage %d %s", RULE_FROZEN,
                stage, what);
}

/* Buckets are those of gradients: a stage has some, unless it is frozen. */
static enum status check_buckets(const struct walk *walk) {
    const struct program *program = walk->program;
    for (int c = 0; walk->cell.role == GRID_STAGE && c < walk->own->chunks; c++) {
        int stage = grid_stage(&program->grid, walk->cell.position, c);
        const struct chunk_sizes *sizes = &walk->own->chunk[c];
        bool frozen = stage < program->frozen;
        if (frozen && (sizes->buckets > 0 || sizes->windows > 0))
            return refuse_frozen("is frozen, and has buckets", stage);
        if (!frozen && sizes->buckets == 0)
            return refuse_frozen("is not frozen, and has none", stage);
        if (!frozen && program->sliced & SLICED_GRADIENTS && sizes->windows == 0)
            return refuse_frozen("is not frozen, and has no windows", stage);
    }
    if (walk->cell.role != GRID_STAGE || program_is_forward(program)) return STATUS_OK;
    if (verify_trains(walk) == (walk->own->grads > 0)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "program refused by rule %d in the header: rank %d has %s, and %d gradient buffers",
                program->frozen ? RULE_FROZEN : RULE_FORWARD, walk->rank,
                verify_trains(walk) ? "stages that are trained" : "frozen stages alone",
                walk->own->grads);
}

enum status verify_frozen(const struct verifier *verifier) {
    const struct program *program = verifier->program;
    int frozen = program->frozen;
    if (frozen > 0 && program_is_forward(program))
        return refuse_frozen("is frozen in a program without steps", frozen - 1);
    if (frozen > 0 && program->ahead > 0)
        return refuse_frozen("is frozen where steps overlap", frozen - 1);
    if (frozen > 0 && program_is_apart(program))
        return refuse_frozen("is frozen where replicas train apart", frozen - 1);
    if (frozen > 0 && program->sliced & SLICED_PARAMS)
        return refuse_frozen("is frozen where parameters are sliced", frozen - 1);
    for (int t = 0; t < program->tie_count; t++)
        if (program->tie[t].stage < frozen || program->tie[t].other < frozen)
            return refuse_frozen("is frozen, and shares gradients", frozen - 1);
    for (int w = 0; w < verifier->walk_count; w++) TRY(check_buckets(&verifier->walks[w]));
    return STATUS_OK;
}
