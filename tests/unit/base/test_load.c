/* Readings of who used the cores. */
#include <criterion/criterion.h>

#include "base/load.h"
#include "pretend.h"

TestSuite(base_load, .init = pretend_make, .fini = pretend_remove);

Test(base_load, what_cannot_be_read_is_unknown) {
    struct load load = load_now(pretend_root), same = load_between(&load, &load);
    cr_expect(load.wait_ns == -1 && load.busy_ns == -1 && load.stolen_ns == -1);
    cr_expect(load.at_ns > 0 && load.own_ns >= 0);
    cr_expect(same.busy_ns == -1 && same.stolen_ns == -1 && same.wait_ns == -1);
    cr_expect(same.at_ns == 0 && same.own_ns == 0);
}

/* A tick is 10 ms on Linux: user, nice, system, irq and softirq are busy; idle, iowait are not. */
Test(base_load, parts_of_a_machine) {
    pretend_put("proc/thread-self/schedstat", "7000 500 3\n");
    pretend_put("proc/stat", "cpu  100 10 20 9999 9999 1 2 30 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n");
    struct load begin = load_now(pretend_root);
    cr_expect_eq(begin.wait_ns, 500);
    cr_expect_eq(begin.busy_ns, 133 * INT64_C(10000000));
    cr_expect_eq(begin.stolen_ns, 30 * INT64_C(10000000));
    pretend_put("proc/thread-self/schedstat", "9000 1700 4\n");
    pretend_put("proc/stat", "cpu  200 10 20 9999 9999 1 2 35 0 0\n");
    struct load end = load_now(pretend_root), used = load_between(&begin, &end);
    cr_expect_eq(used.wait_ns, 1200);
    cr_expect_eq(used.busy_ns, INT64_C(1000000000));
    cr_expect_eq(used.stolen_ns, 50000000);
    pretend_put("proc/stat", "cpu  broken\n");
    struct load broken = load_now(pretend_root);
    cr_expect_eq(load_between(&begin, &broken).busy_ns, -1);
}
