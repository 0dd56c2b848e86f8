/* Host files and nodes files: what is read, and what is refused where. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "launch/hostfile.h"

static char message[2048];

static enum status parse(bool yaml, const char *text, struct hostfile *out) {
    log_capture(message, sizeof message);
    enum status status = yaml ? hostfile_parse_yaml("hosts", text, strlen(text), out)
                              : hostfile_parse("hosts", text, strlen(text), out);
    log_capture(NULL, 0);
    return status;
}

static void joined(const struct hostfile *hosts, char *text, size_t bytes) {
    text[0] = 0;
    for (int i = 0; i < hosts->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s:%d", i ? " " : "", hosts->node[i].host,
                 hosts->node[i].slots);
    }
}

Test(launch_hostfile, lines) {
    static const struct {
        const char *text, *nodes;
    } cases[] = {
        {"a slots=4\nb slots=2\n", "a:4 b:2"},
        {"# jobs\n\n  a   slots=4   # fast\r\nb slots=2 max_slots=8", "a:4 b:2"},
        {"n1\nn2\nn1\nn1\nn3\n", "n1:3 n2:1 n3:1"}, /* srun hostname, in the order of coming */
        {"n1:4\nn2:4\n", "n1:4 n2:4"},
        {"10.0.0.1 slots=1", "10.0.0.1:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hostfile hosts;
        char text[256];
        cr_assert_eq(parse(false, cases[i].text, &hosts), STATUS_OK, "%s", message);
        joined(&hosts, text, sizeof text);
        cr_expect_str_eq(text, cases[i].nodes);
        cr_expect_eq(hosts.chief, 0);
        hostfile_free(&hosts);
    }
}

Test(launch_hostfile, bad_lines) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "names no host"},
        {"# nobody\n", "names no host"},
        {"a slots=4\na slots=4\n", "hosts:2: 'a': a host that was named before"},
        {"a slots=4\nb\n", "hosts:2: 'b': lines with and without slots"},
        {"a slots=0", "slots=N was expected"},
        {"a slots=-1", "slots=N was expected"},
        {"a slots=70000", "slots=N was expected"},
        {"a slots=4 slots=4", "slots were given already"},
        {"a gpus=4", "slots=N was expected"},
        {"a b", "hosts:1: 'b': slots=N was expected"},
        {"-oProxyCommand=x slots=1", "not a host name"},
        {"a;touch slots=1", "not a host name"},
        {"$(touch) slots=1", "not a host name"},
        {"a:x", "after the colon"},
        {"\x01", "not a host name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hostfile hosts = {.count = -7};
        cr_expect_eq(parse(false, cases[i].text, &hosts), STATUS_USAGE, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
        cr_expect_eq(hosts.count, -7);
    }
}

Test(launch_hostfile, nodes_file) {
    struct hostfile hosts;
    char text[256];
    cr_assert_eq(parse(true,
                       "nodes:\n- host: w0\n  servers: 0\n  workers: 8\n- {host: w1, workers: 4, "
                       "chief: true, servers: 1}\n- {host: w2, chief: false}\n",
                       &hosts),
                 STATUS_OK, "%s", message);
    joined(&hosts, text, sizeof text);
    cr_expect_str_eq(text, "w0:8 w1:4 w2:0");
    cr_expect_eq(hosts.chief, 1);
    cr_expect_eq(hosts.node[1].servers, 1);
    cr_expect_eq(hostfile_ranks_before(&hosts, 1), 8);
    cr_expect_eq(hostfile_ranks_before(&hosts, 3), 12);
    hostfile_free(&hosts);
}

Test(launch_hostfile, bad_nodes_files) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "a mapping with the key nodes"},
        {"- a\n", "a mapping with the key nodes"},
        {"hosts: []\n", "the only key is nodes"},
        {"nodes: []\n", "nodes is empty"},
        {"nodes: w0\n", "nodes is a list"},
        {"nodes:\n- w0\n", "a node is a mapping"},
        {"nodes:\n- {host: w0, workers: 1}\n", "exactly one node must be chief"},
        {"nodes:\n- {host: a, chief: true}\n- {host: b, chief: true}\n",
         "hosts:3:20: a second chief"},
        {"nodes:\n- {host: a, chief: true}\n", "no node has workers"},
        {"nodes:\n- {workers: 1, chief: true}\n", "a node without a host"},
        {"nodes:\n- {host: a, gpus: 1}\n", "'gpus': unknown key"},
        {"nodes:\n- {host: a, host: b}\n", "host was given already"},
        {"nodes:\n- {host: a, workers: many}\n", "a number from 0 to 65536"},
        {"nodes:\n- {host: a, workers: [1]}\n", "one value was expected"},
        {"nodes:\n- {host: a, chief: yes}\n", "chief is true or false"},
        {"nodes:\n- {host: a}\n- {host: a}\n", "named before"},
        {"nodes:\n- {host: '-x'}\n", "not a host name"},
        {"nodes:\n- &a {host: a}\n- *a\n", "anchors and aliases"},
        {"nodes: [\n", "not valid YAML"},
        {"nodes:\n- {host: a, workers: 1, chief: true}\nmore: 1\n", "the only key is nodes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct hostfile hosts = {.count = -7};
        cr_expect_eq(parse(true, cases[i].text, &hosts), STATUS_USAGE, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
        cr_expect_eq(hosts.count, -7);
    }
}

static const char *here;
static bool is_here(const char *host) {
    return strcmp(host, here) == 0 || strncmp(host, "alias", 5) == 0;
}

Test(launch_hostfile, finding_oneself) {
    struct hostfile hosts;
    cr_assert_eq(parse(false, "a slots=2\nb slots=2\nalias slots=1\n", &hosts), STATUS_OK);
    here = "b";
    cr_expect_eq(hostfile_find(&hosts, is_here), -2);
    hosts.count = 2;
    cr_expect_eq(hostfile_find(&hosts, is_here), 1);
    here = "c";
    cr_expect_eq(hostfile_find(&hosts, is_here), -1);
    hosts.count = 3;
    hostfile_free(&hosts);
}
