/* See ranking.h. */
#include "view/ranking.h"

#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/json.h"
#include "base/text.h"
#include "launch/sbatch.h"
#include "view/ranking_words.h"

enum { NAME_COLUMNS = 12, SHOWN = 10, HOST_BYTES = 256 };

#define row_of(out, name, ...) text_row(out, name, NAME_COLUMNS, __VA_ARGS__)

static bool has_other_statistics(const struct planned_search *search,
                                 const struct planner_row *row) {
    const struct planner_row *first = planned_search_first(search);
    const struct planner_choice *a = &row->choice, *b = &first->choice;
    return search->result.batch_norm &&
           a->replicas * a->micro_batches != b->replicas * b->micro_batches;
}

/* --- in words --- */

static void print_ranks(const struct planned_search *search, FILE *out) {
    const struct planner_input *input = &search->input;
    const struct cluster *cluster = input->costs->cluster;
    char ranks[TEXT_BYTES], threads[TEXT_BYTES], host[HOST_BYTES] = "this machine";
    text_count(input->ranks, "rank", ranks);
    if (cluster) {
        row_of(out, "ranks", "%s of %s, which has %lld on %lld hosts", ranks,
               search->options.cluster, (long long)cluster->ranks, (long long)cluster->hosts);
        return;
    }
    gethostname(host, sizeof host - 1);
    row_of(out, "ranks",
           "%s of this machine (%s), %s each; another machine, such as that of a job "
           "behind this login, is described by --cluster",
           ranks, host, text_count(input->threads, "thread", threads));
}

static void print_searched(const struct planned_search *search, FILE *out) {
    const struct planner_result *result = &search->result;
    char all[TEXT_BYTES], planned[TEXT_BYTES], large[TEXT_BYTES];
    row_of(out, "searched",
           "%s plans of batch %lld: %s simulated, %s too large for the memory; all others are "
           "slower by bounds, or the same by another name",
           text_thousands(result->row_count, all), (long long)search->options.batch,
           text_thousands(result->timed, planned), text_thousands(result->too_large, large));
}

static void put_row(const struct planned_search *search, const struct planner_row *row,
                    const char *note, struct text_table *table) {
    const struct planner_choice *choice = &row->choice;
    char text[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES];
    SCOPED_FREE char *name = ranking_name(row);
    text_table_cell(table, "%s", name);
    text_table_cell(table, "%d x %d", choice->stages, choice->replicas);
    text_table_cell(table, "%dx%d", choice->replicas, choice->micro_batches);
    text_table_cell(table, "%s", text_duration(row->step_ns * 1e-9, text));
    if (row->low_ns < row->high_ns)
        text_table_cell(table, "%s to %s", text_duration(row->low_ns * 1e-9, low),
                        text_duration(row->high_ns * 1e-9, high));
    else
        text_table_cell(table, "-");
    text_table_cell(table, "%s", text_size(row->peak_bytes, text));
    text_table_cell(table, "%s", text_size(row->sent_bytes, text));
    text_table_cell(table, "%.1f%%", 100 * row->bubble);
    text_table_cell(table, "%.1f%%", 100 * row->exposed_ns / row->step_ns);
    text_table_cell(table, "%s%s", note,
                    has_other_statistics(search, row) ? "; other statistics" : "");
}

static void put_titles(struct text_table *table, const char *last) {
    static const char *const titles[] = {
        "strategy", "stages x replicas", "deal", "step", "90% sure", "memory", "sent", "bubble",
        "exposed"};
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        text_table_cell(table, "%s", titles[i]);
    text_table_cell(table, "%s", last);
}

static char *note_of(const struct planned_search *search, const struct planner_row *row) {
    const struct planner_row *first = planned_search_first(search);
    int idle = search->input.ranks - row->choice.ranks;
    const char *tie = row == first ? "first" : ranking_tie(search, first, row) ? "tie" : "";
    char ranks[TEXT_BYTES];
    if (!idle) return mem_text(tie);
    return mem_format("%s%s%s idle", tie, *tie ? ", " : "", text_count(idle, "rank", ranks));
}

static void print_best(const struct planned_search *search, FILE *out) {
    const struct planner_result *result = &search->result;
    struct text_table table = {.align = "lrrrrrrrrl"};
    put_titles(&table, "");
    for (int i = search->fitting; i < result->timed && i < search->fitting + SHOWN; i++) {
        SCOPED_FREE char *note = note_of(search, &result->row[i]);
        put_row(search, &result->row[i], note, &table);
    }
    fputs("\n", out);
    text_table_print(&table, 2, out);
    text_table_free(&table);
    fputs("  rows of one deal (replicas x micro-batches) train to the same bits\n", out);
}

/* The best of a kind that fits: the first rows may have been found too large since. */
static const struct planner_row *best_of(const struct planned_search *search, int kind) {
    const struct planner_result *result = &search->result;
    for (int i = search->fitting; i < result->timed; i++)
        if (planner_kind(&result->row[i].choice) == kind) return &result->row[i];
    return NULL;
}

static char *kind_name(int kind) {
    bool again = kind >= FAMILY_COUNT;
    return mem_format("%s%s", planner_family_name(planner_family_of(kind)),
                      again ? ", recomputed" : "");
}

static void print_families(const struct planned_search *search, FILE *out) {
    struct text_table table = {.align = "lrrrrrrrrl"};
    put_titles(&table, "why it is not first");
    fputs("\n  the best of each family\n", out);
    for (int k = 0; k < PLANNER_KINDS; k++) {
        const struct planner_row *row = best_of(search, k);
        if (!row) continue;
        SCOPED_FREE char *why = ranking_why(search, row);
        put_row(search, row, why, &table);
    }
    text_table_print(&table, 2, out);
    text_table_free(&table);
    for (int k = 0; k < PLANNER_KINDS; k++) {
        SCOPED_FREE char *name = kind_name(k);
        SCOPED_FREE char *none = best_of(search, k) ? NULL : ranking_none(search, k);
        if (none) fprintf(out, "  %s: %s\n", name, none);
    }
}

void ranking_print_first(const struct planned_search *search, FILE *out) {
    const struct planner_row *first = planned_search_first(search);
    char step[TEXT_BYTES], low[TEXT_BYTES], high[TEXT_BYTES], memory[TEXT_BYTES],
        micros[TEXT_BYTES];
    SCOPED_FREE char *name = ranking_name(first);
    print_ranks(search, out);
    print_searched(search, out);
    row_of(out, "best", "%s, stages x replicas %d x %d, %s: %s a step (%s to %s), %s of memory",
           name, first->choice.stages, first->choice.replicas,
           text_count(first->choice.micro_batches, "micro-batch", micros),
           text_duration(first->step_ns * 1e-9, step), text_duration(first->low_ns * 1e-9, low),
           text_duration(first->high_ns * 1e-9, high), text_size(first->peak_bytes, memory));
    fputs("\n", out);
}

static void print_unused(const struct planned_search *search, FILE *out) {
    const struct planner_result *result = &search->result;
    int used = planned_search_first(search)->choice.ranks, all = search->input.ranks;
    if (used < all)
        row_of(out, "idle", "ranks %d to %d: no plan with them is faster", used, all - 1);
    if (result->uses_all || !result->nearest_batch) return;
    row_of(out, "batch", "no plan of batch %lld uses all %d ranks; --batch %lld would",
           (long long)search->options.batch, all, (long long)result->nearest_batch);
}

/* Hosts take the ranks one after the other, so the order of the file is the cluster's. The number
 * of ranks that each has of the first `ranks`. */
static int64_t slots_of(const struct cluster_hosts *hosts, int64_t h, int ranks) {
    int64_t first = hosts->ranks.first + h * hosts->ranks_each, left = ranks - first;
    return left < 0 ? 0 : left < hosts->ranks_each ? left : hosts->ranks_each;
}

static void print_hosts(const struct cluster *cluster, int ranks, FILE *out) {
    enum { MOST = 8 };
    int64_t shown = 0;
    fputs("  HOSTS has a line for each host, in the order of the cluster:", out);
    for (size_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_hosts *hosts = &cluster->host[i];
        for (int64_t h = 0; h < hosts->count && slots_of(hosts, h, ranks) > 0; h++) {
            if (shown++ >= MOST) continue;
            fprintf(out, "%s %s slots=%lld", shown > 1 ? "," : "",
                    hosts->name && hosts->count == 1 ? hosts->name : "NAME",
                    (long long)slots_of(hosts, h, ranks));
        }
    }
    fprintf(out, "%s\n", shown > MOST ? " ..." : "");
}

/* Slurm starts the same number of ranks on each node. 0: they differ. */
static int64_t each_host(const struct cluster *cluster, int ranks) {
    int64_t each = cluster->host_count ? cluster->host[0].ranks_each : 0;
    for (size_t i = 0; i < cluster->host_count; i++)
        if (cluster->host[i].ranks_each != each) return 0;
    return each > 0 && ranks % each == 0 ? each : 0;
}

static void print_spread(const struct planned_search *search, const char *train, FILE *out) {
    const struct planner_row *first = planned_search_first(search);
    const struct cluster *cluster = search->opened.costs->cluster;
    int64_t each = each_host(cluster, first->choice.ranks);
    bool written = option_is_given(&search->options, OPTION_write);
    char *job;
    SCOPED_FREE char *file = written ? sbatch_quote(search->options.write) : NULL;
    fprintf(out, "\n  %s%s --hostfile HOSTS\n", written ? "stretto train --config " : train,
            written ? file : "");
    print_hosts(cluster, first->choice.ranks, out);
    if (!each) return;
    if (written) {
        fprintf(out, "  stretto launch --emit sbatch --config %s", file);
    } else {
        if (ranking_command(search, first, COMMAND_LAUNCH, &job) != STATUS_OK) return;
        fprintf(out, "  %s --emit sbatch", job);
        free(job);
    }
    fprintf(out, " --nodes %lld -n %lld\n", (long long)(first->choice.ranks / each),
            (long long)each);
}

static void print_commands(const struct planned_search *search, FILE *out) {
    const struct planner_row *first = planned_search_first(search);
    const struct cluster *cluster = search->opened.costs->cluster;
    bool spread = cluster && cluster->hosts > 1 && first->choice.ranks > 1;
    char *train, *simulate;
    if (ranking_command(search, first, COMMAND_TRAIN, &train) != STATUS_OK) return;
    if (spread)
        print_spread(search, train, out);
    else if (option_is_given(&search->options, OPTION_write))
        fprintf(out, "\n  stretto train --config %s\n", search->options.write);
    else
        fprintf(out, "\n  %s\n", train);
    free(train);
    if (ranking_command(search, first, COMMAND_SIMULATE, &simulate) != STATUS_OK) return;
    fprintf(out, "  %s\n", simulate);
    free(simulate);
}

void ranking_print(const struct planned_search *search, FILE *out) {
    print_ranks(search, out);
    print_searched(search, out);
    print_best(search, out);
    print_families(search, out);
    print_unused(search, out);
    print_commands(search, out);
}

/* --- JSON --- */

static json_t *row_json(const struct planned_search *search, const struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    const struct planner_row *first = planned_search_first(search);
    SCOPED_FREE char *name = ranking_name(row);
    SCOPED_FREE char *why = ranking_why(search, row);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:f, s:f, s:I, s:i, s:I, s:f, "
        "s:f, "
        "s:b, s:b, s:s}",
        "name", name, "schedule", planner_schedule_name(choice), "ranks", choice->ranks, "stages",
        choice->stages, "replicas", choice->replicas, "virtual", choice->chunks, "micro_batches",
        choice->micro_batches, "zero_stage", choice->zero_stage, "recompute",
        recompute_policy_name((enum recompute_policy)choice->recompute), "balance",
        balance_name((enum balance)choice->balance), "step", row->step_ns, "step_low", row->low_ns,
        "step_high", row->high_ns, "peak_bytes", (json_int_t)row->peak_bytes, "peak_rank",
        row->peak_rank, "sent_bytes", (json_int_t)row->sent_bytes, "bubble", row->bubble, "exposed",
        row->exposed_ns, "tie", ranking_tie(search, first, row), "other_statistics",
        has_other_statistics(search, row), "why", why);
}

static json_t *families_json(const struct planned_search *search) {
    json_t *list = json_array();
    for (int k = 0; k < PLANNER_KINDS; k++) {
        const struct planner_row *row = best_of(search, k);
        SCOPED_FREE char *name = kind_name(k);
        SCOPED_FREE char *none = row ? NULL : ranking_none(search, k);
        if (!row && !none) continue;
        json_t *one = row ? row_json(search, row) : json_pack("{s:s}", "why", none);
        json_object_set_new(one, "family", json_string(name));
        json_array_append_new(list, one);
    }
    return list;
}

/* What the first row of the first search takes now, in a clause. */
static char *old_text(const struct planned_search *search, const struct planned_what_if *what_if) {
    const struct planner_row *old = &what_if->old, *before = planned_search_first(search);
    char step[TEXT_BYTES], bytes[TEXT_BYTES], ranks[TEXT_BYTES];
    if (what_if->missing > 0)
        return mem_format("needs %d ranks, %s too many", before->choice.ranks,
                          text_count(what_if->missing, "rank", ranks));
    switch (old->state) {
    case PLANNER_TIMED:
        return mem_format("would take %s", text_duration(old->step_ns * 1e-9, step));
    case PLANNER_LOUD:
        return mem_format("would send %s from a rank", text_size(old->sent_bytes, bytes));
    case PLANNER_TOO_LARGE:
        return mem_format("needs %s more memory", text_size(old->over_bytes, bytes));
    default: return mem_text("is no plan of these ranks");
    }
}

void ranking_print_what_if(const struct planned_search *search,
                           const struct planned_what_if *what_if, FILE *out) {
    const struct planned_search *again = &what_if->search;
    const struct planner_row *first = planned_search_first(again);
    SCOPED_FREE char *old = old_text(search, what_if);
    char step[TEXT_BYTES];
    fputs("\n", out);
    if (!first) {
        row_of(out, "what if", "%s: no plan is left; the first one %s", search->options.what_if,
               old);
        return;
    }
    SCOPED_FREE char *name = ranking_name(first);
    row_of(
        out, "what if",
        "%s: first is %s, stages x replicas %d x %d, deal %dx%d, %s a step; the first one above %s",
        search->options.what_if, name, first->choice.stages, first->choice.replicas,
        first->choice.replicas, first->choice.micro_batches,
        text_duration(first->step_ns * 1e-9, step), old);
    char *train;
    if (ranking_command(again, first, COMMAND_TRAIN, &train) != STATUS_OK) return;
    fprintf(out, "\n  %s\n", train);
    free(train);
}

static json_t *what_if_json(const struct planned_search *search,
                            const struct planned_what_if *what_if) {
    const struct planner_row *first = planned_search_first(&what_if->search);
    bool takes = what_if->missing <= 0 && what_if->old.state == PLANNER_TIMED;
    SCOPED_FREE char *old = old_text(search, what_if);
    return json_pack("{s:s, s:i, s:o, s:s, s:o}", "change", search->options.what_if, "ranks",
                     what_if->search.input.ranks, "first",
                     first ? row_json(&what_if->search, first) : json_null(), "old", old,
                     "old_step", takes ? json_real(what_if->old.step_ns) : json_null());
}

void ranking_json(const struct planned_search *search, const struct planned_what_if *what_if,
                  FILE *out) {
    const struct planner_result *result = &search->result;
    const struct planner_row *first = planned_search_first(search);
    json_t *rows = json_array();
    char *train, *simulate;
    if (ranking_command(search, first, COMMAND_TRAIN, &train) != STATUS_OK) return;
    if (ranking_command(search, first, COMMAND_SIMULATE, &simulate) != STATUS_OK) return;
    for (int i = search->fitting; i < result->timed && i < search->fitting + SHOWN; i++)
        json_array_append_new(rows, row_json(search, &result->row[i]));
    json_t *root =
        json_pack("{s:i, s:I, s:I, s:i, s:I, s:I, s:i, s:I, s:f, s:o, s:o, s:s, s:s}", "ranks",
                  search->input.ranks, "batch", (json_int_t)search->options.batch, "candidates",
                  (json_int_t)result->row_count, "simulated", result->timed, "too_large",
                  (json_int_t)result->too_large, "refused", (json_int_t)result->refused, "idle",
                  search->input.ranks - first->choice.ranks, "nearest_batch",
                  (json_int_t)result->nearest_batch, "closest_bound", result->closest_bound, "rows",
                  rows, "families", families_json(search), "command", train, "forecast", simulate);
    if (what_if) json_object_set_new(root, "what_if", what_if_json(search, what_if));
    json_print(root, JSON_REAL_PRECISION(12), out);
    json_decref(root);
    free(train);
    free(simulate);
}
