/* What is proven of parameters where replicas update slices: GATHER makes them whole again, once,
 * after STEP and before anybody reads them; they are whole when a step ends. */
#include <string.h>

#include "base/log.h"
#include "program/verify.h"

static enum status gather(struct walk *walk, struct param_bucket *params) {
    TRY(verify_replicas(walk));
    if (!params->stale)
        return verify_broken(walk, "the parameters of bucket %d are whole", walk->instr->bucket);
    params->stale = false;
    return STATUS_OK;
}

static enum status visit(struct walk *walk, struct param_bucket *params) {
    switch ((enum instr_op)walk->instr->op) {
    case INSTR_GATHER: return gather(walk, params);
    case INSTR_STEP: params->stale = true; return STATUS_OK;
    default: break;
    }
    if (!params->stale) return STATUS_OK;
    return verify_broken(walk, "parameters that it reads were not gathered (GATHER)");
}

enum status verify_params(struct walk *walk) {
    const struct instr *instr = walk->instr;
    if (instr->op == INSTR_GATHER && !walk->program->sliced)
        return verify_broken(walk, "nothing is sliced (\"sliced\" in the header)");
    if (!walk->program->sliced || !strchr(instr_row(instr)->reads, 'p')) return STATUS_OK;
    struct resource_access access = program_access(walk->program, walk->own->chunk, instr, 'p');
    for (int b = 0; b < access.bucket_count; b++)
        TRY(visit(walk, &walk->params[access.first_bucket + b]));
    return STATUS_OK;
}

enum status verify_params_at_end(struct walk *walk) {
    int count = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    for (int b = 0; walk->program->sliced && b < count; b++)
        if (walk->params[b].stale)
            return fail(STATUS_USAGE,
                        "program refused: rank %d ends a step with parameters that were not "
                        "gathered (bucket %d)",
                        walk->rank, b);
    return STATUS_OK;
}
