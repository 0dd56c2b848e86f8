/* Ranks and servers killed or stopped in each state: the others hear of it, with the right name. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/status_table.h"
#include "process.h"

/* Far above what is promised (0.2 s): the machine may be busy, and how long it took is printed. */
enum { NEWS_MS = 10000, RANKS = 4 };

static int await_loss(const struct control *control) {
    int64_t begin = clock_ns();
    while (control_lost(control) == CONTROL_NOBODY) {
        if (clock_ns() - begin > NEWS_MS * 1000000LL) return -1;
        process_sleep_ms(1);
    }
    fprintf(stderr, "loss reported after %.0f ms\n", (double)(clock_ns() - begin) * 1e-6);
    return control_lost(control);
}

/* Ranks 1 to 3 are processes, rank 0 and the server are here; rank 2 plays `role` and is killed. */
static void kill_in(enum process_role role, int after_ms) {
    struct process_job job;
    struct control_server *server = NULL;
    struct control *control = NULL;
    pid_t pid[RANKS];
    process_job(&job, RANKS, 30, 0);
    for (int i = 1; i < RANKS; i++) pid[i] = process_rank(&job, i, i == 2 ? role : PROCESS_WAITS);
    struct control_server_config server_config = process_server_config(&job);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    process_sleep_ms(after_ms);
    cr_assert_eq(control_lost(control), CONTROL_NOBODY);
    process_kill(pid[2]);
    cr_assert_eq(await_loss(control), 2);
    cr_assert_eq(process_end(pid[1], NEWS_MS), 4);
    cr_assert_eq(process_end(pid[3], NEWS_MS), 4);
    control_leave(&control);
    control_server_stop(&server);
}

Test(faults_deaths, rank_in_wait) {
    kill_in(PROCESS_WAITS, 100);
}

Test(faults_deaths, rank_in_put) {
    kill_in(PROCESS_PUTS, 60);
}

Test(faults_deaths, rank_while_joining) {
    struct process_job job;
    struct control_server *server = NULL;
    char text[64];
    process_job(&job, 3, 30, 0);
    pid_t first = process_rank(&job, 0, PROCESS_WAITS),
          second = process_rank(&job, 1, PROCESS_WAITS);
    struct control_server_config config = process_server_config(&job);
    cr_assert_eq(control_server_start(&config, &server), STATUS_OK);
    for (int i = 0; i < 2; i++) /* both have said HELLO; rank 2 never comes */
        while (strcmp(control_server_doing(server, i, text, sizeof text), "not joined yet") == 0)
            process_sleep_ms(5);
    process_kill(first);
    cr_assert_eq(process_end(second, NEWS_MS), 4, "long before the limit of 30 s");
    control_server_stop(&server);
}

Test(faults_deaths, rank_before_joining) {
    struct process_job job;
    struct control_server *server = NULL;
    process_job(&job, 2, 30, 0);
    pid_t pid = process_rank(&job, 0, PROCESS_WAITS);
    struct control_server_config config = process_server_config(&job);
    cr_assert_eq(control_server_start(&config, &server), STATUS_OK);
    control_server_rank_ended(server, 1, "cannot be started");
    cr_assert_eq(process_end(pid, NEWS_MS), 4);
    control_server_stop(&server);
}

enum { REASON_BYTES = 100 };

static void keep_reason(void *context, int rank, const char *why) {
    (void)rank;
    snprintf(context, REASON_BYTES, "%s", why);
}

/* A launcher that is late to say why its rank ended is waited for. */
Test(faults_deaths, the_launcher_says_why) {
    struct process_job job;
    struct control_server *server = NULL;
    struct control *control = NULL;
    struct control_status_table table;
    char why[REASON_BYTES] = "";
    process_job(&job, 2, 30, 0);
    pid_t other = process_rank(&job, 1, PROCESS_WAITS);
    cr_assert_eq(control_status_table_new(2, &table), STATUS_OK);
    struct control_server_config config = process_server_config(&job);
    struct control_config first = process_rank_config(&job, 0);
    config.status_table = &table;
    config.lost = keep_reason;
    config.context = why;
    cr_assert_eq(control_server_start(&config, &server), STATUS_OK);
    cr_assert_eq(control_join(&first, &control), STATUS_OK);
    process_kill(other);
    process_sleep_ms(400); /* more than is waited for a rank without a launcher here */
    control_server_rank_ended(server, 1, "killed by signal 9");
    cr_assert_eq(await_loss(control), 1);
    control_leave(&control);
    control_server_stop(&server);
    cr_expect_str_eq(why, "killed by signal 9");
    control_status_table_close(&table);
}

Test(faults_deaths, leaving_is_no_loss) {
    struct process_job job;
    struct control_server *server = NULL;
    process_job(&job, 2, 30, 0);
    pid_t watcher = process_rank(&job, 0, PROCESS_WATCHES);
    pid_t leaver = process_rank(&job, 1, PROCESS_LEAVES);
    struct control_server_config config = process_server_config(&job);
    cr_assert_eq(control_server_start(&config, &server), STATUS_OK);
    cr_assert_eq(process_end(leaver, NEWS_MS), 0);
    control_server_rank_ended(server, 1, "exit code 0");
    cr_assert_eq(process_end(watcher, 20000), 0);
    control_server_stop(&server);
}

Test(faults_deaths, server) {
    struct process_job job;
    struct control *control = NULL;
    char text[512];
    process_job(&job, 2, 30, 0);
    pid_t server = process_server(&job), other = process_rank(&job, 1, PROCESS_WAITS);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    process_kill(server);
    cr_assert_eq(await_loss(control), CONTROL_SERVER);
    control_lost_text(control, text, sizeof text);
    cr_assert(strstr(text, job.address), "%s", text);
    cr_assert_eq(process_end(other, NEWS_MS), 4, "no orphan goes on waiting");
    control_leave(&control);
}

Test(faults_deaths, server_while_joining) {
    struct process_job job;
    process_job(&job, 2, 30, 0);
    pid_t server = process_server(&job), rank = process_rank(&job, 1, PROCESS_WAITS);
    process_sleep_ms(500);
    process_kill(server);
    cr_assert_eq(process_end(rank, NEWS_MS), 4);
}

Test(faults_deaths, stopped_rank_is_silent_then_turned_out) {
    struct process_job job;
    struct control_server *server = NULL;
    struct control *control = NULL;
    char text[512];
    process_job(&job, 2, 30, 2);
    pid_t pid = process_rank(&job, 1, PROCESS_WAITS);
    struct control_server_config server_config = process_server_config(&job);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    kill(pid, SIGSTOP);
    cr_assert_eq(await_loss(control), 1);
    control_lost_text(control, text, sizeof text);
    cr_assert(strstr(text, "silent for"), "%s", text);
    kill(pid, SIGCONT);
    cr_assert_eq(process_end(pid, NEWS_MS), 4, "it learns that it was given up");
    control_leave(&control);
    control_server_stop(&server);
}

/* Whoever is out of reach is named as such, on both sides: a whole host, with its ranks. */
Test(faults_deaths, host_out_of_reach) {
    struct process_job job;
    struct control_server *server = NULL;
    struct control *control = NULL;
    pid_t pid[2];
    char text[512];
    process_job(&job, 3, 30, 8); /* beats of a busy machine are late by less than a fifth of that */
    job.host = "there";
    for (int i = 0; i < 2; i++) pid[i] = process_rank(&job, 1 + i, PROCESS_WAITS);
    job.host = NULL;
    struct control_server_config server_config = process_server_config(&job);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    for (int i = 0; i < 2; i++) kill(pid[i], SIGSTOP);
    while (control_lost(control) == CONTROL_NOBODY) process_sleep_ms(20);
    control_lost_text(control, text, sizeof text);
    cr_assert(strstr(text, "all of host there is out of reach: ranks 1-2"), "%s", text);
    for (int i = 0; i < 2; i++) process_kill(pid[i]);
    control_leave(&control);
    control_server_stop(&server);
}

Test(faults_deaths, servers_host_out_of_reach) {
    struct process_job job;
    struct control *control = NULL;
    char text[512], host[64] = "", wanted[128];
    process_job(&job, 1, 30, 2);
    pid_t server = process_server(&job);
    struct control_config config = process_rank_config(&job, 0);
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    kill(server, SIGSTOP);
    while (control_lost(control) == CONTROL_NOBODY) process_sleep_ms(20);
    control_lost_text(control, text, sizeof text);
    gethostname(host, sizeof host - 1);
    snprintf(wanted, sizeof wanted, "host %s is out of reach: the control server there", host);
    cr_assert(strstr(text, wanted), "%s", text);
    process_kill(server);
    control_leave(&control);
}

/* A rank whose server is a process of this machine sees that it is stopped, not gone: three times
 * the limit of silence later nothing is lost, and all goes on when it does. */
Test(faults_deaths, stopped_launcher_is_not_lost) {
    struct process_job job;
    struct control *control = NULL;
    process_job(&job, 1, 30, 2);
    pid_t server = process_server(&job);
    struct control_config config = process_rank_config(&job, 0);
    config.server_pid = server;
    cr_assert_eq(control_join(&config, &control), STATUS_OK);
    kill(server, SIGSTOP);
    for (int64_t begin = clock_ns(); clock_ns() - begin < 6000000000; process_sleep_ms(20))
        cr_assert_eq(control_lost(control), CONTROL_NOBODY);
    kill(server, SIGCONT);
    cr_assert_eq(control_put(control, "word", "x", 1), STATUS_OK);
    process_kill(server);
    control_leave(&control);
}

/* Ctrl-Z and fg: everybody was paused for longer than the limit, so nobody is to blame. */
Test(faults_deaths, all_stopped_together) {
    struct process_job job;
    process_job(&job, 2, 30, 2);
    pid_t pid[3] = {process_server(&job), process_rank(&job, 0, PROCESS_WATCHES),
                    process_rank(&job, 1, PROCESS_WATCHES)};
    process_sleep_ms(1500);
    for (int i = 0; i < 3; i++) kill(pid[i], SIGSTOP);
    process_sleep_ms(4000);
    for (int i = 2; i >= 0; i--) kill(pid[i], SIGCONT);
    cr_assert_eq(process_end(pid[1], 20000), 0);
    cr_assert_eq(process_end(pid[2], 20000), 0);
    process_kill(pid[0]);
}

/* Many ranks and busy loops on few cores: a rank that has to wait for its turn is not lost. */
Test(faults_deaths, no_false_alarm_when_crowded) {
    enum { RANKS = 32, LOOPS = 8 };
    struct process_job job;
    pid_t rank[RANKS], loop[LOOPS];
    process_job(&job, RANKS, 60, 0);
    for (int i = 0; i < LOOPS; i++) {
        loop[i] = fork();
        if (loop[i] == 0)
            for (volatile unsigned spin = 0;; spin++) continue;
    }
    pid_t server = process_server(&job);
    for (int i = 0; i < RANKS; i++) rank[i] = process_rank(&job, i, PROCESS_WATCHES);
    for (int i = 0; i < RANKS; i++) cr_expect_eq(process_end(rank[i], 60000), 0, "rank %d", i);
    for (int i = 0; i < LOOPS; i++) process_kill(loop[i]);
    process_kill(server);
}
