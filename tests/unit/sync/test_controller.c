/* The controller: who gets which number, that nobody waits for a replica without one, that rounds
 * go on where the last one ended, and that a saved one goes on as the one that was saved. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "sync/controller.h"

#define MS 1000000LL

static struct groups_config config_of(const char *rule, int replicas, int connect, int size) {
    return (struct groups_config){.rule = rule,
                                  .replicas = replicas,
                                  .keys = 1,
                                  .connect = connect,
                                  .wait = {MS, MS / 100, 10 * MS, 2, 0.9},
                                  .size = size};
}

/* Takes all groups; the members of the last one as a set. */
static unsigned form_all(struct controller *controller, int64_t now_ns) {
    struct group_formed group;
    unsigned last = 0;
    while (controller_form(controller, now_ns, &group)) {
        last = 0;
        for (int i = 0; i < group.count; i++) last |= 1u << group.replica[i];
    }
    return last;
}

static unsigned comes(struct controller *controller, int replica, int64_t index, int64_t now_ns) {
    controller_arrive(controller, 0, replica, index, now_ns);
    return form_all(controller, now_ns);
}

Test(sync_controller, equal_replicas_have_the_numbers_of_synchronous_ones) {
    struct groups_config config = config_of("window", 3, 1, 0);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    controller_begin(controller, 0, 9, true);
    controller_begin(controller, 0, 9, true);
    for (int64_t step = 0; step < 3; step++)
        for (int r = 0; r < 3; r++) {
            cr_expect_eq(controller_draw(controller, r, step), 3 * step + r);
            int64_t next = step < 2 ? 3 * (step + 1) + r : CONTROLLER_NONE;
            cr_expect_eq(controller_draw(controller, r, step + 1), next);
        }
    cr_expect_eq(controller_draw(controller, 1, 3), CONTROLLER_NONE, "it stays so");
    cr_expect_eq(controller_next_number(controller), 9);
}

Test(sync_controller, a_fast_replica_draws_more) {
    struct groups_config config = config_of("fifo", 3, 4, 2);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 6);
    controller_begin(controller, 0, 15, false);
    cr_expect_eq(controller_draw(controller, 2, 0), 8);
    for (int64_t index = 1; index < 5; index++)
        cr_expect_eq(controller_draw(controller, 2, index), 8 + index);
    cr_expect_eq(controller_draw(controller, 0, 1), 13);
    cr_expect_eq(controller_draw(controller, 1, 1), 14);
    cr_expect_eq(controller_draw(controller, 2, 5), CONTROLLER_NONE);
    cr_expect_eq(controller_drawn(controller, 2), 5);
    controller_begin(controller, 1, 18, true);
    cr_expect_eq(controller_draw(controller, 2, 5), 17, "each has one from the start");
    cr_expect_eq(controller_draw(controller, 0, 2), 15);
    cr_expect_eq(controller_draw(controller, 0, 3), CONTROLLER_NONE);
}

Test(sync_controller, a_pause_ends_the_round_with_the_step) {
    struct groups_config config = config_of("window", 3, 10, 0);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    controller_begin(controller, 0, 300, false);
    cr_expect_eq(controller_draw(controller, 0, 1), 3);
    cr_expect_eq(controller_pause(controller), 6);
    cr_expect_eq(controller_pause(controller), 6);
    cr_expect_eq(controller_draw(controller, 0, 2), 4);
    cr_expect_eq(controller_draw(controller, 1, 1), 5);
    cr_expect_eq(controller_draw(controller, 2, 1), CONTROLLER_NONE);
    controller_begin(controller, 1, 300, false);
    cr_expect_eq(controller_draw(controller, 2, 1), 8);
}

/* Everybody must be in each group (connect 1), but for those that rest. */
Test(sync_controller, nobody_waits_for_a_replica_without_a_number) {
    struct groups_config config = config_of("window", 3, 1, 0);
    struct controller_group group;
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    controller_begin(controller, 0, 5, false);
    for (int r = 0; r < 2; r++) controller_draw(controller, r, 1);
    cr_expect_eq(controller_draw(controller, 2, 1), CONTROLLER_NONE);
    cr_expect_eq(comes(controller, 0, 0, 0), 0);
    cr_expect_eq(comes(controller, 1, 0, 50 * MS), 0, "it waits for replica 2");
    cr_expect_eq(comes(controller, 2, 0, 90 * MS), 7);
    cr_expect(controller_group(controller, 0, 1, 0, &group) && group.count == 3);
    for (int r = 0; r < 2; r++) controller_draw(controller, r, 2);
    cr_expect_not(controller_group(controller, 0, 0, 1, &group));
    cr_expect_eq(comes(controller, 0, 1, 100 * MS), 0);
    cr_expect_eq(comes(controller, 1, 1, 120 * MS), 3, "replica 2 rests");
    controller_begin(controller, 1, 8, true);
    cr_expect_eq(comes(controller, 0, 2, 200 * MS), 0);
    cr_expect_eq(comes(controller, 1, 2, 200 * MS), 0, "it is back");
    cr_expect_eq(comes(controller, 2, 1, 300 * MS), 7);
}

/* Rounds of one mini-batch a replica: whoever is alone goes on, but the window stays open, so that
 * all are connected in the end. */
Test(sync_controller, windows_reach_over_rounds) {
    struct groups_config config = config_of("window", 2, 3, 0);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    unsigned together = 0;
    for (int64_t round = 0; round < 6; round++) {
        controller_begin(controller, round, 2 * (round + 1), false);
        for (int r = 0; r < 2; r++)
            cr_expect_eq(controller_draw(controller, r, round + 1), CONTROLLER_NONE);
        controller_arrive(controller, 0, 0, round, round * 1000 * MS);
        unsigned set = form_all(controller, round * 1000 * MS + 20 * MS);
        if (set == 0) together++;
        set = comes(controller, 1, round, round * 1000 * MS + 500 * MS);
        cr_expect(set == 2 || set == 3);
    }
    cr_expect_geq(together, 2, "the first waits as long as it takes, once in each window");
}

/* One replica is slower; at the end of each round all has come to all. */
static void run_round(struct controller *controller, int64_t round, int64_t end, uint64_t *hash) {
    enum { REPLICAS = 5 };
    int64_t ready_ns[REPLICAS], index[REPLICAS], now_ns = 0;
    bool waits[REPLICAS] = {false}, more[REPLICAS];
    controller_begin(controller, round, end, false);
    for (int r = 0; r < REPLICAS; r++) {
        int64_t had = controller_drawn(controller, r);
        index[r] = had - 1;
        ready_ns[r] = (r + 1) * 3 * MS;
        more[r] = controller_draw(controller, r, had) != CONTROLLER_NONE;
    }
    for (int left = REPLICAS; left > 0;) {
        int next = -1;
        for (int r = 0; r < REPLICAS; r++)
            if (!waits[r] && ready_ns[r] < INT64_MAX && (next < 0 || ready_ns[r] < ready_ns[next]))
                next = r;
        int64_t wake_ns = controller_wake_ns(controller);
        struct group_formed group;
        if (next >= 0 && ready_ns[next] < wake_ns) {
            now_ns = ready_ns[next];
            controller_arrive(controller, 0, next, index[next], now_ns);
            waits[next] = true;
        } else {
            cr_assert_lt(wake_ns, INT64_MAX, "nobody can go on");
            now_ns = wake_ns;
        }
        while (controller_form(controller, now_ns, &group))
            for (int i = 0; i < group.count; i++) {
                int r = group.replica[i];
                *hash = rng_key(*hash, (uint64_t)(group.number * 64 + r));
                waits[r] = false;
                ready_ns[r] = more[r] ? now_ns + (r == 0 ? 30 : 7 + r) * MS : INT64_MAX;
                left -= !more[r];
                if (!more[r]) continue;
                index[r]++;
                more[r] = controller_draw(controller, r, index[r] + 1) != CONTROLLER_NONE;
            }
    }
}

Test(sync_controller, a_saved_one_goes_on_alike) {
    const char *rules[] = {"window", "fifo"};
    for (int rule = 0; rule < 2; rule++) {
        struct groups_config config = config_of(rules[rule], 5, 8, 3);
        SCOPED(controller_close)
        struct controller *one = controller_open(&config, 0);
        SCOPED(controller_close) struct controller *loaded = controller_open(&config, 0);
        uint64_t hash = 1, again = 1;
        run_round(one, 0, 100, &hash);
        int64_t count = controller_save(one, NULL);
        SCOPED_FREE int64_t *numbers = MEM_ARRAY(int64_t, count);
        controller_save(one, numbers);
        again = hash;
        cr_assert_eq(controller_load(loaded, numbers, count), STATUS_OK);
        run_round(one, 1, 300, &hash);
        run_round(loaded, 1, 300, &again);
        cr_expect_eq(hash, again, "%s", rules[rule]);
        for (int r = 0; r < 5; r++)
            cr_expect_eq(controller_drawn(one, r), controller_drawn(loaded, r));
        cr_expect_lt(controller_drawn(one, 0), 40, "the slow one");
        char text[400];
        log_capture(text, sizeof text);
        numbers[0] = -1;
        cr_expect_eq(controller_load(loaded, numbers, count), STATUS_DATA);
        cr_expect_eq(controller_load(loaded, numbers, 3), STATUS_DATA);
        log_capture(NULL, 0);
    }
}

/* Other ranks of a replica ask later for what its first one has drawn. */
Test(sync_controller, numbers_are_told_again) {
    struct groups_config config = config_of("fifo", 2, 4, 2);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    controller_begin(controller, 0, 40, true);
    cr_expect_eq(controller_number(controller, 0, 0), 0);
    cr_expect_eq(controller_number(controller, 0, 1), CONTROLLER_UNKNOWN, "nobody has asked");
    for (int64_t index = 1; index < 5; index++)
        cr_expect_eq(controller_draw(controller, 0, index), 1 + index);
    cr_expect_eq(controller_draw(controller, 1, 1), 6);
    cr_expect_eq(controller_number(controller, 0, 2), 3);
    cr_expect_eq(controller_draw(controller, 0, 3), 4, "drawn already");
    cr_expect_eq(controller_drawn(controller, 0), 5);
}

Test(sync_controller, a_run_goes_on_where_another_one_ended) {
    struct groups_config config = config_of("window", 2, 1, 0);
    SCOPED(controller_close) struct controller *controller = controller_open(&config, 0);
    controller_place(controller, 14, 7);
    controller_begin(controller, 0, 18, true);
    cr_expect_eq(controller_drawn(controller, 1), 8);
    cr_expect_eq(controller_number(controller, 1, 7), 15);
    cr_expect_eq(comes(controller, 0, 7, 0), 0);
    cr_expect_eq(comes(controller, 1, 7, 1), 3);
}
