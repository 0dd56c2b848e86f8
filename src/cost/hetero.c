/* What laws say: see hetero.h. */
#include "cost/hetero.h"

#include <stdlib.h>

#include "base/rng.h"

double hetero_slowness(const struct hetero *law, int rank) {
    return cluster_slowness(law->slow, law->slow_count, rank);
}

/* --- traces --- */

/* The rows of a rank: from `first` on, `count` of them. */
static const struct hetero_speed *rows_of(const struct hetero *law, int rank, size_t *count) {
    size_t low = 0, high = law->speed_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (law->speed[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < law->speed_count && law->speed[high].rank == rank;) high++;
    *count = high - low;
    return law->speed + low;
}

/* A speed holds until the next row. A pass that lasts over several rows takes the sum of what each
 * of them makes of its part. */
static double traced_ns(const struct hetero *law, int rank, double begin_ns, double work_ns) {
    size_t count, at = 0;
    const struct hetero_speed *row = rows_of(law, rank, &count);
    double now = begin_ns, speed = 1;
    for (; at < count && row[at].from_ns <= now; at++) speed = row[at].speed;
    for (; at < count && work_ns > (row[at].from_ns - now) * speed; at++) {
        work_ns -= (row[at].from_ns - now) * speed;
        now = row[at].from_ns;
        speed = row[at].speed;
    }
    return now - begin_ns + work_ns / speed;
}

/* --- a pass --- */

double hetero_transient_ns(const struct hetero *law, const struct hetero_pass *pass) {
    if (law->transient_ns == 0 || !pass->ends) return 0;
    uint64_t key = rng_key_text(pass->seed, "hetero transient");
    key = rng_key(key, (uint64_t)pass->rank);
    key = rng_key(key, (uint64_t)pass->number);
    key = rng_key(key, (uint64_t)pass->micro);
    key = rng_key(key, (uint64_t)pass->stage);
    key = rng_key(key, (uint64_t)pass->kind);
    return rng_uniform(key, 0) < law->probability ? law->transient_ns : 0;
}

double hetero_pass_ns(const struct hetero *law, const struct hetero_pass *pass, double begin_ns,
                      double work_ns) {
    double ns = work_ns * hetero_slowness(law, pass->rank);
    if (law->speed_count > 0) ns = traced_ns(law, pass->rank, begin_ns, ns);
    return ns + hetero_transient_ns(law, pass);
}

double hetero_most_ns(const struct hetero *law, double work_ns, int passes) {
    double slowest = 1;
    for (size_t i = 0; i < law->slow_count; i++)
        if (law->slow[i].factor > slowest) slowest = law->slow[i].factor;
    return work_ns * slowest + passes * law->transient_ns;
}

/* --- links --- */

static const struct hetero_link *find_link(const struct hetero *law, int a, int b) {
    for (size_t i = 0; i < law->link_count; i++) {
        const int *rank = law->link[i].rank;
        if ((rank[0] == a && rank[1] == b) || (rank[0] == b && rank[1] == a)) return &law->link[i];
    }
    return NULL;
}

bool hetero_has_link(const struct hetero *law, int a, int b) {
    return find_link(law, a, b) != NULL;
}

struct cost_link hetero_link(const struct hetero *law, int a, int b) {
    const struct hetero_link *link = find_link(law, a, b);
    return link ? link->more : (struct cost_link){0};
}

bool hetero_differs(const struct hetero *law) {
    return law->transient_ns > 0 || law->speed_count > 0;
}

bool hetero_is_unequal(const struct hetero *law) {
    return hetero_differs(law) || law->slow_count > 0 || law->link_count > 0;
}

void hetero_free(struct hetero *law) {
    free(law->slow);
    free(law->link);
    free(law->speed);
    *law = (struct hetero){0};
}
