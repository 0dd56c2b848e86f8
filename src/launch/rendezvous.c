/* See rendezvous.h. */
#include "launch/rendezvous.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/comm.h"
#include "launch/init.h"
#include "launch/network.h"
#include "launch/slurm.h"
#include "launch/slurm_munge.h"

enum { LEAVE_LIMIT_S = 60 };

struct opening {
    const struct launch_config *config;
    const struct launch_peers *peers;
    struct init init;
    double limit_s;
    bool keyed; /* the secret was given */
    struct launch_rendezvous rendezvous;
};

static bool is_host(const struct opening *opening) {
    return opening->peers->index == opening->peers->host;
}

/* ---- the secret ---- */

static enum status take_key(struct opening *opening) {
    const char *text = launch_variable(opening->config, "STRETTO_KEY");
    opening->keyed = opening->config->key || text;
    if (opening->config->key)
        return control_secret_file(opening->config->key, &opening->rendezvous.secret);
    if (text) return control_secret_parse("STRETTO_KEY", text, &opening->rendezvous.secret);
    return is_host(opening) ? control_secret_new(&opening->rendezvous.secret) : STATUS_OK;
}

/* ---- addresses ---- */

static void tcp_text(const char *host, int port, char text[CONTROL_ADDRESS_BYTES]) {
    bool sixth = strchr(host, ':') != NULL;
    if (strcmp(host, "localhost") == 0) host = "127.0.0.1"; /* where network_own() has it listen */
    snprintf(text, CONTROL_ADDRESS_BYTES, sixth ? "tcp://[%.200s]:%d" : "tcp://%.200s:%d", host,
             port);
}

/* Where the server listens: on one host a socket that only this user reaches, else the chosen
 * network, any free port. */
static enum status listen_anywhere(const struct opening *opening,
                                   char bind[CONTROL_ADDRESS_BYTES]) {
    struct network_list list;
    struct network_address address;
    char why[NETWORK_WHY_BYTES];
    bind[0] = 0;
    if (opening->peers->one_host) return STATUS_OK;
    TRY(network_list(&list));
    TRY(network_choose(&list, opening->config->interface, NULL, &address, why));
    tcp_text(address.text, 0, bind);
    return STATUS_OK;
}

static enum status start_server(struct opening *opening, const char *bind) {
    struct control_server_config server = {.bind = *bind ? bind : NULL,
                                           .secret = opening->rendezvous.secret,
                                           .world = opening->peers->world,
                                           .epoch = opening->peers->epoch,
                                           .join_limit_s = opening->limit_s,
                                           .leave_limit_s = LEAVE_LIMIT_S,
                                           .status_table = opening->peers->status_table,
                                           .status_table_first = opening->peers->status_table_first,
                                           .context = opening->peers->context,
                                           .given_up = opening->peers->given_up};
    enum status status = control_server_start(&server, &opening->rendezvous.server);
    control_secret_wipe(&server.secret);
    TRY(status);
    snprintf(opening->rendezvous.address, sizeof opening->rendezvous.address, "%s",
             control_server_address(opening->rendezvous.server));
    return STATUS_OK;
}

/* ---- ways to find the server ---- */

static void give_info(const struct opening *opening, struct control_rendezvous_info *info) {
    info->secret = opening->rendezvous.secret;
    snprintf(info->address, sizeof info->address, "%s", opening->rendezvous.address);
}

/* A key that was given counts: where it is not the host's, that is said when joining. */
static void take_info(struct opening *opening, const struct control_rendezvous_info *info) {
    if (!opening->keyed) opening->rendezvous.secret = info->secret;
    snprintf(opening->rendezvous.address, sizeof opening->rendezvous.address, "%s", info->address);
}

/* Nodes start again each by itself: a start of its own has a file of its own, or one node would
 * take the record of the start that another has not left yet. */
static char *path_of_start(const struct opening *opening, const char *path) {
    unsigned epoch = opening->peers->epoch;
    return epoch ? mem_format("%s.%u", path, epoch) : mem_text(path);
}

/* Where the server listens once a rank comes from another host. */
struct launch_remote {
    struct control_server *server;
    char bind[CONTROL_ADDRESS_BYTES];
};

static enum status open_remote(void *context, char address[CONTROL_ADDRESS_BYTES]) {
    struct launch_remote *remote = context;
    return control_server_also(remote->server, remote->bind, address);
}

/* `name`: of a file that the user did not name; NULL: its path. */
static enum status rendezvous_at_path(struct opening *opening, const char *path, const char *name,
                                      const char *bind) {
    const struct launch_peers *peers = opening->peers;
    const char *job = peers->job[0] ? peers->job : NULL;
    struct control_rendezvous_info info;
    enum status status;
    if (is_host(opening)) {
        TRY(start_server(opening, bind));
        give_info(opening, &info);
        status =
            control_rendezvous_publish(path, job, peers->count, &info, &opening->rendezvous.file);
    } else {
        status = control_rendezvous_wait(path, name, job, opening->limit_s, &info,
                                         &opening->rendezvous.file);
        if (status == STATUS_OK) take_info(opening, &info);
    }
    control_secret_wipe(&info.secret);
    return status;
}

static enum status rendezvous_at_file(struct opening *opening, const char *path, const char *name,
                                      const char *bind) {
    SCOPED_FREE char *own = path_of_start(opening, path);
    return rendezvous_at_path(opening, own, name, bind);
}

/* The network is chosen at once, so that a wrong --interface is refused at once. */
static enum status rendezvous_at_given_file(struct opening *opening) {
    char bind[CONTROL_ADDRESS_BYTES] = "";
    if (is_host(opening)) TRY(listen_anywhere(opening, bind));
    TRY(rendezvous_at_file(opening, opening->init.path, NULL, ""));
    if (!*bind) return STATUS_OK;
    struct launch_remote *remote = MEM_NEW(struct launch_remote);
    remote->server = opening->rendezvous.server;
    memcpy(remote->bind, bind, sizeof remote->bind);
    opening->rendezvous.remote = remote;
    control_rendezvous_remote(opening->rendezvous.file, remote, open_remote);
    return STATUS_OK;
}

/* A folder of this user alone, for what ranks of one host tell one another. */
static enum status private_folder(const struct launch_config *config, char path[512]) {
    const char *runtime = launch_variable(config, "XDG_RUNTIME_DIR");
    struct stat info;
    if (runtime && strlen(runtime) < 400 && access(runtime, W_OK) == 0)
        snprintf(path, 512, "%s/stretto", runtime);
    else
        snprintf(path, 512, "/tmp/stretto-%u", (unsigned)getuid());
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return fail(STATUS_DATA, "%s: cannot be made: %s", path, strerror(errno));
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != getuid() ||
        info.st_mode & 077)
        return fail(STATUS_USAGE,
                    "%s is not a folder of this user alone\n  remove it, or set XDG_RUNTIME_DIR",
                    path);
    return STATUS_OK;
}

/* What the user typed, or who started the ranks; the caller frees it. */
static char *typed_name(const struct opening *opening) {
    const struct init *init = &opening->init;
    const char *typed = opening->config->init;
    if (init->kind != INIT_TCP) return mem_format("job %s", opening->peers->job);
    if (strcmp(typed, "env://") != 0) return mem_format("--init %s", typed);
    return mem_format("MASTER_ADDR %s, MASTER_PORT %d", init->host, init->port);
}

static enum status rendezvous_in_private_folder(struct opening *opening, const char *file,
                                                const char *bind) {
    char folder[512];
    TRY(private_folder(opening->config, folder));
    SCOPED_FREE char *path = mem_format("%s/%s", folder, file), *name = typed_name(opening);
    return rendezvous_at_file(opening, path, name, bind);
}

/* `bind`: where the server listens; "": the network of the bootstrap, any free port. */
static enum status serve_munge(struct opening *opening, const struct launch_bootstrap *bootstrap,
                               struct control_bootstrap_config *config, const char *bind) {
    struct network_address own;
    struct control_rendezvous_info info;
    char anywhere[CONTROL_ADDRESS_BYTES] = "";
    TRY(launch_bootstrap_address(opening->config, bootstrap, &own));
    if (!*bind && opening->config->interface)
        TRY(listen_anywhere(opening, anywhere));
    else if (!*bind)
        tcp_text(own.text, 0, anywhere);
    TRY(start_server(opening, *bind ? bind : anywhere));
    give_info(opening, &info);
    config->address = own.text;
    enum status status = control_bootstrap_serve(config, &info, &opening->rendezvous.bootstrap);
    control_secret_wipe(&info.secret);
    if (status == STATUS_OK)
        log_note("MUNGE bootstrap at %s, port %d; MUNGE encrypts the key", bootstrap->host,
                 control_bootstrap_port(opening->rendezvous.bootstrap));
    return status;
}

static enum status rendezvous_by_munge(struct opening *opening,
                                       const struct launch_bootstrap *bootstrap, const char *bind) {
    struct control_rendezvous_info info;
    struct control_bootstrap_config config = {.seal = bootstrap->seal,
                                              .job = opening->peers->job,
                                              .address = bootstrap->host,
                                              .world = opening->peers->count,
                                              .limit_s = opening->limit_s};
    if (is_host(opening)) return serve_munge(opening, bootstrap, &config, bind);
    TRY(control_bootstrap_fetch(&config, &info));
    take_info(opening, &info);
    control_secret_wipe(&info.secret);
    return STATUS_OK;
}

static bool is_mpi(const struct opening *opening, struct comm_config *config) {
    *config = (struct comm_config){.rank = opening->peers->index, .size = opening->peers->count};
    return opening->peers->mpi && comm_bootstrap_exists(config);
}

/* MPI brings the address and the secret of rank 0 to all. A server that does not start is told by
 * an empty address. */
static enum status rendezvous_by_mpi(struct opening *opening, const struct comm_config *mpi,
                                     const char *bind) {
    struct control_rendezvous_info info = {.address = ""};
    enum status status = is_host(opening) ? start_server(opening, bind) : STATUS_OK;
    if (is_host(opening) && status == STATUS_OK) give_info(opening, &info);
    enum status received = comm_bootstrap(mpi, &info, sizeof info, opening->limit_s);
    if (status == STATUS_OK) status = received;
    if (status == STATUS_OK && !info.address[0])
        status = fail(STATUS_PEER, "rank %d ends: rank 0 has no control server", mpi->rank);
    info.address[sizeof info.address - 1] = 0;
    if (status == STATUS_OK) take_info(opening, &info);
    control_secret_wipe(&info.secret);
    return status;
}

static enum status refuse_without_key(const struct opening *opening) {
    SCOPED_FREE char *name = typed_name(opening);
    return fail(STATUS_USAGE,
                "%s between hosts needs a key, or any process could join\n"
                "  make one: stretto key job.key; copy it: scp -p job.key OTHER_HOST:\n"
                "  then give --key job.key on every node",
                name);
}

/* On loopback a private file carries the secret; between hosts a key, MUNGE or MPI does. */
static bool needs_key(const struct opening *opening) {
    return !opening->keyed && opening->peers->count > 1 && !network_is_loopback(opening->init.host);
}

/* Where the one that runs the server listens. */
static enum status own_address(const struct opening *opening, struct network_address *out) {
    struct network_list list;
    if (!is_host(opening)) return STATUS_OK;
    TRY(network_list(&list));
    return network_own(&list, opening->init.host, out);
}

static enum status rendezvous_at_port(struct opening *opening) {
    struct network_address own = {.text = "127.0.0.1"};
    struct launch_bootstrap bootstrap;
    struct comm_config mpi_config;
    char bind[CONTROL_ADDRESS_BYTES], name[32];
    const struct init *init = &opening->init;
    bool open = needs_key(opening);
    bool munge =
        open && launch_bootstrap_find(opening->config, opening->peers, init->host, &bootstrap);
    bool mpi = open && !munge && is_mpi(opening, &mpi_config);
    if (open && !munge && !mpi) return refuse_without_key(opening);
    TRY(own_address(opening, &own));
    tcp_text(is_host(opening) ? own.text : init->host, init->port, bind);
    snprintf(name, sizeof name, "port-%d", init->port);
    if (munge) return rendezvous_by_munge(opening, &bootstrap, bind);
    if (mpi) return rendezvous_by_mpi(opening, &mpi_config, bind);
    if (!opening->keyed && opening->peers->count > 1)
        return rendezvous_in_private_folder(opening, name, bind);
    if (is_host(opening)) return start_server(opening, bind);
    snprintf(opening->rendezvous.address, sizeof opening->rendezvous.address, "%s", bind);
    return STATUS_OK;
}

static enum status refuse_nowhere(const struct launch_peers *peers) {
    return fail(STATUS_USAGE,
                "%d %s need a rendezvous: --init is missing\n"
                "  --init tcp://host:port, or file:///shared/path%s",
                peers->count, peers->count == peers->world ? "ranks" : "nodes",
                peers->by_hand ? "; or MASTER_ADDR and MASTER_PORT" : "");
}

static enum status rendezvous_by_job(struct opening *opening) {
    const struct launch_peers *peers = opening->peers;
    struct launch_bootstrap bootstrap;
    struct comm_config mpi_config;
    char folder[512], bind[CONTROL_ADDRESS_BYTES] = "";
    if (peers->count == 1) return start_server(opening, "");
    if (!peers->one_host && launch_bootstrap_find(opening->config, peers, NULL, &bootstrap))
        return rendezvous_by_munge(opening, &bootstrap, "");
    if (!peers->one_host && is_mpi(opening, &mpi_config)) {
        if (is_host(opening)) TRY(listen_anywhere(opening, bind));
        return rendezvous_by_mpi(opening, &mpi_config, bind);
    }
    if (!peers->job[0]) return refuse_nowhere(peers);
    if (peers->one_host) return rendezvous_in_private_folder(opening, peers->job, "");
    if (!getcwd(folder, sizeof folder))
        return fail(STATUS_DATA, "the working folder has no name: %s", strerror(errno));
    if (is_host(opening)) TRY(listen_anywhere(opening, bind));
    SCOPED_FREE char *path = mem_format("%s/.stretto-%s", folder, peers->job);
    return rendezvous_at_file(opening, path, NULL, bind);
}

/* The rendezvous rule of the options, and the key; the caller closes the rendezvous on failure too.
 */
static enum status begin(struct opening *opening) {
    const struct launch_config *config = opening->config;
    opening->rendezvous.epoch = opening->peers->epoch;
    if (config->interface) TRY(network_check_rule(config->interface));
    TRY(init_parse(config, &opening->init));
    return take_key(opening);
}

static enum status rendezvous_by_init(struct opening *opening) {
    if (opening->init.kind == INIT_FILE) return rendezvous_at_given_file(opening);
    return opening->init.kind == INIT_TCP ? rendezvous_at_port(opening)
                                          : rendezvous_by_job(opening);
}

enum status launch_rendezvous_open(const struct launch_config *config,
                                   const struct launch_peers *peers, double limit_s,
                                   struct launch_rendezvous *out) {
    struct launch_config own = peers->by_hand ? init_by_hand(config) : *config;
    struct opening opening = {
        .config = &own, .peers = peers, .limit_s = limit_s > 0 ? limit_s : 60};
    enum status status = begin(&opening);
    if (status == STATUS_OK) status = rendezvous_by_init(&opening);
    if (status == STATUS_OK)
        *out = opening.rendezvous;
    else
        launch_rendezvous_close(&opening.rendezvous);
    return status;
}

/* MPI cannot be asked without starting it, which is collective: where it may be there it counts. */
static enum status check_route(const struct opening *opening) {
    const struct launch_peers *peers = opening->peers;
    struct network_address own;
    struct launch_bootstrap bootstrap;
    if (opening->init.kind == INIT_FILE) return STATUS_OK;
    bool port = opening->init.kind == INIT_TCP;
    bool closed = port ? !needs_key(opening) : peers->count == 1 || peers->job[0];
    bool mpi = peers->mpi && (port || !peers->one_host);
    if (!closed && !mpi &&
        !launch_bootstrap_find(opening->config, peers, port ? opening->init.host : NULL,
                               &bootstrap))
        return port ? refuse_without_key(opening) : refuse_nowhere(peers);
    return port ? own_address(opening, &own) : STATUS_OK;
}

enum status launch_rendezvous_check(const struct launch_config *config,
                                    const struct launch_peers *peers) {
    struct launch_config own = peers->by_hand ? init_by_hand(config) : *config;
    struct opening opening = {.config = &own, .peers = peers};
    enum status status = begin(&opening);
    if (status == STATUS_OK) status = check_route(&opening);
    launch_rendezvous_close(&opening.rendezvous);
    return status;
}

void launch_rendezvous_close(struct launch_rendezvous *rendezvous) {
    control_rendezvous_remote(rendezvous->file, NULL, NULL);
    free(rendezvous->remote);
    rendezvous->remote = NULL;
    control_server_stop(&rendezvous->server);
    control_bootstrap_close(&rendezvous->bootstrap);
    control_rendezvous_leave(&rendezvous->file);
    control_secret_wipe(&rendezvous->secret);
}

/* ---- ranks ---- */

/* What names the job to all its ranks, and no other job: for a file's name. */
static void job_of(const struct launch_config *config, const struct launch_identity *identity,
                   char job[LAUNCH_JOB_BYTES]) {
    static const char *const names[LAUNCH_ALONE + 1][3] = {
        [LAUNCH_SLURM] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
        [LAUNCH_ARRAY] = {"SLURM_ARRAY_JOB_ID", NULL},
        [LAUNCH_OPEN_MPI] = {"PMIX_NAMESPACE", NULL},
        [LAUNCH_TORCHRUN] = {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
    };
    size_t used = 0;
    job[0] = 0;
    for (int i = 0; i < 3 && names[identity->source][i]; i++) {
        const char *value = launch_variable(config, names[identity->source][i]);
        if (!value && i == 0) return;
        used += (size_t)snprintf(job + used, LAUNCH_JOB_BYTES - used, "%s%.30s", i ? "." : "",
                                 value ? value : "0");
    }
    if (identity->source == LAUNCH_PMI &&
        identity->local_world == identity->world) /* MPICH gives none; its daemon is the parent */
        snprintf(job, LAUNCH_JOB_BYTES, "mpich-%d", (int)getppid());
    for (char *at = job; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at)) *at = '_';
    }
}

/* Slurm places rank 0 on the first node of the step. */
static void first_node(const struct launch_config *config, char host[LAUNCH_HOST_BYTES]) {
    const char *list = launch_variable(config, "SLURM_STEP_NODELIST");
    SCOPED(slurm_hosts_free) struct slurm_hosts hosts = {0};
    if (!list || slurm_hosts_parse("SLURM_STEP_NODELIST", list, &hosts) != STATUS_OK) return;
    snprintf(host, LAUNCH_HOST_BYTES, "%s", hosts.name[0]);
}

void launch_peers_of_node(const struct launch_layout *layout, struct launch_peers *out) {
    *out = (struct launch_peers){.index = layout->node,
                                 .count = layout->nodes,
                                 .host = layout->chief,
                                 .world = layout->world,
                                 .one_host = layout->nodes == 1};
}

void launch_peers_of(const struct launch_config *config, const struct launch_identity *identity,
                     struct launch_peers *out) {
    struct launch_peers peers = {.index = identity->rank,
                                 .count = identity->world,
                                 .world = identity->world,
                                 .one_host = identity->local_world == identity->world};
    peers.by_hand = launch_is_by_hand(identity);
    peers.slurm = identity->source == LAUNCH_SLURM || identity->source == LAUNCH_ARRAY;
    /* Under srun only with PMIx: without it Open MPI's start would end the process. */
    peers.mpi = identity->source == LAUNCH_OPEN_MPI || identity->source == LAUNCH_PMI ||
                (identity->source == LAUNCH_SLURM && launch_variable(config, "PMIX_RANK"));
    if (identity->source == LAUNCH_SLURM) first_node(config, peers.first);
    job_of(config, identity, peers.job);
    *out = peers;
}

static enum status take_inherited(const struct launch_config *config,
                                  struct launch_rendezvous *out) {
    struct launch_rendezvous rendezvous = {.server = NULL};
    const char *address = launch_variable(config, "STRETTO_CONTROL");
    int fd = -1, attempt = 0;
    TRY(launch_number(config, "STRETTO_SECRET_FD", &fd));
    TRY(launch_number(config, "STRETTO_ATTEMPT", &attempt));
    if (!address || fd < 0 || strlen(address) >= sizeof rendezvous.address)
        return fail(STATUS_USAGE, "STRETTO_RANK is set, but not by a launcher that runs\n  unset "
                                  "it: it is for the launcher alone");
    TRY(control_secret_receive(fd, &rendezvous.secret));
    snprintf(rendezvous.address, sizeof rendezvous.address, "%s", address);
    rendezvous.epoch = (uint32_t)attempt;
    *out = rendezvous;
    return STATUS_OK;
}

enum status launch_rendezvous_of_rank(const struct launch_config *config,
                                      const struct launch_identity *identity, double limit_s,
                                      struct launch_rendezvous *out) {
    struct launch_peers peers;
    if (identity->source == LAUNCH_LAUNCHER) return take_inherited(config, out);
    launch_peers_of(config, identity, &peers);
    return launch_rendezvous_open(config, &peers, limit_s, out);
}

enum status launch_status_table_of_rank(const struct launch_config *config,
                                        const struct launch_identity *identity,
                                        struct control_status_table *out) {
    int fd = -1;
    *out = (struct control_status_table){.fd = -1};
    if (identity->source == LAUNCH_LAUNCHER) TRY(launch_number(config, "STRETTO_BOARD_FD", &fd));
    return fd < 0 ? STATUS_OK : control_status_table_open(fd, identity->local_rank, out);
}
