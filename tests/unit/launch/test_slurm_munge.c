/* Which ranks use the MUNGE bootstrap, and the socket of MUNGE's daemon. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "launch/slurm_munge.h"

static const char *conf, *given;

static const char *variable(const char *name) {
    if (strcmp(name, "SLURM_CONF") == 0) return conf;
    if (strcmp(name, "MUNGE_SOCKET") == 0) return given;
    if (strcmp(name, "SLURM_STEP_NODELIST") == 0) return "n[08-10],x";
    if (strcmp(name, "SLURM_JOB_ID") == 0) return "7";
    return NULL;
}

static const struct launch_config config = {
    .rank = -1, .world = -1, .nodes = -1, .node_rank = -1, .variable = variable};

Test(launch_bootstrap, socket_of_the_daemon) {
    static const struct {
        const char *text, *socket;
    } cases[] = {
        {"ClusterName=c\nAuthInfo=socket=/run/m.socket\n", "/run/m.socket"},
        {"  authinfo = x\n", ""},
        {"authinfo=ttl=60,Socket=/a/b , cred_expire=3 # socket=/c\n", "/a/b"},
        {"#AuthInfo=socket=/c\nAuthType=auth/munge\n", ""},
        {"AuthInfo=cred_expire=120", ""},
        {"", ""},
    };
    char path[64] = "/tmp/stretto-conf-XXXXXX", socket[CONTROL_SEAL_PATH];
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    close(fd);
    conf = path;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(file_write_text(path, cases[i].text), STATUS_OK);
        launch_munge_socket(&config, socket);
        cr_expect_str_eq(socket, cases[i].socket, "%s: %s", cases[i].text, socket);
    }
    given = "/mine";
    launch_munge_socket(&config, socket);
    cr_expect_str_eq(socket, "/mine");
    unlink(path);
}

Test(launch_bootstrap, who_uses_it) {
    struct launch_identity identity = {
        .source = LAUNCH_SLURM, .rank = 1, .world = 4, .local_world = 1};
    struct launch_peers peers;
    struct launch_bootstrap bootstrap;
    given = "/nowhere/munge.socket";
    launch_peers_of(&config, &identity, &peers);
    cr_assert(peers.slurm && !peers.one_host);
    cr_assert_str_eq(peers.first, "n08");
    cr_assert(!launch_bootstrap_find(&config, &peers, NULL, &bootstrap));
    cr_expect(strstr(bootstrap.how, "no MUNGE"), "%s", bootstrap.how);
    identity.source = LAUNCH_OPEN_MPI;
    launch_peers_of(&config, &identity, &peers);
    cr_assert(!launch_bootstrap_find(&config, &peers, "localhost", &bootstrap));
    cr_expect(strstr(bootstrap.how, "not a Slurm job"), "%s", bootstrap.how);
}
