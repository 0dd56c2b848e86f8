/* See layout.h. */
#include "launch/layout.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "launch/hostfile.h"
#include "launch/init.h"

static enum status refuse_both(const char *a, const char *b) {
    return fail(STATUS_USAGE, "%s and %s exclude one another", a, b);
}

static enum status find_node(const struct launch_config *config, const struct hostfile *hosts,
                             const char *path, bool (*is_here)(const char *host), int *out) {
    int node = config->node_rank >= 0 ? config->node_rank : hostfile_find(hosts, is_here);
    if (node == -1)
        return fail(STATUS_USAGE,
                    "%s names no host that is this one\n  --node-rank gives its number, from 0",
                    path);
    if (node == -2)
        return fail(STATUS_USAGE,
                    "%s names this host more than once\n  --node-rank gives its number, from 0",
                    path);
    if (node >= hosts->count)
        return fail(STATUS_USAGE, "--node-rank %d is not below the %d nodes of %s", node,
                    hosts->count, path);
    *out = node;
    return STATUS_OK;
}

static enum status check_file(const struct launch_config *config, const struct hostfile *hosts,
                              const char *path, int node) {
    int servers = 0;
    for (int i = 0; i < hosts->count; i++) servers += hosts->node[i].servers;
    if (servers)
        return fail(STATUS_USAGE, "%s asks for %d parameter servers; no strategy here has any",
                    path, servers);
    if (config->nodes >= 0 && config->nodes != hosts->count)
        return fail(STATUS_USAGE, "--nodes %d contradicts %s, which has %d", config->nodes, path,
                    hosts->count);
    if (config->local_ranks > 0 && config->local_ranks != hosts->node[node].slots)
        return fail(STATUS_USAGE, "-n %d contradicts %s, which gives %s %d ranks",
                    config->local_ranks, path, hosts->node[node].host, hosts->node[node].slots);
    if (hosts->node[node].slots == 0)
        return fail(STATUS_USAGE, "%s gives %s no ranks: nothing to start here", path,
                    hosts->node[node].host);
    return STATUS_OK;
}

static enum status lay_out(const struct launch_config *config, const struct hostfile *hosts,
                           const char *path, bool (*is_here)(const char *host),
                           struct launch_layout *out) {
    int node = 0;
    TRY(find_node(config, hosts, path, is_here, &node));
    TRY(check_file(config, hosts, path, node));
    struct launch_layout layout = {.node = node,
                                   .nodes = hosts->count,
                                   .count = hosts->node[node].slots,
                                   .first_rank = hostfile_ranks_before(hosts, node),
                                   .world = hostfile_ranks_before(hosts, hosts->count),
                                   .chief = hosts->chief};
    if (layout.nodes > 1 && !config->init)
        snprintf(layout.init, sizeof layout.init, "tcp://%s:%d", hosts->node[hosts->chief].host,
                 LAUNCH_DEFAULT_PORT);
    snprintf(layout.how, sizeof layout.how, "node %d of %d by %.180s", node, layout.nodes, path);
    *out = layout;
    return STATUS_OK;
}

static enum status by_file(const struct launch_config *config, bool (*is_here)(const char *host),
                           struct launch_layout *out) {
    const char *path = config->hostfile ? config->hostfile : config->nodes_file;
    SCOPED(hostfile_free) struct hostfile hosts = {0};
    if (config->hostfile && config->nodes_file) return refuse_both("--hostfile", "--nodes-file");
    TRY(hostfile_read(path, !config->hostfile, &hosts));
    return lay_out(config, &hosts, path, is_here, out);
}

static enum status by_numbers(const struct launch_config *config, struct launch_layout *out) {
    int nodes = config->nodes >= 0 ? config->nodes : 1,
        count = config->local_ranks > 0 ? config->local_ranks : 1;
    if (nodes > 1 && config->node_rank < 0)
        return fail(STATUS_USAGE,
                    "--nodes %d needs --node-rank: which of them this is, from 0\n"
                    "  explain and simulate plan for machines elsewhere by -n alone: all ranks",
                    nodes);
    if (config->node_rank >= nodes)
        return fail(STATUS_USAGE, "--node-rank %d is not below --nodes %d\n  nodes count from 0",
                    config->node_rank, nodes);
    if (nodes > 1 && !config->init)
        return fail(STATUS_USAGE, "--nodes %d needs --init, the rendezvous\n  --init %s", nodes,
                    init_is_exported(config) ? "env:// takes MASTER_ADDR and MASTER_PORT"
                                             : "tcp://host:port, or file:///shared/path");
    struct launch_layout layout = {
        .node = nodes > 1 ? config->node_rank : 0, .nodes = nodes, .count = count};
    layout.first_rank = layout.node * count;
    layout.world = nodes * count;
    snprintf(layout.how, sizeof layout.how, "node %d of %d, %d rank%s each", layout.node, nodes,
             count, count > 1 ? "s" : "");
    *out = layout;
    return STATUS_OK;
}

enum status launch_layout(const struct launch_config *config, bool (*is_here)(const char *host),
                          struct launch_layout *out) {
    struct launch_layout layout;
    if (config->hostfile || config->nodes_file)
        TRY(by_file(config, is_here, &layout));
    else
        TRY(by_numbers(config, &layout));
    if (config->init && strlen(config->init) >= sizeof layout.init)
        return fail(STATUS_USAGE, "--init is longer than %zu characters", sizeof layout.init - 1);
    if (config->init) snprintf(layout.init, sizeof layout.init, "%s", config->init);
    *out = layout;
    return STATUS_OK;
}
