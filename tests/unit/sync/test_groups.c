/* Groups that form while ranks run: who is in them, when, with which weights; that no replica
 * trains for itself; what is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "traces.h"

#include "base/log.h"
#include "base/mem.h"

#define MS 1000000LL

static struct groups_config window_of(int replicas, int connect) {
    return (struct groups_config){.rule = "window",
                                  .replicas = replicas,
                                  .keys = 1,
                                  .connect = connect,
                                  .wait = {MS, MS / 100, 10 * MS, 2, 0.9}};
}

static struct groups_config fifo_of(int replicas, int size, int connect) {
    struct groups_config config = window_of(replicas, connect);
    config.rule = "fifo";
    config.size = size;
    return config;
}

/* All groups that have formed, as "0,2 1": members of a group are joined by commas. */
static const char *formed(struct groups *groups, int64_t now_ns) {
    static char text[1000];
    struct group_formed group;
    size_t used = 0;
    text[0] = '\0';
    while (groups_next(groups, now_ns, &group)) {
        for (int i = 0; i < group.count; i++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%d",
                                     i      ? ","
                                     : used ? " "
                                            : "",
                                     group.replica[i]);
        if (group.connects) used += (size_t)snprintf(text + used, sizeof text - used, "!");
    }
    return text;
}

static const char *comes(struct groups *groups, int key, int replica, int64_t now_ns) {
    groups_arrive(groups, key, replica, now_ns);
    return formed(groups, now_ns);
}

/* Each comes and goes on at once with whoever is there. */
static const char *all_come(struct groups *groups, int first, int end, int64_t now_ns) {
    for (int r = first; r < end; r++) groups_arrive(groups, 0, r, now_ns);
    return formed(groups, now_ns);
}

Test(sync_groups, a_window_has_who_comes_while_the_first_waits) {
    SCOPED(groups_close)
    struct groups *groups = groups_open(&(struct groups_config[]){window_of(4, 10)}[0]);
    cr_expect_str_eq(comes(groups, 0, 3, 0), "");
    cr_expect_eq(groups_wake_ns(groups), MS);
    cr_expect_str_eq(comes(groups, 0, 1, MS / 2), "");
    cr_expect_eq(groups_wake_ns(groups), MS, "the first one's wait counts");
    cr_expect_str_eq(formed(groups, MS - 1), "");
    cr_expect_str_eq(formed(groups, MS), "1,3");
    cr_expect_eq(groups_wake_ns(groups), INT64_MAX);
    cr_expect_str_eq(all_come(groups, 0, 3, 2 * MS), "", "one is not here");
    cr_expect_str_eq(comes(groups, 0, 3, 2 * MS), "0,1,2,3!", "all are here");
}

/* Each replica waits as its own groups told it. */
Test(sync_groups, a_wait_grows_after_a_group_of_one) {
    struct groups_config config = window_of(4, 100);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    int64_t now = 0, want[] = {MS, 2 * MS, 4 * MS, 8 * MS, 10 * MS, 10 * MS};
    for (int i = 0; i < 6; i++) {
        cr_expect_str_eq(comes(groups, 0, 0, now), "");
        cr_expect_eq(groups_wake_ns(groups) - now, want[i]);
        now = groups_wake_ns(groups);
        cr_expect_str_eq(formed(groups, now), "0");
    }
    comes(groups, 0, 0, now);
    cr_expect_str_eq(comes(groups, 0, 1, now), "");
    cr_expect_str_eq(formed(groups, now + 10 * MS), "0,1");
    comes(groups, 0, 0, now);
    cr_expect_eq(groups_wake_ns(groups) - now, 9 * MS, "shorter after a group of two");
    formed(groups, now + 9 * MS);
    comes(groups, 0, 1, now);
    cr_expect_eq(groups_wake_ns(groups) - now, MS * 9 / 10, "its own");
}

/* Before the last iteration of a window all must be connected: the first one waits for who is
 * missing. */
Test(sync_groups, nobody_trains_for_itself) {
    struct groups_config config = window_of(3, 2);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    for (int i = 0; i < 3; i++) {
        comes(groups, 0, 0, i * 100 * MS);
        cr_expect_str_eq(formed(groups, i * 100 * MS + 50 * MS), "0");
    }
    cr_expect_str_eq(comes(groups, 0, 0, 300 * MS), "");
    cr_expect_str_eq(formed(groups, 350 * MS), "", "it waits");
    cr_expect_eq(groups_wake_ns(groups), INT64_MAX);
    cr_expect_str_eq(comes(groups, 0, 2, 400 * MS), "");
    cr_expect_str_eq(comes(groups, 0, 1, 9000 * MS), "0,1,2!");
}

/* A window whose replicas are connected already has nothing to wait for. The public artefact lets
 * the first one that comes then go alone. */
Test(sync_groups, connected_replicas_wait_for_nobody_and_nobody_goes_alone) {
    struct groups_config config = window_of(3, 2);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    for (int i = 0; i < 5; i++) {
        cr_expect_str_eq(all_come(groups, 0, 3, i * MS), "0,1,2!");
    }
    cr_expect_str_eq(comes(groups, 0, 1, 10 * MS), "");
    cr_expect_gt(groups_wake_ns(groups), 10 * MS, "it waits for others");
    cr_expect_lt(groups_wake_ns(groups), 12 * MS, "... but not without limit");
    cr_expect_str_eq(comes(groups, 0, 2, 10 * MS), "");
    cr_expect_str_eq(formed(groups, 20 * MS), "1,2");
}

Test(sync_groups, connect_1_is_all_reduce) {
    int sizes[] = {2, 8, 12};
    for (int i = 0; i < 3; i++) {
        struct groups_config config = window_of(sizes[i], 1);
        SCOPED(groups_close) struct groups *groups = groups_open(&config);
        for (int step = 0; step < 3; step++) {
            cr_expect_str_eq(all_come(groups, 0, sizes[i] - 1, step * 100 * MS), "");
            cr_expect_str_eq(formed(groups, step * 100 * MS + 90 * MS), "");
            groups_arrive(groups, 0, sizes[i] - 1, step * 100 * MS + 90 * MS);
            struct group_formed group;
            cr_expect(groups_next(groups, step * 100 * MS + 90 * MS, &group));
            cr_expect_eq(group.count, sizes[i]);
            cr_expect(group.connects);
        }
    }
}

/* Above eight replicas pairs average, and each pair is a link. The artefact forgets them: then a
 * window would end only where all ten are there at once. */
Test(sync_groups, pairs_are_links) {
    struct groups_config config = window_of(10, 2);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    cr_expect_str_eq(all_come(groups, 0, 9, 0), "");
    cr_expect_str_eq(formed(groups, MS), "0,1 2,3 4,5 6,7 8", "the odd one is alone");
    comes(groups, 0, 9, 2 * MS);
    cr_expect_str_eq(comes(groups, 0, 8, 2 * MS), "");
    cr_expect_str_eq(comes(groups, 0, 0, 2 * MS), "");
    cr_expect_str_eq(formed(groups, 100 * MS), "", "that would be too many updates: it waits");
    comes(groups, 0, 2, 101 * MS);
    comes(groups, 0, 5, 101 * MS);
    cr_expect_str_eq(comes(groups, 0, 6, 101 * MS), "0,2,5,6,8,9!", "one of each pair is enough");
}

/* Two stages are due. One waits as long as it takes; the other goes on meanwhile, and its turn
 * comes. */
Test(sync_groups, stages_wait_one_at_a_time_and_none_is_forgotten) {
    struct groups_config config = window_of(3, 1);
    config.keys = 2;
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    comes(groups, 1, 0, 0);
    cr_expect_str_eq(formed(groups, 5 * MS), "", "stage 1 waits as long as it takes");
    comes(groups, 0, 1, 5 * MS);
    cr_expect_lt(groups_wake_ns(groups), 10 * MS, "stage 0 does not");
    cr_expect_str_eq(formed(groups, 10 * MS), "1");
    comes(groups, 0, 1, 10 * MS);
    cr_expect_str_eq(comes(groups, 1, 1, 11 * MS), "");
    cr_expect_str_eq(comes(groups, 1, 2, 11 * MS), "0,1,2!");
    cr_expect_str_eq(formed(groups, 100 * MS), "", "now stage 0 waits");
    cr_expect_eq(groups_wake_ns(groups), INT64_MAX);
    comes(groups, 1, 0, 100 * MS);
    cr_expect_lt(groups_wake_ns(groups), INT64_MAX, "stage 1 stands behind it");
    cr_expect_str_eq(formed(groups, 200 * MS), "0");
    comes(groups, 0, 0, 201 * MS);
    cr_expect_str_eq(comes(groups, 0, 2, 201 * MS), "0,1,2!");
}

Test(sync_groups, fifo_takes_the_first_that_came) {
    struct groups_config config = fifo_of(5, 2, 8);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    cr_expect_str_eq(comes(groups, 0, 4, 0), "");
    cr_expect_eq(groups_wake_ns(groups), INT64_MAX, "no time ends its wait");
    cr_expect_str_eq(formed(groups, 1000 * MS), "");
    cr_expect_str_eq(comes(groups, 0, 2, 1000 * MS), "2,4");
    cr_expect_str_eq(comes(groups, 0, 0, 1000 * MS), "");
    cr_expect_str_eq(comes(groups, 0, 3, 1000 * MS), "0,3");
}

/* Two pairs that always meet again would never hear of the others. */
Test(sync_groups, fifo_connects_within_its_groups) {
    struct groups_config config = fifo_of(4, 2, 4);
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    cr_expect_str_eq(all_come(groups, 0, 2, 0), "0,1");
    cr_expect_str_eq(all_come(groups, 0, 2, 0), "0,1");
    cr_expect_str_eq(all_come(groups, 0, 2, 0), "", "two groups are left for three parts");
    cr_expect_str_eq(comes(groups, 0, 3, 0), "0,3", "the first of each part");
    cr_expect_str_eq(comes(groups, 0, 2, 0), "1,2!");
    cr_expect_str_eq(all_come(groups, 0, 2, 0), "0,1", "a new window");
    struct groups_config least = fifo_of(4, 2, 3);
    SCOPED(groups_close) struct groups *tight = groups_open(&least);
    cr_expect_str_eq(all_come(tight, 0, 2, 0), "0,1");
    cr_expect_str_eq(all_come(tight, 0, 2, 0), "");
    cr_expect_str_eq(comes(tight, 0, 2, 0), "0,2");
    cr_expect_str_eq(comes(tight, 0, 3, 0), "1,3!");
}

Test(sync_groups, who_leaves_is_waited_for_no_more) {
    struct groups_config config = window_of(3, 1), fifo = fifo_of(4, 3, 2);
    SCOPED(groups_close) struct groups *groups = groups_open(&config), *other = groups_open(&fifo);
    all_come(groups, 0, 2, 0);
    groups_leave(groups, 0, 2);
    cr_expect_str_eq(formed(groups, 0), "0,1!");
    comes(groups, 0, 0, 0);
    groups_leave(groups, 0, 1);
    cr_expect_str_eq(formed(groups, 0), "0!");
    cr_expect_eq(groups_left(groups, 0), 1);
    all_come(other, 0, 2, 0);
    groups_leave(other, 0, 3);
    cr_expect_str_eq(formed(other, 0), "");
    groups_leave(other, 0, 2);
    cr_expect_str_eq(formed(other, 0), "0,1!", "as many as are left");
}

static void expect_weights(struct groups *groups, const double *want, int64_t spread) {
    struct group_formed group;
    cr_assert(groups_next(groups, 0, &group));
    for (int i = 0; i < group.count; i++) cr_expect_float_eq(group.weight[i], want[i], 1e-12);
    cr_expect_eq(group.spread, spread);
}

/* Ages 1 to R; what falls to an age that nobody has goes to the oldest. */
Test(sync_groups, older_parameters_weigh_less) {
    struct groups_config config = fifo_of(4, 2, 12);
    config.age = 0.5;
    SCOPED(groups_close) struct groups *groups = groups_open(&config);
    all_come(groups, 0, 2, 0);
    all_come(groups, 0, 2, 0);
    all_come(groups, 0, 2, 0); /* 0 and 1 have made three updates */
    groups_arrive(groups, 0, 0, 0);
    groups_arrive(groups, 0, 3, 0); /* four, and one */
    /* of ages 1 to 4: 1, 2, 4, 8 of 15; nobody has 2 and 3 */
    expect_weights(groups, (double[]){8 / 15.0, 7 / 15.0}, 3);
    groups_arrive(groups, 0, 0, 0);
    groups_arrive(groups, 0, 3, 0);
    expect_weights(groups, (double[]){0.5, 0.5}, 0);
    groups_arrive(groups, 0, 1, 0);
    groups_arrive(groups, 0, 3, 0); /* four, and six */
    expect_weights(groups, (double[]){3 / 7.0, 4 / 7.0}, 2);
}

Test(sync_groups, what_cannot_be_kept_is_refused) {
    char text[400];
    struct groups_config config = fifo_of(8, 3, 3);
    log_capture(text, sizeof text);
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    cr_expect(strstr(text, "--group-connect 3"));
    cr_expect(strstr(text, "--group-connect 4 or more"));
    config.connect = 4;
    cr_expect_eq(groups_check(&config), STATUS_OK);
    cr_expect_eq(groups_least_connect(&config), 4);
    cr_expect_eq(groups_usual_connect(&config), 16);
    config.size = 9;
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    config.size = 1;
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    config = window_of(4, 0);
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    config = window_of(4, 10);
    cr_expect_eq(groups_usual_connect(&config), 10);
    config.wait.first_ns = 20 * MS;
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    config.wait = (struct group_wait){MS, 0, 2 * MS, 0.5, 0.9};
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    config = fifo_of(4, 2, 3);
    config.age = 1;
    cr_expect_eq(groups_check(&config), STATUS_USAGE);
    log_capture(NULL, 0);
}

/* In all of it but `closes_ns`, which may be any time. */
Test(sync_groups, numbers_that_are_no_state_are_refused) {
    struct groups_config config = window_of(4, 10), other = fifo_of(4, 2, 12);
    SCOPED(groups_close)
    struct groups *groups = groups_open(&config), *fifo = groups_open(&other);
    char text[400];
    all_come(groups, 1, 3, 0);
    int64_t count = groups_save(groups, NULL);
    SCOPED_FREE int64_t *numbers = MEM_ARRAY(int64_t, count), *again = MEM_ARRAY(int64_t, count);
    groups_save(groups, numbers);
    log_capture(text, sizeof text);
    cr_expect_eq(groups_load(groups, numbers, count - 1), STATUS_DATA);
    cr_expect_eq(groups_load(fifo, numbers, count), STATUS_DATA, "of another rule");
    for (int64_t i = 0; i < count; i++) {
        int64_t was = numbers[i];
        numbers[i] = -1;
        bool taken = groups_load(groups, numbers, count) == STATUS_OK;
        bool free_place = i == 7 || (i >= 9 + 2 && i < 9 + 4) || i == count - 1;
        cr_expect_eq(taken, free_place, "number %d", (int)i);
        numbers[i] = was;
    }
    cr_expect_eq(groups_load(groups, numbers, count), STATUS_OK);
    log_capture(NULL, 0);
    groups_save(groups, again);
    cr_expect_arr_eq(numbers, again, (size_t)count * sizeof *numbers);
    cr_expect_str_eq(formed(groups, 100 * MS), "1,2");
}

/* What must hold of every trace; a saved state goes on as the one that was saved. */
Test(sync_groups, random_traces) {
    for (uint64_t number = 0; number < 400; number++) {
        struct trace trace = trace_draw(number);
        struct trace_result result, again;
        trace_run(&trace, &result);
        cr_assert_str_empty(result.wrong, "trace %d: %s", (int)number, result.wrong);
        trace.reload = true;
        trace_run(&trace, &again);
        cr_assert_str_empty(again.wrong, "trace %d: %s", (int)number, again.wrong);
        cr_assert_eq(result.lists, again.lists, "trace %d", (int)number);
    }
}
