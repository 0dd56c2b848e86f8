/* What `stretto doctor` says of ranks and networks: who this process would be, on which cores, over
 * which network, and why. */
#include <stdlib.h>
#include <string.h>

#include "base/machine.h"
#include "cli/doctor.h"
#include "launch/door.h"
#include "launch/lobby.h"
#include "launch/network.h"
#include "launch/place.h"
#include "launch/ranks.h"
#include "launch/slurm.h"

static const struct launch_config nothing_said = {
    .rank = -1, .world = -1, .nodes = -1, .node_rank = -1};

void doctor_look_place(const struct check *check, struct finding *out) {
    (void)check;
    struct launch_place place;
    if (launch_place(&nothing_said, &place) != STATUS_OK) {
        out->level = DOCTOR_BAD;
        snprintf(out->value, sizeof out->value, "cannot be told");
        snprintf(out->hint, sizeof out->hint, "every run would stop with the message above");
        return;
    }
    snprintf(out->value, sizeof out->value, "%d of %d, local %d of %d, node %d of %d", place.rank,
             place.world, place.local_rank, place.local_world, place.node, place.nodes);
    snprintf(out->hint, sizeof out->hint, "%.250s", place.how);
}

/* Where ranks that another launcher started would find one another. */
void doctor_look_meeting(const struct check *check, struct finding *out) {
    (void)check;
    struct launch_place place;
    struct launch_party party;
    struct launch_lobby lobby;
    if (launch_place(&nothing_said, &place) != STATUS_OK)
        place.source = LAUNCH_ALONE, place.world = 1;
    if (place.world > 1) launch_party_of(&nothing_said, &place, &party);
    if (place.world == 1)
        snprintf(out->value, sizeof out->value, "in the launcher: stretto train -n N");
    else if (place.source == LAUNCH_LAUNCHER)
        snprintf(out->value, sizeof out->value, "at the launcher");
    else if (!party.job[0]) {
        out->level = DOCTOR_WARN;
        snprintf(out->value, sizeof out->value, "nowhere yet");
        snprintf(out->hint, sizeof out->hint, "give --init tcp://host:port or file:///shared/path");
    } else if (party.one_host)
        snprintf(out->value, sizeof out->value, "a private folder of this host, as job %s",
                 party.job);
    else if (launch_lobby_find(&nothing_said, &party, NULL, &lobby))
        snprintf(out->value, sizeof out->value, "%.200s", lobby.how);
    else {
        snprintf(out->value, sizeof out->value, "the file .stretto-%s in the working folder",
                 party.job);
        snprintf(out->hint, sizeof out->hint,
                 "%.120s; all nodes must see the same folder, else give --init", lobby.how);
    }
}

void doctor_look_rank_cores(const struct check *check, struct finding *out) {
    (void)check;
    struct machine_cores cores = machine_cores("");
    bool quota = cores.usable < cores.affinity;
    int two = ranks_share(cores.usable, quota, 2, 0).threads;
    snprintf(out->value, sizeof out->value,
             "-n 2 gives each %d thread%s; up to -n %d none are shared", two, two > 1 ? "s" : "",
             cores.usable);
    if (quota)
        snprintf(out->hint, sizeof out->hint, "a quota of %.3g cores: ranks are not tied to cores",
                 cores.quota);
    else if (cores.usable < 2)
        snprintf(out->hint, sizeof out->hint,
                 "several ranks share one core: they work, and take turns");
}

void doctor_look_network(const struct check *check, struct finding *out) {
    (void)check;
    static struct network_list list;
    struct network_address address;
    char why[NETWORK_WHY_BYTES];
    if (network_list(&list) != STATUS_OK ||
        network_choose(&list, NULL, NULL, &address, why) != STATUS_OK) {
        out->level = DOCTOR_WARN;
        snprintf(out->value, sizeof out->value, "none");
        snprintf(out->hint, sizeof out->hint, "ranks of this host need none");
        return;
    }
    snprintf(out->value, sizeof out->value, "%s, %s: %s", address.interface, address.text, why);
    size_t used = 0;
    for (int i = 0; i < list.count && used < sizeof out->hint; i++)
        used += (size_t)snprintf(out->hint + used, sizeof out->hint - used, "%s%s %s%s",
                                 i ? ", " : "--interface chooses: ", list.item[i].interface,
                                 list.item[i].text, list.item[i].up ? "" : " (down)");
}

void doctor_look_host(const struct check *check, struct finding *out) {
    (void)check;
    struct launch_place here;
    launch_place_here(&here);
    snprintf(out->value, sizeof out->value, "%.200s", here.host);
    if (network_is_loopback(here.host)) {
        out->level = DOCTOR_WARN;
        snprintf(out->hint, sizeof out->hint,
                 "host files cannot name it: use --node-rank and addresses");
    }
}

void doctor_look_slurm(const struct check *check, struct finding *out) {
    (void)check;
    const char *list = getenv("SLURM_JOB_NODELIST");
    struct slurm_hosts hosts;
    if (!list) {
        snprintf(out->value, sizeof out->value, "%s",
                 getenv("SLURM_JOB_ID") ? "a job without a list of nodes" : "not in a job");
        return;
    }
    if (slurm_hosts_parse("SLURM_JOB_NODELIST", list, &hosts) != STATUS_OK) {
        out->level = DOCTOR_WARN;
        snprintf(out->value, sizeof out->value, "the list of nodes cannot be read");
        return;
    }
    snprintf(out->value, sizeof out->value, "%d node%s, %.60s to %.60s", hosts.count,
             hosts.count > 1 ? "s" : "", hosts.name[0], hosts.name[hosts.count - 1]);
    slurm_hosts_free(&hosts);
}
