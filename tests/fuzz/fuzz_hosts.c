/* Any bytes as a host file, a nodes file, a Slurm node list, task counts, an address and a rule. */
#include "fuzz.h"
#include "launch/hostfile.h"
#include "launch/init.h"
#include "launch/network.h"
#include "launch/slurm.h"

static void as_hostfile(bool yaml, const char *text, size_t size) {
    struct hostfile hosts;
    fuzz_begin();
    enum status status = yaml ? hostfile_parse_yaml("input", text, size, &hosts)
                              : hostfile_parse("input", text, size, &hosts);
    fuzz_end(status);
    if (status != STATUS_OK) return;
    for (int i = 0; i < hosts.count; i++)
        fuzz_touch(hosts.node[i].host, strlen(hosts.node[i].host));
    hostfile_free(&hosts);
}

static void as_slurm(const char *text) {
    struct slurm_hosts hosts;
    int tasks;
    fuzz_begin();
    enum status status = slurm_hosts_parse("LIST", text, &hosts);
    fuzz_end(status);
    if (status == STATUS_OK) slurm_hosts_free(&hosts);
    fuzz_begin();
    fuzz_end(slurm_tasks_on("TASKS", text, 3, &tasks));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct network_address address = {"eth0", "10.1.2.3", 2, true, false};
    char *text = calloc(1, size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    as_hostfile(false, text, size);
    as_hostfile(true, text, size);
    as_slurm(text);
    struct init init;
    struct launch_config config = {.init = text};
    fuzz_begin();
    fuzz_end(init_parse(&config, &init));
    fuzz_begin();
    enum status status = network_check_rule(text);
    fuzz_end(status);
    if (status == STATUS_OK) network_matches(text, &address);
    free(text);
    return 0;
}
