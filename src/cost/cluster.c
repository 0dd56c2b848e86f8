/* Lookups in a cluster; cluster_read.c makes it. See cluster.h. */
#include "cost/cluster.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/text.h"

static bool holds(const struct cluster_range *range, int64_t rank) {
    return rank >= range->first && rank <= range->last;
}

/* The last row that begins at or before `rank`; rows are sorted by their first rank, and `stride`
 * bytes apart. -1: none. */
static int64_t find_row(const struct cluster_range *first, size_t count, size_t stride,
                        int64_t rank) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct cluster_range *row = (const void *)((const char *)first + middle * stride);
        if (row->first <= rank)
            low = middle + 1;
        else
            high = middle;
    }
    return (int64_t)low - 1;
}

static void check_rank(const struct cluster *cluster, int64_t rank) {
    CHECK(rank >= 0 && rank < cluster->ranks, "rank %lld of %lld", (long long)rank,
          (long long)cluster->ranks);
}

const struct cluster_class *cluster_class(const struct cluster *cluster, int64_t rank) {
    check_rank(cluster, rank);
    return &cluster->class[find_row(&cluster->class[0].ranks, cluster->class_count,
                                    sizeof *cluster->class, rank)];
}

double cluster_slowness(const struct cluster_slow *slow, size_t count, int64_t rank) {
    if (count == 0) return 1;
    int64_t at = find_row(&slow[0].ranks, count, sizeof *slow, rank);
    return at >= 0 && holds(&slow[at].ranks, rank) ? slow[at].factor : 1;
}

int64_t cluster_memory_bytes(const struct cluster *cluster, int64_t rank) {
    return cluster_class(cluster, rank)->memory_bytes;
}

int64_t cluster_host(const struct cluster *cluster, int64_t rank) {
    check_rank(cluster, rank);
    const struct cluster_hosts *row = &cluster->host[find_row(
        &cluster->host[0].ranks, cluster->host_count, sizeof *cluster->host, rank)];
    return row->first_host + (rank - row->ranks.first) / row->ranks_each;
}

/* The first row that speaks of the two ranks, or NULL. */
static const struct cluster_pair *find_pair(const struct cluster_pair *pair, size_t count,
                                            int64_t a, int64_t b) {
    for (size_t i = 0; i < count; i++) {
        const struct cluster_range *between = pair[i].between;
        if ((holds(&between[0], a) && holds(&between[1], b)) ||
            (holds(&between[0], b) && holds(&between[1], a)))
            return &pair[i];
    }
    return NULL;
}

struct cost_link cluster_link(const struct cluster *cluster, int64_t from, int64_t to) {
    check_rank(cluster, to);
    if (from == to)
        return (struct cost_link){.bytes_per_time = cluster_class(cluster, from)->bytes_per_ns};
    bool same = cluster_host(cluster, from) == cluster_host(cluster, to);
    struct cost_link link = same ? cluster->in_host : cluster->between_hosts;
    const struct cluster_pair *own = find_pair(cluster->pair, cluster->pair_count, from, to),
                              *slow =
                                  find_pair(cluster->slow_link, cluster->slow_link_count, from, to);
    if (own) link = own->link;
    if (slow) link.latency *= slow->factor, link.bytes_per_time /= slow->factor;
    return link;
}

enum status cluster_check_ranks(const struct cluster *cluster, const char *name, int ranks) {
    char has[TEXT_BYTES];
    if (cluster->ranks >= ranks) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: the cluster has %s, this run has %d\n"
                "  more ranks in its classes, or fewer --stages and --replicas",
                name, text_count(cluster->ranks, "rank", has), ranks);
}

static double rate_of(const struct cluster_class *class, enum dtype dtype, bool tf32) {
    double rate = dtype == DTYPE_BF16  ? class->bf16_per_ns
                  : dtype == DTYPE_F16 ? class->f16_per_ns
                  : tf32               ? class->tf32_per_ns
                                       : 0;
    return rate > 0 ? rate : class->flops_per_ns;
}

double cluster_class_ns(const struct cluster_class *class, enum op op, const struct op_cost *cost,
                        enum dtype dtype, bool tf32) {
    double arithmetic_ns = cost->flops / (rate_of(class, dtype, tf32) * class->efficiency[op]),
           memory_ns = cost->bytes / class->bytes_per_ns;
    return arithmetic_ns > memory_ns ? arithmetic_ns : memory_ns;
}

void cluster_free(struct cluster *cluster) {
    free(cluster->class);
    free(cluster->host);
    free(cluster->pair);
    free(cluster->slow_link);
    free(cluster->slow);
    arena_free(&cluster->arena);
    *cluster = (struct cluster){0};
}
