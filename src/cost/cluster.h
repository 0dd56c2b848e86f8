/* A cluster that may not exist: --cluster FILE.yml describes devices and links, and the simulator
 * runs programs on them. docs/cluster.md has the format and an example. All local; only
 * cluster_read blocks, on the file.
 *
 * Ranks are numbered class by class, in the order of the file, and host by host. Everything is kept
 * as ranges of ranks, so that 100,000 of them take no more memory than 2; a lookup is a binary
 * search, but for named links, whose rows are tried in order. Rejected: a table of ranks, and a
 * matrix of links, which 100,000 ranks do not allow. */
#ifndef COST_CLUSTER_H
#define COST_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"
#include "op/op.h"

enum { CLUSTER_RANKS_MAX = 1 << 24, CLUSTER_ROWS_MAX = 1 << 16, CLUSTER_BYTES_MAX = 16 << 20 };

/* Ranks first .. last, both included. */
struct cluster_range {
    int64_t first, last;
};

struct cluster_class {
    const char *name;
    struct cluster_range ranks;
    double flops_per_ns, bytes_per_ns;           /* arithmetic in f32; memory */
    double tf32_per_ns, bf16_per_ns, f16_per_ns; /* arithmetic of products; 0: as f32 */
    int64_t memory_bytes;                        /* of one rank */
    double efficiency[OP_COUNT]; /* share of flops_per_ns that an operation reaches */
    int line;                    /* of the file */
};

/* `count` equal hosts in a row. */
struct cluster_hosts {
    const char *name; /* NULL: none */
    struct cluster_range ranks;
    int64_t ranks_each, count, first_host;
    int line;
};

struct cost_link {
    double latency, bytes_per_time; /* 0 bytes: without limit. Of a cluster: in ns */
};

/* A row about the links between two sets of ranks, in both directions: either a link of its own, or
 * a factor on the time of the link that is there. */
struct cluster_pair {
    struct cluster_range between[2];
    struct cost_link link;
    double factor;
    int line;
};

struct cluster_slow {
    struct cluster_range ranks;
    double factor;
    int line;
};

struct cluster {
    int64_t ranks, hosts;
    struct cluster_class *class;
    size_t class_count;
    struct cluster_hosts *host;
    size_t host_count;
    struct cost_link in_host, between_hosts;
    struct cluster_pair *pair, *slow_link;
    size_t pair_count, slow_link_count;
    struct cluster_slow *slow; /* sorted by rank */
    size_t slow_count;
    struct arena arena; /* names; the arrays are freed one by one */
};

/* The caller frees. `name` is for messages. STATUS_USAGE with the place of the mistake. */
enum status cluster_parse(const char *name, const void *text, size_t bytes, struct cluster *out);
enum status cluster_read(const char *path, struct cluster *out);
void cluster_free(struct cluster *cluster);

/* A cluster of equal hosts in a word: HxD:CLASS[,IN_HOST][,BETWEEN], as in
 * 2x8:a100-40,nvlink,25gbe. cluster_read takes it in place of a file. Classes and links are rows of
 * cluster_class.def; hosts are h0, h1 ... as far as there are no more than this. */
enum { CLUSTER_NAMED_HOSTS = 4096 };
bool cluster_is_word(const char *text);
enum status cluster_parse_word(const char *text, struct cluster *out);
bool cluster_class_at(int index, const char **name, const char **help);
bool cluster_link_at(int index, const char **name, const char **help);

/* What if? `where` is for messages. Ranks by number, by range ("2-5"), or by the name of a host or
 * class; some of them slower, or the links between two sets; or gone: those behind them are
 * numbered anew. STATUS_USAGE names what there is not. */
enum status cluster_find_ranks(const struct cluster *cluster, const char *where, const char *text,
                               struct cluster_range *out);
void cluster_slow_down(struct cluster *cluster, struct cluster_range ranks, double factor);
void cluster_slow_link(struct cluster *cluster, struct cluster_range a, struct cluster_range b,
                       double factor);
enum status cluster_remove(struct cluster *cluster, const char *where, struct cluster_range gone);

/* The device of a rank; how many times slower than its class it is, by sorted rows (1: not); its
 * memory. */
const struct cluster_class *cluster_class(const struct cluster *cluster, int64_t rank);
double cluster_slowness(const struct cluster_slow *slow, size_t count, int64_t rank);
int64_t cluster_memory_bytes(const struct cluster *cluster, int64_t rank);
/* The host of a rank, numbered from 0. */
int64_t cluster_host(const struct cluster *cluster, int64_t rank);
/* The link that two ranks share, slowness included. A rank reaches itself at the rate of its
 * memory, without latency. */
struct cost_link cluster_link(const struct cluster *cluster, int64_t from, int64_t to);
/* STATUS_USAGE where a run has more ranks than the cluster. */
enum status cluster_check_ranks(const struct cluster *cluster, const char *name, int ranks);
/* Time of an operation on a device of a class, before slowness: arithmetic or memory, whichever
 * takes longer. `dtype` is that of activations; tf32: f32 products may round so. */
double cluster_class_ns(const struct cluster_class *class, enum op op, const struct op_cost *cost,
                        enum dtype dtype, bool tf32);

#endif
