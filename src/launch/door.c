/* See door.h. */
#include "launch/door.h"

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
#include "launch/lobby.h"
#include "launch/network.h"
#include "launch/slurm.h"

enum { LEAVE_LIMIT_S = 60 };

struct visit {
    const struct launch_config *config;
    const struct launch_party *party;
    struct init init;
    double limit_s;
    bool keyed; /* the secret was given */
    struct launch_door door;
};

static bool is_host(const struct visit *visit) {
    return visit->party->index == visit->party->host;
}

/* ---- the secret ---- */

static enum status take_key(struct visit *visit) {
    const char *text = launch_variable(visit->config, "STRETTO_KEY");
    visit->keyed = visit->config->key || text;
    if (visit->config->key) return control_secret_file(visit->config->key, &visit->door.secret);
    if (text) return control_secret_parse("STRETTO_KEY", text, &visit->door.secret);
    return is_host(visit) ? control_secret_new(&visit->door.secret) : STATUS_OK;
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
static enum status listen_anywhere(const struct visit *visit, char bind[CONTROL_ADDRESS_BYTES]) {
    struct network_list list;
    struct network_address address;
    char why[NETWORK_WHY_BYTES];
    bind[0] = 0;
    if (visit->party->one_host) return STATUS_OK;
    TRY(network_list(&list));
    TRY(network_choose(&list, visit->config->interface, NULL, &address, why));
    tcp_text(address.text, 0, bind);
    return STATUS_OK;
}

static enum status start_server(struct visit *visit, const char *bind) {
    struct control_server_config server = {.bind = *bind ? bind : NULL,
                                           .secret = visit->door.secret,
                                           .world = visit->party->world,
                                           .epoch = visit->party->epoch,
                                           .join_limit_s = visit->limit_s,
                                           .leave_limit_s = LEAVE_LIMIT_S,
                                           .board = visit->party->board,
                                           .board_first = visit->party->board_first,
                                           .context = visit->party->context,
                                           .given_up = visit->party->given_up};
    enum status status = control_server_start(&server, &visit->door.server);
    control_secret_wipe(&server.secret);
    TRY(status);
    snprintf(visit->door.address, sizeof visit->door.address, "%s",
             control_server_address(visit->door.server));
    return STATUS_OK;
}

/* ---- ways to meet ---- */

static void give_info(const struct visit *visit, struct control_meeting_info *info) {
    info->secret = visit->door.secret;
    snprintf(info->address, sizeof info->address, "%s", visit->door.address);
}

/* A key that was given counts: where it is not the host's, that is said when joining. */
static void take_info(struct visit *visit, const struct control_meeting_info *info) {
    if (!visit->keyed) visit->door.secret = info->secret;
    snprintf(visit->door.address, sizeof visit->door.address, "%s", info->address);
}

/* Nodes start again each by itself: a start of its own has a file of its own, or one node would
 * take the record of the start that another has not left yet. */
static char *path_of_start(const struct visit *visit, const char *path) {
    unsigned epoch = visit->party->epoch;
    return epoch ? mem_format("%s.%u", path, epoch) : mem_text(path);
}

/* Where the server listens once somebody comes from another host. */
struct launch_far {
    struct control_server *server;
    char bind[CONTROL_ADDRESS_BYTES];
};

static enum status open_far(void *context, char address[CONTROL_ADDRESS_BYTES]) {
    struct launch_far *far = context;
    return control_server_also(far->server, far->bind, address);
}

static enum status meet_at(struct visit *visit, const char *path, const char *bind) {
    const struct launch_party *party = visit->party;
    const char *job = party->job[0] ? party->job : NULL;
    struct control_meeting_info info;
    enum status status;
    if (is_host(visit)) {
        TRY(start_server(visit, bind));
        give_info(visit, &info);
        status = control_meet_host(path, job, party->count, &info, &visit->door.meeting);
    } else {
        status = control_meet_guest(path, job, visit->limit_s, &info, &visit->door.meeting);
        if (status == STATUS_OK) take_info(visit, &info);
    }
    control_secret_wipe(&info.secret);
    return status;
}

static enum status meet_at_file(struct visit *visit, const char *path, const char *bind) {
    char *own = path_of_start(visit, path);
    enum status status = meet_at(visit, own, bind);
    free(own);
    return status;
}

/* The network is chosen at once, so that a wrong --interface is refused at once. */
static enum status meet_at_given_file(struct visit *visit) {
    char bind[CONTROL_ADDRESS_BYTES] = "";
    if (is_host(visit)) TRY(listen_anywhere(visit, bind));
    TRY(meet_at_file(visit, visit->init.path, ""));
    if (!*bind) return STATUS_OK;
    struct launch_far *far = MEM_NEW(struct launch_far);
    far->server = visit->door.server;
    memcpy(far->bind, bind, sizeof far->bind);
    visit->door.far = far;
    control_meet_far(visit->door.meeting, far, open_far);
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

static enum status meet_privately(struct visit *visit, const char *name, const char *bind) {
    char folder[512];
    TRY(private_folder(visit->config, folder));
    char *path = mem_format("%s/%s", folder, name);
    enum status status = meet_at_file(visit, path, bind);
    free(path);
    return status;
}

/* `bind`: where the server listens; "": on the network of the lobby, any free port. */
static enum status host_lobby(struct visit *visit, const struct launch_lobby *lobby,
                              struct control_lobby_config *config, const char *bind) {
    struct network_address own;
    struct control_meeting_info info;
    char anywhere[CONTROL_ADDRESS_BYTES] = "";
    TRY(launch_lobby_address(visit->config, lobby, &own));
    if (!*bind && visit->config->interface)
        TRY(listen_anywhere(visit, anywhere));
    else if (!*bind)
        tcp_text(own.text, 0, anywhere);
    TRY(start_server(visit, *bind ? bind : anywhere));
    give_info(visit, &info);
    config->address = own.text;
    enum status status = control_lobby_host(config, &info, &visit->door.lobby);
    control_secret_wipe(&info.secret);
    if (status == STATUS_OK)
        log_note("ranks meet at %s, port %d; the key is sealed by MUNGE", lobby->host,
                 control_lobby_port(visit->door.lobby));
    return status;
}

static enum status meet_in_lobby(struct visit *visit, const struct launch_lobby *lobby,
                                 const char *bind) {
    struct control_meeting_info info;
    struct control_lobby_config config = {.seal = lobby->seal,
                                          .job = visit->party->job,
                                          .address = lobby->host,
                                          .world = visit->party->count,
                                          .limit_s = visit->limit_s};
    if (is_host(visit)) return host_lobby(visit, lobby, &config, bind);
    TRY(control_lobby_guest(&config, &info));
    take_info(visit, &info);
    control_secret_wipe(&info.secret);
    return STATUS_OK;
}

static bool is_mpi(const struct visit *visit, struct comm_config *config) {
    *config = (struct comm_config){.rank = visit->party->index, .size = visit->party->count};
    return visit->party->mpi && comm_carrier_there(config);
}

/* MPI brings the address and the secret of rank 0 to all. A server that does not start is told by
 * an empty address. */
static enum status meet_by_mpi(struct visit *visit, const struct comm_config *mpi,
                               const char *bind) {
    struct control_meeting_info info = {.address = ""};
    enum status status = is_host(visit) ? start_server(visit, bind) : STATUS_OK;
    if (is_host(visit) && status == STATUS_OK) give_info(visit, &info);
    enum status carried = comm_carry(mpi, &info, sizeof info, visit->limit_s);
    if (status == STATUS_OK) status = carried;
    if (status == STATUS_OK && !info.address[0])
        status = fail(STATUS_PEER, "rank %d ends: rank 0 has no control server", mpi->rank);
    info.address[sizeof info.address - 1] = 0;
    if (status == STATUS_OK) take_info(visit, &info);
    control_secret_wipe(&info.secret);
    return status;
}

static enum status refuse_open_door(const struct visit *visit) {
    return fail(STATUS_USAGE,
                "--init tcp://%s:%d between hosts needs a key, or anybody could join\n"
                "  make one: stretto key job.key; copy it: scp -p job.key OTHER_HOST:\n"
                "  then give --key job.key on every node",
                visit->init.host, visit->init.port);
}

/* On loopback a private file carries the secret; between hosts somebody must. */
static bool is_open(const struct visit *visit) {
    return !visit->keyed && visit->party->count > 1 && !network_is_loopback(visit->init.host);
}

/* Where the one that runs the server listens. */
static enum status own_address(const struct visit *visit, struct network_address *out) {
    struct network_list list;
    if (!is_host(visit)) return STATUS_OK;
    TRY(network_list(&list));
    return network_own(&list, visit->init.host, out);
}

static enum status meet_at_port(struct visit *visit) {
    struct network_address own = {.text = "127.0.0.1"};
    struct launch_lobby lobby;
    struct comm_config carrier;
    char bind[CONTROL_ADDRESS_BYTES], name[32];
    const struct init *init = &visit->init;
    bool open = is_open(visit);
    bool munge = open && launch_lobby_find(visit->config, visit->party, init->host, &lobby);
    bool mpi = open && !munge && is_mpi(visit, &carrier);
    if (open && !munge && !mpi) return refuse_open_door(visit);
    TRY(own_address(visit, &own));
    tcp_text(is_host(visit) ? own.text : init->host, init->port, bind);
    snprintf(name, sizeof name, "port-%d", init->port);
    if (munge) return meet_in_lobby(visit, &lobby, bind);
    if (mpi) return meet_by_mpi(visit, &carrier, bind);
    if (!visit->keyed && visit->party->count > 1) return meet_privately(visit, name, bind);
    if (is_host(visit)) return start_server(visit, bind);
    snprintf(visit->door.address, sizeof visit->door.address, "%s", bind);
    return STATUS_OK;
}

static enum status refuse_nowhere(const struct launch_party *party) {
    return fail(STATUS_USAGE,
                "%d %s must meet somewhere: --init is missing\n"
                "  --init tcp://host:port, or file:///shared/path",
                party->count, party->count == party->world ? "ranks" : "nodes");
}

static enum status meet_by_job(struct visit *visit) {
    const struct launch_party *party = visit->party;
    struct launch_lobby lobby;
    struct comm_config carrier;
    char folder[512], bind[CONTROL_ADDRESS_BYTES] = "";
    if (party->count == 1) return start_server(visit, "");
    if (!party->one_host && launch_lobby_find(visit->config, party, NULL, &lobby))
        return meet_in_lobby(visit, &lobby, "");
    if (!party->one_host && is_mpi(visit, &carrier)) {
        if (is_host(visit)) TRY(listen_anywhere(visit, bind));
        return meet_by_mpi(visit, &carrier, bind);
    }
    if (!party->job[0]) return refuse_nowhere(party);
    if (party->one_host) return meet_privately(visit, party->job, "");
    if (!getcwd(folder, sizeof folder))
        return fail(STATUS_DATA, "the working folder has no name: %s", strerror(errno));
    if (is_host(visit)) TRY(listen_anywhere(visit, bind));
    char *path = mem_format("%s/.stretto-%s", folder, party->job);
    enum status status = meet_at_file(visit, path, bind);
    free(path);
    return status;
}

/* What the options say of the way, and the key; the caller closes the door also on failure. */
static enum status begin(struct visit *visit) {
    const struct launch_config *config = visit->config;
    visit->door.epoch = visit->party->epoch;
    if (config->interface) TRY(network_check_rule(config->interface));
    TRY(init_parse(config, &visit->init));
    return take_key(visit);
}

static enum status meet(struct visit *visit) {
    if (visit->init.kind == INIT_FILE) return meet_at_given_file(visit);
    return visit->init.kind == INIT_TCP ? meet_at_port(visit) : meet_by_job(visit);
}

enum status launch_door_open(const struct launch_config *config, const struct launch_party *party,
                             double limit_s, struct launch_door *out) {
    struct visit visit = {.config = config, .party = party, .limit_s = limit_s > 0 ? limit_s : 60};
    enum status status = begin(&visit);
    if (status == STATUS_OK) status = meet(&visit);
    if (status == STATUS_OK)
        *out = visit.door;
    else
        launch_door_close(&visit.door);
    return status;
}

/* MPI cannot be asked without starting it, which is collective: where it may be there it counts. */
static enum status check_way(const struct visit *visit) {
    const struct launch_party *party = visit->party;
    struct network_address own;
    struct launch_lobby lobby;
    if (visit->init.kind == INIT_FILE) return STATUS_OK;
    bool port = visit->init.kind == INIT_TCP;
    bool closed = port ? !is_open(visit) : party->count == 1 || party->job[0];
    bool mpi = party->mpi && (port || !party->one_host);
    if (!closed && !mpi &&
        !launch_lobby_find(visit->config, party, port ? visit->init.host : NULL, &lobby))
        return port ? refuse_open_door(visit) : refuse_nowhere(party);
    return port ? own_address(visit, &own) : STATUS_OK;
}

enum status launch_door_check(const struct launch_config *config,
                              const struct launch_party *party) {
    struct visit visit = {.config = config, .party = party};
    enum status status = begin(&visit);
    if (status == STATUS_OK) status = check_way(&visit);
    launch_door_close(&visit.door);
    return status;
}

void launch_door_close(struct launch_door *door) {
    control_meet_far(door->meeting, NULL, NULL);
    free(door->far);
    door->far = NULL;
    control_server_stop(&door->server);
    control_lobby_close(&door->lobby);
    control_meet_leave(&door->meeting);
    control_secret_wipe(&door->secret);
}

/* ---- ranks ---- */

/* What names the job to all its ranks, and no other job: for a file's name. */
static void job_of(const struct launch_config *config, const struct launch_place *place,
                   char job[LAUNCH_JOB_BYTES]) {
    static const char *const names[LAUNCH_ALONE + 1][3] = {
        [LAUNCH_SLURM] = {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
        [LAUNCH_ARRAY] = {"SLURM_ARRAY_JOB_ID", NULL},
        [LAUNCH_OPEN_MPI] = {"PMIX_NAMESPACE", NULL},
        [LAUNCH_TORCHRUN] = {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"},
    };
    size_t used = 0;
    job[0] = 0;
    for (int i = 0; i < 3 && names[place->source][i]; i++) {
        const char *value = launch_variable(config, names[place->source][i]);
        if (!value && i == 0) return;
        used += (size_t)snprintf(job + used, LAUNCH_JOB_BYTES - used, "%s%.30s", i ? "." : "",
                                 value ? value : "0");
    }
    if (place->source == LAUNCH_PMI &&
        place->local_world == place->world) /* MPICH gives none; its daemon is the parent */
        snprintf(job, LAUNCH_JOB_BYTES, "mpich-%d", (int)getppid());
    for (char *at = job; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr(".-_", *at)) *at = '_';
    }
}

/* Slurm places rank 0 on the first node of the step. */
static void first_node(const struct launch_config *config, char host[LAUNCH_HOST_BYTES]) {
    const char *list = launch_variable(config, "SLURM_STEP_NODELIST");
    struct slurm_hosts hosts;
    if (!list || slurm_hosts_parse("SLURM_STEP_NODELIST", list, &hosts) != STATUS_OK) return;
    snprintf(host, LAUNCH_HOST_BYTES, "%s", hosts.name[0]);
    slurm_hosts_free(&hosts);
}

void launch_party_of_node(const struct launch_layout *layout, struct launch_party *out) {
    *out = (struct launch_party){.index = layout->node,
                                 .count = layout->nodes,
                                 .host = layout->chief,
                                 .world = layout->world,
                                 .one_host = layout->nodes == 1};
}

void launch_party_of(const struct launch_config *config, const struct launch_place *place,
                     struct launch_party *out) {
    struct launch_party party = {.index = place->rank,
                                 .count = place->world,
                                 .world = place->world,
                                 .one_host = place->local_world == place->world};
    party.slurm = place->source == LAUNCH_SLURM || place->source == LAUNCH_ARRAY;
    /* Under srun only with PMIx: without it Open MPI's start would end the process. */
    party.mpi = place->source == LAUNCH_OPEN_MPI || place->source == LAUNCH_PMI ||
                (place->source == LAUNCH_SLURM && launch_variable(config, "PMIX_RANK"));
    if (place->source == LAUNCH_SLURM) first_node(config, party.first);
    job_of(config, place, party.job);
    *out = party;
}

static enum status take_inherited(const struct launch_config *config, struct launch_door *out) {
    struct launch_door door = {.server = NULL};
    const char *address = launch_variable(config, "STRETTO_CONTROL");
    int fd = -1, attempt = 0;
    TRY(launch_number(config, "STRETTO_SECRET_FD", &fd));
    TRY(launch_number(config, "STRETTO_ATTEMPT", &attempt));
    if (!address || fd < 0 || strlen(address) >= sizeof door.address)
        return fail(STATUS_USAGE, "STRETTO_RANK is set, but not by a launcher that runs\n  unset "
                                  "it: it is for the launcher alone");
    TRY(control_secret_receive(fd, &door.secret));
    snprintf(door.address, sizeof door.address, "%s", address);
    door.epoch = (uint32_t)attempt;
    *out = door;
    return STATUS_OK;
}

enum status launch_door_of_rank(const struct launch_config *config,
                                const struct launch_place *place, double limit_s,
                                struct launch_door *out) {
    struct launch_party party;
    if (place->source == LAUNCH_LAUNCHER) return take_inherited(config, out);
    launch_party_of(config, place, &party);
    return launch_door_open(config, &party, limit_s, out);
}

enum status launch_board_of_rank(const struct launch_config *config,
                                 const struct launch_place *place, struct control_board *out) {
    int fd = -1;
    *out = (struct control_board){.fd = -1};
    if (place->source == LAUNCH_LAUNCHER) TRY(launch_number(config, "STRETTO_BOARD_FD", &fd));
    return fd < 0 ? STATUS_OK : control_board_open(fd, place->local_rank, out);
}
