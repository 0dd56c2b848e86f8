/* Who am I: every launcher's variables, and what is refused. */
#include <criterion/criterion.h>

#include <string.h>

#include "base/log.h"
#include "launch/identity.h"

static const char *const *variables; /* NAME=value ..., NULL at the end */

static const char *variable(const char *name) {
    size_t length = strlen(name);
    for (int i = 0; variables[i]; i++) {
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=')
            return variables[i] + length + 1;
    }
    return NULL;
}

enum { ENTRIES = 12 };

struct hand {
    int rank, world;
    const char *init;
};

static enum status find(const char *const *entries, const struct hand *hand,
                        struct launch_identity *out) {
    struct launch_config config = {.local_ranks = 1,
                                   .rank = hand->world ? hand->rank : -1,
                                   .world = hand->world ? hand->world : -1,
                                   .nodes = -1,
                                   .node_rank = -1,
                                   .init = hand->init,
                                   .variable = variable};
    variables = entries;
    return launch_identity(&config, out);
}

static const struct {
    const char *entry[ENTRIES];
    struct hand hand;
    enum launch_source source;
    int rank, world, local_rank, local_world, node, nodes;
} known[] = {
    {{0}, {0}, LAUNCH_ALONE, 0, 1, 0, 1, 0, 1},
    {{"STRETTO_RANK=5", "STRETTO_WORLD=8", "STRETTO_LOCAL_RANK=1", "STRETTO_LOCAL_WORLD=4",
      "STRETTO_NODE=1", "STRETTO_NODES=2", "SLURM_PROCID=0", "SLURM_STEP_ID=0",
      "SLURM_STEP_NUM_TASKS=2"},
     {0},
     LAUNCH_LAUNCHER,
     5,
     8,
     1,
     4,
     1,
     2},
    {{0}, {2, 3, 0}, LAUNCH_HAND, 2, 3, 0, 1, 2, 3},
    /* srun, uneven nodes */
    {{"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=8", "SLURM_STEP_NUM_TASKS=9",
      "SLURM_LOCALID=0", "SLURM_NODEID=2", "SLURM_STEP_NUM_NODES=3",
      "SLURM_STEP_TASKS_PER_NODE=4(x2),1"},
     {0},
     LAUNCH_SLURM,
     8,
     9,
     0,
     1,
     2,
     3},
    /* the same as said by hand */
    {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=1",
      "SLURM_NODEID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=2"},
     {1, 2, 0},
     LAUNCH_SLURM,
     1,
     2,
     1,
     2,
     0,
     1},
    /* a batch script outside srun */
    {{"SLURM_JOB_ID=7", "SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_LOCALID=0"},
     {0},
     LAUNCH_ALONE,
     0,
     1,
     0,
     1,
     0,
     1},
    /* arrays: with a rendezvous ranks, also through srun; without one a sweep */
    {{"SLURM_JOB_ID=7", "SLURM_ARRAY_TASK_ID=8", "SLURM_ARRAY_TASK_COUNT=4",
      "SLURM_ARRAY_TASK_MIN=4", "SLURM_ARRAY_TASK_MAX=10", "SLURM_ARRAY_TASK_STEP=2"},
     {0, 0, "file:///x"},
     LAUNCH_ARRAY,
     2,
     4,
     0,
     1,
     2,
     4},
    {{"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1", "SLURM_LOCALID=0",
      "SLURM_NODEID=0", "SLURM_STEP_NUM_NODES=1", "SLURM_STEP_TASKS_PER_NODE=1",
      "SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2"},
     {0, 0, "file:///x"},
     LAUNCH_ARRAY,
     1,
     2,
     0,
     1,
     1,
     2},
    {{"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2"},
     {1, 2, "file:///x"},
     LAUNCH_ARRAY,
     1,
     2,
     0,
     1,
     1,
     2},
    {{"SLURM_ARRAY_TASK_ID=1", "SLURM_ARRAY_TASK_COUNT=2"}, {0}, LAUNCH_ALONE, 0, 1, 0, 1, 0, 1},
    /* mpirun inside a Slurm step, whose own numbers are those of its daemons */
    {{"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "SLURM_STEP_ID=0", "SLURM_PROCID=0",
      "SLURM_STEP_NUM_TASKS=1"},
     {0},
     LAUNCH_OPEN_MPI,
     3,
     4,
     1,
     2,
     1,
     2},
    {{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"},
     {0},
     LAUNCH_PMI,
     1,
     2,
     1,
     2,
     0,
     1},
    {{"PMI_RANK=1", "PMI_SIZE=2"}, {0}, LAUNCH_PMI, 1, 2, 0, 1, 1, 2},
    /* torchrun inside srun, one agent a node */
    {{"TORCHELASTIC_RUN_ID=none", "RANK=3", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2",
      "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "SLURM_STEP_ID=0", "SLURM_PROCID=1",
      "SLURM_STEP_NUM_TASKS=2"},
     {0},
     LAUNCH_TORCHRUN,
     3,
     4,
     1,
     2,
     1,
     2},
    {{"RANK=1", "WORLD_SIZE=2"}, {0}, LAUNCH_ENVIRONMENT, 1, 2, 0, 1, 1, 2},
};

Test(launch_identity, every_launcher_is_recognised) {
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        struct launch_identity identity;
        cr_assert_eq(find(known[i].entry, &known[i].hand, &identity), STATUS_OK, "case %zu", i);
        cr_expect_eq(identity.source, known[i].source, "case %zu: %s", i, identity.how);
        cr_expect(identity.rank == known[i].rank && identity.world == known[i].world,
                  "case %zu: %d %d", i, identity.rank, identity.world);
        cr_expect(identity.local_rank == known[i].local_rank &&
                      identity.local_world == known[i].local_world,
                  "case %zu: %d %d", i, identity.local_rank, identity.local_world);
        cr_expect(identity.node == known[i].node && identity.nodes == known[i].nodes,
                  "case %zu: %d %d", i, identity.node, identity.nodes);
        cr_expect(identity.how[0] && identity.host[0] && identity.machine[0]);
    }
}

/* How many divide the cores of this host. */
Test(launch_identity, ranks_of_the_host) {
    static const struct {
        const char *entry[ENTRIES];
        struct hand hand;
        int host_ranks, threads;
    } cases[] = {
        {{0}, {0}, 1, 0},
        {{"RANK=1", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4"}, {0}, 4, 0},
        {{"RANK=1", "WORLD_SIZE=8", "LOCAL_WORLD_SIZE=4"}, {0}, 4, 0},
        {{"LOCAL_WORLD_SIZE=4"}, {1, 2, 0}, 2, 0},
        {{"RANK=1", "WORLD_SIZE=8"}, {0}, 1, 0},
        {{"RANK=1", "WORLD_SIZE=8"}, {0, 0, "file:///x"}, 1, 0},
        {{"RANK=1", "WORLD_SIZE=8"}, {0, 0, "tcp://127.0.0.1:29500"}, 8, 0},
        {{"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=localhost", "MASTER_PORT=9"},
         {0, 0, "env://"},
         8,
         0},
        /* the same without --init; what --init names wins over them */
        {{"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=localhost", "MASTER_PORT=9"}, {0}, 8, 0},
        {{"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=localhost", "MASTER_PORT=9"},
         {0, 0, "tcp://node0:9"},
         1,
         0},
        {{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=9"}, {1, 8, 0}, 8, 0},
        {{"RANK=1", "WORLD_SIZE=8", "MASTER_ADDR=node0", "MASTER_PORT=9", "LOCAL_RANK=1",
          "LOCAL_WORLD_SIZE=2"},
         {0},
         2,
         0},
        {{0}, {1, 8, "tcp://[::1]:29500"}, 8, 0},
        {{0}, {1, 8, "tcp://node0:29500"}, 1, 0},
        {{"LOCAL_WORLD_SIZE=4"}, {1, 8, "tcp://node0:29500"}, 4, 0},
        {{"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1",
          "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
         {0},
         2,
         0},
        {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=8", "SLURM_LOCALID=1",
          "SLURM_NODEID=0", "SLURM_STEP_NUM_NODES=2", "SLURM_STEP_TASKS_PER_NODE=4(x2)",
          "SLURM_CPUS_PER_TASK=16"},
         {0},
         4,
         16},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct launch_identity identity;
        cr_assert_eq(find(cases[i].entry, &cases[i].hand, &identity), STATUS_OK, "case %zu", i);
        cr_expect(identity.host_ranks == cases[i].host_ranks &&
                      identity.threads == cases[i].threads,
                  "case %zu: %d %d", i, identity.host_ranks, identity.threads);
    }
}

static const struct {
    const char *entry[ENTRIES];
    struct hand hand;
    const char *says;
} refused[] = {
    {{"RANK=1"}, {0}, "RANK is set but WORLD_SIZE is not"},
    {{"WORLD_SIZE=2"}, {0}, "WORLD_SIZE is set but RANK is not"},
    {{"PMI_RANK=1"}, {0}, "PMI_RANK is set but PMI_SIZE is not"},
    {{"STRETTO_RANK=1"}, {0}, "STRETTO_RANK is set but STRETTO_WORLD is not"},
    {{"RANK=2", "WORLD_SIZE=2"}, {0}, "RANK 2 is not below WORLD_SIZE 2"},
    {{"RANK=two", "WORLD_SIZE=2"}, {0}, "RANK is 'two', not a number"},
    {{"RANK=-1", "WORLD_SIZE=2"}, {0}, "not a number"},
    {{"RANK=1", "WORLD_SIZE=99999999999"}, {0}, "not a number"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a"}, {0}, "MASTER_ADDR is set but MASTER_PORT is not"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_PORT=9"}, {0}, "MASTER_PORT is set but MASTER_ADDR is not"},
    {{"RANK=0", "WORLD_SIZE=1", "MASTER_PORT=9"}, {0}, "MASTER_PORT is set but MASTER_ADDR is not"},
    {{"MASTER_PORT=9"}, {1, 2, 0}, "MASTER_PORT is set but MASTER_ADDR is not"},
    {{"RANK=1", "MASTER_ADDR=a", "MASTER_PORT=9"}, {0}, "RANK is set but WORLD_SIZE is not"},
    {{"WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=9"}, {0}, "WORLD_SIZE is set but RANK is not"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=70000"},
     {0},
     "MASTER_PORT is '70000', not a port"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a", "MASTER_PORT=http"},
     {0},
     "MASTER_PORT is 'http', not a port"},
    {{"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=a b", "MASTER_PORT=9"},
     {0},
     "MASTER_ADDR is 'a b', not the name or address of a host"},
    {{"RANK=0", "WORLD_SIZE=0"}, {0}, "RANK 0 is not below WORLD_SIZE 0"},
    {{"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=2"}, {0}, "LOCAL_RANK 2 is not below WORLD_SIZE 2"},
    {{"RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=x"}, {0}, "LOCAL_RANK is 'x', not a number"},
    {{"RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=0"}, {0}, "LOCAL_WORLD_SIZE is 0"},
    {{"RANK=1", "WORLD_SIZE=2", "LOCAL_WORLD_SIZE=4"},
     {0},
     "LOCAL_WORLD_SIZE 4 is more than WORLD_SIZE 2"},
    {{0}, {-1, 4, 0}, "--world-size is set but --rank is not"},
    {{0}, {4, 4, 0}, "--rank 4 is not below --world-size 4"},
    {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2"},
     {0, 2, 0},
     "--rank 0 of --world-size 2 contradicts srun: SLURM_PROCID 1"},
    {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "RANK=0", "WORLD_SIZE=2"},
     {0},
     "contradict srun"},
    {{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=2",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
     {0},
     "OMPI_COMM_WORLD_LOCAL_RANK 2 is not below"},
    {{"SLURM_ARRAY_TASK_ID=5", "SLURM_ARRAY_TASK_COUNT=2"},
     {0, 0, "tcp://a:1"},
     "SLURM_ARRAY_TASK_ID 5 is not one of 2 tasks"},
    {{"SLURM_STEP_ID=0", "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=0",
      "SLURM_NODEID=1", "SLURM_STEP_TASKS_PER_NODE=2"},
     {0},
     "does not give the tasks of node 1"},
};

Test(launch_identity, half_set_wrong_and_contradicting_is_refused) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct launch_identity identity = {.rank = -7};
        char message[1024];
        log_capture(message, sizeof message);
        enum status status = find(refused[i].entry, &refused[i].hand, &identity);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "case %zu", i);
        cr_expect(strstr(message, refused[i].says), "case %zu: %s", i, message);
        cr_expect_eq(identity.rank, -7);
    }
}

/* A launcher that says where its ranks meet does not take the names that people export. */
Test(launch_identity, exported_addresses_count_by_hand_alone) {
    static const struct {
        const char *entry[ENTRIES];
        bool by_hand;
    } cases[] = {
        {{"RANK=1", "WORLD_SIZE=2"}, true},
        {{"TORCHELASTIC_RUN_ID=none", "RANK=1", "WORLD_SIZE=2"}, false},
        {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "RANK=1", "WORLD_SIZE=2"}, false},
        {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_STEP_NUM_TASKS=2", "RANK=1", "WORLD_SIZE=2"},
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct launch_identity identity;
        cr_assert_eq(find(cases[i].entry, &(struct hand){0}, &identity), STATUS_OK, "case %zu", i);
        cr_expect_eq(launch_is_by_hand(&identity), cases[i].by_hand, "case %zu", i);
    }
}

/* An address without RANK: who was to be one of several does not train alone. -n and a job script
 * say otherwise. */
Test(launch_identity, an_address_without_a_rank_is_refused) {
    static const char *const both[] = {"MASTER_ADDR=a", "MASTER_PORT=9", NULL},
                             *const one[] = {"MASTER_PORT=9", NULL},
                             *const script[] = {"MASTER_ADDR=a", "SLURM_JOB_ID=7", NULL};
    struct launch_config config = {
        .rank = -1, .world = -1, .nodes = -1, .node_rank = -1, .variable = variable};
    struct launch_identity identity;
    char message[1024];
    variables = both;
    log_capture(message, sizeof message);
    cr_expect_eq(launch_identity(&config, &identity), STATUS_USAGE);
    cr_expect(
        strstr(message, "MASTER_ADDR and MASTER_PORT are set but RANK and WORLD_SIZE are not"),
        "%s", message);
    variables = one;
    cr_expect_eq(launch_identity(&config, &identity), STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(message, "MASTER_PORT is set but RANK and WORLD_SIZE are not"), "%s", message);
    variables = script;
    cr_expect_eq(launch_identity(&config, &identity), STATUS_OK);
    variables = both;
    config.local_ranks = 2;
    cr_expect_eq(launch_identity(&config, &identity), STATUS_OK);
}

/* What follows from --stages is no contradiction, and where all is one process -n may start ranks.
 */
Test(launch_identity, local_ranks_that_contradict_the_environment_are_refused) {
    static const char *const four[] = {"RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", NULL},
                             *const one[] = {"RANK=0", "WORLD_SIZE=1", NULL};
    static const struct {
        int local;
        bool derived, alone, refused;
    } cases[] = {{0, 0, 0, 0}, {1, 0, 0, 0}, {2, 0, 0, 0}, {3, 0, 0, 1}, {3, 1, 0, 0},
                 {4, 0, 0, 0}, {8, 0, 0, 1}, {8, 1, 0, 0}, {8, 0, 1, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct launch_config config = {.local_ranks = cases[i].local,
                                       .derived = cases[i].derived,
                                       .rank = -1,
                                       .world = -1,
                                       .nodes = -1,
                                       .node_rank = -1,
                                       .variable = variable};
        struct launch_identity identity;
        variables = cases[i].alone ? one : four;
        cr_expect_eq(launch_identity(&config, &identity),
                     cases[i].refused ? STATUS_USAGE : STATUS_OK, "case %zu", i);
    }
}
