/* Which network: rules on a made-up list of addresses, and the host's own. */
#include <criterion/criterion.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/init.h"
#include "launch/network.h"

static const struct network_list list = {6,
                                         {{"lo", "127.0.0.1", AF_INET, true, true},
                                          {"docker0", "172.17.0.1", AF_INET, true, false},
                                          {"eth0", "fd00::5", AF_INET6, true, false},
                                          {"eth0", "10.1.2.3", AF_INET, true, false},
                                          {"eth1", "10.2.2.3", AF_INET, false, false},
                                          {"ib0", "192.168.7.9", AF_INET, true, false}}};

static char message[1024];

Test(launch_network, rules_choose) {
    static const struct {
        const char *rule, *text;
    } cases[] = {
        {"eth0", "10.1.2.3"},
        {"eth", "10.1.2.3"},
        {"=eth0", "10.1.2.3"},
        {"ib,eth", "10.1.2.3"},
        {"^eth,docker,lo", "192.168.7.9"},
        {"192.168.4.0/22", "192.168.7.9"},
        {"10.0.0.0/8", "10.1.2.3"},
        {"fd00::/16", "fd00::5"},
        {"^=lo,docker0,eth0", "192.168.7.9"},
        {"0.0.0.0/0", "127.0.0.1"},
        {"lo", "127.0.0.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct network_address address;
        char why[NETWORK_WHY_BYTES];
        cr_assert_eq(network_choose(&list, cases[i].rule, NULL, &address, why), STATUS_OK, "%s",
                     cases[i].rule);
        cr_expect_str_eq(address.text, cases[i].text, "%s: %s", cases[i].rule, address.text);
        cr_expect(strstr(why, cases[i].rule));
    }
}

Test(launch_network, rules_that_fit_nothing_are_refused) {
    static const struct {
        const char *rule, *says;
    } cases[] = {
        {"=eth", "there are: lo 127.0.0.1, docker0"}, /* exactly */
        {"eth1", "no address of this host fits"},     /* it is down */
        {"10.2.0.0/16", "no address of this host fits"},
        {"10.2.0.0/33", "neither a name nor a subnet"},
        {"300.2.0.0/16", "neither a name nor a subnet"},
        {"eth0,,ib0", "an empty word"},
        {"", "names nothing"},
        {"^", "names nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct network_address address;
        char why[NETWORK_WHY_BYTES];
        log_capture(message, sizeof message);
        enum status status = network_choose(&list, cases[i].rule, NULL, &address, why);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "%s", cases[i].rule);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].rule, message);
    }
}

Test(launch_network, without_a_rule) {
    struct network_address address;
    struct network_list only_lo = {1, {list.item[0]}};
    char why[NETWORK_WHY_BYTES];
    cr_assert_eq(network_choose(&list, NULL, NULL, &address, why), STATUS_OK);
    cr_expect_str_eq(address.text, "10.1.2.3"); /* not the bridge to containers */
    cr_assert_eq(network_choose(&only_lo, NULL, NULL, &address, why), STATUS_OK);
    cr_expect_str_eq(address.text, "127.0.0.1");
    cr_assert_eq(network_choose(&list, NULL, "127.0.0.1", &address, why), STATUS_OK);
    cr_expect_str_eq(address.interface, "lo");
    cr_expect(strstr(why, "the route to 127.0.0.1"));
}

Test(launch_network, what_is_here) {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    cr_expect(network_is_here(name));
    cr_expect(network_is_here("127.0.0.1"));
    cr_expect(!network_is_here("198.51.100.77")); /* kept for documents */
    cr_expect(network_is_loopback("127.3.2.1") && network_is_loopback("::1") &&
              network_is_loopback("localhost"));
    cr_expect(!network_is_loopback("10.0.0.1") && !network_is_loopback("localhost.example"));
}

Test(launch_network, localhost_needs_no_hosts_file) {
    struct network_address address;
    cr_assert_eq(network_own(&list, "localhost", &address), STATUS_OK);
    cr_expect_str_eq(address.text, "127.0.0.1");
}

static const char *no_variable(const char *name) {
    (void)name;
    return NULL;
}
static const char *master(const char *name) {
    if (strcmp(name, "MASTER_ADDR") == 0) return "n1";
    return strcmp(name, "MASTER_PORT") == 0 ? "29500" : NULL;
}

Test(launch_network, init_addresses) {
    static const struct {
        const char *text;
        enum init_form kind;
        const char *host;
        int port;
        const char *path;
    } cases[] = {
        {NULL, INIT_NONE, "", 0, ""},
        {"tcp://n1:29500", INIT_TCP, "n1", 29500, ""},
        {"tcp://10.0.0.1:1", INIT_TCP, "10.0.0.1", 1, ""},
        {"tcp://[fd00::1]:80", INIT_TCP, "fd00::1", 80, ""},
        {"file:///shared/x", INIT_FILE, "", 0, "/shared/x"},
        {"env://", INIT_TCP, "n1", 29500, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct init init;
        struct launch_config config = {.init = cases[i].text, .variable = master};
        cr_assert_eq(init_parse(&config, &init), STATUS_OK);
        cr_expect(init.kind == cases[i].kind && init.port == cases[i].port);
        cr_expect_str_eq(init.host, cases[i].host);
        cr_expect_str_eq(init.path, cases[i].path);
    }
}

Test(launch_network, bad_init_addresses) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"tcp://n1", "the port is missing"},
        {"tcp://n1:", "the port is a number"},
        {"tcp://n1:0", "the port is a number"},
        {"tcp://n1:65536", "the port is a number"},
        {"tcp://:80", "not a host"},
        {"tcp://-x:80", "not a host"},
        {"tcp://a b:80", "not a host"},
        {"tcp://[fd00::1:80", "not a host"},
        {"file://x", "must be absolute"},
        {"file:///", "not the path of a file"},
        {"udp://x:1", "an unknown kind"},
        {"", "an unknown kind"},
        {"env://", "needs MASTER_ADDR"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct init init = {.port = -7};
        struct launch_config config = {.init = cases[i].text, .variable = no_variable};
        log_capture(message, sizeof message);
        enum status status = init_parse(&config, &init);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "%s", cases[i].text);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].text, message);
        cr_expect_eq(init.port, -7);
    }
}
