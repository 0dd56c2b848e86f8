/* See trail.h. */
#include "exec/trail.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/watch.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/state.h"

struct trail_entry {
    const struct instr *instr; /* NULL: of no list */
    int64_t step;
    const struct graph *graph;
    const struct node *node; /* NULL: not of a graph */
};

static struct device *device_of(const struct engine *engine) {
    return engine->plan->device;
}

void trail_open(struct engine *engine) {
    const struct backend_watch *watch = device_of(engine)->backend->watch;
    if (engine->apart && watch && watch->mark)
        engine->trail.entry = MEM_ARRAY(struct trail_entry, TRAIL_ROOM);
}

void trail_close(struct engine *engine) {
    free(engine->trail.entry);
}

static struct trail_entry *entry_of(const struct engine *engine, uint32_t number) {
    return &engine->trail.entry[number % TRAIL_ROOM];
}

static bool is_marked(const struct engine *engine, uint32_t number) {
    return number <= TRAIL_EACH || number % TRAIL_STRIDE == 0 || !entry_of(engine, number)->node;
}

void trail_begin(struct engine *engine, const struct graph *graph, const struct node *node) {
    struct trail *trail = &engine->trail;
    if (!trail->entry) return;
    uint32_t number = ++trail->count;
    bool listed = engine->list && engine->at < engine->list->count;
    *entry_of(engine, number) =
        (struct trail_entry){.instr = listed ? &engine->list->items[engine->at] : NULL,
                             .step = engine->step->number,
                             .graph = graph,
                             .node = node};
}

void trail_end(struct engine *engine) {
    const struct trail *trail = &engine->trail;
    if (trail->entry && is_marked(engine, trail->count))
        device_of(engine)->backend->watch->mark(device_of(engine), engine->stream[STREAM_COMPUTE],
                                                trail->count);
}

bool trail_device_failed(struct engine *engine) {
    return engine->trail.entry && device_of(engine)->backend->watch->failed(device_of(engine));
}

static void name_node(const struct trail_entry *entry, char *text, size_t bytes) {
    const struct node *node = entry->node;
    if (node)
        snprintf(text, bytes, "%s, which makes %s, by kernel %s", op_def(node->op)->name,
                 entry->graph->values[node->out[0]].name, node->kernel->name);
    else
        snprintf(text, bytes, "arithmetic on its arrays");
}

/* The device has come to mark `reached`, and not to the next one. */
static void tell_between(const struct engine *engine, uint32_t reached, uint32_t next) {
    const struct trail_entry *first = entry_of(engine, reached + 1);
    char instr[INSTR_TEXT_BYTES] = "no instruction", from[256], to[256];
    if (first->instr) instr_text(first->instr, engine->plan->config.rank, instr);
    name_node(first, from, sizeof from);
    name_node(entry_of(engine, next), to, sizeof to);
    if (next == reached + 1)
        log_note("it failed at %s of step %lld: %s", instr, (long long)first->step + 1, from);
    else
        log_note("it failed at %s of step %lld or behind it, at one of %u kernels from\n  %s to\n"
                 "  %s",
                 instr, (long long)first->step + 1, next - reached, from, to);
}

void trail_tell(struct engine *engine) {
    struct trail *trail = &engine->trail;
    if (trail->told || !trail->entry || !trail_device_failed(engine)) return;
    trail->told = true;
    uint32_t reached = device_of(engine)->backend->watch->marked(device_of(engine)),
             next = reached + 1;
    if (reached >= trail->count || trail->count - reached > TRAIL_ROOM) return;
    while (next < trail->count && !is_marked(engine, next)) next++;
    tell_between(engine, reached, next);
}
