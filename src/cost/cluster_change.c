/* A cluster with slower ranks or links, or without some ranks: what if? The rows are those of a
 * file, so all that reads a cluster reads a changed one. Rejected: a list of changes that each
 * lookup goes through, which every question of a search would pay for. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "base/text.h"
#include "cost/cluster.h"

/* --- names --- */

static bool read_range(const char *text, struct cluster_range *out) {
    SCOPED_FREE char *copy = mem_text(text);
    char *dash = strchr(copy, '-');
    if (dash) *dash = 0;
    if (!text_is_digits(copy) || !number_int(copy, &out->first)) return false;
    out->last = out->first;
    return !dash || (text_is_digits(dash + 1) && number_int(dash + 1, &out->last));
}

static bool find_name(const struct cluster *cluster, const char *name, struct cluster_range *out) {
    for (size_t i = 0; i < cluster->host_count; i++)
        if (cluster->host[i].name && strcmp(cluster->host[i].name, name) == 0) {
            *out = cluster->host[i].ranks;
            return true;
        }
    for (size_t i = 0; i < cluster->class_count; i++)
        if (strcmp(cluster->class[i].name, name) == 0) {
            *out = cluster->class[i].ranks;
            return true;
        }
    return false;
}

enum status cluster_find_ranks(const struct cluster *cluster, const char *where, const char *text,
                               struct cluster_range *out) {
    struct cluster_range found;
    char quoted[TEXT_QUOTED_BYTES], has[TEXT_BYTES];
    if (!read_range(text, &found) && !find_name(cluster, text, &found))
        return fail(STATUS_USAGE, "%s: %s is no rank, host or class of the cluster", where,
                    text_quoted(text, quoted));
    if (found.first > found.last || found.last >= cluster->ranks)
        return fail(STATUS_USAGE, "%s: rank %s, and the cluster has %s, numbered from 0", where,
                    text, text_count(cluster->ranks, "rank", has));
    *out = found;
    return STATUS_OK;
}

/* --- slower --- */

static int by_number(const void *a, const void *b) {
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

/* Between two neighbouring edges all ranks are alike. */
void cluster_slow_down(struct cluster *cluster, struct cluster_range ranks, double factor) {
    size_t edges = 0, count = 0, most = 2 * cluster->slow_count + 2;
    SCOPED_FREE int64_t *edge = MEM_ARRAY(int64_t, most);
    struct cluster_slow *rows = MEM_ARRAY(struct cluster_slow, most);
    for (size_t i = 0; i < cluster->slow_count; i++) {
        edge[edges++] = cluster->slow[i].ranks.first;
        edge[edges++] = cluster->slow[i].ranks.last + 1;
    }
    edge[edges++] = ranks.first;
    edge[edges++] = ranks.last + 1;
    qsort(edge, edges, sizeof *edge, by_number);
    for (size_t i = 0; i + 1 < edges; i++) {
        if (edge[i] == edge[i + 1]) continue;
        bool inside = edge[i] >= ranks.first && edge[i] <= ranks.last;
        double slow = cluster_slowness(cluster->slow, cluster->slow_count, edge[i]);
        if (inside) slow *= factor;
        if (slow != 1)
            rows[count++] =
                (struct cluster_slow){.ranks = {edge[i], edge[i + 1] - 1}, .factor = slow};
    }
    free(cluster->slow);
    cluster->slow = rows;
    cluster->slow_count = count;
}

/* The first row that speaks of a link counts: the new one is in front, with what there was. */
void cluster_slow_link(struct cluster *cluster, struct cluster_range a, struct cluster_range b,
                       double factor) {
    size_t count = cluster->slow_link_count;
    struct cluster_pair *rows = MEM_ARRAY(struct cluster_pair, count + 1);
    double before = 1;
    for (size_t i = count; i-- > 0;) {
        const struct cluster_range *of = cluster->slow_link[i].between;
        bool same = of[0].first <= a.first && of[0].last >= a.last && of[1].first <= b.first &&
                    of[1].last >= b.last,
             back = of[0].first <= b.first && of[0].last >= b.last && of[1].first <= a.first &&
                    of[1].last >= a.last;
        if (same || back) before = cluster->slow_link[i].factor;
        rows[i + 1] = cluster->slow_link[i];
    }
    rows[0] = (struct cluster_pair){.between = {a, b}, .factor = factor * before};
    free(cluster->slow_link);
    cluster->slow_link = rows;
    cluster->slow_link_count = count + 1;
}

/* --- fewer --- */

/* Ranks below this one that stay. */
static int64_t kept_below(struct cluster_range gone, int64_t rank) {
    int64_t before = rank <= gone.first ? 0 : rank > gone.last ? gone.last : rank - 1;
    return rank <= gone.first ? rank : rank - (before - gone.first + 1);
}

/* The range with its new numbers; false where nothing of it stays. */
static bool renumber(struct cluster_range gone, struct cluster_range *range) {
    int64_t first = kept_below(gone, range->first), last = kept_below(gone, range->last + 1) - 1;
    *range = (struct cluster_range){first, last};
    return first <= last;
}

static bool renumber_pair(struct cluster_range gone, struct cluster_pair *pair) {
    bool one = renumber(gone, &pair->between[0]), other = renumber(gone, &pair->between[1]);
    return one && other;
}

static size_t renumber_pairs(struct cluster_range gone, struct cluster_pair *pair, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (renumber_pair(gone, &pair[i])) pair[kept++] = pair[i];
    return kept;
}

/* Hosts of one row have as many ranks each, so those that lose some get rows of their own. */
static void remove_from_hosts(struct cluster *cluster, struct cluster_range gone) {
    struct cluster_hosts *rows = NULL;
    size_t capacity = 0, count = 0;
    int64_t hosts = 0;
    for (size_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_hosts *of = &cluster->host[i];
        for (int64_t h = 0, more; h < of->count; h += more) {
            struct cluster_hosts row = *of;
            int64_t first = of->ranks.first + h * of->ranks_each;
            bool before = first + of->ranks_each <= gone.first, behind = first > gone.last;
            more = before ? (gone.first - first) / of->ranks_each : behind ? of->count - h : 1;
            if (more > of->count - h) more = of->count - h;
            row.ranks = (struct cluster_range){first, first + more * of->ranks_each - 1};
            if (!renumber(gone, &row.ranks)) continue;
            row.count = more;
            row.ranks_each = (row.ranks.last - row.ranks.first + 1) / more;
            row.first_host = hosts;
            hosts += more;
            rows = mem_grow(rows, &capacity, count + 1, sizeof *rows);
            rows[count++] = row;
        }
    }
    free(cluster->host);
    cluster->host = rows;
    cluster->host_count = count;
    cluster->hosts = hosts;
}

enum status cluster_remove(struct cluster *cluster, const char *where, struct cluster_range gone) {
    int64_t count = gone.last - gone.first + 1;
    size_t kept = 0;
    if (count >= cluster->ranks)
        return fail(STATUS_USAGE, "%s: no rank of the cluster would be left", where);
    remove_from_hosts(cluster, gone);
    for (size_t i = 0; i < cluster->class_count; i++)
        if (renumber(gone, &cluster->class[i].ranks)) cluster->class[kept++] = cluster->class[i];
    cluster->class_count = kept;
    kept = 0;
    for (size_t i = 0; i < cluster->slow_count; i++)
        if (renumber(gone, &cluster->slow[i].ranks)) cluster->slow[kept++] = cluster->slow[i];
    cluster->slow_count = kept;
    cluster->pair_count = renumber_pairs(gone, cluster->pair, cluster->pair_count);
    cluster->slow_link_count = renumber_pairs(gone, cluster->slow_link, cluster->slow_link_count);
    cluster->ranks -= count;
    return STATUS_OK;
}
