/* See activations.h. */
#include "plan/activations.h"

#include <string.h>

#include "base/mem.h"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Evaluation keeps nothing, and has one slot. */
static bool has_form(const struct plan *plan, const struct micro_plan *micro, int form) {
    if (!plan_runs(plan, micro)) return false;
    return micro->training ? plan->forms.has[form] : form == FORM_KEPT;
}

static struct placement_config config_for(const struct plan *plan, const struct micro_plan *micro,
                                          int form, const struct placement_config *config) {
    struct placement_config own = *config;
    own.shared &= micro->training;
    own.life.some_kept = form == FORM_KEPT && plan->forms.mixed;
    own.life.recompute = micro->training && (form == FORM_LIGHT || own.life.some_kept);
    own.life.blocks = own.life.recompute && plan->forms.blocks;
    return own;
}

static void place_micro(struct plan *plan, struct micro_plan *micro,
                        const struct placement_config *config) {
    if (!micro->placement)
        micro->placement = MEM_ARRAY(struct placement, plan->chunk_count * FORM_COUNT);
    for (int i = 0; i < plan->chunk_count * FORM_COUNT; i++) {
        struct placement_config own = config_for(plan, micro, i % FORM_COUNT, config);
        placement_free(&micro->placement[i]);
        int stage = plan->chunk[i / FORM_COUNT].stage;
        if (!has_form(plan, micro, i % FORM_COUNT)) continue;
        micro->placement[i] = plan->pool ? plan_pool_place(plan->pool, &micro->ranges, stage, &own)
                                         : graph_place(&micro->ranges, stage, &own);
    }
}

const struct placement *plan_placement(const struct plan *plan, const struct micro_plan *micro,
                                       int chunk, int slot) {
    enum slot_form form = plan->forms.of[sizes_slot(plan->sizes, chunk, slot)];
    return &micro->placement[chunk * FORM_COUNT + (micro->training ? form : FORM_KEPT)];
}

size_t plan_slot_begin(const struct plan *plan, int chunk, int slot) {
    size_t begin = plan->chunk[chunk].arena_begin;
    for (int s = 0; s < slot; s++)
        begin += plan->chunk[chunk].slot_bytes[plan->forms.of[sizes_slot(plan->sizes, chunk, s)]];
    return begin;
}

/* Slots of the chunks one behind the other, then what all share. Evaluation runs between steps,
 * when all of it is free, and has one slot a chunk. Returns the bytes of all. */
static size_t lay_arenas(struct plan *plan) {
    size_t training = 0, evaluation = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        struct chunk_plan *chunk = &plan->chunk[c];
        chunk->arena_begin = training;
        chunk->eval_begin = evaluation;
        training = plan_slot_begin(plan, c, plan->sizes[c].slots);
        evaluation += chunk->eval_bytes;
    }
    plan->shared_begin = training;
    return larger(training + plan->shared_bytes, evaluation);
}

static void measure_placement(struct plan *plan, const struct micro_plan *micro, int index) {
    const struct placement *placement = &micro->placement[index];
    struct chunk_plan *of = &plan->chunk[index / FORM_COUNT];
    size_t *slot_bytes = &of->slot_bytes[index % FORM_COUNT];
    if (!micro->training) {
        of->eval_bytes = larger(of->eval_bytes, placement_bytes(placement, 1));
        return;
    }
    *slot_bytes = larger(*slot_bytes, placement->slot_bytes);
    plan->shared_bytes = larger(plan->shared_bytes, placement->shared_bytes);
}

/* Places every graph of the run; returns the bytes of all arenas together. */
static size_t place_micros(struct plan *plan, const struct placement_config *config) {
    plan->shared_bytes = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        memset(plan->chunk[c].slot_bytes, 0, sizeof plan->chunk[c].slot_bytes);
        plan->chunk[c].eval_bytes = 0;
    }
    for (int i = 0; i < plan->micro_count; i++) {
        struct micro_plan *micro = &plan->micro[i];
        place_micro(plan, micro, config);
        for (int p = 0; p < plan->chunk_count * FORM_COUNT; p++) measure_placement(plan, micro, p);
    }
    return lay_arenas(plan);
}

/* Places activations in both ways, one arena for each slot and transient values in a shared arena,
 * and keeps the smaller. With one slot there is nothing to share. */
void plan_activations(struct plan *plan, const struct placement_config *of) {
    struct placement_config config = *of;
    plan->forms = forms_of(plan->program, plan->config.rank, plan->sizes, plan->chunk_count);
    plan->split = config.life.split;
    size_t joint = place_micros(plan, &config);
    plan->memory.activations = joint;
    if (sizes_slot(plan->sizes, plan->chunk_count, 0) == 1) return;
    config.shared = true;
    plan->memory.activations = place_micros(plan, &config);
    if (plan->memory.activations < joint) return;
    config.shared = false;
    plan->memory.activations = place_micros(plan, &config);
}
