/* See slurm_munge.h. */
#include "launch/slurm_munge.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- where MUNGE's daemon listens ---- */

/* The value of "socket=" in a line "AuthInfo=socket=/path,ttl=60"; false when it is another line.
 */
static bool read_auth_info(char *line, char path[CONTROL_SEAL_PATH]) {
    static const char key[] = "AuthInfo=";
    line[strcspn(line, "#\r\n")] = 0;
    line += strspn(line, " \t");
    if (strncasecmp(line, key, sizeof key - 1) != 0) return false;
    char *rest = line + sizeof key - 1, *word;
    while ((word = strsep(&rest, ", \t"))) {
        if (strncasecmp(word, "socket=", 7) == 0 && strlen(word + 7) < CONTROL_SEAL_PATH)
            snprintf(path, CONTROL_SEAL_PATH, "%s", word + 7);
    }
    return true;
}

void launch_munge_socket(const struct launch_config *config, char path[CONTROL_SEAL_PATH]) {
    const char *given = launch_variable(config, "MUNGE_SOCKET");
    const char *conf = launch_variable(config, "SLURM_CONF");
    char line[1024];
    path[0] = 0;
    if (given && strlen(given) < CONTROL_SEAL_PATH) {
        snprintf(path, CONTROL_SEAL_PATH, "%s", given);
        return;
    }
    FILE *file = fopen(conf ? conf : "/etc/slurm/slurm.conf", "re");
    if (!file) return;
    while (fgets(line, sizeof line, file) && !read_auth_info(line, path)) continue;
    fclose(file);
}

/* ---- is there one ---- */

bool launch_bootstrap_find(const struct launch_config *config, const struct launch_peers *peers,
                           const char *host, struct launch_bootstrap *out) {
    char socket[CONTROL_SEAL_PATH], why[CONTROL_SEAL_WHY];
    int port[CONTROL_BOOTSTRAP_PORTS];
    if (!host) host = peers->first;
    *out = (struct launch_bootstrap){.host = ""};
    if (!peers->slurm || !peers->job[0] || !*host || strlen(host) >= sizeof out->host) {
        snprintf(out->how, sizeof out->how, "not a Slurm job with a known first node");
        return false;
    }
    launch_munge_socket(config, socket);
    if (!control_seal_munge(socket, &out->seal, why)) {
        snprintf(out->how, sizeof out->how, "no MUNGE: %.200s", why);
        return false;
    }
    if (!network_has_address(host)) {
        snprintf(out->how, sizeof out->how, "the name %.80s of the first node has no address",
                 host);
        return false;
    }
    control_bootstrap_ports(peers->job, port);
    snprintf(out->host, sizeof out->host, "%s", host);
    snprintf(out->how, sizeof out->how,
             "at %.150s, port %d or the next free one; MUNGE encrypts the key", host, port[0]);
    return true;
}

enum status launch_bootstrap_address(const struct launch_config *config,
                                     const struct launch_bootstrap *bootstrap,
                                     struct network_address *out) {
    struct network_list list;
    char why[NETWORK_WHY_BYTES];
    TRY(network_list(&list));
    TRY(network_choose(&list, NULL, bootstrap->host, out, why));
    return out->loopback ? network_choose(&list, config->interface, NULL, out, why) : STATUS_OK;
}
