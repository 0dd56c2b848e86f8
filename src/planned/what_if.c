/* See what_if.h. A cluster is changed as a whole (cost/cluster.h). The ranks of this machine are
 * made slower by the law of --hetero, and have no links that could be. */
#include "planned/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"

static const char label[] = "--what-if";

/* One change: NAME=WORD[:WORD[:WORD]]. */
struct change {
    char *name, *word[3];
    int count;
};

static void split(char *text, struct change *out) {
    *out = (struct change){.name = text};
    char *rest = strchr(text, '=');
    if (rest) *rest++ = 0;
    while (rest && out->count < 3) {
        out->word[out->count++] = rest;
        rest = strchr(rest, ':');
        if (rest) *rest++ = 0;
    }
    if (rest) out->count++;
}

static enum status refuse(const struct change *change) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE,
                "%s %s: slow=RANKS:FACTOR, link=A:B:FACTOR, without=RANKS and budget=BYTES are "
                "expected\n  ranks are a number, a range (2-5), or a host or class of --cluster",
                label, text_quoted(change->name, quoted));
}

static enum status read_factor(const struct change *change, const char *text, double *out) {
    char *end;
    *out = strtod(text, &end);
    if (end != text && !*end && *out > 0 && *out <= 1e6) return STATUS_OK;
    return fail(STATUS_USAGE, "%s %s: %s is no factor\n  2 is twice as slow", label, change->name,
                text);
}

/* --- ranks --- */

static enum status find_ranks(const struct planned_search *search, const char *text,
                              struct cluster_range *out) {
    struct cluster here = {.ranks = search->input.ranks};
    const struct cluster *cluster = search->opened.costs->cluster;
    return cluster_find_ranks(cluster ? cluster : &here, label, text, out);
}

static enum status slow_here(struct planned_search *search, struct cluster_range ranks,
                             double factor) {
    struct hetero **law = &search->opened.costs->hetero;
    struct cluster all = {0};
    if (!*law) *law = MEM_NEW(struct hetero);
    all.slow = (*law)->slow, all.slow_count = (*law)->slow_count;
    cluster_slow_down(&all, ranks, factor);
    (*law)->slow = all.slow, (*law)->slow_count = all.slow_count;
    return STATUS_OK;
}

static enum status slow(struct planned_search *search, const struct change *change) {
    struct cluster *cluster = search->opened.costs->cluster;
    struct cluster_range ranks;
    double factor;
    if (change->count != 2) return refuse(change);
    TRY(find_ranks(search, change->word[0], &ranks));
    TRY(read_factor(change, change->word[1], &factor));
    if (!cluster) return slow_here(search, ranks, factor);
    cluster_slow_down(cluster, ranks, factor);
    return STATUS_OK;
}

static enum status slow_link(struct planned_search *search, const struct change *change) {
    struct cluster *cluster = search->opened.costs->cluster;
    struct cluster_range one, other;
    double factor;
    if (change->count != 3) return refuse(change);
    if (!cluster)
        return fail(STATUS_USAGE,
                    "%s link: ranks of this machine have no links\n  --cluster describes some",
                    label);
    TRY(find_ranks(search, change->word[0], &one));
    TRY(find_ranks(search, change->word[1], &other));
    TRY(read_factor(change, change->word[2], &factor));
    cluster_slow_link(cluster, one, other, factor);
    return STATUS_OK;
}

static enum status leave_out(struct planned_search *search, const struct change *change) {
    struct cluster *cluster = search->opened.costs->cluster;
    struct cluster_range ranks;
    if (change->count != 1) return refuse(change);
    TRY(find_ranks(search, change->word[0], &ranks));
    if (cluster) TRY(cluster_remove(cluster, label, ranks));
    if (cluster) {
        if (search->input.ranks > cluster->ranks) search->input.ranks = (int)cluster->ranks;
        return STATUS_OK;
    }
    search->input.ranks -= (int)(ranks.last - ranks.first + 1);
    if (search->input.ranks > 0) return STATUS_OK;
    return fail(STATUS_USAGE, "%s without=%s: no rank would be left", label, change->word[0]);
}

static enum status set_budget(struct planned_search *search, const struct change *change) {
    struct options sizes;
    if (change->count != 1) return refuse(change);
    options_init(COMMAND_PLAN, &sizes);
    enum status status = option_set(&sizes, OPTION_memory_limit_bytes, change->word[0],
                                    "--what-if budget", OPTION_FROM_COMMAND_LINE);
    search->input.budget_bytes = sizes.memory_limit_bytes;
    options_free(&sizes);
    return status;
}

/* --- all of them --- */

static const struct kind {
    const char *name;
    enum status (*apply)(struct planned_search *search, const struct change *change);
    bool last; /* ranks are numbered anew */
} kinds[] = {{"slow", slow, false},
             {"link", slow_link, false},
             {"budget", set_budget, false},
             {"without", leave_out, true}};

static enum status apply(struct planned_search *search, char *text, bool last) {
    struct change change;
    split(text, &change);
    int found = TEXT_FIND(change.name, kinds);
    if (found < 0) return refuse(&change);
    return kinds[found].last == last ? kinds[found].apply(search, &change) : STATUS_OK;
}

/* Numbers are those of before, so ranks are left out in the end, from the last one in the text to
 * the first. */
static enum status apply_all(struct planned_search *search, const char *text) {
    for (int last = 0; last < 2; last++) {
        SCOPED_FREE char *copy = mem_text(text);
        char *rest = copy;
        for (char *one; (one = strsep(&rest, ","));) TRY(apply(search, one, last));
    }
    return STATUS_OK;
}

static enum status measure_old(const struct planned_search *first, struct planned_what_if *out) {
    const struct planner_choice *choice = &planned_search_first(first)->choice;
    out->missing = choice->ranks - out->search.input.ranks;
    if (out->missing > 0) return STATUS_OK;
    return planner_measure(&out->search.input, choice, &out->old);
}

enum status planned_what_if(const struct planned_search *first, struct planned_what_if *out) {
    *out = (struct planned_what_if){0};
    struct planned_search *again = &out->search;
    enum status status = planned_search_open(&first->options, again);
    again->library_bytes = first->library_bytes;
    if (status == STATUS_OK) status = apply_all(again, first->options.what_if);
    if (status == STATUS_OK) status = planner_search(&again->input, &again->result);
    if (status == STATUS_OK) status = measure_old(first, out);
    if (status != STATUS_OK) planned_what_if_close(out);
    return status;
}

void planned_what_if_close(struct planned_what_if *what_if) {
    planned_search_close(&what_if->search);
}
