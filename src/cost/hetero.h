/* --hetero: laws that make ranks unequal. One function says what a pass takes. Executor and
 * simulator both call it, so laws are the same on both clocks.
 *
 * A law reads no clock and has no state. Its draws are keyed by seed, rank, mini-batch, micro-batch
 * and pass, so passes can be asked for in any order and on any rank. All functions are local; only
 * hetero_read blocks, on the file of a trace. */
#ifndef COST_HETERO_H
#define COST_HETERO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "cost/cluster.h"

/* From some time on a rank has this speed; 1 is that of its device. */
struct hetero_speed {
    int rank, line;
    double from_ns, speed;
};
struct hetero_link {
    int rank[2];
    struct cost_link more; /* beside what the link takes itself */
};
struct hetero {
    double base_ns;            /* 0: passes take what they take */
    struct cluster_slow *slow; /* sorted by rank */
    size_t slow_count;
    double probability, transient_ns;
    struct hetero_link *link;
    size_t link_count;
    struct hetero_speed *speed; /* sorted by rank, then by time */
    size_t speed_count;
};

/* `where` is for messages: "--hetero". STATUS_USAGE names the law that is wrong, STATUS_DATA the
 * line of a trace. The caller frees the laws. */
enum status hetero_read(const char *where, const char *text, struct hetero *out);
void hetero_free(struct hetero *law);
/* STATUS_USAGE where a law names a rank that a run of so many has not; of a trace STATUS_DATA. */
enum status hetero_check_ranks(const char *where, const struct hetero *law, const char *text,
                               int ranks);

/* The file of a trace that the text names, or NULL; the text with it from the root. The caller
 * frees both. */
char *hetero_trace_path(const char *text);
char *hetero_absolute(const char *text);

/* Which pass: `kind` is its enum cost_kind, `number` the mini-batch's. */
struct hetero_pass {
    uint64_t seed;
    int rank;
    int64_t number;
    int micro, stage, kind;
    bool ends; /* false: a segment with others of its pass to come, which takes no transient time */
};
/* What a pass takes that begins at `begin_ns` and would take `work_ns` without laws: longer on a
 * slow rank and while the trace is slow; then what a draw adds. */
double hetero_pass_ns(const struct hetero *law, const struct hetero_pass *pass, double begin_ns,
                      double work_ns);
/* How many times longer passes of a rank take, by its law `slow` alone; what a draw adds. */
double hetero_slowness(const struct hetero *law, int rank);
double hetero_transient_ns(const struct hetero *law, const struct hetero_pass *pass);
/* The most that so many passes of any rank take, whose work is `work_ns` in all; traces aside. */
double hetero_most_ns(const struct hetero *law, double work_ns, int passes);
/* What laws add to the link between two ranks: zeros without such a law. */
bool hetero_has_link(const struct hetero *law, int a, int b);
struct cost_link hetero_link(const struct hetero *law, int a, int b);

/* Whether ranks that are alike in all else may take different times from step to step; whether
 * ranks are unequal at all. */
bool hetero_differs(const struct hetero *law);
bool hetero_is_unequal(const struct hetero *law);

#endif
