/* See ranking_words.h.
 *
 * A step is a rank's passes, what it waits for while data moves (exposed), and the rest of the time
 * in which it computes nothing (bubble). The clause names the part that a row has more of than the
 * first one; of passes also why they take longer. */
#include "view/ranking_words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "launch/sbatch.h"

static const char *base_name(const struct planner_choice *choice) {
    static const char *const flat[] = {"ddp", "zero1", "zero2", "zero3"};
    if (choice->ranks == 1) return "single";
    return choice->stages == 1 ? flat[choice->zero_stage] : planner_schedule_name(choice);
}

char *ranking_name(const struct planner_row *row) {
    const struct planner_choice *choice = &row->choice;
    enum recompute_policy recompute = (enum recompute_policy)choice->recompute;
    char chunks[TEXT_BYTES] = "", zero[TEXT_BYTES] = "";
    bool several = choice->stages > 1 && choice->chunks > 1;
    if (several) snprintf(chunks, sizeof chunks, " x %d", choice->chunks);
    if (choice->stages > 1 && choice->zero_stage)
        snprintf(zero, sizeof zero, ", zero%d", choice->zero_stage);
    return mem_format("%s%s%s%s%s%s%s", base_name(choice), chunks, zero,
                      recompute ? ", recompute " : "",
                      recompute ? recompute_policy_name(recompute) : "",
                      choice->balance != BALANCE_FLOPS && choice->stages > 1 ? ", balance " : "",
                      choice->balance != BALANCE_FLOPS && choice->stages > 1
                          ? balance_name((enum balance)choice->balance)
                          : "");
}

/* --- ties --- */

/* What is not common to all forecasts: another program ran when things were measured; and links
 * and copies are measured, or known by rules, apart from passes. */
static double own_variance(const struct planner_row *row) {
    double program = PROFILE_PROGRAM_DEVIATION * row->step_ns,
           moving = PROFILE_RATE_DEVIATION * row->exposed_ns;
    return program * program + moving * moving;
}

bool ranking_tie(const struct planned_search *search, const struct planner_row *a,
                 const struct planner_row *b) {
    const double near = 0.02;
    double apart = fabs(a->step_ns - b->step_ns);
    if (search->opened.costs->cluster) return apart <= near * fmin(a->step_ns, b->step_ns);
    return apart <= ESTIMATE_Z90 * sqrt(own_variance(a) + own_variance(b));
}

/* --- why --- */

struct parts {
    double busy, exposed, idle; /* of a step: passes, moving data, the rest */
};

static struct parts parts_of(const struct planner_row *row) {
    double busy = row->step_ns * (1 - row->bubble), exposed = row->exposed_ns;
    if (exposed > row->step_ns - busy) exposed = row->step_ns - busy;
    return (struct parts){busy, exposed, row->step_ns - busy - exposed};
}

/* The link that messages and sums of most ranks take. */
static void link_text(const struct planned_search *search, char text[2 * TEXT_BYTES]) {
    const struct cluster *cluster = search->opened.costs->cluster;
    snprintf(text, 2 * TEXT_BYTES, "in shared memory");
    if (!cluster) return;
    double rate = cluster->hosts > 1 ? cluster->between_hosts.bytes_per_time
                                     : cluster->in_host.bytes_per_time;
    snprintf(text, 2 * TEXT_BYTES, "on the %.4g GB/s link", rate);
}

/* A candidate of the same kind with more micro-batches that does not fit. */
static char *larger_m(const struct planned_search *search, const struct planner_row *of) {
    const struct planner_result *result = &search->result;
    const struct planner_row *best = NULL;
    char more[TEXT_BYTES];
    for (int64_t i = result->timed; i < result->row_count; i++) {
        const struct planner_row *row = &result->row[i];
        struct planner_choice same = row->choice;
        same.micro_batches = of->choice.micro_batches;
        if (row->state != PLANNER_TOO_LARGE || row->over_bytes <= 0) continue;
        if (memcmp(&same, &of->choice, sizeof same) != 0) continue;
        if (row->choice.micro_batches <= of->choice.micro_batches) continue;
        if (!best || row->over_bytes < best->over_bytes) best = row;
    }
    if (!best) return mem_text("");
    return mem_format("; M %d needs %s more", best->choice.micro_batches,
                      text_size(best->over_bytes, more));
}

static int64_t micro_samples(const struct planned_search *search, const struct planner_row *row) {
    return search->options.batch / row->choice.replicas / row->choice.micro_batches;
}

/* Why a rank is longer in passes. */
static char *busy_text(const struct planned_search *search, const struct planner_row *row,
                       const struct planner_row *first) {
    double more = 100 * (parts_of(row).busy / parts_of(first).busy - 1);
    bool again = row->choice.recompute && !first->choice.recompute;
    if (row->choice.ranks < first->choice.ranks)
        return mem_format("%d of %d ranks work%s", row->choice.ranks, search->input.ranks,
                          again ? ", and forward runs again" : "");
    if (again) return mem_format("forward runs again: passes take %.0f%% longer", more);
    return mem_format("passes take %.0f%% longer, in micro-batches of %lld", more,
                      (long long)micro_samples(search, row));
}

char *ranking_why(const struct planned_search *search, const struct planner_row *row) {
    const struct planner_row *first = planned_search_first(search);
    struct parts own = parts_of(row), best = parts_of(first);
    double busy = own.busy - best.busy, exposed = own.exposed - best.exposed,
           idle = own.idle - best.idle;
    char link[2 * TEXT_BYTES];
    if (row == first) return mem_text("first");
    if (row->over_bytes > 0) {
        char over[TEXT_BYTES];
        return mem_format("needs %s more memory", text_size(row->over_bytes, over));
    }
    if (row->step_ns == first->step_ns)
        return mem_text(row->peak_bytes > first->peak_bytes ? "as fast, with more memory"
                                                            : "as fast");
    if (busy >= exposed && busy >= idle) return busy_text(search, row, first);
    if (exposed >= idle) {
        link_text(search, link);
        return mem_format("%.0f%% exposed %s", 100 * own.exposed / row->step_ns, link);
    }
    if (row->choice.stages == 1)
        return mem_format("%.0f%% in updates and sums of gradients", 100 * own.idle / row->step_ns);
    SCOPED_FREE char *more = larger_m(search, row);
    return mem_format("%.0f%% bubble at M %d%s", 100 * row->bubble, row->choice.micro_batches,
                      more);
}

char *ranking_none(const struct planned_search *search, int kind) {
    const struct planner_result *result = &search->result;
    int64_t least = 0;
    char over[TEXT_BYTES];
    for (int64_t i = 0; i < result->row_count; i++) {
        const struct planner_row *row = &result->row[i];
        if (row->state != PLANNER_TOO_LARGE || planner_kind(&row->choice) != kind) continue;
        if (!least || row->over_bytes < least) least = row->over_bytes;
    }
    return least ? mem_format("does not fit: the smallest needs at least %s more",
                              text_size(least, over))
                 : NULL;
}

/* --- the command --- */

/* Names that people know first, then the rest in the order of the table. */
static void put_option(const struct options *options, enum option_id id, FILE *out) {
    SCOPED_FREE char *text = option_text(options, id), *quoted = sbatch_quote(text);
    if (option_rows[id].letter)
        fprintf(out, " -%c %s", option_rows[id].letter, quoted);
    else
        fprintf(out, " --%s %s", option_rows[id].name, quoted);
}

enum status ranking_command(const struct planned_search *search, const struct planner_row *row,
                            enum option_command command, char **out) {
    struct options options;
    char *text = NULL;
    size_t bytes;
    enum status status = planned_search_options(search, row, &options);
    FILE *stream = open_memstream(&text, &bytes);
    fprintf(stream, "stretto %s", option_commands[__builtin_ctz(command)].name);
    if (status == STATUS_OK && !option_is_given(&options, OPTION_model) &&
        !option_is_given(&options, OPTION_config))
        fprintf(stream, " --model %s", options.model);
    for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++)
        if (options.source[id] == OPTION_FROM_COMMAND_LINE &&
            planned_search_is_told(&options, (enum option_id)id, command))
            put_option(&options, (enum option_id)id, stream);
    fclose(stream);
    arena_free(&options.arena);
    if (status == STATUS_OK)
        *out = text;
    else
        free(text);
    return status;
}
