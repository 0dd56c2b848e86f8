/* Slurm's compressed lists. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "launch/slurm.h"

static char message[1024];

static void joined(const struct slurm_hosts *hosts, char *text, size_t bytes) {
    text[0] = 0;
    for (int i = 0; i < hosts->count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s%s", i ? " " : "", hosts->name[i]);
    }
}

Test(launch_slurm, lists_expand_in_order) {
    static const struct {
        const char *list, *names;
    } cases[] = {
        {"n1", "n1"},
        {"gnode[10,20,25-27]", "gnode10 gnode20 gnode25 gnode26 gnode27"},
        {"n[08-11]", "n08 n09 n10 n11"},
        {"n[098-101]", "n098 n099 n100 n101"},
        {"a,b[1-2],c-3.example", "a b1 b2 c-3.example"},
        {"r[1-2]n[01-02]", "r1n01 r1n02 r2n01 r2n02"},
        {"n[1-2]-ib,login[3]", "n1-ib n2-ib login3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slurm_hosts hosts;
        char text[256];
        cr_assert_eq(slurm_hosts_parse("LIST", cases[i].list, &hosts), STATUS_OK, "%s",
                     cases[i].list);
        joined(&hosts, text, sizeof text);
        cr_expect_str_eq(text, cases[i].names);
        slurm_hosts_free(&hosts);
    }
}

Test(launch_slurm, bad_lists_are_refused_with_their_place) {
    static const struct {
        const char *list, *says;
    } cases[] = {
        {"", "empty name at character 1"},
        {"a,,b", "empty name at character 3"},
        {"a,", "empty name at character 3"},
        {"n[1-3", "not closed at character 2"},
        {"n[]", "a number was expected at character 3"},
        {"n[3-1]", "backwards at character 3"},
        {"n[1;2]", "a comma or ] was expected at character 4"},
        {"n[1-]", "a number was expected at character 5"},
        {"-oProxyCommand=x", "no host name has at character 15"},
        {"-x", "begins with a dash"},
        {"a b", "no host name has at character 2"},
        {"$(touch x)", "no host name has at character 1"},
        {"n[1-99999999]", "more than 65536 names"},
        {"n[1-60000][1-60000]", "more than 65536 names"},
        {"n[1234567890123]", "a number was expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct slurm_hosts hosts = {.count = -7};
        log_capture(message, sizeof message);
        enum status status = slurm_hosts_parse("SLURM_JOB_NODELIST", cases[i].list, &hosts);
        log_capture(NULL, 0);
        cr_expect_eq(status, STATUS_USAGE, "%s", cases[i].list);
        cr_expect(strstr(message, cases[i].says), "%s: %s", cases[i].list, message);
        cr_expect_eq(hosts.count, -7);
    }
}

Test(launch_slurm, tasks_of_a_node) {
    static const int expected[] = {4, 4, 1, 3};
    for (int node = 0; node < 4; node++) {
        int tasks = -1;
        cr_assert_eq(slurm_tasks_on("T", "4(x2),1,3", node, &tasks), STATUS_OK);
        cr_expect_eq(tasks, expected[node]);
    }
    static const char *const bad[] = {"4(x2),1,3", "", "x", "4(x", "4(x2", "2,"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int tasks = -1;
        log_capture(message, sizeof message);
        cr_expect_eq(slurm_tasks_on("T", bad[i], 4, &tasks), STATUS_USAGE, "%s", bad[i]);
        log_capture(NULL, 0);
        cr_expect_eq(tasks, -1);
        cr_expect(strstr(message, "tasks of node 4"));
    }
}
