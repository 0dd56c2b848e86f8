/* A small program that is launched as ranks are: it takes the options of group "ranks", starts
 * copies of itself where they ask for it, and as a rank joins the job, exchanges a word with all
 * others, and does what PROBE says:
 *
 *     die:R  die-once:R   rank R kills itself after joining (die-once: on the first start only)
 *     exit:R:CODE         rank R ends with that code after joining
 *     away:R              rank R never joins
 *     stay                all wait for a signal or a loss; SIGTERM, SIGINT and SIGHUP end with
 *                         128 + signal
 *     facts:R             rank R says another fact than the others
 *     cores               nothing is started: the cores that a program with the library sees
 *
 * So the launcher, the rendezvous and their failures are tested without training anything. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/machine.h"
#include "base/option.h"
#include "base/process.h"
#include "control/control.h"
#include "launch/identity.h"
#include "launch/local.h"
#include "launch/rendezvous.h"

static volatile sig_atomic_t stopped_by;

static void on_signal(int signal) {
    stopped_by = signal;
}

/* Without options_check: a probe has no strategy. */
static enum status parse(int argc, char **argv, struct options *out) {
    options_init(COMMAND_TRAIN, out);
    for (int i = argc > 1 && strcmp(argv[1], "train") == 0 ? 2 : 1; i < argc; i++) {
        enum option_id id;
        const char *name = strcmp(argv[i], "-n") == 0 ? "local-ranks" : argv[i] + 2;
        if (!option_find(name, &id)) return fail(STATUS_USAGE, "%s: unknown", argv[i]);
        bool flag = option_rows[id].type == OPTION_TYPE_FLAG;
        bool has_value = i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0;
        const char *value =
            has_value && (!flag || strcmp(argv[i + 1], "off") == 0) ? argv[++i] : "on";
        TRY(option_set(out, id, value, argv[i], OPTION_FROM_COMMAND_LINE));
    }
    return STATUS_OK;
}

static int launch(const struct options *options, const struct launch_config *config) {
    static const char *const again[] = {"--overwrite", "off", "--resume", NULL};
    char **argv;
    if (launch_arguments(&argv) != STATUS_OK) return 3;
    char **restart = launch_arguments_with(argv, again);
    struct launch_local_config local = {
        .launch = config,
        .argv = argv,
        .restart_argv = restart,
        .restarts = (int)options->restarts,
        .log_folder = option_is_set(options, OPTION_out) ? options->out : NULL,
        .grace_s = options->grace_s,
        .join_limit_s = options->join_limit_s};
    int code = launch_local(&local);
    launch_arguments_free(argv);
    launch_arguments_free(restart);
    return code;
}

/* What PROBE asks of this rank: the text after "WORD:R", or NULL. */
static const char *told(const char *word, int rank) {
    char *prefix = mem_format("%s:%d", word, rank);
    const char *probe = getenv("PROBE");
    size_t length = strlen(prefix);
    bool meant =
        probe && strncmp(probe, prefix, length) == 0 && (!probe[length] || probe[length] == ':');
    free(prefix);
    return meant ? probe + length : NULL;
}

/* Everybody's word to everybody. */
static enum status exchange(struct control *control, const struct launch_identity *identity) {
    char key[32];
    snprintf(key, sizeof key, "word-%d", identity->rank);
    TRY(control_put(control, key, identity->machine, strlen(identity->machine) + 1));
    int same = 0;
    for (int rank = 0; rank < identity->world; rank++) {
        void *value;
        size_t bytes;
        snprintf(key, sizeof key, "word-%d", rank);
        TRY(control_get(control, key, &value, &bytes));
        same += strcmp(value, identity->machine) == 0;
        free(value);
    }
    printf("rank %d of %d, local %d of %d, node %d of %d, %d on this machine, attempt %s, %s\n",
           identity->rank, identity->world, identity->local_rank, identity->local_world,
           identity->node, identity->nodes, same,
           getenv("STRETTO_ATTEMPT") ? getenv("STRETTO_ATTEMPT") : "-", identity->how);
    fflush(stdout);
    return STATUS_OK;
}

static int wait_for_loss(struct control *control, int rank) {
    char why[256];
    for (int step = 0; !stopped_by; step++) {
        control_doing(control, step, "waiting for a loss");
        if (control_lost(control) != CONTROL_NOBODY) {
            fprintf(stderr, "rank %d hears: %s\n", rank,
                    control_lost_text(control, why, sizeof why));
            return status_exit_code(STATUS_PEER);
        }
        usleep(20000);
    }
    return 128 + stopped_by;
}

static int show_terminal(int rank) {
    struct winsize size = {0};
    bool terminal = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    printf("half a bar\r\033[K");
    if (terminal)
        printf("rank %d: a terminal of %d columns\n", rank, size.ws_col);
    else
        printf("rank %d: no terminal\n", rank);
    return 0;
}

static int act(struct control *control, const struct launch_identity *identity) {
    const char *probe = getenv("PROBE"), *code = told("exit", identity->rank);
    const char *attempt = getenv("STRETTO_ATTEMPT");
    bool first = !attempt || strcmp(attempt, "0") == 0;
    if (!probe || (strncmp(probe, "die-once", 8) == 0 && !first)) return 0;
    if (told("die", identity->rank) || told("die-once", identity->rank)) {
        control_doing(control, 12, "#17 dying");
        usleep(700000); /* until that is known */
        raise(SIGKILL);
    }
    if (strcmp(probe, "terminal") == 0) return show_terminal(identity->rank);
    if (code) _exit((int)strtol(code + 1, NULL, 10));
    return wait_for_loss(control, identity->rank);
}

static enum status join(const struct options *options, const struct launch_identity *identity,
                        const struct launch_rendezvous *rendezvous,
                        const struct control_status_table *status_table, struct control **out) {
    struct control_fact fact = {"model", told("facts", identity->rank) ? "lenet" : "mlp", true};
    struct control_config config = {
        .address = rendezvous->address,
        .secret = rendezvous->secret,
        .rank = identity->rank,
        .world = identity->world,
        .epoch = rendezvous->epoch,
        .host = identity->host,
        .row = status_table->row ? &status_table->row[identity->local_rank] : NULL,
        .facts = &fact,
        .fact_count = 1,
        .join_limit_s = options->join_limit_s};
    return control_join(&config, out);
}

static int be_rank(const struct options *options, const struct launch_config *config,
                   const struct launch_identity *identity) {
    struct launch_rendezvous rendezvous = {.server = NULL};
    struct control_status_table status_table;
    struct control *control = NULL;
    if (told("away", identity->rank)) pause();
    enum status status = launch_status_table_of_rank(config, identity, &status_table);
    if (status == STATUS_OK)
        status = launch_rendezvous_of_rank(config, identity, options->join_limit_s, &rendezvous);
    if (status == STATUS_OK) status = join(options, identity, &rendezvous, &status_table, &control);
    signal(SIGTERM, on_signal); /* not before: until all have joined there is nothing to save */
    signal(SIGINT, on_signal);
    signal(SIGHUP, on_signal);
    if (status == STATUS_OK) status = exchange(control, identity);
    int code = status == STATUS_OK ? act(control, identity) : status_exit_code(status);
    control_leave(&control);
    launch_rendezvous_close(&rendezvous);
    control_status_table_close(&status_table);
    return code;
}

static int run(const struct options *options) {
    struct launch_config config;
    struct launch_identity identity;
    launch_config_of(options, &config);
    if (launch_identity(&config, &identity) != STATUS_OK) return 2;
    bool many = config.local_ranks > 1 || config.nodes > 1 || config.hostfile || config.nodes_file;
    if (identity.source == LAUNCH_ALONE && many) return launch(options, &config);
    return be_rank(options, &config, &identity);
}

int main(int argc, char **argv) {
    struct options options;
    process_fill_streams();
    const char *probe = getenv("PROBE");
    if (probe && strcmp(probe, "cores") == 0) return printf("%d\n", machine_cores("").affinity) < 0;
    int code = parse(argc, argv, &options) == STATUS_OK ? run(&options) : 2;
    options_free(&options);
    return code;
}
