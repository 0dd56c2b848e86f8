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
        doctor_say(out, "cannot be told");
        doctor_judge(out, DOCTOR_BAD, "every run would stop with the message above");
        return;
    }
    doctor_say(out, "%d of %d, local %d of %d, node %d of %d", place.rank, place.world,
               place.local_rank, place.local_world, place.node, place.nodes);
    doctor_judge(out, DOCTOR_OK, "%.250s", place.how);
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
        doctor_say(out, "in the launcher: stretto train -n N");
    else if (place.source == LAUNCH_LAUNCHER)
        doctor_say(out, "at the launcher");
    else if (!party.job[0]) {
        doctor_say(out, "nowhere yet");
        doctor_judge(out, DOCTOR_WARN, "give --init tcp://host:port or file:///shared/path");
    } else if (party.one_host)
        doctor_say(out, "a private folder of this host, as job %s", party.job);
    else if (launch_lobby_find(&nothing_said, &party, NULL, &lobby))
        doctor_say(out, "%.200s", lobby.how);
    else {
        doctor_say(out, "the file .stretto-%s in the working folder", party.job);
        doctor_judge(out, DOCTOR_OK, "%.120s; all nodes must see the same folder, else give --init",
                     lobby.how);
    }
}

void doctor_look_rank_cores(const struct check *check, struct finding *out) {
    (void)check;
    struct machine_cores cores = machine_cores("");
    bool quota = cores.usable < cores.affinity;
    int two = ranks_share(cores.usable, quota, 2, 0).threads;
    doctor_say(out, "-n 2 gives each %d thread%s; up to -n %d none are shared", two,
               two > 1 ? "s" : "", cores.usable);
    if (quota)
        doctor_judge(out, DOCTOR_OK, "a quota of %.3g cores: ranks are not tied to cores",
                     cores.quota);
    else if (cores.usable < 2)
        doctor_judge(out, DOCTOR_OK, "several ranks share one core: they work, and take turns");
}

void doctor_look_network(const struct check *check, struct finding *out) {
    (void)check;
    static struct network_list list;
    struct network_address address;
    char why[NETWORK_WHY_BYTES];
    if (network_list(&list) != STATUS_OK ||
        network_choose(&list, NULL, NULL, &address, why) != STATUS_OK) {
        doctor_say(out, "none");
        doctor_judge(out, DOCTOR_WARN, "ranks of this host need none");
        return;
    }
    doctor_say(out, "%s, %s: %s", address.interface, address.text, why);
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
    doctor_say(out, "%.200s", here.host);
    if (network_is_loopback(here.host))
        doctor_judge(out, DOCTOR_WARN, "host files cannot name it: use --node-rank and addresses");
}

void doctor_look_slurm(const struct check *check, struct finding *out) {
    (void)check;
    const char *list = getenv("SLURM_JOB_NODELIST");
    struct slurm_hosts hosts;
    if (!list) {
        doctor_say(out, "%s",
                   getenv("SLURM_JOB_ID") ? "a job without a list of nodes" : "not in a job");
        return;
    }
    if (slurm_hosts_parse("SLURM_JOB_NODELIST", list, &hosts) != STATUS_OK) {
        doctor_say(out, "the list of nodes cannot be read");
        doctor_judge(out, DOCTOR_WARN,
                     "the message above says why; --hostfile names hosts as well");
        return;
    }
    doctor_say(out, "%d node%s, %.60s to %.60s", hosts.count, hosts.count > 1 ? "s" : "",
               hosts.name[0], hosts.name[hosts.count - 1]);
    slurm_hosts_free(&hosts);
}
