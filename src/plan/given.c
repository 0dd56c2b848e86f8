/* See given.h. */
#include "plan/given.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "plan/graphs.h"

/* A number of the header that must be the run's, and what makes it that. */
struct header_field {
    const char *name, *option;
    int have, want;
};

/* One device that runs several replicas, or micro-batches alone, is told so by --deal. */
static enum status refuse_shape(const struct program *program, const char *name,
                                const struct header_field *field) {
    const struct grid *grid = &program->grid;
    char hint[64];
    if (program->ranks == 1 && grid->replicas > 1)
        snprintf(hint, sizeof hint, "--deal %dx%d", grid->replicas, program->micro_batches);
    else
        snprintf(hint, sizeof hint, "%s %d", field->option, field->have);
    return fail(STATUS_USAGE, "%s: the program has %s %d, this run %d\n  %s", name, field->name,
                field->have, field->want, hint);
}

static enum status check_shape(const struct program *program, const struct run_config *config,
                               const char *name) {
    const struct grid *have = &program->grid, *want = &config->grid;
    const struct header_field fields[] = {
        {"ranks", "-n", program->ranks, config->ranks},
        {"stages", "--stages", have->stages, want->stages},
        {"chunks", "--virtual", have->chunks, want->chunks},
        {"v-shape", "a --schedule with v-shape", have->v_shape, want->v_shape},
        {"replicas", "--replicas", have->replicas, want->replicas},
        {"replicas-each", "--deal with replicas-each", have->replicas_each, want->replicas_each},
        {"drivers", "a --strategy with drivers", have->drivers, want->drivers},
        {"servers", "a --strategy with servers", have->servers, want->servers},
        {"micro-batches", "--micro-batches", program->micro_batches, config->micro_batches},
    };
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (fields[i].have != fields[i].want) return refuse_shape(program, name, &fields[i]);
    return STATUS_OK;
}

/* Which F keep what, is the program's; where segments end follows from the option. */
static enum status check_recompute(const struct program *program, const struct run_config *config,
                                   const char *name) {
    unsigned wrong = recompute_by_block(config->recompute) ? INSTR_LIGHT : INSTR_BLOCK;
    for (int k = 0; k < program->kind_count; k++) {
        const struct instr_list *body = &program->kinds[k].list[LIST_BODY];
        for (int i = 0; i < body->count; i++)
            if (body->items[i].op == INSTR_F && body->items[i].flags & wrong)
                return fail(STATUS_USAGE,
                            "%s: the program recomputes by %s, this run is with --recompute %s",
                            name, wrong == INSTR_BLOCK ? "block" : "stage",
                            recompute_policy_name(config->recompute));
    }
    return STATUS_OK;
}

/* Whether all stages read versions of one update. */
static bool keeps_alike(const struct program *program) {
    bool alike = true;
    for (int k = 0; k < program->kind_count; k++)
        for (int c = 0; c < program->kinds[k].chunks; c++)
            alike &= program->kinds[k].chunk[c].older == program->kinds[0].chunk[0].older;
    return alike;
}

/* How replicas stay together: what makes a program of this kind, and what it is. */
enum { TOGETHER, BY_STEPS, CHOSEN, CHOSEN_BY_STAGE, AVERAGES };
static const struct {
    const char *what, *option;
} averages[] = {
    [TOGETHER] = {"replicas have the same parameters", "--sync allreduce"},
    [BY_STEPS] = {"replicas average every so many steps", "--sync local"},
    [CHOSEN] = {"replicas average with those that are chosen", "--sync preduce"},
    [CHOSEN_BY_STAGE] = {"each stage averages with those that are chosen for it",
                         "--sync preduce --group-by stage"},
};
_Static_assert(sizeof averages / sizeof *averages == AVERAGES, "a row for each");

static int averages_of(const struct program *program) {
    int chosen = program_chosen(program);
    if (chosen < 0) return program->every > 0 ? BY_STEPS : TOGETHER;
    return program->group[chosen] == GROUP_CHOSEN_BY_STAGE ? CHOSEN_BY_STAGE : CHOSEN;
}

static int averages_asked(const struct run_config *config) {
    if (config->chooses) return config->groups_by_stage ? CHOSEN_BY_STAGE : CHOSEN;
    return config->apart ? BY_STEPS : TOGETHER;
}

static enum status check_averages(const struct program *program, const struct run_config *config,
                                  const char *name) {
    int have = averages_of(program), want = averages_asked(config);
    if (have != want)
        return fail(STATUS_USAGE, "%s: in the program %s, this run is with %s\n  %s", name,
                    averages[have].what, averages[want].option, averages[have].option);
    if (have != BY_STEPS || program->every == config->sync_every) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: in the program replicas average every %d steps, this run is with "
                "--sync-every %d\n  --sync-every %d",
                name, program->every, config->sync_every, program->every);
}

static enum status check_program(const struct plan *plan, const char *name) {
    const struct run_config *config = &plan->config;
    const struct program *program = plan->program;
    TRY(check_shape(program, config, name));
    if (program_shares(program) != config->sync_bn)
        return fail(STATUS_USAGE, "%s: the program's F and B %s statistics, this run is %s", name,
                    config->sync_bn ? "do not share" : "share",
                    config->sync_bn ? "with --sync-bn" : "without --sync-bn");
    TRY(check_recompute(program, config, name));
    TRY(check_averages(program, config, name));
    int frozen = graphs_frozen_stages(plan);
    if (program->frozen != frozen)
        return fail(STATUS_USAGE,
                    "%s: the program has %d frozen stages, this run %d\n  a program follows from "
                    "--freeze, and does not go with it",
                    name, program->frozen, frozen);
    if ((program->ahead > 0) != config->overlaps)
        return fail(STATUS_USAGE, "%s: the program's steps %s, this run is with schedule %s\n  %s",
                    name, config->overlaps ? "do not overlap" : "overlap", config->schedule,
                    config->overlaps ? "--strategy 1f1b"
                                     : "--strategy pipedream, or pipedream-2bw");
    if (config->vertical_sync && !keeps_alike(program))
        return fail(STATUS_USAGE,
                    "%s: the program's stages read versions of different updates, this run is with "
                    "--vertical-sync\n  leave --vertical-sync out",
                    name);
    if (!program_clips(program) && plan_clips(config))
        return fail(STATUS_USAGE,
                    "%s: the program's STEP does not clip, this run has %s %g\n  STEP with the "
                    "flag clip, or --clip 0 and not --dtype f16",
                    name, config->clip > 0 ? "--clip" : "--dtype f16, --clip", config->clip);
    if (program->sliced != config->sliced)
        return fail(
            STATUS_USAGE,
            "%s: the program slices \"%s\", this run \"%s\" (o optimizer state, g gradients, "
            "p parameters)\n  --zero-stage, --zero-accumulate",
            name, sliced_name(program->sliced), sliced_name(config->sliced));
    if (program->sum == config->sum) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: the program adds gradients in the order %s, this run in %s\n  --sum %s", name,
                sum_order_name(program->sum), sum_order_name(config->sum),
                sum_order_name(program->sum));
}

/* A program may have one bucket for a whole stage where nothing is reduced: one replica, and no
 * tie. Where only the optimizer's state is sliced, no stage has a kept bucket. */
enum status given_check_buckets(const struct plan *plan, const char *name) {
    const struct rank_program *own = program_of(plan->program, plan->config.rank);
    bool keeps = plan->config.sliced & (SLICED_GRADIENTS | SLICED_PARAMS);
    for (int c = 0; c < plan->chunk_count; c++) {
        int have = own->chunk[c].buckets, want = plan->chunk[c].buckets.count;
        bool kept = keeps && plan->buckets.kept[plan->chunk[c].stage];
        if (kept != (own->chunk[c].kept > 0))
            return fail(STATUS_USAGE, "%s: stage %d has %s kept bucket in the program, %s here",
                        name, plan->chunk[c].stage, kept ? "no" : "a", kept ? "one" : "none");
        bool joined = have == 1 && group_size(&plan->config.grid, GROUP_REPLICAS, 0) == 1 &&
                      !program_tie_of(plan->program, plan->chunk[c].stage);
        if (have == want || joined) continue;
        char buckets[TEXT_BYTES];
        return fail(STATUS_USAGE, "%s: stage %d has %s in the program, %d in this model", name,
                    plan->chunk[c].stage, text_count(have, "bucket", buckets), want);
    }
    return STATUS_OK;
}

enum status given_check(const struct plan *plan, const char *name) {
    TRY(check_program(plan, name));
    return ties_check(&plan->ties, plan->program, name);
}

static void groups_text(const struct program *program, char *text, size_t bytes) {
    text[0] = 0;
    for (int g = 0; g < program->group_count; g++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", g ? " " : "",
                 group_family_name(program->group[g]));
    }
}

/* A rank has one set of buckets, whichever list it runs. */
static enum status check_last_chunk(const struct chunk_sizes *a, const struct chunk_sizes *b,
                                    int stage, const char *name) {
    char buckets[TEXT_BYTES];
    if (a->windows != b->windows || a->gathered != b->gathered)
        return fail(STATUS_USAGE,
                    "%s: stage %d has %d windows and %d gathered, in the short last step of an "
                    "epoch %d and %d\n  as many in both, or --drop-last",
                    name, stage, a->windows, a->gathered, b->windows, b->gathered);
    if (a->buckets == b->buckets) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: stage %d has %s, in the short last step of an epoch %d\n"
                "  as many in both, or --drop-last",
                name, stage, text_count(a->buckets, "bucket", buckets), b->buckets);
}

static enum status check_last_buckets(const struct program *program, const struct program *last,
                                      const char *name) {
    for (int r = 0; r < program->ranks; r++) {
        const struct rank_program *own = program_of(program, r), *other = program_of(last, r);
        int position = grid_cell(&program->grid, r).position; /* below 0: no stage */
        for (int c = 0; c < own->chunks && position >= 0; c++)
            TRY(check_last_chunk(&own->chunk[c], &other->chunk[c],
                                 grid_stage(&program->grid, position, c), name));
    }
    return STATUS_OK;
}

/* All lists of a program name groups by their number. */
enum status given_check_last(const struct plan *plan, const struct program *last,
                             const char *name) {
    char own[128], other[128];
    groups_text(plan->program, own, sizeof own);
    groups_text(last, other, sizeof other);
    if (strcmp(own, other) == 0) return check_last_buckets(plan->program, last, name);
    return fail(STATUS_USAGE,
                "%s: groups \"%s\", the short last step of an epoch has \"%s\"\n"
                "  declare the same groups in the same order, or --drop-last",
                name, own, other);
}
