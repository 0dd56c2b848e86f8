/* Ranks that do not fit together: each ends with the same message, which names both sides. The
 * last rank is in this process, where its words can be read; the others are processes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "process.h"

static char said[4096];

static enum status join_here(struct control_config config) {
    struct control *control = NULL;
    log_capture(said, sizeof said);
    enum status status = control_join(&config, &control);
    log_capture(NULL, 0);
    control_leave(&control);
    return status;
}

static void assert_says(const char *const *words, int count) {
    for (int i = 0; i < count; i++)
        cr_assert(strstr(said, words[i]), "%s\nnot in: %s", words[i], said);
    int lines = 0;
    for (const char *at = said; *at; at++) lines += *at == '\n';
    cr_assert_leq(lines, 3, "%s", said);
}
#define SAYS(...)                                                                                  \
    assert_says((const char *const[]){__VA_ARGS__},                                                \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static pid_t rank_with_fact(const struct process_job *job, int rank, struct control_fact fact) {
    pid_t pid = fork();
    if (pid != 0) return pid;
    struct control_config config = process_rank_config(job, rank);
    struct control *control = NULL;
    config.facts = &fact;
    config.fact_count = 1;
    enum status status = control_join(&config, &control);
    if (status == STATUS_OK && control_same_bits(control)) status = STATUS_NO;
    control_leave(&control);
    _exit(status_exit_code(status));
}

static void disagree(struct control_fact usual, struct control_fact odd, enum status expected) {
    struct process_job job;
    struct control_server *server = NULL;
    pid_t pid[2];
    process_job(&job, 3, 30, 0);
    for (int i = 0; i < 2; i++) pid[i] = rank_with_fact(&job, i, usual);
    struct control_server_config server_config = process_server_config(&job);
    struct control_config config = process_rank_config(&job, 2);
    config.facts = &odd;
    config.fact_count = odd.key ? 1 : 0;
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    cr_assert_eq(join_here(config), expected);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(process_end(pid[i], 10000), status_exit_code(expected));
    control_server_stop(&server);
}

Test(faults_agreement, each_kind_of_fact) {
    static const char *const kinds[][3] = {
        {"protocol", "1", "2"},           {"operations", "9f3a", "77e0"},
        {"model", "resnet8", "resnet20"}, {"option lr", "0.1", "0.2"},
        {"data", "c0ffee", "decade"},     {"plan", "aa", "bb"},
    };
    for (int i = 0; i < 6; i++) {
        struct control_fact usual = {kinds[i][0], kinds[i][1], true};
        struct control_fact odd = {kinds[i][0], kinds[i][2], true};
        disagree(usual, odd, STATUS_USAGE);
        SAYS(kinds[i][0], kinds[i][1], kinds[i][2], "rank 2 has", "ranks 0-1 have");
    }
}

Test(faults_agreement, missing_fact) {
    disagree((struct control_fact){"model", "mlp", true}, (struct control_fact){0}, STATUS_USAGE);
    SAYS("model", "mlp", "rank 2 has nothing");
}

Test(faults_agreement, soft_fact_switches_bit_equality_off) {
    disagree((struct control_fact){"compiler", "gcc 12", false},
             (struct control_fact){"compiler", "gcc 14", false}, STATUS_OK);
}

/* One rank alone meets the server; `others` processes wait and must not be disturbed, or must end
 * with `their_code`. */
static void odd_one(struct control_config config, struct process_job *job, int others,
                    enum status expected, int their_code) {
    struct control_server *server = NULL;
    pid_t pid[8];
    for (int i = 0; i < others; i++) pid[i] = process_rank(job, i, PROCESS_LEAVES);
    struct control_server_config server_config = process_server_config(job);
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    char text[64];
    for (int i = 0; i < others; i++)
        while (strcmp(control_server_doing(server, i, text, sizeof text), "not joined yet") == 0)
            process_sleep_ms(5);
    cr_assert_eq(join_here(config), expected);
    for (int i = 0; i < others && their_code >= 0; i++)
        cr_assert_eq(process_end(pid[i], 10000), their_code);
    for (int i = 0; i < others && their_code < 0; i++) process_kill(pid[i]);
    control_server_stop(&server);
}

Test(faults_agreement, duplicate_rank) {
    struct process_job job;
    process_job(&job, 2, 30, 0);
    struct control_config config = process_rank_config(&job, 0);
    odd_one(config, &job, 1, STATUS_USAGE, -1);
    SAYS("rank 0 is taken by process", "this is process");
}

Test(faults_agreement, duplicate_rank_of_a_running_job) {
    struct process_job job;
    struct control_server *server = NULL;
    process_job(&job, 2, 30, 0);
    pid_t pid[2] = {process_rank(&job, 0, PROCESS_WATCHES), process_rank(&job, 1, PROCESS_WATCHES)};
    struct control_server_config server_config = process_server_config(&job);
    cr_assert_eq(control_server_start(&server_config, &server), STATUS_OK);
    process_sleep_ms(1000);
    cr_assert_eq(join_here(process_rank_config(&job, 1)), STATUS_USAGE);
    for (int i = 0; i < 2; i++) cr_assert_eq(process_end(pid[i], 20000), 0, "undisturbed");
    control_server_stop(&server);
}

Test(faults_agreement, rank_outside_world) {
    struct process_job job;
    process_job(&job, 2, 30, 0);
    odd_one(process_rank_config(&job, 7), &job, 1, STATUS_USAGE, -1);
    SAYS("rank 7", "world of 2 ranks");
}

Test(faults_agreement, other_world) {
    struct process_job job;
    process_job(&job, 8, 30, 0);
    struct control_config config = process_rank_config(&job, 2);
    config.world = 4;
    odd_one(config, &job, 2, STATUS_USAGE, 2);
    SAYS("rank 2", "a world of 4 ranks", "server for 8");
}

Test(faults_agreement, other_start) {
    struct process_job job;
    process_job(&job, 2, 30, 0);
    job.epoch = 3;
    struct control_config config = process_rank_config(&job, 1);
    config.epoch = 2;
    odd_one(config, &job, 1, STATUS_USAGE, -1);
    SAYS("start 2", "start 3");
}

Test(faults_agreement, missing_ranks) {
    struct process_job job;
    process_job(&job, 6, 1, 0);
    odd_one(process_rank_config(&job, 2), &job, 1, STATUS_PEER, 4);
    SAYS("ranks 1 and 3-5 did not join", "2 of 6 joined");
}

Test(faults_agreement, no_server) {
    struct process_job job;
    process_job(&job, 2, 0.3, 0);
    cr_assert_eq(join_here(process_rank_config(&job, 1)), STATUS_PEER);
    SAYS("nothing listens at", job.address);
}
