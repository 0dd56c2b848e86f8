/* What `stretto doctor` says of ranks and networks: who this process would be, on which cores, over
 * which network, and why. */
#include <stdlib.h>

#include "base/machine.h"
#include "cli/doctor.h"
#include "launch/cores.h"
#include "launch/identity.h"
#include "launch/init.h"
#include "launch/network.h"
#include "launch/rendezvous.h"
#include "launch/slurm.h"
#include "launch/slurm_munge.h"

static const struct launch_config nothing_said = {
    .rank = -1, .world = -1, .nodes = -1, .node_rank = -1};

/* Found once: what is wrong with it is said once. A process alone where it cannot be told. */
static enum status find_identity(struct launch_identity *out) {
    static struct launch_identity identity;
    static enum status status;
    if (identity.world == 0) {
        status = launch_identity(&nothing_said, &identity);
        if (status != STATUS_OK)
            identity =
                (struct launch_identity){.source = LAUNCH_ALONE, .world = 1, .host_ranks = 1};
    }
    *out = identity;
    return status;
}

void doctor_look_identity(const struct check *check, struct finding *out) {
    (void)check;
    struct launch_identity identity;
    if (find_identity(&identity) != STATUS_OK) {
        doctor_say(out, "cannot be told");
        doctor_judge(out, DOCTOR_BAD, "every run would stop with the message above");
        return;
    }
    doctor_say(out, "%d of %d, local %d of %d, node %d of %d", identity.rank, identity.world,
               identity.local_rank, identity.local_world, identity.node, identity.nodes);
    doctor_judge(out, DOCTOR_OK, "%.250s", identity.how);
}

/* Where ranks that another launcher started would find one another. */
void doctor_look_rendezvous(const struct check *check, struct finding *out) {
    (void)check;
    struct launch_identity identity;
    struct launch_peers peers;
    struct launch_bootstrap bootstrap;
    find_identity(&identity);
    if (identity.world > 1) launch_peers_of(&nothing_said, &identity, &peers);
    if (identity.world == 1)
        doctor_say(out, "in the launcher: stretto train -n N");
    else if (identity.source == LAUNCH_LAUNCHER)
        doctor_say(out, "at the launcher");
    else if (peers.by_hand && init_is_exported(&nothing_said))
        doctor_say(out, "MASTER_ADDR %.200s, MASTER_PORT %.10s", getenv("MASTER_ADDR"),
                   getenv("MASTER_PORT"));
    else if (!peers.job[0]) {
        doctor_say(out, "nowhere yet");
        doctor_judge(out, DOCTOR_WARN, "give --init tcp://host:port or file:///shared/path%s",
                     peers.by_hand ? ", or set MASTER_ADDR and MASTER_PORT" : "");
    } else if (peers.one_host)
        doctor_say(out, "a private folder of this host, as job %s", peers.job);
    else if (launch_bootstrap_find(&nothing_said, &peers, NULL, &bootstrap))
        doctor_say(out, "%.200s", bootstrap.how);
    else {
        doctor_say(out, "the file .stretto-%s in the working folder", peers.job);
        doctor_judge(out, DOCTOR_OK, "%.120s; all nodes must see the same folder, else give --init",
                     bootstrap.how);
    }
}

void doctor_rank_share(struct cores_share *out) {
    struct launch_identity identity;
    find_identity(&identity);
    if (identity.source != LAUNCH_ALONE)
        cores_of_rank(&nothing_said, &identity, out);
    else
        cores_of_ranks(1, out);
}

/* --threads where it is not given: of this process, and of ranks that it would start. */
void doctor_look_rank_cores(const struct check *check, struct finding *out) {
    (void)check;
    struct machine_cores cores = machine_cores("");
    struct cores_share share, two;
    char text[CORES_TEXT_BYTES];
    doctor_rank_share(&share);
    cores_of_ranks(2, &two);
    doctor_say(out, "--threads is %s by default", cores_text(&share, text));
    if (share.ranks > 1 || share.said) return;
    doctor_judge(out, DOCTOR_OK, "with -n 2 it is %s; up to -n %d ranks share no core%s",
                 cores_text(&two, text), cores.usable,
                 cores.usable < cores.affinity ? ", but a quota binds none to cores" : "");
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
    struct launch_identity here;
    launch_identity_here(&here);
    doctor_say(out, "%.200s", here.host);
    if (network_is_loopback(here.host))
        doctor_judge(out, DOCTOR_WARN, "host files cannot name it: use --node-rank and addresses");
}

void doctor_look_slurm(const struct check *check, struct finding *out) {
    (void)check;
    const char *list = getenv("SLURM_JOB_NODELIST");
    SCOPED(slurm_hosts_free) struct slurm_hosts hosts = {0};
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
}
