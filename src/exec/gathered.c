/* Sliced parameters between steps: gathered bucket by bucket for whoever wants to see them whole.
 */

#include "backend/copy.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

static const struct instr *find_gather(const struct engine *engine, enum list_name name) {
    const struct instr_list *list =
        program_list(engine->plan->program, engine->plan->config.rank, name);
    for (int i = 0; i < list->count; i++)
        if (list->items[i].op == INSTR_GATHER) return &list->items[i];
    return NULL;
}

/* The group that gathers is the one of the program's own GATHERs; a forward program has them where
 * it evaluates. */
static struct instr gather_like(const struct engine *engine, int chunk, int bucket) {
    const struct instr *found = find_gather(engine, LIST_BODY);
    if (!found) found = find_gather(engine, LIST_EVAL);
    CHECK(found, "sliced parameters, and no GATHER");
    struct instr gather = *found;
    gather.stage = (int16_t)engine->plan->chunk[chunk].stage;
    gather.bucket = (int16_t)bucket;
    return gather;
}

/* Collective over the replicas, blocking, between steps. Parameters of a bucket into their window.
 */
static enum status gather(struct engine *engine, int chunk, int bucket) {
    struct instr gather = gather_like(engine, chunk, bucket);
    return posted_run(engine, &gather);
}

static enum status visit_bucket(struct engine *engine, const struct bucket *bucket,
                                engine_param_fn *visit, void *context) {
    const struct state_layout *layout = engine->store->layout;
    for (int i = bucket->first; i < bucket->first + bucket->count; i++) {
        const struct state_item *item = &layout->params[layout->order[i]];
        if (!state_answers(item)) continue;
        SCOPED_FREE void *plain = mem_new(tensor_type_bytes(&item->type));
        TRY(layout_to_plain(engine->plan->device, item->layout,
                            store_read_param(engine->store, layout->order[i]).data, plain));
        TRY(visit(context, layout->order[i], plain));
    }
    return STATUS_OK;
}

static enum status visit_frozen(struct engine *engine, engine_param_fn *visit, void *context) {
    const struct state_layout *layout = engine->store->layout;
    int array = state_array(layout, ARRAY_FROZEN, 0);
    for (int p = 0; p < layout->param_count; p++) {
        const struct state_item *item = &layout->frozen[p];
        if (!state_answers(item)) continue;
        SCOPED_FREE void *plain = mem_new(tensor_type_bytes(&item->type));
        TRY(store_get(engine->store, array, p, plain));
        TRY(visit(context, p, plain));
    }
    return STATUS_OK;
}

enum status engine_each_param(struct engine *engine, engine_param_fn *visit, void *context) {
    const struct plan *plan = engine->plan;
    bool sliced = plan->program->sliced & SLICED_PARAMS;
    TRY(engine_settle(engine));
    for (int c = 0; c < plan->chunk_count; c++) {
        for (int b = 0; b < plan->chunk[c].buckets.count; b++) {
            if (sliced) TRY(gather(engine, c, b));
            TRY(visit_bucket(engine, &plan->chunk[c].buckets.items[b], visit, context));
        }
    }
    return visit_frozen(engine, visit, context);
}

struct hashed {
    const struct state_layout *layout;
    uint64_t sum;
};

static enum status add_hash(void *context, int param, const void *plain) {
    struct hashed *hashed = context;
    hashed->sum += store_item_hash(&hashed->layout->params[param], plain);
    return STATUS_OK;
}

enum status engine_param_hash(struct engine *engine, uint64_t *out) {
    struct hashed hashed = {.layout = engine->store->layout};
    TRY(engine_each_param(engine, add_hash, &hashed));
    *out = hashed.sum;
    return STATUS_OK;
}
