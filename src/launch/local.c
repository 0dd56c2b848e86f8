/* See local.h. */
#include "launch/local.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/child.h"
#include "launch/layout.h"
#include "launch/network.h"
#include "launch/ranks.h"
#include "launch/rendezvous.h"

enum { GRACE_S = 30, KILL_S = 5 };

/* A rank that the server gave up, for the launcher's thread. */
struct given_up {
    struct given_up *next;
    int rank;
    char why[96];
};

/* One start of all ranks. */
struct start {
    const struct launch_layout *layout;
    struct control_status_table status_table; /* what the ranks here are doing */
    struct launch_rendezvous rendezvous;
    pthread_mutex_t lock;
    struct given_up *given_up; /* newest first */
    int given_up_event;        /* eventfd: there is one */
};

static void tell_ended(void *context, int rank, const char *why) {
    struct start *start = context;
    if (start->rendezvous.server) control_server_rank_ended(start->rendezvous.server, rank, why);
}

static const char *ask_doing(void *context, int rank, char *text, size_t bytes) {
    struct start *start = context;
    struct control_doing doing;
    control_row_get(&start->status_table.row[rank - start->layout->first_rank], &doing);
    return control_doing_text(&doing, text, bytes);
}

static int ask_cause(void *context, int rank) {
    struct start *start = context;
    int blamed = control_row_blamed(&start->status_table.row[rank - start->layout->first_rank]);
    if (blamed == CONTROL_NOBODY) return rank;
    return blamed >= 0 && blamed < start->layout->world ? blamed : RANKS_ANOTHER;
}

/* From the server's thread. */
static void note_given_up(void *context, int rank, const char *why) {
    struct start *start = context;
    struct given_up *one = MEM_NEW(struct given_up);
    uint64_t count = 1;
    one->rank = rank;
    snprintf(one->why, sizeof one->why, "%.95s", why);
    pthread_mutex_lock(&start->lock);
    one->next = start->given_up;
    start->given_up = one;
    pthread_mutex_unlock(&start->lock);
    ssize_t written = write(start->given_up_event, &count, sizeof count);
    (void)written; /* full means it is readable */
}

static bool take_given_up(void *context, int *rank, char *why, size_t bytes) {
    struct start *start = context;
    uint64_t count;
    ssize_t got = read(start->given_up_event, &count, sizeof count);
    (void)got; /* it may be read already */
    pthread_mutex_lock(&start->lock);
    struct given_up **oldest = &start->given_up;
    while (*oldest && (*oldest)->next) oldest = &(*oldest)->next;
    struct given_up *one = *oldest;
    *oldest = NULL;
    pthread_mutex_unlock(&start->lock);
    if (!one) return false;
    *rank = one->rank;
    snprintf(why, bytes, "%s", one->why);
    free(one);
    return true;
}

/* The server knows all ranks; a launcher without it knows its own. */
static void report(void *context) {
    struct start *start = context;
    if (start->rendezvous.server) {
        control_server_print_all(start->rendezvous.server);
        return;
    }
    for (int i = 0; i < start->layout->count; i++) {
        char text[CONTROL_DOING_BYTES + 32];
        int rank = start->layout->first_rank + i;
        ask_doing(start, rank, text, sizeof text);
        log_answer("rank %d is at %s", rank, *text ? text : "its start");
    }
}

static enum status run_ranks(const struct launch_local_config *config, int attempt,
                             struct start *start, struct ranks_outcome *out) {
    bool again = attempt > 0;
    const struct launch_layout *layout = start->layout;
    struct ranks_config ranks = {.program = config->program,
                                 .isa = config->isa,
                                 .argv = again && config->restart_argv ? config->restart_argv
                                                                       : config->argv,
                                 .count = layout->count,
                                 .first_rank = layout->first_rank,
                                 .world = layout->world,
                                 .node = layout->node,
                                 .nodes = layout->nodes,
                                 .threads = config->threads,
                                 .attempt = attempt,
                                 .address = start->rendezvous.address,
                                 .status_table = start->status_table.fd,
                                 .log_folder = config->log_folder,
                                 .append_logs = config->append_logs || again,
                                 .answers = config->answers,
                                 .grace_s = config->grace_s > 0 ? config->grace_s : GRACE_S,
                                 .kill_s = KILL_S,
                                 .context = start,
                                 .ended = tell_ended,
                                 .doing = ask_doing,
                                 .report = report,
                                 .cause = ask_cause,
                                 .given_up_event = start->given_up_event,
                                 .given_up = take_given_up};
    TRY(control_secret_share(&start->rendezvous.secret, &ranks.secret));
    enum status status = ranks_run(&ranks, out);
    close(ranks.secret);
    return status;
}

static enum status open_and_run(const struct launch_local_config *config, int attempt,
                                struct start *start, struct ranks_outcome *out) {
    const struct launch_layout *layout = start->layout;
    struct launch_config where = *config->launch;
    struct launch_peers peers;
    launch_peers_of_node(layout, &peers);
    peers.epoch = (uint32_t)attempt;
    peers.status_table = &start->status_table;
    peers.status_table_first = layout->first_rank;
    peers.context = start;
    peers.given_up = note_given_up;
    where.init = layout->nodes > 1 ? layout->init : NULL;
    TRY(launch_rendezvous_open(&where, &peers, config->join_limit_s, &start->rendezvous));
    enum status status = run_ranks(config, attempt, start, out);
    launch_rendezvous_close(&start->rendezvous);
    return status;
}

/* A start has a server, a secret, a status table and an epoch of its own: what is left of an
 * earlier one cannot disturb it. */
static enum status run_once(const struct launch_local_config *config,
                            const struct launch_layout *layout, int attempt,
                            struct ranks_outcome *out) {
    struct start start = {.layout = layout, .lock = PTHREAD_MUTEX_INITIALIZER};
    char why[1];
    int rank;
    start.given_up_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (start.given_up_event < 0) return child_fail_limit("a descriptor for lost ranks", errno);
    enum status status = control_status_table_new(layout->count, &start.status_table);
    if (status == STATUS_OK) status = open_and_run(config, attempt, &start, out);
    control_status_table_close(&start.status_table);
    while (take_given_up(&start, &rank, why, sizeof why)) continue; /* came too late */
    close(start.given_up_event);
    return status;
}

/* A stop that was asked for after a loss takes the place of the next start. */
static bool starts_again(const struct launch_local_config *config, int attempt,
                         struct ranks_outcome *outcome) {
    if (!outcome->worth_another || attempt >= config->restarts) return false;
    if (outcome->stopped_by) outcome->exit_code = 128 + outcome->stopped_by;
    return !outcome->stopped_by;
}

static enum status run_all(const struct launch_local_config *config, int *exit_code) {
    struct launch_layout layout;
    struct ranks_outcome outcome;
    TRY(launch_layout(config->launch, network_is_here, &layout));
    if (config->log_folder) TRY(folder_make(config->log_folder));
    for (int attempt = 0;; attempt++) {
        TRY(run_once(config, &layout, attempt, &outcome));
        if (!starts_again(config, attempt, &outcome)) break;
        log_warning("all ranks start again, %d of %d times", attempt + 1, config->restarts);
    }
    *exit_code = outcome.exit_code;
    return STATUS_OK;
}

int launch_local(const struct launch_local_config *config) {
    int exit_code;
    enum status status = run_all(config, &exit_code);
    return status == STATUS_OK ? exit_code : status_exit_code(status);
}

/* ---- arguments ---- */

/* All of a file that has no size of its own. */
static char *read_proc(const char *path, size_t *count) {
    size_t capacity = 0, got;
    char *text = NULL;
    FILE *file = fopen(path, "re");
    *count = 0;
    do {
        text = mem_grow(text, &capacity, *count + 4096, 1);
        got = file ? fread(text + *count, 1, 4095, file) : 0;
        *count += got;
    } while (got > 0);
    if (file) fclose(file);
    text[*count] = 0;
    return text;
}

enum status launch_arguments(char ***out) {
    size_t bytes, count = 0, at = 0;
    char *text = read_proc("/proc/self/cmdline", &bytes);
    for (size_t i = 0; i < bytes; i++) count += text[i] == 0;
    char **argv = MEM_ARRAY(char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        argv[i] = mem_text(text + at);
        at += strlen(text + at) + 1;
    }
    free(text);
    if (count == 0) {
        launch_arguments_free(argv);
        return fail(STATUS_DATA, "/proc/self/cmdline cannot be read: is /proc mounted?");
    }
    *out = argv;
    return STATUS_OK;
}

char **launch_arguments_with(char *const *argv, const char *const *more) {
    size_t count = 0, extra = 0;
    while (argv[count]) count++;
    while (more[extra]) extra++;
    char **out = MEM_ARRAY(char *, count + extra + 1);
    for (size_t i = 0; i < count; i++) out[i] = mem_text(argv[i]);
    for (size_t i = 0; i < extra; i++) out[count + i] = mem_text(more[i]);
    return out;
}

void launch_arguments_free(char **argv) {
    for (int i = 0; argv && argv[i]; i++) free(argv[i]);
    free(argv);
}
