/* See rank.h. The order: plan (each rank its own, alike), join the control plane and agree on what
 * all were told, open the data plane with the memory the plan wants, run. Whatever fails on one
 * rank is news to the others through the control plane. */
#include "cli/rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/explain.h"
#include "cli/folder.h"
#include "cli/session.h"
#include "comm/comm.h"
#include "control/control.h"
#include "exec/stop.h"
#include "launch/door.h"
#include "launch/network.h"

struct rank {
    const struct options *options;
    const struct launch_config *launch;
    const struct launch_place *place;
    struct launch_door door;
    struct control_board board; /* the launcher's, or none */
    struct control_row own_row; /* where there is none */
    struct control *control;
    struct comm_link link;
    struct session session;
};

/* --- the data plane's view of the control plane --- */
static enum status link_put(void *context, const char *key, const void *value, size_t bytes) {
    struct rank *rank = context;
    return control_put(rank->control, key, value, bytes);
}

static enum status link_get(void *context, const char *key, void **value, size_t *bytes) {
    struct rank *rank = context;
    return control_get(rank->control, key, value, bytes);
}

static int link_lost(void *context) {
    struct rank *rank = context;
    return control_lost(rank->control);
}

static void link_waiting(void *context, int peer, const char *what, int64_t since_ns) {
    struct rank *rank = context;
    if (stop_take_report()) control_print_all(rank->control);
    control_waiting(rank->control, peer, what, since_ns, session_wait_limit_s(&rank->session));
}

/* --- joining --- */
static uint64_t program_hash(const struct plan *plan) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    program_print(plan->program, stream);
    if (plan->last_program) program_print(plan->last_program, stream);
    fclose(stream);
    uint64_t hash = hash64(HASH64_START, text, bytes);
    free(text);
    return hash;
}

/* What ranks must agree on is what a checkpoint remembers, and the program itself. */
static int facts_of(struct rank *rank, struct control_fact *facts, char program[17]) {
    struct session *session = &rank->session;
    session_facts(session);
    int count = 0;
    for (; count < session->fact_count; count++) {
        const struct checkpoint_fact *fact = &session->facts[count];
        facts[count] = (struct control_fact){fact->key, fact->value, fact->kind != FACT_RAN_ON};
    }
    snprintf(program, 17, "%016llx", (unsigned long long)program_hash(session->job.plan));
    facts[count++] = (struct control_fact){"program", program, true};
    return count;
}

static struct control_row *row_of(struct rank *rank) {
    return rank->board.row ? &rank->board.row[rank->place->local_rank] : &rank->own_row;
}

static void print_places(void *control) {
    control_print_all(control);
}

/* On one machine our launcher, which is this process's parent, runs the control server. */
static int launcher_of(const struct launch_place *place) {
    return place->source == LAUNCH_LAUNCHER && place->nodes == 1 ? (int)getppid() : 0;
}

static enum status join(struct rank *rank) {
    struct control_fact facts[CHECKPOINT_MAX_FACTS + 1];
    char program[17];
    struct control_config config = {.address = rank->door.address,
                                    .secret = rank->door.secret,
                                    .rank = rank->place->rank,
                                    .world = rank->place->world,
                                    .epoch = rank->door.epoch,
                                    .host = rank->place->host,
                                    .row = row_of(rank),
                                    .facts = facts,
                                    .fact_count = facts_of(rank, facts, program),
                                    .join_limit_s = rank->options->join_limit_s,
                                    .server_pid = launcher_of(rank->place)};
    enum status status = control_join(&config, &rank->control);
    control_secret_wipe(&config.secret);
    TRY(status);
    if (rank->place->rank == 0 && !control_same_bits(rank->control))
        log_warning("ranks differ in compiler, instruction set or threads: bits will not be equal "
                    "to those of one device");
    return STATUS_OK;
}

/* --- which data plane --- */
static enum status share_machines(struct rank *rank, bool *one) {
    char key[32];
    *one = true;
    snprintf(key, sizeof key, "machine/%d", rank->place->rank);
    TRY(control_put(rank->control, key, rank->place->machine, strlen(rank->place->machine)));
    for (int r = 0; r < rank->place->world; r++) {
        void *machine;
        size_t bytes;
        snprintf(key, sizeof key, "machine/%d", r);
        TRY(control_get(rank->control, key, &machine, &bytes));
        *one &= strcmp(machine, rank->place->machine) == 0;
        free(machine);
    }
    return STATUS_OK;
}

/* --interface is a rule; the data plane takes the name of the network that it means. */
static enum status choose_network(const struct rank *rank, struct network_address *out) {
    struct network_list list;
    char why[NETWORK_WHY_BYTES];
    *out = (struct network_address){0};
    if (!rank->launch->interface) return STATUS_OK;
    TRY(network_list(&list));
    return network_choose(&list, rank->launch->interface, NULL, out, why);
}

static enum status open_comm(struct rank *rank) {
    const char *name = rank->options->comm;
    struct network_address network;
    TRY(choose_network(rank, &network));
    if (strcmp(name, "auto") == 0) {
        bool one;
        TRY(share_machines(rank, &one));
        name = one ? "shm" : "hosts";
        plan_use_comm(rank->session.job.plan, name);
    }
    rank->link = (struct comm_link){.context = rank,
                                    .put = link_put,
                                    .get = link_get,
                                    .lost = link_lost,
                                    .waiting = link_waiting};
    struct comm_config config = {.rank = rank->place->rank,
                                 .size = rank->place->world,
                                 .link = &rank->link,
                                 .heap_bytes = plan_heap_bytes(rank->session.job.plan),
                                 .host = rank->place->machine,
                                 .interface = *network.interface ? network.interface : NULL,
                                 .any_order = !rank->options->deterministic};
    return comm_open(name, &config, &rank->session.comm);
}

/* Our launcher has opened the folder and named it; else rank 0 opens it. The others learn its name.
 */
static enum status share_folder(struct rank *rank) {
    struct session *session = &rank->session;
    const struct options *options = &session->job.options;
    if (rank->place->source == LAUNCH_LAUNCHER) {
        session->folder = mem_text(options->out);
        return STATUS_OK;
    }
    if (rank->place->rank == 0) {
        TRY(folder_open(options, &session->folder, &session->lock));
        return control_put(rank->control, "folder", session->folder, strlen(session->folder));
    }
    size_t bytes;
    return control_get(rank->control, "folder", (void **)&session->folder, &bytes);
}

static void say_lost(struct rank *rank, enum status status) {
    char why[256];
    if (status != STATUS_PEER || !rank->control || control_lost(rank->control) == CONTROL_NOBODY)
        return;
    fail(STATUS_PEER, "rank %d ends: %s\n  --resume goes on from the newest checkpoint",
         rank->place->rank, control_lost_text(rank->control, why, sizeof why));
}

/* What fails on this rank alone must not leave the others waiting. A failure that all came to
 * together (a number that is none) needs no word, nor one that is the echo of a loss. */
static void give_up(struct rank *rank, enum status status) {
    char why[64];
    if (status == STATUS_OK || status == STATUS_STOPPED || status == STATUS_NUMERIC) return;
    if (!rank->control || control_lost(rank->control) != CONTROL_NOBODY) return;
    snprintf(why, sizeof why, "it gave up with exit code %d", status_exit_code(status));
    control_give_up(rank->control, why);
}

static enum status run(struct rank *rank) {
    const char *comm = rank->options->comm;
    struct job_seat seat = {.rank = rank->place->rank, .ranks = rank->place->world};
    if (strcmp(comm, "auto") == 0) comm = rank->place->nodes > 1 ? "hosts" : "shm";
    seat.comm = comm;
    TRY(launch_board_of_rank(rank->launch, rank->place, &rank->board));
    control_row_set(row_of(rank), -1, "planning");
    TRY(job_open(rank->options, &seat, &rank->session.job));
    TRY(job_check_memory(&rank->session.job));
    TRY(fault_read(rank->place->rank, &rank->session.watch.fault));
    fault_strike(&rank->session.watch.fault, "JOIN", 0);
    TRY(launch_door_of_rank(rank->launch, rank->place, rank->options->join_limit_s, &rank->door));
    TRY(join(rank));
    TRY(share_folder(rank));
    TRY(open_comm(rank));
    stop_install(); /* not before: a rank that waits for others ends at once */
    struct watch *watch = &rank->session.watch;
    watch->rank = rank->place->rank;
    watch->row = row_of(rank);
    watch->print_places = print_places;
    watch->place = rank->control;
    return session_run(&rank->session);
}

enum status rank_run(const struct options *options, const struct launch_config *launch,
                     const struct launch_place *place) {
    struct rank rank = {
        .options = options, .launch = launch, .place = place, .session = {.begin_ns = clock_ns()}};
    enum status status = run(&rank);
    say_lost(&rank, status);
    give_up(&rank, status);
    session_free(&rank.session);
    comm_close(&rank.session.comm);
    control_leave(&rank.control);
    launch_door_close(&rank.door);
    control_board_close(&rank.board);
    job_close(&rank.session.job);
    lock_give_back(&rank.session.lock);
    free(rank.session.folder);
    return status;
}
