/* How long things take. This is the one place that answers: the choice of `auto`, the balance of
 * stages, limits of waits, forecasts and the simulator all ask here.
 *
 * Costs have one source of four: given by hand (--costs, --delay), measured (--profile), those of a
 * cluster that need not exist (--cluster), or the operations' own rules for a device of this
 * machine. There are questions about
 *
 *   a node     cost_node_ns: one operation of a graph
 *   a pass     cost_pass_ns: the nodes of a stage that a pass runs
 *   a message  cost_link between two ranks, cost_copy_ns at either end
 *   a group    cost_slower_link over its members, cost_group_time
 *
 * Files are read once for a run (cost_read), and what nodes take is looked up once for a graph
 * (cost_table_new). Questions after that are arithmetic: they parse nothing and allocate nothing,
 * so a search may ask as often as it likes. All local; only cost_read blocks. */
#ifndef COST_COST_H
#define COST_COST_H

#include "base/option.h"
#include "cost/cluster.h"
#include "cost/hetero.h"
#include "cost/profile.h"
#include "cost/units.h"
#include "graph/range.h"

/* All zero: the rules of the operations. At most one source is given, beside laws. */
struct costs {
    struct cost_units *units; /* by hand: the same of every stage; NULL */
    bool delays;              /* units are ns: passes wait that long instead of computing */
    struct profile *profile;  /* NULL, or with: */
    const struct profile_section *section; /* what holds for the run */
    struct cluster *cluster;               /* NULL */
    double crowd;                          /* for the rules: threads of ranks per core; 0 means 1 */
    struct hetero *hetero; /* laws that make ranks unequal, with any source but units; NULL */
    bool simulated;        /* --clock virtual: each rank has a device of its own, of one thread */
    double flop_ns; /* by the law `base`: what a node takes for each of its flops; 0: no such law */
};
extern const struct costs cost_rules;

/* Blocks. Reads the costs that the options name; with `files` the profile and the cluster file,
 * too. Ranks other than rank 0 may do without these files, which they may not have. The caller
 * frees the costs. */
enum status cost_read(const struct options *options, bool files, struct costs **out);
void cost_free(struct costs **costs);
/* Without delays: what work takes, whatever a run does in its place. */
struct costs cost_of_work(const struct costs *costs);
/* The costs with flop_ns set by the law `base` of --hetero; unchanged without that law. `base` is
 * the time of the forward passes of a whole mini-batch, which is `micro_batches` times the graph:
 * flop_ns is that time divided by their flops. */
struct costs cost_at_rate(const struct costs *costs, const struct graph *graph, int micro_batches);

/* --- devices --- */

/* A device is one of a class (0 where all ranks are alike), and may be slower than that. */
struct cost_device {
    int class;
    double slowness;
};
/* Devices that do the same work at the same time: the slowest one's time counts. */
struct cost_devices {
    struct cost_device *item; /* different ones */
    int count;
    size_t capacity;
    bool in_step; /* among all work of a step, not alone: see cost_node_ns */
};
void cost_devices_add(struct cost_devices *devices, struct cost_device device);
void cost_devices_free(struct cost_devices *devices);
int cost_class_count(const struct costs *costs);

/* --- nodes and passes --- */

/* What the nodes of a lowered graph take, on each class of devices. */
struct cost_table {
    const struct costs *costs; /* borrowed, as the graph */
    const struct graph *graph;
    double *ns;                     /* per class and node, alone; 0: nothing runs */
    const struct profile_row **row; /* per node: what was measured; NULL: estimated by rates */
};
void cost_table_new(const struct costs *costs, const struct graph *graph, struct cost_table *out);
void cost_table_free(struct cost_table *table);

/* Arithmetic of a node; its time on this machine by the rule of its backend, whatever is given. */
double cost_node_flops(const struct graph *graph, int node);
double cost_rule_ns(const struct graph *graph, int node);

/* A node alone, or in a step. There a measured operation takes longer than its median by what all
 * of them do together, and by the executor's time for each; and a machine's cores are shared. */
double cost_node_ns(const struct cost_table *table, const struct cost_devices *on, int node);

/* Kinds of units, too. B is I and W. */
enum cost_pass {
    COST_PASS_F = COST_F,
    COST_PASS_B = COST_B,
    COST_PASS_I = COST_I,
    COST_PASS_W = COST_W,
    COST_PASS_COUNT
};
/* A pass of a stage: in units where these are given, else the sum of its nodes. */
double cost_pass_ns(const struct cost_table *table, const struct cost_devices *on,
                    const struct ranges *ranges, int stage, enum cost_pass pass);

/* --- memory and messages --- */

/* Bytes that a thread of this machine moves in a nanosecond, where nothing better is known. */
#define COST_BYTES_PER_NS 12.0
/* A byte that a device reads or writes, with `threads` threads a rank; 0 where costs are units. */
double cost_byte_ns(const struct costs *costs, const struct cost_devices *on, int threads);
/* The same of parameters, gradients and optimizer state: nothing in virtual time where the law
 * `base` says what passes take. */
double cost_array_ns(const struct costs *costs, const struct cost_devices *on, int threads);
/* Adding one array of so many bytes to another: two are read, one is written. As part of a pass
 * (`inside`) it is nothing on either clock where that law says what passes take. */
double cost_add_ns(const struct costs *costs, const struct cost_devices *on, int threads,
                   double bytes, bool inside);
/* What either end of a message spends to copy it. Devices of a cluster have engines for that. */
double cost_copy_ns(const struct costs *costs, const struct cost_devices *on, int threads,
                    double bytes);

/* How long groups take: nothing, but that a barrier is a message (of units); by shared memory,
 * where every member reads and writes its part of all; by messages along a ring. */
enum cost_collective { COST_COLLECTIVE_FREE, COST_COLLECTIVE_SHARED, COST_COLLECTIVE_RING };

/* The ranks of a run and what lies between them. */
struct cost_net {
    const struct cluster *cluster;   /* their classes and links; NULL: all are alike, as follows */
    const struct cluster_slow *slow; /* slow ranks, sorted */
    size_t slow_count;
    struct cost_link link, group_link; /* of messages; of groups */
    struct cost_link own;              /* from a rank to itself */
    const struct hetero *hetero;       /* laws; NULL. Links have what they say on top */
    double wake, awake; /* what a wait takes on top that is longer than `awake`: the rank slept */
    enum cost_collective collective;
};
/* For ranks of `threads` threads each. */
struct cost_net cost_net_of(const struct costs *costs, int threads);

struct cost_device cost_device_of(const struct cost_net *net, int rank);
struct cost_link cost_link(const struct cost_net *net, int from, int to);
/* How long bytes move over a link, after its latency. */
static inline double cost_moving(struct cost_link link, double bytes) {
    return link.bytes_per_time > 0 ? bytes * (1 / link.bytes_per_time) : 0;
}
/* What a law says of a link on top of it: later by both, at the slower rate. */
struct cost_link cost_longer_link(struct cost_link link, struct cost_link more);
/* The worse of both in either respect. Over a group's members: that of the group. */
struct cost_link cost_slower_link(struct cost_link a, struct cost_link b);
/* One round of an operation of `size` ranks on `bytes` each: a sum of all, or an exchange. */
enum cost_operation { COST_EXCHANGE, COST_SUM, COST_BARRIER };
enum { COST_EXCHANGE_BYTES = 256 }; /* a rank's part of an exchange at the end of a step, about */
double cost_group_time(enum cost_collective collective, struct cost_link link, int size,
                       double bytes, enum cost_operation operation);

#endif
