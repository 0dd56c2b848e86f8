/* See rank.h. The order: plan (each rank its own, alike), join the control plane and agree on what
 * all were told, open the data plane with the memory the plan wants, run. Whatever fails on one
 * rank is reported to the others through the control plane. */
#include "run/rank.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "exec/stop.h"
#include "launch/cores.h"
#include "launch/network.h"
#include "launch/rendezvous.h"
#include "plan/graphs.h"
#include "plan/resolve.h"
#include "run/refusal.h"
#include "run/run_folder.h"
#include "run/session.h"
#include "run/transition.h"

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
    recorder_note_reached(&rank->session.recorder);
    if (stop_take_report()) control_print_all(rank->control);
    double limit_s = session_wait_limit_s(&rank->session);
    control_waiting(rank->control, peer, what, since_ns, limit_s);
    stop_end_stalled(rank->identity->rank, since_ns, limit_s);
}

/* --- joining --- */
/* Facts beside those of a checkpoint, as text. */
struct own_facts {
    char program[17], layouts[17];
    const char *device;
};
enum { OWN_FACTS = 3 };

static enum status hash_plan(const struct plan *plan, struct own_facts *out) {
    uint64_t layouts;
    TRY(graphs_layouts_hash(plan, &layouts));
    /* With auto, ranks agree on it once they have joined. */
    if (plan_is_auto(&plan->config))
        snprintf(out->program, sizeof out->program, PIPELINE_AUTO);
    else
        snprintf(out->program, sizeof out->program, "%016llx",
                 (unsigned long long)program_hash(plan->program));
    out->device = plan->config.device;
    snprintf(out->layouts, sizeof out->layouts, "%016llx", (unsigned long long)layouts);
    return STATUS_OK;
}

/* What ranks must agree on is what a checkpoint remembers, the program itself, and how the tensors
 * lie that they give one another. */
static int facts_of(struct rank *rank, struct control_fact *facts, struct own_facts *own) {
    struct session *session = &rank->session;
    session_facts(session);
    int count = 0;
    for (; count < session->fact_count; count++) {
        const struct checkpoint_fact *fact = &session->facts[count];
        facts[count] = (struct control_fact){fact->key, fact->value, fact->kind != FACT_RAN_ON};
    }
    facts[count++] = (struct control_fact){"device kind", own->device, true};
    facts[count++] = (struct control_fact){"program", own->program, true};
    facts[count++] = (struct control_fact){"layouts", own->layouts, true};
    return count;
}

static struct control_row *row_of(struct rank *rank) {
    return rank->status_table.row ? &rank->status_table.row[rank->identity->local_rank]
                                  : &rank->own_row;
}

static void print_positions(void *control) {
    control_print_all(control);
}

/* On one machine our launcher, which is this process's parent, runs the control server. */
static int launcher_of(const struct launch_identity *identity) {
    return identity->source == LAUNCH_LAUNCHER && identity->nodes == 1 ? (int)getppid() : 0;
}

static enum status join(struct rank *rank) {
    struct control_fact facts[CHECKPOINT_MAX_FACTS + OWN_FACTS];
    struct own_facts own;
    TRY(hash_plan(rank->session.planned.plan, &own));
    struct control_config config = {.address = rank->rendezvous.address,
                                    .secret = rank->rendezvous.secret,
                                    .rank = rank->identity->rank,
                                    .world = rank->identity->world,
                                    .epoch = rank->rendezvous.epoch,
                                    .host = rank->identity->host,
                                    .row = row_of(rank),
                                    .facts = facts,
                                    .fact_count = facts_of(rank, facts, &own),
                                    .join_limit_s = rank->options->join_limit_s,
                                    .server_pid = launcher_of(rank->identity)};
    enum status status = control_join(&config, &rank->control);
    control_secret_wipe(&config.secret);
    TRY(status);
    if (rank->identity->rank == 0 && !control_same_bits(rank->control))
        log_warning("ranks differ in compiler, instruction set or threads: bits will not be equal "
                    "to those of one device");
    return STATUS_OK;
}

/* --- programs of auto --- */

static enum status put_text(struct rank *rank, const char *key, const struct bytes *text) {
    return control_put(rank->control, key, text->count ? text->data : (const void *)"",
                       text->count);
}

static enum status get_text(struct rank *rank, const char *key, struct bytes *out) {
    void *value;
    TRY(control_get(rank->control, key, &value, &out->count));
    out->data = value;
    return STATUS_OK;
}

static bool same_text(const struct bytes *a, const struct bytes *b) {
    return a->count == b->count && (!a->count || memcmp(a->data, b->data, a->count) == 0);
}

/* Whether the plan may not be the one to run. */
static bool awaits_programs(const struct rank *rank) {
    return rank->identity->rank != 0 && plan_is_auto(&rank->session.planned.plan->config);
}

bool run_rank_is_judged(const struct rank *rank) {
    bool launched = rank->identity->source == LAUNCH_LAUNCHER;
    return launched && !(rank->replanned && rank->identity->nodes > 1);
}

/* As if all ranks were on this machine, where they need least: whether they are they learn as they
 * meet. */
static enum status check_alone(struct rank *rank) {
    struct planned_run *planned = &rank->session.planned;
    if (run_rank_is_judged(rank)) return STATUS_OK;
    plan_use_comm(planned->plan, resolve_comm(rank->options, false));
    return planned_check_alone(planned);
}

/* Plans again, with the program of rank 0. */
static enum status plan_again(struct rank *rank, const struct rank_info *info,
                              const struct bytes *text) {
    struct planned_run *planned = &rank->session.planned;
    struct rank_info again = *info;
    again.agreed = text;
    again.before = planned->before;
    rank->replanned = true;
    planned_close(planned);
    return planned_open(rank->options, &again, planned);
}

static enum status take_program(struct rank *rank, const struct rank_info *info,
                                const struct bytes *own) {
    SCOPED(bytes_free) struct bytes text = {0};
    enum status status = get_text(rank, "program", &text);
    if (status == STATUS_OK && !same_text(own, &text)) status = plan_again(rank, info, &text);
    return status == STATUS_OK ? check_alone(rank) : status;
}

/* Machines may differ in what operations cost: rank 0's choice holds for all. */
static enum status agree_program(struct rank *rank, const struct rank_info *info) {
    if (!plan_is_auto(&rank->session.planned.plan->config)) return STATUS_OK;
    SCOPED(bytes_free) struct bytes own = plan_text(rank->session.planned.plan);
    return rank->identity->rank == 0 ? put_text(rank, "program", &own)
                                     : take_program(rank, info, &own);
}

/* --- the data plane --- */

/* --interface is a rule; the data plane takes the name of the network that it means. */
static enum status choose_network(const struct rank *rank, struct network_address *out) {
    struct network_list list;
    char why[NETWORK_WHY_BYTES];
    *out = (struct network_address){0};
    if (!rank->launch->interface) return STATUS_OK;
    TRY(network_list(&list));
    return network_choose(&list, rank->launch->interface, NULL, out, why);
}

static enum status open_comm(void *context, const struct plan *plan, struct comm **out) {
    struct rank *rank = context;
    struct network_address network;
    TRY(choose_network(rank, &network));
    struct comm_config config = {.rank = rank->identity->rank,
                                 .size = rank->identity->world,
                                 .link = &rank->link,
                                 .epoch = rank->openings++,
                                 .heap_bytes = plan_heap_bytes(plan),
                                 .channel_bytes = plan_channel_bytes(plan),
                                 .host = rank->identity->machine,
                                 .interface = *network.interface ? network.interface : NULL,
                                 .any_order = !rank->options->deterministic};
    return comm_open(plan->comm, &config, out);
}

/* Our launcher has opened the folder and named it; else rank 0 opens it. The others learn its name.
 */
static enum status share_folder(struct rank *rank) {
    struct session *session = &rank->session;
    const struct options *options = &session->planned.options;
    if (session->use) return STATUS_OK; /* it has none */
    if (rank->identity->source == LAUNCH_LAUNCHER) {
        session->folder = mem_text(options->out);
        return STATUS_OK;
    }
    if (start_keeps_run(rank->start)) {
        TRY(start_check_weights(rank->start, &session->planned));
        TRY(run_folder_open(options, &session->folder, &session->lock));
        return control_put(rank->control, "folder", session->folder, strlen(session->folder));
    }
    size_t bytes;
    return control_get(rank->control, "folder", (void **)&session->folder, &bytes);
}

/* For the launcher's report, which must not name whoever happens to end first. */
static void say_cause(struct rank *rank, enum status status) {
    int lost = rank->control ? control_lost(rank->control) : CONTROL_NOBODY;
    struct comm *comm = rank->session.engine ? engine_comm(rank->session.engine) : NULL;
    int blamed = comm ? comm_blamed(comm) : COMM_NOBODY;
    if (status == STATUS_OK || status == STATUS_STOPPED) return;
    if (status == STATUS_PEER && lost >= 0)
        control_row_blame(row_of(rank), lost);
    else if (blamed != COMM_NOBODY)
        control_row_blame(row_of(rank), blamed == COMM_ANOTHER ? CONTROL_ANOTHER : blamed);
}

/* Before training begins, one that resumes may have found a checkpoint. */
static const char *what_helps(const struct rank *rank) {
    if (rank->session.use) return "";
    const struct train_result *result = &rank->session.result;
    if (result->saved || (!result->begun && rank->options->resume))
        return "\n  --resume continues from the newest checkpoint";
    return "\n  it has no checkpoint to resume from: --save-every N saves on the way";
}

static void say_lost(struct rank *rank, enum status status) {
    char why[256];
    if (status != STATUS_PEER || !rank->control || control_lost(rank->control) == CONTROL_NOBODY)
        return;
    fail(STATUS_PEER, "rank %d ends: %-s%-s", rank->identity->rank,
         control_lost_text(rank->control, why, sizeof why), what_helps(rank));
}

/* What fails on this rank alone must not leave the others waiting. A failure that all came to
 * together (a loss that is no number) needs no word, nor one that is the echo of a loss. */
static void give_up(struct rank *rank, enum status status) {
    char why[64];
    bool together = status == STATUS_NUMERIC &&
                    !(rank->session.engine && engine_failed_alone(rank->session.engine));
    if (status == STATUS_OK || status == STATUS_STOPPED || together) return;
    if (!rank->control || rank->agreed || control_lost(rank->control) != CONTROL_NOBODY) return;
    snprintf(why, sizeof why, "it gave up with exit code %d", status_exit_code(status));
    control_give_up(rank->control, why);
}

/* mpirun gives its ranks a terminal that it reads itself: what looks like one is a file or a pipe.
 */
static bool started_by_another(const struct launch_identity *identity) {
    return identity->source < LAUNCH_SOURCE_ROWS && identity->source != LAUNCH_LAUNCHER;
}

/* From here on others can see what it does. */
static void publish_position(struct rank *rank) {
    struct recorder *recorder = &rank->session.recorder;
    recorder->rank = rank->identity->rank;
    recorder->row = row_of(rank);
    recorder->lines = started_by_another(rank->identity);
    recorder->print_positions = print_positions;
    recorder->position_context = rank->control;
}

static enum status open_rank(struct rank *rank, const struct rank_info *info) {
    TRY(launch_status_table_of_rank(rank->launch, rank->identity, &rank->status_table));
    control_row_set(row_of(rank), -1, "planning");
    TRY(planned_open(rank->options, info, &rank->session.planned));
    if (!awaits_programs(rank)) TRY(check_alone(rank));
    TRY(fault_read(rank->identity->rank, &rank->session.recorder.fault));
    fault_trigger(&rank->session.recorder.fault, "JOIN", 0);
    refusal_release();
    TRY(launch_rendezvous_of_rank(rank->launch, rank->identity, rank->options->join_limit_s,
                                  &rank->rendezvous));
    TRY(join(rank));
    TRY(agree_program(rank, info));
    TRY(run_rank_check_neighbours(rank));
    if (!rank->start->folderless) TRY(share_folder(rank));
    publish_position(rank);
    return STATUS_OK;
}

enum status run_rank_open(const struct options *options, const struct start *start,
                          struct rank *rank) {
    rank->link = (struct comm_link){.context = rank,
                                    .put = link_put,
                                    .get = link_get,
                                    .lost = link_lost,
                                    .waiting = link_waiting};
    rank->options = options;
    rank->start = start;
    rank->launch = &start->launch;
    rank->identity = &start->identity;
    rank->session.begin_ns = clock_ns();
    rank->session.use = start->use;
    rank->session.state = train_fresh();
    rank->session.meeting = (struct engine_meeting){.context = rank, .open = open_comm};
    return open_rank(rank, &start->info);
}

void run_rank_close(struct rank *rank, enum status status) {
    say_lost(rank, status);
    say_cause(rank, status);
    give_up(rank, status);
    session_free(&rank->session);
    transition_free(&rank->session);
    control_leave(&rank->control);
    launch_rendezvous_close(&rank->rendezvous);
    control_status_table_close(&rank->status_table);
    planned_close(&rank->session.planned);
    lock_give_back(&rank->session.lock);
    free(rank->session.folder);
}
