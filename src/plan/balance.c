/* See balance.h. Tables are filled from the last chunk to the first, so that the way out of them
 * goes from the first cut to the last and can take the earliest. */
#include "plan/balance.h"

#include <math.h>
#include <stdbool.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

static const char *const names[] = {
#define BALANCE(NAME, name, unit, doc) #name,
#include "plan/balance.def"
#undef BALANCE
};

enum balance balance_find(const char *name) {
    int found = TEXT_FIND(name, names);
    return found < 0 ? BALANCE_COUNT : (enum balance)found;
}

const char *balance_name(enum balance balance) {
    return names[balance];
}

double balance_weight(const struct balance_problem *problem, int chunk, int a, int b) {
    size_t at = balance_entry(problem->layers, a, b);
    double slots = problem->slots ? problem->slots[chunk] : 1;
    return problem->fixed[at] + (problem->per_slot ? slots * problem->per_slot[at] : 0);
}

/* Layers that a chunk which begins with layer a may end before: [a + 1, last]. */
static int last_end(const struct balance_problem *problem, int chunk) {
    return problem->layers - (problem->chunks - 1 - chunk);
}

static int first_end(const struct balance_problem *problem, int chunk, int a) {
    return chunk == problem->chunks - 1 ? problem->layers : a + 1;
}

static size_t state(const struct balance_problem *problem, int chunk, int a) {
    return (size_t)chunk * (size_t)(problem->layers + 1) + (size_t)a;
}

/* The least largest weight of layers [a, layers) as chunks [chunk, chunks). */
static double least_largest(const struct balance_problem *problem, const double *largest, int chunk,
                            int a) {
    double least = INFINITY;
    for (int b = first_end(problem, chunk, a); b <= last_end(problem, chunk); b++) {
        double own = balance_weight(problem, chunk, a, b);
        if (problem->grows && own >= least) break;
        double rest =
            chunk < problem->chunks - 1 ? largest[state(problem, chunk + 1, b)] : -INFINITY;
        least = fmin(least, fmax(own, rest));
    }
    return least;
}

static double find_limit(const struct balance_problem *problem) {
    SCOPED_FREE double *largest = MEM_ARRAY(double, state(problem, problem->chunks, 0));
    for (int chunk = problem->chunks - 1; chunk >= 0; chunk--)
        for (int a = chunk; a < last_end(problem, chunk); a++)
            largest[state(problem, chunk, a)] = least_largest(problem, largest, chunk, a);
    return largest[0];
}

/* Bytes over the cuts behind layer a, and the earliest end of its chunk that gives them. */
struct choice {
    bool possible;
    size_t bytes;
    int end;
};

static struct choice choose(const struct balance_problem *problem, const struct choice *choices,
                            int chunk, int a, double limit) {
    struct choice best = {0};
    for (int b = first_end(problem, chunk, a); b <= last_end(problem, chunk); b++) {
        if (balance_weight(problem, chunk, a, b) > limit) {
            if (problem->grows) break;
            continue;
        }
        struct choice way = {.possible = true, .end = b};
        if (chunk < problem->chunks - 1) {
            const struct choice *rest = &choices[state(problem, chunk + 1, b)];
            way.possible = rest->possible;
            way.bytes = rest->bytes + problem->cross_bytes[b];
        }
        if (way.possible && (!best.possible || way.bytes < best.bytes)) best = way;
    }
    return best;
}

void balance_cut(const struct balance_problem *problem, int *cuts) {
    CHECK(problem->chunks >= 1 && problem->chunks <= problem->layers, "%d chunks of %d layers",
          problem->chunks, problem->layers);
    double limit = find_limit(problem);
    SCOPED_FREE struct choice *choices =
        MEM_ARRAY(struct choice, state(problem, problem->chunks, 0));
    for (int chunk = problem->chunks - 1; chunk >= 0; chunk--)
        for (int a = chunk; a < last_end(problem, chunk); a++)
            choices[state(problem, chunk, a)] = choose(problem, choices, chunk, a, limit);
    for (int chunk = 0, a = 0; chunk < problem->chunks - 1; chunk++)
        cuts[chunk] = a = choices[state(problem, chunk, a)].end;
}
