/* What is proven of parameters where replicas update slices.
 *
 * Whole ones (ZeRO-1 and 2): GATHER makes them whole again, once, after STEP and before anybody
 * reads them. Sliced ones (ZeRO-3): a bucket is whole from GATHER to FREE, nobody reads it outside,
 * and no two are in one place. A step ends as it began. */
#include <string.h>

#include "base/log.h"
#include "program/verify.h"

static const struct place nobody = {NULL, 0};

static bool are_sliced(const struct walk *walk) {
    return walk->program->sliced & SLICED_PARAMS;
}

/* The bucket of the stage that lies in the place of the instruction's; -1: none. */
static int occupant(const struct walk *walk) {
    const struct chunk_sizes *sizes = &walk->own->chunk[verify_chunk(walk)];
    int first = sizes_bucket(walk->own->chunk, verify_chunk(walk), 0);
    int place = sizes_place(sizes, sizes->gathered, walk->instr->bucket);
    for (int b = 0; b < sizes->buckets; b++)
        if (walk->params[first + b].whole && sizes_place(sizes, sizes->gathered, b) == place)
            return b;
    return -1;
}

static enum status gather(struct walk *walk, struct param_bucket *params) {
    TRY(verify_replicas(walk, RULE_GATHERED));
    if (params->whole)
        return verify_broken(walk, RULE_GATHERED, verify_own(walk, params->last),
                             "the parameters of bucket %d are whole", walk->instr->bucket);
    if (are_sliced(walk) && occupant(walk) >= 0)
        return verify_broken(walk, RULE_GATHERED, nobody, "its place holds bucket %d (no FREE)",
                             occupant(walk));
    params->whole = true;
    params->last = walk->instr;
    return STATUS_OK;
}

static enum status free_place(struct walk *walk, struct param_bucket *params) {
    if (!are_sliced(walk))
        return verify_broken(walk, RULE_GATHERED, nobody, "parameters are not sliced");
    if (!params->whole)
        return verify_broken(walk, RULE_GATHERED, verify_own(walk, params->last),
                             "bucket %d was not gathered", walk->instr->bucket);
    params->whole = false;
    params->last = walk->instr;
    return STATUS_OK;
}

/* What others update is old from then on, in slices or whole. */
static enum status step(struct walk *walk, struct param_bucket *params, int index) {
    char name[VERIFY_BUCKET_BYTES];
    if (are_sliced(walk) && params->whole)
        return verify_broken(walk, RULE_GATHERED, verify_own(walk, params->last),
                             "%s is gathered, and would be old (no FREE)",
                             verify_bucket_name(walk, index, name));
    params->whole = false;
    params->last = walk->instr;
    return STATUS_OK;
}

static enum status visit(struct walk *walk, int buffer) {
    int index = resource_bucket(&walk->map, buffer);
    struct param_bucket *params = &walk->params[index];
    switch ((enum instr_op)walk->instr->op) {
    case INSTR_GATHER: return gather(walk, params);
    case INSTR_FREE: return free_place(walk, params);
    case INSTR_STEP: return step(walk, params, index);
    default: break;
    }
    if (params->whole) return STATUS_OK;
    char name[VERIFY_BUCKET_BYTES];
    return verify_broken(walk, RULE_GATHERED, verify_own(walk, params->last),
                         "the parameters of %s that it reads were not gathered",
                         verify_bucket_name(walk, index, name));
}

enum status verify_params(struct walk *walk) {
    const struct instr *instr = walk->instr;
    bool moves = instr->op == INSTR_GATHER || instr->op == INSTR_FREE;
    if (moves && !walk->program->sliced)
        return verify_broken(walk, RULE_SLICED, nobody,
                             "nothing is sliced (\"sliced\" in the header)");
    if (!walk->program->sliced || !strchr(instr_row(instr)->reads, 'p')) return STATUS_OK;
    struct touched touched = resource_touched(&walk->map, instr, 'p');
    for (int b = 0; b < touched.count; b++) TRY(visit(walk, touched.first + b));
    for (int i = 0; i < touched.also_count; i++) TRY(visit(walk, touched.also[i]));
    return STATUS_OK;
}

/* Which bucket all segments of a stage make is a matter of the stage. */
enum status verify_kept(const struct verifier *verifier) {
    for (int w = 0; w < verifier->walk_count; w++) {
        const struct walk *walk = &verifier->walks[w], *first = verifier->walks;
        while (first->cell.position != walk->cell.position) first++;
        for (int c = 0; c < walk->own->chunks; c++)
            if (walk->own->chunk[c].kept != first->own->chunk[c].kept)
                return fail(STATUS_USAGE,
                            "program refused by rule %d in the header: ranks %d and %d hold the "
                            "same stages and do not keep the same buckets",
                            RULE_GATHERED, first->rank, walk->rank);
    }
    return STATUS_OK;
}

void verify_params_at_begin(struct walk *walk) {
    int count = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    for (int b = 0; b < count; b++) walk->params[b].whole = !are_sliced(walk);
}

enum status verify_params_at_end(const struct walk *walk) {
    int count = sizes_bucket(walk->own->chunk, walk->own->chunks, 0);
    for (int b = 0; walk->program->sliced && b < count; b++) {
        if (walk->params[b].whole != are_sliced(walk)) continue;
        struct walk end = verify_end_of(walk, walk->list);
        char name[VERIFY_BUCKET_BYTES];
        return verify_broken(&end, RULE_GATHERED, verify_own(walk, walk->params[b].last),
                             "the list %s ends with parameters that were not %s (%s)",
                             list_names[walk->list], are_sliced(walk) ? "freed" : "gathered",
                             verify_bucket_name(walk, b, name));
    }
    return STATUS_OK;
}
