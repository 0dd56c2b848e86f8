/* `stretto check`: proves that a program is right, without running it: that of the options, for as
 * many ranks as they ask for, or the one in a file. With --numeric it also runs. Exit 0: proved,
 * and equal; 1: refused, or not equal; 2: options; 3: no program could be read; 5: a rank needs
 * more memory than --cluster or --memory-limit gives it. */
#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shown.h"
#include "base/text.h"
#include "cli/check_numeric.h"
#include "cli/cli.h"
#include "plan/resolve.h"
#include "plan/strategy.h"
#include "planned/planned.h"
#include "view/fit.h"

enum { NAME_COLUMNS = 11 }; /* of a row's name */

/* A program, and what was proven of it. */
struct checked {
    const char *name;
    const struct program *program;
    struct program_proof proof;
    const struct planned_run *planned; /* NULL: of a file alone */
};

/* How many updates old the oldest weights are that a pass reads. */
static int staleness_of(const struct program *program) {
    int oldest = 0;
    for (int k = 0; k < program->kind_count; k++)
        for (int c = 0; c < program->kinds[k].chunks; c++)
            if (program->kinds[k].chunk[c].older > oldest)
                oldest = program->kinds[k].chunk[c].older;
    return oldest;
}

static void print_text(const struct checked *checked, const char *name,
                       const struct step_proof *step, FILE *out) {
    const struct program_proof *proof = &checked->proof;
    const struct grid *grid = &checked->program->grid;
    char ranks[TEXT_BYTES], stages[TEXT_BYTES], replicas[TEXT_BYTES], micros[TEXT_BYTES],
        slots[TEXT_BYTES], instructions[TEXT_BYTES];
    if (grid->chunks > 1) /* stages x replicas is not the number of ranks */
        snprintf(stages, sizeof stages, "%d in a pipeline", grid->stages);
    else
        text_count(grid->stages, "stage", stages);
    shown_print(out, "proved     %s: %s, %s x %s, %s each, sum %s\n", name,
                text_count(proof->ranks, "rank", ranks), stages,
                text_count(grid->replicas, "replica", replicas),
                text_count(checked->program->micro_batches, "micro-batch", micros),
                sum_order_name(checked->program->sum));
    fprintf(out, "           %s a step, by %d rules (docs/verify.md)",
            text_count(step->instructions, "instruction", instructions), proof->rules);
    if (proof->walked < proof->ranks)
        fprintf(out, ", on %s; the others do the same", text_count(proof->walked, "rank", ranks));
    fprintf(out, "\n           at most %s of activations in use at once (rank %d)\n",
            text_count(step->peak_slots, "slot", slots), step->peak_rank);
    if (staleness_of(checked->program) > 0)
        fprintf(out,
                "           forward and backward of a micro-batch read one version of the weights, "
                "at most %s old\n",
                text_count(staleness_of(checked->program), "update", slots));
}

/* What stands for groups that nobody knows beforehand. */
static void print_choices(const struct checked *checked, FILE *out) {
    if (program_chosen(checked->program) < 0) return;
    if (checked->proof.choices > 0)
        text_row(out, "groups", NAME_COLUMNS,
                 "every choice of groups was walked, %d in all: none makes ranks wait for ever",
                 checked->proof.choices);
    else
        text_row(
            out, "groups", NAME_COLUMNS,
            "one choice was walked, all replicas in one group. Others of so many ranks are not "
            "proven one by one: by rule 39 a replica waits for others in averages alone, and "
            "has asked before");
}

static void print_json(const struct checked *checked, const char *name,
                       const struct step_proof *step, FILE *out) {
    const struct program_proof *proof = &checked->proof;
    json_t *fits = checked->planned ? fit_json(checked->planned) : json_null();
    json_auto_t *root = json_pack(
        "{s:o, s:s, s:b, s:i, s:i, s:I, s:i, s:i, s:i, s:i}", "fits", fits, "program", name,
        "proved", 1, "ranks", proof->ranks, "walked", proof->walked, "instructions",
        (json_int_t)step->instructions, "rules", proof->rules, "peak_slots", step->peak_slots,
        "peak_rank", step->peak_rank, "staleness", staleness_of(checked->program));
    json_print(root, 0, out);
}

static enum status prove(const struct options *options, struct checked checked,
                         const int64_t *last_samples) {
    if (program_prove(checked.program, last_samples, &checked.proof) != STATUS_OK) return STATUS_NO;
    const struct {
        const char *name;
        const struct step_proof *step;
    } steps[] = {{checked.name, &checked.proof.body},
                 {checked.program->every > 0 ? "step that averages" : "short last step",
                  &checked.proof.last}};
    for (int i = 0; i < 1 + program_has_last(checked.program); i++) {
        if (options->json)
            print_json(&checked, steps[i].name, steps[i].step, stdout);
        else if (!options->quiet)
            print_text(&checked, steps[i].name, steps[i].step, stdout);
    }
    if (options->json || options->quiet) return STATUS_OK;
    print_choices(&checked, stdout);
    bool apart = program_is_apart(checked.program);
    text_row(stdout, "so", NAME_COLUMNS,
             "it cannot hang, every message is received, nothing is read before it is written, and "
             "each update takes the gradient of every %s exactly once%s",
             apart ? "micro-batch of its replica" : "replica and micro-batch",
             checked.program->every > 0 ? ", each average the parameters of every replica"
             : apart                    ? ", each average the parameters of those chosen once"
                                        : "");
    return STATUS_OK;
}

static enum status check_file(const struct options *options, const char *path) {
    enum { PROGRAM_LIMIT = 512 << 20 };
    SCOPED(bytes_free) struct bytes text = {0};
    SCOPED(program_free) struct program *program = NULL;
    TRY(file_read(path, PROGRAM_LIMIT, &text));
    TRY(program_parse(path, (const char *)text.data, text.count, &program));
    return prove(options, (struct checked){.name = path, .program = program}, NULL);
}

static int ranks_of(const struct options *options) {
    bool given = option_is_given(options, OPTION_local_ranks);
    return given ? (int)options->local_ranks : resolve_ranks_asked(options);
}

/* What ranks take is measured where something is to be compared with it. */
static struct rank_info info_of(const struct options *options) {
    int ranks = ranks_of(options);
    bool judged = option_is_given(options, OPTION_cluster) ||
                  option_is_set(options, OPTION_memory_limit_bytes),
         processes = ranks > 1 && !strategy_uses_threads(options);
    return (struct rank_info){.ranks = ranks,
                              .local_ranks = ranks,
                              .to_start = judged ? processes : ranks > 1,
                              .weighed = judged && processes};
}

/* All plans that a run may come to behind its first. */
static enum status prove_parts(const struct options *options, const struct planned_run *planned) {
    struct course_part part;
    for (int i = 1; course_reaches(&planned->course, i, &part); i++) {
        SCOPED(plan_free) struct plan *plan = NULL;
        TRY(planned_part(planned, &part, true, &plan));
        SCOPED_FREE char *name =
            mem_format("%s, %d blocks frozen", plan->config.schedule, part.frozen);
        struct checked checked = {.name = name, .program = plan->program, .planned = planned};
        TRY(prove(options, checked, plan->last_samples));
    }
    return STATUS_OK;
}

static enum status prove_job(const struct options *options, const struct planned_run *planned) {
    const struct plan *plan = planned->plan;
    struct checked checked = {
        .name = plan->config.schedule, .program = plan->program, .planned = planned};
    struct planned_fit fit;
    if (!options->json && !options->quiet) fit_print(planned, NAME_COLUMNS, stdout);
    TRY(prove(options, checked, plan->last_samples));
    TRY(prove_parts(options, planned));
    return planned_fit(planned, &fit) ? planned_check_memory(planned) : STATUS_OK;
}

/* Planning proves it already; here it is said. */
static enum status check_options(const struct options *options) {
    struct rank_info info = info_of(options);
    SCOPED(planned_close) struct planned_run planned = {0};
    TRY(planned_open(options, &info, &planned));
    return prove_job(options, &planned);
}

/* A program by itself has no memory to compare. */
static enum status refuse_cluster(const struct options *options) {
    return fail(STATUS_USAGE,
                "--cluster has no effect here: check looks at %s by itself, without its model\n"
                "  stretto simulate --program %s, with the options of the run, judges its memory",
                options->program, options->program);
}

enum status check_run(const struct options *options) {
    log_quiet(options->quiet);
    bool in_file = option_is_set(options, OPTION_program);
    if (in_file && option_is_given(options, OPTION_cluster)) return refuse_cluster(options);
    TRY(in_file ? check_file(options, options->program) : check_options(options));
    return options->numeric ? check_numeric(options, ranks_of(options)) : STATUS_OK;
}
