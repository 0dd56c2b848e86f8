/* Messages and groups: see cost.h. */
#include "cost/cost.h"

/* What a message between ranks of one machine takes besides its copies, unless a profile says. */
#define LATENCY_NS 1000.0

static struct cost_net net_of_units(const struct cost_units *units) {
    struct cost_link message = {.latency = units->of[COST_C]};
    return (struct cost_net){
        .link = message, .group_link = message, .collective = COST_COLLECTIVE_FREE};
}

static struct cost_net net_of_cluster(const struct cluster *cluster) {
    return (struct cost_net){.cluster = cluster,
                             .slow = cluster->slow,
                             .slow_count = cluster->slow_count,
                             .link = {.latency = LATENCY_NS},
                             .own = cluster_link(cluster, 0, 0),
                             .collective = COST_COLLECTIVE_RING};
}

/* Sender and receiver copy messages themselves: that is part of their own time. */
static struct cost_net net_of_machine(const struct profile_section *section, int threads) {
    const struct profile_link *measured = section ? &section->link[PROFILE_IN_HOST] : NULL;
    bool latency = measured && measured->latency_ns.samples > 0,
         rate = measured && measured->bytes_per_ns.samples > 0;
    double late = latency ? measured->latency_ns.median : LATENCY_NS;
    return (struct cost_net){.link = {.latency = late},
                             .group_link = {late, rate      ? measured->bytes_per_ns.median
                                                  : section ? section->rate[PROFILE_BYTES].median
                                                            : COST_BYTES_PER_NS * threads},
                             .wake = section ? section->rate[PROFILE_WAKE].median : 0,
                             .awake = PROFILE_AWAKE_NS,
                             .collective = COST_COLLECTIVE_SHARED};
}

struct cost_net cost_net_of(const struct costs *costs, int threads) {
    struct cost_net net = costs->units     ? net_of_units(costs->units)
                          : costs->cluster ? net_of_cluster(costs->cluster)
                                           : net_of_machine(costs->section, threads);
    net.hetero = costs->hetero;
    return net;
}

struct cost_device cost_device_of(const struct cost_net *net, int rank) {
    const struct cluster *cluster = net->cluster;
    return (struct cost_device){
        .class = cluster ? (int)(cluster_class(cluster, rank) - cluster->class) : 0,
        .slowness = cluster_slowness(net->slow, net->slow_count, rank)};
}

struct cost_link cost_link(const struct cost_net *net, int from, int to) {
    if (from == to) return net->own;
    struct cost_link link = net->cluster ? cluster_link(net->cluster, from, to) : net->link;
    return net->hetero ? cost_longer_link(link, hetero_link(net->hetero, from, to)) : link;
}

struct cost_link cost_longer_link(struct cost_link link, struct cost_link more) {
    struct cost_link slower = cost_slower_link(link, more);
    return (struct cost_link){link.latency + more.latency, slower.bytes_per_time};
}

struct cost_link cost_slower_link(struct cost_link a, struct cost_link b) {
    double rate = a.bytes_per_time < b.bytes_per_time ? a.bytes_per_time : b.bytes_per_time;
    if (a.bytes_per_time == 0 || b.bytes_per_time == 0) rate = a.bytes_per_time + b.bytes_per_time;
    return (struct cost_link){a.latency > b.latency ? a.latency : b.latency, rate};
}

double cost_group_time(enum cost_collective collective, struct cost_link link, int size,
                       double bytes, enum cost_operation operation) {
    double n = size, moving = link.bytes_per_time > 0 ? bytes / link.bytes_per_time : 0;
    bool sum = operation == COST_SUM;
    if (n < 2) return 0;
    switch (collective) {
    case COST_COLLECTIVE_FREE: return operation == COST_BARRIER ? link.latency : 0;
    case COST_COLLECTIVE_SHARED: return link.latency + (sum ? 2 * moving : n * moving);
    default: break;
    }
    if (sum) return 2 * (n - 1) / n * moving + 2 * (n - 1) * link.latency;
    return link.latency + (n - 1) * moving;
}
