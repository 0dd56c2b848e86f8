/* See identity.h. The order of sources matters where launchers nest: mpirun and torchrun inside
 * srun are nearer to the rank than srun, so their variables win; short names that people export by
 * hand are the weakest. */
#include "launch/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "launch/init.h"
#include "launch/network.h"
#include "launch/slurm.h"

enum variable { RANK, WORLD, LOCAL_RANK, LOCAL_WORLD, NODE, NODES, THREADS, VARIABLES };

static const struct {
    const char *name;
    const char *variable[VARIABLES];
} rows[LAUNCH_SOURCE_ROWS] = {
#define SOURCE(ID, name, ...) [LAUNCH_##ID] = {name, {__VA_ARGS__}},
#include "launch/sources.def"
};

static int given(const struct options *options, enum option_id id, int64_t value, int missing) {
    return option_is_given(options, id) ? (int)value : missing;
}

static const char *text_given(const struct options *options, enum option_id id, const char *text) {
    return option_is_set(options, id) ? text : NULL;
}

void launch_config_of(const struct options *options, struct launch_config *out) {
    *out = (struct launch_config){
        .local_ranks = options->source[OPTION_local_ranks] == OPTION_DERIVED
                           ? (int)options->local_ranks
                           : given(options, OPTION_local_ranks, options->local_ranks, 0),
        .derived = options->source[OPTION_local_ranks] == OPTION_DERIVED,
        .rank = given(options, OPTION_rank, options->rank, -1),
        .world = given(options, OPTION_world_size, options->world_size, -1),
        .nodes = given(options, OPTION_nodes, options->nodes, -1),
        .node_rank = given(options, OPTION_node_rank, options->node_rank, -1),
        .init = text_given(options, OPTION_init, options->init),
        .interface = text_given(options, OPTION_interface, options->interface),
        .hostfile = text_given(options, OPTION_hostfile, options->hostfile),
        .nodes_file = text_given(options, OPTION_nodes_file, options->nodes_file),
        .key = text_given(options, OPTION_key, options->key),
    };
}

const char *launch_variable(const struct launch_config *config, const char *name) {
    if (!*name) return NULL;
    const char *value = config->variable ? config->variable(name) : getenv(name);
    return value && *value ? value : NULL;
}

enum status launch_number(const struct launch_config *config, const char *name, int *out) {
    enum { DIGITS = 9 };
    const char *value = launch_variable(config, name);
    char quoted[TEXT_QUOTED_BYTES];
    if (!value) return STATUS_OK;
    if (strspn(value, "0123456789") != strlen(value) || strlen(value) > DIGITS)
        return fail(STATUS_USAGE,
                    "%s is %s, not a number\n  unset it, or give --rank and --world-size", name,
                    text_quoted(value, quoted));
    *out = (int)strtol(value, NULL, 10);
    return STATUS_OK;
}

/* A batch script carries SLURM_PROCID 0 too; only a step of srun has tasks. */
static bool is_present(const struct launch_config *config, enum launch_source source) {
    if (source == LAUNCH_SLURM)
        return launch_variable(config, "SLURM_STEP_ID") &&
               launch_variable(config, "SLURM_PROCID") &&
               launch_variable(config, "SLURM_STEP_NUM_TASKS");
    if (source == LAUNCH_TORCHRUN && !launch_variable(config, "TORCHELASTIC_RUN_ID")) return false;
    return launch_variable(config, rows[source].variable[RANK]) ||
           launch_variable(config, rows[source].variable[WORLD]);
}

static enum status check_pair(const char *rank_name, int rank, const char *world_name, int world) {
    if (rank < 0 || world < 0)
        return fail(STATUS_USAGE, "%s is set but %s is not\n  give both, or none to run alone",
                    rank < 0 ? world_name : rank_name, rank < 0 ? rank_name : world_name);
    if (rank >= world)
        return fail(STATUS_USAGE, "%s %d is not below %s %d\n  ranks count from 0", rank_name, rank,
                    world_name, world);
    return STATUS_OK;
}

/* Every rank as a node of its own: what is assumed where nothing is said. */
static void spread(struct launch_identity *identity) {
    identity->local_rank = 0, identity->local_world = 1;
    identity->node = identity->rank, identity->nodes = identity->world;
}

static enum status slurm_local_world(const struct launch_config *config,
                                     struct launch_identity *identity) {
    static const char name[] = "SLURM_STEP_TASKS_PER_NODE";
    const char *text = launch_variable(config, name);
    return text ? slurm_tasks_on(name, text, identity->node, &identity->local_world) : STATUS_OK;
}

/* Without counts of nodes, ranks that all share this host are one node; else nodes are not known.
 */
static void settle_nodes(struct launch_identity *identity) {
    if (identity->node >= 0 && identity->nodes > 0) return;
    bool even = identity->world % identity->local_world == 0;
    identity->nodes = even ? identity->world / identity->local_world : identity->world;
    identity->node = even ? identity->rank / identity->local_world : identity->rank;
}

static enum status read_row(const struct launch_config *config, enum launch_source source,
                            struct launch_identity *out) {
    const char *const *name = rows[source].variable;
    int value[VARIABLES] = {-1, -1, -1, -1, -1, -1, 0};
    for (int i = 0; i < VARIABLES; i++) TRY(launch_number(config, name[i], &value[i]));
    TRY(check_pair(name[RANK], value[RANK], name[WORLD], value[WORLD]));
    struct launch_identity identity = {.source = source,
                                       .rank = value[RANK],
                                       .world = value[WORLD],
                                       .local_rank = value[LOCAL_RANK],
                                       .local_world = value[LOCAL_WORLD],
                                       .node = value[NODE],
                                       .nodes = value[NODES],
                                       .host_ranks = value[LOCAL_WORLD],
                                       .threads = value[THREADS],
                                       .variable = name[RANK]};
    if (source == LAUNCH_SLURM) TRY(slurm_local_world(config, &identity));
    if (identity.local_rank < 0 || identity.local_world < 1)
        spread(&identity);
    else
        TRY(check_pair(name[LOCAL_RANK], identity.local_rank,
                       *name[LOCAL_WORLD] ? name[LOCAL_WORLD] : "tasks on the node",
                       identity.local_world));
    settle_nodes(&identity);
    snprintf(identity.how, sizeof identity.how, "%s: %s %d, %s %d", rows[source].name, name[RANK],
             identity.rank, name[WORLD], identity.world);
    *out = identity;
    return STATUS_OK;
}

/* The array's own numbers: --array=4-10:2 gives ids 4 6 8 10. */
static enum status read_array(const struct launch_config *config, bool *found,
                              struct launch_identity *out) {
    int id = -1, count = -1, min = 0, step = 1;
    *found = false;
    TRY(launch_number(config, "SLURM_ARRAY_TASK_ID", &id));
    TRY(launch_number(config, "SLURM_ARRAY_TASK_COUNT", &count));
    TRY(launch_number(config, "SLURM_ARRAY_TASK_MIN", &min));
    TRY(launch_number(config, "SLURM_ARRAY_TASK_STEP", &step));
    if (id < 0 && count < 0) return STATUS_OK;
    if (step < 1) step = 1;
    if (id < min || (id - min) % step || (id - min) / step >= count)
        return fail(STATUS_USAGE,
                    "SLURM_ARRAY_TASK_ID %d is not one of %d tasks from %d in steps of %d\n"
                    "  an array that is a job of ranks has ids without gaps, as in --array=0-3",
                    id, count, min, step);
    struct launch_identity identity = {
        .source = LAUNCH_ARRAY, .rank = (id - min) / step, .world = count};
    spread(&identity);
    snprintf(identity.how, sizeof identity.how, "Slurm array: task %d is number %d of %d", id,
             identity.rank, count);
    *found = true;
    *out = identity;
    return STATUS_OK;
}

static struct launch_identity alone(const char *how) {
    struct launch_identity identity = {
        .source = LAUNCH_ALONE, .world = 1, .local_world = 1, .nodes = 1};
    snprintf(identity.how, sizeof identity.how, "%s", how);
    return identity;
}

/* What the environment says. A step of one task inside an array of several (sbatch --array with
 * srun in the script) is the array's. An array is ranks only when it has --init: otherwise
 * it is a sweep of runs of their own, which is what most arrays are. */
static enum status read_environment(const struct launch_config *config,
                                    struct launch_identity *out) {
    struct launch_identity array, identity = alone("no launcher's variables are set");
    bool in_array;
    for (int source = 0; source < LAUNCH_SOURCE_ROWS; source++) {
        if (!is_present(config, source)) continue;
        TRY(read_row(config, source, &identity));
        break;
    }
    if (identity.world == 1) {
        bool alone_here = identity.source == LAUNCH_ALONE;
        TRY(read_array(config, &in_array, &array));
        if (in_array && config->init && array.world > 1)
            identity = array;
        else if (in_array && alone_here)
            identity = alone("a task of a Slurm array without --init: a run of its own");
        else if (alone_here && launch_variable(config, "SLURM_JOB_ID"))
            identity = alone("inside a Slurm job but not under srun: one process");
    }
    *out = identity;
    return STATUS_OK;
}

/* --rank and --world-size win over an environment that says nothing of several ranks, and must
 * agree with one that does. */
static enum status read_hand(const struct launch_config *config,
                             const struct launch_identity *found, struct launch_identity *out) {
    TRY(check_pair("--rank", config->rank, "--world-size", config->world));
    bool agrees = found->rank == config->rank && found->world == config->world;
    if (found->world > 1 && !agrees)
        return fail(STATUS_USAGE,
                    "--rank %d of --world-size %d contradicts %s\n  leave both out: the rank is "
                    "found by itself",
                    config->rank, config->world, found->how);
    struct launch_identity identity = *found;
    if (!agrees || found->source == LAUNCH_ALONE) {
        identity = (struct launch_identity){
            .source = LAUNCH_HAND, .rank = config->rank, .world = config->world};
        spread(&identity);
        snprintf(identity.how, sizeof identity.how, "by hand: --rank %d, --world-size %d",
                 identity.rank, identity.world);
    }
    *out = identity;
    return STATUS_OK;
}

/* The names exported by hand beside srun's must say the same. */
static enum status check_exported(const struct launch_config *config,
                                  const struct launch_identity *identity) {
    int rank = -1, world = -1;
    if (identity->source != LAUNCH_SLURM || identity->world < 2) return STATUS_OK;
    TRY(launch_number(config, "RANK", &rank));
    TRY(launch_number(config, "WORLD_SIZE", &world));
    bool differs =
        (rank >= 0 && rank != identity->rank) || (world >= 0 && world != identity->world);
    if (!differs) return STATUS_OK;
    return fail(STATUS_USAGE,
                "RANK and WORLD_SIZE in the environment (%d, %d) contradict %s\n  unset them in "
                "the job script",
                rank, world, identity->how);
}

bool launch_is_by_hand(const struct launch_identity *identity) {
    return identity->source == LAUNCH_ENVIRONMENT || identity->source == LAUNCH_HAND;
}

/* What else is said beside RANK and WORLD_SIZE: where the ranks meet, and how many are here. */
static enum status check_by_hand(const struct launch_config *config,
                                 const struct launch_identity *identity) {
    struct launch_config own = init_by_hand(config);
    struct init init;
    if (identity->source != LAUNCH_ENVIRONMENT) return STATUS_OK;
    if (!config->init) TRY(init_parse(&own, &init));
    int local = -1, here = identity->host_ranks > 0 ? identity->host_ranks : identity->world;
    TRY(launch_number(config, "LOCAL_RANK", &local));
    if (identity->host_ranks == 0)
        return fail(STATUS_USAGE, "LOCAL_WORLD_SIZE is 0: this rank counts, too");
    if (here > identity->world)
        return fail(STATUS_USAGE, "LOCAL_WORLD_SIZE %d is more than WORLD_SIZE %d", here,
                    identity->world);
    if (local >= here)
        return fail(STATUS_USAGE, "LOCAL_RANK %d is not below %s %d\n  ranks count from 0", local,
                    identity->host_ranks > 0 ? "LOCAL_WORLD_SIZE" : "WORLD_SIZE", here);
    bool contradicts = config->local_ranks > 1 && config->local_ranks != identity->world &&
                       config->local_ranks != here;
    if (contradicts && !config->derived && identity->world > 1)
        return fail(STATUS_USAGE,
                    "-n %d contradicts RANK %d and WORLD_SIZE %d in the environment\n  leave -n "
                    "out, or unset them to start ranks here",
                    config->local_ranks, identity->rank, identity->world);
    return STATUS_OK;
}

/* An address without a number: one process would train alone where several were meant. Who says
 * otherwise how many ranks there are, and a job script of Slurm, is not asked. */
static enum status check_alone(const struct launch_config *config) {
    bool said = config->init || config->local_ranks > 0 || config->nodes > 0 || config->hostfile ||
                config->nodes_file || launch_variable(config, "SLURM_JOB_ID");
    if (said || !init_is_exported(config)) return STATUS_OK;
    bool host = launch_variable(config, "MASTER_ADDR"),
         port = launch_variable(config, "MASTER_PORT");
    return fail(STATUS_USAGE,
                "%s set but RANK and WORLD_SIZE are not\n  set them too; or give -n N: ranks here, "
                "1 to run alone",
                host && port ? "MASTER_ADDR and MASTER_PORT are"
                : host       ? "MASTER_ADDR is"
                             : "MASTER_PORT is");
}

/* Ranks that meet at an address of this host alone are all here. */
static enum status count_host_ranks(const struct launch_config *config,
                                    struct launch_identity *identity) {
    struct launch_config own = launch_is_by_hand(identity) ? init_by_hand(config) : *config;
    struct init init;
    int count = identity->host_ranks;
    if (identity->source == LAUNCH_HAND) TRY(launch_number(config, "LOCAL_WORLD_SIZE", &count));
    if (count <= 1 && identity->local_world <= 1 && identity->world > 1 && own.init) {
        TRY(init_parse(&own, &init));
        if (init.kind == INIT_TCP && network_is_loopback(init.host)) count = identity->world;
    }
    if (count < identity->local_world) count = identity->local_world;
    identity->host_ranks = count < identity->world ? count : identity->world;
    return STATUS_OK;
}

/* Text of a small file of the kernel, first line, up to `bytes`. */
static void first_line(const char *path, char *text, size_t bytes) {
    FILE *file = fopen(path, "re");
    text[0] = 0;
    if (!file) return;
    if (!fgets(text, (int)bytes, file)) text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    fclose(file);
}

void launch_identity_here(struct launch_identity *out) {
    char boot[40], net[40];
    if (gethostname(out->host, sizeof out->host) != 0)
        snprintf(out->host, sizeof out->host, "localhost");
    out->host[sizeof out->host - 1] = 0;
    first_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    ssize_t length = readlink("/proc/self/ns/net", net, sizeof net - 1);
    net[length > 0 ? length : 0] = 0;
    snprintf(out->machine, sizeof out->machine, "%.48s %s", boot[0] ? boot : out->host, net);
}

enum status launch_identity(const struct launch_config *config, struct launch_identity *out) {
    struct launch_identity identity;
    TRY(read_environment(config, &identity));
    TRY(check_exported(config, &identity));
    if (config->rank >= 0 || config->world >= 0) {
        struct launch_identity found = identity;
        TRY(read_hand(config, &found, &identity));
    }
    if (identity.source == LAUNCH_ALONE) TRY(check_alone(config));
    TRY(check_by_hand(config, &identity));
    TRY(count_host_ranks(config, &identity));
    launch_identity_here(&identity);
    *out = identity;
    return STATUS_OK;
}
