/* The launcher of local ranks, with small shell scripts as ranks. */
#include <criterion/criterion.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "launch/output.h"
#include "launch/ranks.h"

static char folder[] = "/tmp/stretto-ranks-XXXXXX";

static void make_folder(void) {
    cr_assert(mkdtemp(folder));
}

static void remove_folder(void) {
    folder_remove(folder);
}

TestSuite(launch_ranks, .init = make_folder, .fini = remove_folder);

static char *text_of(const char *name) {
    char *path = mem_format("%s/%s", folder, name);
    struct bytes bytes = {0};
    if (file_exists(path)) cr_assert_eq(file_read(path, 1 << 24, &bytes), STATUS_OK);
    free(path);
    return bytes.data ? (char *)bytes.data : mem_text("");
}

static bool file_says(const char *name, const char *words) {
    char *text = text_of(name);
    bool says = strstr(text, words);
    if (!says) fprintf(stderr, "%s does not say \"%s\" but:\n%s\n", name, words, text);
    free(text);
    return says;
}

/* Runs `script` as every rank; standard output and error of the launcher go to files "out" and
 * "err". */
static struct ranks_outcome run(struct ranks_config config, const char *script) {
    char *const argv[] = {"sh", "-c", (char *)script, NULL};
    struct ranks_outcome outcome = {.exit_code = -1};
    int saved[2];
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/%s", folder, i ? "err" : "out");
        int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        saved[i] = dup(i + 1);
        dup2(fd, i + 1);
        close(fd);
        free(path);
    }
    setenv("DIR", folder, 1);
    config.program = "/bin/sh";
    config.argv = argv;
    if (!config.world) config.world = config.count;
    if (!config.nodes) config.nodes = 1;
    if (!config.log_folder) config.log_folder = folder;
    if (config.secret == 0) config.secret = -1;
    config.status_table = -1;
    enum status status = ranks_run(&config, &outcome);
    fflush(NULL);
    for (int i = 0; i < 2; i++) dup2(saved[i], i + 1), close(saved[i]);
    if (status != STATUS_OK) outcome.exit_code = -(int)status;
    return outcome;
}

static const struct ranks_config defaults = {.count = 2, .grace_s = 30, .kill_s = 5};

Test(launch_ranks, each_rank_knows_its_identity) {
    struct ranks_config config = {.count = 3,
                                  .first_rank = 4,
                                  .world = 9,
                                  .node = 1,
                                  .nodes = 3,
                                  .threads = 2,
                                  .attempt = 1,
                                  .address = "ipc://@x"};
    struct ranks_outcome outcome =
        run(config, "echo $STRETTO_RANK/$STRETTO_WORLD $STRETTO_LOCAL_RANK/$STRETTO_LOCAL_WORLD "
                    "$STRETTO_NODE/$STRETTO_NODES $STRETTO_THREADS $OMP_NUM_THREADS $OMP_DYNAMIC "
                    "$STRETTO_ATTEMPT $STRETTO_CONTROL");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(outcome.rank, -1);
    cr_expect(file_says("out", "[rank 4] 4/9 0/3 1/3 2 2 false 1 ipc://@x\n"));
    cr_expect(file_says("out", "[rank 6] 6/9 2/3 1/3 2 2 false 1 ipc://@x\n"));
}

Test(launch_ranks, the_secret_is_inherited_and_named_nowhere) {
    struct ranks_config config = defaults;
    config.secret = memfd_create("secret", MFD_CLOEXEC);
    cr_assert_eq(write(config.secret, "hush", 4), 4);
    struct ranks_outcome outcome =
        run(config, "head -c 4 /proc/self/fd/$STRETTO_SECRET_FD; echo; "
                    "env | grep hu[s]h; tr '\\0' ' ' </proc/$$/cmdline | grep -c hu[s]h; exit 0");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect(file_says("rank-0.log", "hush\n0\n"));
    cr_expect(file_says("rank-1.log", "hush\n0\n"));
}

Test(launch_ranks, ranks_inherit_nothing_else) {
    /* Without close-on-exec, and where no pipe of the shell itself will be. */
    int stray = fcntl(STDIN_FILENO, F_DUPFD, 200);
    cr_assert(stray >= 200);
    char *script = mem_format("ls -l /proc/$$/fd | grep -c -e ' %d ->'; exit 0", stray);
    struct ranks_outcome outcome = run(defaults, script);
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect(file_says("rank-1.log", "\n0\n"));
    free(script);
}

Test(launch_ranks, output_is_one_display_with_tags_and_logs) {
    struct ranks_outcome outcome =
        run(defaults, "echo line of $STRETTO_RANK; printf 'no end'; echo same words >&2; "
                      "echo own words of $STRETTO_RANK >&2");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect(file_says("out", "line of 0\n"));
    cr_expect(file_says("out", "\nno end\n"));
    cr_expect(file_says("out", "[rank 1] no end\n"));
    cr_expect(file_says("out", "[rank 1] line of 1\n"));
    char *out = text_of("out");
    cr_expect(!strstr(out, "[rank 0]"));
    free(out);
    cr_expect(file_says("err", "[ranks 0-1] same words\n"));
    cr_expect(file_says("err", "[rank 1] own words of 1\n"));
    for (int rank = 0; rank < 2; rank++) {
        char *name = mem_format("rank-%d.log", rank), *head = mem_format("rank %d pid ", rank),
             *text = text_of(name), *line = mem_format("line of %d\n", rank);
        cr_expect(strncmp(text, head, strlen(head)) == 0 && strstr(text, " host "), "%s", text);
        cr_expect(strstr(text, line) && strstr(text, "no end\n") && strstr(text, "same words\n"));
        free(name), free(head), free(text), free(line);
    }
}

Test(launch_ranks, logs_keep_what_a_bar_left_standing) {
    run(defaults,
        "printf 'step 1\\033[K\\rstep 2\\033[K\\rdone\\n'; printf 'bar\\r\\033[K'; echo last");
    cr_expect(file_says("rank-0.log", "\ndone\n"));
    char *text = text_of("rank-0.log");
    cr_expect(!strstr(text, "step 1") && !strstr(text, "bar"));
    free(text);
}

Test(launch_ranks, long_lines_are_broken_and_nothing_is_lost) {
    run(defaults, "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end");
    char *text = text_of("rank-1.log");
    int count = 0;
    for (const char *at = strchr(text, '\n'); *at; at++) count += *at == 'x';
    cr_expect_eq(count, 100000);
    cr_expect(strstr(text, "\nend\n"));
    free(text);
}

Test(launch_ranks, the_first_failure_gives_the_exit_code) {
    struct ranks_config config = defaults;
    config.grace_s = 0.2, config.kill_s = 0.2;
    /* Rank 0 hears nothing, and ignores SIGTERM as well. */
    struct ranks_outcome outcome =
        run(config, "test $STRETTO_RANK = 1 && exit 3; trap '' TERM; while :; do sleep 0.05; done");
    cr_expect_eq(outcome.exit_code, 3);
    cr_expect_eq(outcome.rank, 1);
    cr_expect(!outcome.worth_another);
    cr_expect(file_says("err", "error: rank 1 ended: exit code 3"));
    cr_expect(file_says("err", "rank-1.log"));
    cr_expect(file_says("err", "rank 0 still runs: asked to end"));
    cr_expect(file_says("err", "rank 0 still runs: killed"));
}

struct end_seen {
    int rank;
    char why[128];
};

static void note_end(void *context, int rank, const char *why) {
    struct end_seen *seen = context;
    if (seen->why[0]) return;
    seen->rank = rank;
    snprintf(seen->why, sizeof seen->why, "%s", why);
}

static const char *note_doing(void *context, int rank, char *text, size_t bytes) {
    (void)context;
    snprintf(text, bytes, "step %d #17 B", 10 + rank);
    return text;
}

Test(launch_ranks, a_killed_rank_is_a_lost_peer_with_an_exit_report) {
    struct ranks_config config = defaults;
    struct end_seen seen = {0};
    config.count = 3, config.context = &seen, config.ended = note_end, config.doing = note_doing;
    /* The others end with 4 as soon as they see it, as ranks do. */
    struct ranks_outcome outcome = run(
        config,
        "echo $$ >$DIR/pid-$STRETTO_RANK.new; mv $DIR/pid-$STRETTO_RANK.new $DIR/pid-$STRETTO_RANK;"
        "test $STRETTO_RANK = 0 && { until kill -9 $(cat $DIR/pid-2 2>/dev/null) 2>/dev/null; do "
        "sleep 0.02; done; };"
        "test $STRETTO_RANK = 2 || { while kill -0 $(cat $DIR/pid-2 2>/dev/null || echo 1); do "
        "sleep 0.02; done; exit 4; };"
        "sleep 60");
    cr_expect_eq(outcome.exit_code, 4);
    cr_expect_eq(outcome.rank, 2);
    cr_expect(outcome.worth_another);
    cr_expect_eq(seen.rank, 2);
    cr_expect(strstr(seen.why, "killed by signal 9"), "%s", seen.why);
    cr_expect(
        file_says("err", "rank 2 ended: killed by signal 9 (Killed), last at step 12 #17 B\n"));
}

Test(launch_ranks, an_own_fault_is_a_bug) {
    struct ranks_config config = defaults;
    config.count = 1;
    struct ranks_outcome outcome = run(config, "kill -SEGV $$");
    cr_expect_eq(outcome.exit_code, 7);
    cr_expect(outcome.worth_another);
}

Test(launch_ranks, four_alone_is_named_and_worth_another_try) {
    struct ranks_outcome outcome = run(defaults, "exit 4");
    cr_expect_eq(outcome.exit_code, 4);
    cr_expect(outcome.worth_another);
    cr_expect(file_says("err", "ended: a peer was lost"));
}

/* A child signals the launcher when both ranks say that they are ready. */
static void signal_when_ready(int signal, int times) {
    pid_t launcher = getpid();
    if (fork()) return;
    for (int i = 0; i < 2; i++) {
        char *path = mem_format("%s/ready-%d", folder, i);
        while (!file_exists(path)) usleep(5000);
    }
    for (int i = 0; i < times; i++) {
        kill(launcher, signal);
        usleep(200000);
    }
    _exit(0);
}

Test(launch_ranks, signals_reach_every_rank_once) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (int i = 0; i < 3; i++) {
        signal(signals[i], SIG_DFL); /* a job in the background begins with some of them ignored */
        char *script = mem_format(
            "n=0; trap 'n=$((n+1)); echo trapped $n >>$DIR/seen-%d; sleep 0.3; exit %d' %d;"
            ">$DIR/ready-$STRETTO_RANK; while :; do sleep 0.05; done",
            i, 128 + signals[i], signals[i]);
        char *seen = mem_format("seen-%d", i);
        for (int rank = 0; rank < 2; rank++) {
            char *path = mem_format("%s/ready-%d", folder, rank);
            unlink(path);
            free(path);
        }
        signal_when_ready(signals[i], 1);
        struct ranks_outcome outcome = run(defaults, script);
        cr_expect_eq(outcome.exit_code, 128 + signals[i]);
        cr_expect_eq(outcome.stopped_by, signals[i]);
        cr_expect(!outcome.worth_another);
        char *text = text_of(seen);
        cr_expect_str_eq(text, "trapped 1\ntrapped 1\n");
        free(text), free(seen), free(script);
    }
}

Test(launch_ranks, user_signals_pass_and_do_not_stop) {
    signal_when_ready(SIGUSR1, 1);
    struct ranks_outcome outcome =
        run(defaults, "trap 'echo state of $STRETTO_RANK; exit 0' USR1; >$DIR/ready-$STRETTO_RANK;"
                      "while :; do sleep 0.05; done");
    cr_expect_eq(outcome.exit_code, 0);
    cr_expect_eq(outcome.stopped_by, 0);
    cr_expect(file_says("rank-1.log", "state of 1"));
}

Test(launch_ranks, a_second_signal_kills) {
    signal_when_ready(SIGTERM, 2);
    struct ranks_outcome outcome =
        run(defaults, "trap '' TERM; >$DIR/ready-$STRETTO_RANK; while :; do sleep 0.05; done");
    cr_expect_eq(outcome.exit_code, 128 + SIGTERM);
    cr_expect(!outcome.worth_another);
}

Test(launch_ranks, no_orphan_when_the_launcher_is_killed) {
    for (int round = 0; round < 5; round++) {
        int life[2];
        cr_assert_eq(pipe(life), 0);
        pid_t launcher = fork();
        if (launcher == 0) {
            /* Ranks inherit nothing but 1 and 2: the write end travels as the launcher's own error
             * stream. */
            close(life[0]);
            dup2(life[1], 2);
            struct ranks_config config = defaults;
            char *const argv[] = {"sh", "-c", "echo $$ >$DIR/orphan-$STRETTO_RANK; sleep 600",
                                  NULL};
            setenv("DIR", folder, 1);
            config.count = 4, config.world = 4, config.nodes = 1, config.secret = -1;
            config.program = "/bin/sh", config.argv = argv;
            struct ranks_outcome outcome;
            ranks_run(&config, &outcome);
            _exit(0);
        }
        close(life[1]);
        usleep((useconds_t)(round * 7000)); /* also inside the time of starting */
        kill(launcher, SIGKILL);
        waitpid(launcher, NULL, 0);
        close(life[0]);
        bool gone = false;
        int64_t limit = clock_ns() + INT64_C(20000000000);
        while (!gone && clock_ns() < limit) {
            gone = true;
            for (int rank = 0; rank < 4; rank++) {
                char *name = mem_format("orphan-%d", rank), *text = text_of(name);
                int pid = (int)strtol(text, NULL, 10);
                if (pid > 0 && kill(pid, 0) == 0) gone = false;
                free(name), free(text);
            }
            if (!gone) usleep(10000);
        }
        cr_expect(gone);
    }
}

Test(launch_ranks, limits_are_named) {
    struct rlimit few = {24, 24};
    struct ranks_config config = defaults;
    config.count = 16;
    setrlimit(RLIMIT_NOFILE, &few);
    struct ranks_outcome outcome = run(config, "sleep 60");
    cr_expect_eq(outcome.exit_code, -(int)STATUS_USAGE);
    cr_expect(file_says("err", "the limit of open files is 24"));
}

Test(launch_ranks, a_program_that_is_not_there) {
    struct ranks_config config = defaults;
    char *const argv[] = {"x", NULL};
    struct ranks_outcome outcome;
    config.program = "/nonexistent", config.argv = argv, config.world = 2, config.nodes = 1;
    config.secret = -1;
    cr_expect_eq(ranks_run(&config, &outcome), STATUS_DATA);
}

Test(launch_ranks, hostile_arguments_stay_arguments) {
    char *const argv[] = {"sh",        "-c",        "printf '%s|' \"$@\"",
                          "x",         "; touch x", "$(touch x)",
                          "`touch x`", "a\nb",      NULL};
    struct ranks_config config = defaults;
    struct ranks_outcome outcome;
    config.program = "/bin/sh", config.argv = argv, config.world = 2, config.nodes = 1;
    config.secret = -1, config.log_folder = folder;
    cr_expect_eq(ranks_run(&config, &outcome), STATUS_OK);
    cr_expect(file_says("rank-1.log", "; touch x|$(touch x)|`touch x`|a\nb|"));
    cr_expect(!file_exists("x"));
}

Test(launch_ranks, texts_of_ranks) {
    char text[96];
    static const int ranks[] = {0, 1, 2, 5, 7, 8};
    cr_expect_str_eq(output_ranks_text(ranks, 6, text, sizeof text), "0-2,5,7-8");
    cr_expect_str_eq(output_ranks_text(ranks, 1, text, sizeof text), "0");
    cr_expect_str_eq(output_ranks_text(ranks, 0, text, sizeof text), "");
}

/* Rank 0 goes on when the launcher has seen the end of rank 1. */
static void let_rank_0_go(void *context, int rank, const char *why) {
    char *path = mem_format("%s/go", (const char *)context);
    (void)rank, (void)why;
    close(open(path, O_WRONLY | O_CREAT, 0600));
    free(path);
}

Test(launch_ranks, a_refusal_is_told_once, .timeout = 100) {
    struct ranks_config config = defaults;
    config.context = folder;
    config.ended = let_rank_0_go;
    struct ranks_outcome outcome =
        run(config, "[ $STRETTO_RANK = 1 ] || until [ -e $DIR/go ]; do sleep 0.01; done; "
                    "echo too much >&2; echo for it >&2; exit 5");
    cr_expect_eq(outcome.exit_code, 5);
    char *text = text_of("err");
    cr_expect_str_eq(text, "[rank 1] too much\n[rank 1] for it\n");
    free(text);
    cr_expect(file_says("rank-0.log", "too much"));
}

/* --- who caused it --- */

/* Rank 0 blames rank 1, which ends only then. */
static int blame_rank_1(void *context, int rank) {
    char *path = mem_format("%s/go", (const char *)context);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    free(path);
    return rank == 0 ? 1 : rank;
}

Test(launch_ranks, a_failure_is_the_rank_s_that_caused_it, .timeout = 100) {
    struct ranks_config config = defaults;
    config.context = folder;
    config.cause = blame_rank_1;
    struct ranks_outcome outcome =
        run(config, "[ $STRETTO_RANK = 0 ] && exit 6; until [ -e $DIR/go ]; do sleep 0.01; done; "
                    "exit 6");
    cr_expect_eq(outcome.exit_code, 6);
    cr_expect_eq(outcome.rank, 1);
    cr_expect_not(outcome.worth_another);
    cr_expect(file_says("err", "error: rank 1 ended: exit code 6\n"));
}

/* One that is not of this host is blamed in words. */
static int blame_rank_7(void *context, int rank) {
    (void)context, (void)rank;
    return 7;
}

Test(launch_ranks, a_failure_elsewhere_is_named, .timeout = 100) {
    struct ranks_config config = defaults;
    config.cause = blame_rank_7;
    struct ranks_outcome outcome = run(config, "exit 3");
    cr_expect_eq(outcome.exit_code, 3);
    cr_expect(file_says("err", "ended: exit code 3, because rank 7 failed\n"));
}

/* --- ranks that stand still --- */

static bool give_up_rank_1(void *context, int *rank, char *why, size_t bytes) {
    int *left = context;
    *rank = 1;
    snprintf(why, bytes, "silent for 15 s");
    return (*left)-- > 0;
}

/* SIGTERM would not reach it, and the grace is not waited for. */
Test(launch_ranks, a_rank_given_up_is_killed_and_named, .timeout = 25) {
    struct ranks_config config = defaults;
    int left = 1;
    config.context = &left;
    config.given_up_event = eventfd(1, EFD_CLOEXEC);
    config.given_up = give_up_rank_1;
    struct ranks_outcome outcome =
        run(config, "[ $STRETTO_RANK = 0 ] && exit 4; kill -STOP $$; exit 0");
    close(config.given_up_event);
    cr_expect_eq(outcome.exit_code, 4);
    cr_expect_eq(outcome.rank, 1);
    cr_expect(outcome.worth_another);
    cr_expect(file_says("err", "error: rank 1 ended: silent for 15 s, given up and killed\n"));
}

static int lost_rank_1(void *context, int rank) {
    (void)context;
    return rank == 0 ? 1 : rank;
}

/* The server that gave it up is another node's: here a rank tells of it. */
Test(launch_ranks, a_lost_rank_that_stands_still_is_killed, .timeout = 25) {
    struct ranks_config config = defaults;
    config.cause = lost_rank_1;
    struct ranks_outcome outcome =
        run(config, "if [ $STRETTO_RANK = 1 ]; then echo $$ >$DIR/pid.new; mv $DIR/pid.new "
                    "$DIR/pid; kill -STOP $$; exit 0; fi; "
                    "until grep -q '^State:.T' /proc/$(cat $DIR/pid)/status; do sleep 0.01; done; "
                    "exit 4");
    cr_expect_eq(outcome.exit_code, 4);
    cr_expect_eq(outcome.rank, 1);
    cr_expect(file_says("err", "error: rank 1 ended: it stands still, given up and killed\n"));
}
