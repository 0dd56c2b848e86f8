/* What the server does with messages and with time. A rank is bound to the connection its HELLO
 * came by: whatever else that connection says counts as this rank's, and nobody else can speak for
 * it. */
#include "control/server.h"
#include "control/where.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

/* After a connection closed, how long the launcher has to say why: "killed by signal 9" tells more.
 * The launcher here hears of the end of its own ranks for certain, but on a busy machine not at
 * once; of others perhaps nobody does. */
static const int64_t close_grace_ns = 100000000, close_grace_here_ns = 2000000000;
enum { WHERE_ROWS = 2048 };

/* --- sending --- */

static struct control_message *answer(struct control_server *server, uint32_t type, uint64_t id) {
    struct control_message *out = &server->out;
    out->type = type;
    out->epoch = server->config.epoch;
    out->rank = -1;
    out->id = id;
    out->bytes = 0;
    return out;
}

/* A rank whose queue is full has not read for 64 messages; silence will find it. */
static void send_peer(struct control_server *server, const struct control_peer *peer) {
    control_message_send(server->router, peer, &server->out);
}

static void send_all(struct control_server *server) {
    for (int i = 0; i < server->config.world; i++)
        if (server->member[i].state == CONTROL_JOINED) send_peer(server, &server->member[i].peer);
}

static void refuse(struct control_server *server, const struct control_peer *peer,
                   enum status status, const char *why) {
    struct control_message *out = answer(server, CONTROL_REFUSE, 0);
    control_pack_u32(out, status);
    control_pack_text(out, why, CONTROL_WHY_BYTES);
    send_peer(server, peer);
}

static void reply(struct control_server *server, int rank, uint64_t id, const char *refused,
                  const void *value, size_t bytes) {
    struct control_message *out = answer(server, CONTROL_REPLY, id);
    control_pack_u32(out, refused ? STATUS_USAGE : STATUS_OK);
    control_pack_text(out, refused ? refused : "", CONTROL_WHY_BYTES);
    control_pack_bytes(out, value, bytes);
    send_peer(server, &server->member[rank].peer);
}

void control_server_found(void *context, int rank, uint64_t id, const void *value, size_t bytes) {
    reply(context, rank, id, NULL, value, bytes);
}

/* --- the fate of the job --- */

void control_server_fail(struct control_server *server, enum status status, const char *why) {
    if (server->failed) return;
    server->failed = true;
    server->failed_status = status;
    snprintf(server->failed_why, sizeof server->failed_why, "%s", why);
    if (server->welcome) return;
    for (int i = 0; i < server->config.world; i++)
        if (server->member[i].state == CONTROL_JOINED)
            refuse(server, &server->member[i].peer, status, why);
}

static void set_state(struct control_server *server, int rank, enum control_state state) {
    pthread_mutex_lock(&server->lock);
    server->member[rank].state = state;
    pthread_mutex_unlock(&server->lock);
}

void control_server_lose(struct control_server *server, int rank, const char *why) {
    struct control_member *member = &server->member[rank];
    char text[CONTROL_WHY_BYTES + 128];
    if (member->state == CONTROL_LEFT || member->state == CONTROL_LOST) return;
    bool absent = member->state == CONTROL_ABSENT;
    set_state(server, rank, CONTROL_LOST);
    control_key_values_forget(server->key_values, rank);
    snprintf(text, sizeof text, "rank %d%s%s%s is lost%s: %s", rank, absent ? "" : " (host ",
             absent ? "" : member->host, absent ? "" : ")", absent ? " before it joined" : "", why);
    struct control_message *out = answer(server, CONTROL_LOSS, 0);
    control_pack_u32(out, (uint32_t)rank);
    control_pack_text(out, text, CONTROL_WHY_BYTES);
    send_all(server);
    text[CONTROL_WHY_BYTES - 1] = 0;
    control_server_fail(server, STATUS_PEER, text);
    if (server->config.lost) server->config.lost(server->config.context, rank, why);
}

void control_server_closed(struct control_server *server, int fd) {
    for (int i = 0; i < server->config.world; i++) {
        struct control_member *member = &server->member[i];
        if (member->fd != fd) continue;
        member->fd = -1;
        if (member->state != CONTROL_JOINED) continue;
        if (server->failed && !server->welcome)
            set_state(server, i, CONTROL_LEFT); /* refused, it has heard so */
        else
            member->closed_ns = server->now_ns;
    }
}

static void give_up(struct control_server *server, int rank, const char *why) {
    if (server->config.given_up) server->config.given_up(server->config.context, rank, why);
}

enum { SAY_MISSING_S = 10 };

/* Which ranks have not joined; the caller frees it. */
static bool *missing(const struct control_server *server) {
    bool *mark = MEM_ARRAY(bool, server->config.world);
    for (int i = 0; i < server->config.world; i++)
        mark[i] = server->member[i].state == CONTROL_ABSENT;
    return mark;
}

/* Once: whoever sees nothing happen learns for whom it waits, and how long. */
static void say_missing(struct control_server *server) {
    SCOPED_FREE bool *mark = missing(server);
    char list[400], limit[TEXT_BYTES];
    server->said_missing = true;
    log_note("waiting for %s; %d of %d joined, --join-limit is %s",
             control_rank_list(mark, server->config.world, list, sizeof list), server->joined,
             server->config.world, text_duration(server->config.join_limit_s, limit));
}

static void name_missing(struct control_server *server) {
    SCOPED_FREE bool *mark = missing(server);
    char list[400], limit[TEXT_BYTES], why[CONTROL_WHY_BYTES];
    snprintf(why, sizeof why,
             "%s did not join within %s; %d of %d joined\n"
             "  look whether they were started, with the same address and key",
             control_rank_list(mark, server->config.world, list, sizeof list),
             text_duration(server->config.join_limit_s, limit), server->joined,
             server->config.world);
    control_server_fail(server, STATUS_PEER, why);
    snprintf(why, sizeof why, "did not join within %s", limit);
    for (int i = 0; i < server->config.world; i++)
        if (mark[i]) give_up(server, i, why);
}

static double silent_s(const struct control_server *server, int rank) {
    return (double)(server->now_ns - server->member[rank].heard_ns) * 1e-9;
}

/* A rank that is silent: is its whole host? Beats come twice a second, so those who were cut off
 * together are silent for nearly as long. */
static void lose_silent(struct control_server *server, int rank) {
    double nearly_s = server->config.silent_limit_s * 0.8;
    const char *host = server->member[rank].host;
    bool *mark = MEM_ARRAY(bool, server->config.world), all = true;
    char why[CONTROL_WHY_BYTES], list[400];
    int count = 0;
    for (int i = 0; i < server->config.world; i++) {
        const struct control_member *member = &server->member[i];
        if (member->state != CONTROL_JOINED || strcmp(member->host, host) != 0) continue;
        mark[i] = silent_s(server, i) > nearly_s;
        all = all && mark[i];
        count++;
    }
    int used = snprintf(why, sizeof why, "silent for %.0f s", silent_s(server, rank));
    if (all && count > 1)
        snprintf(why + used, sizeof why - (size_t)used, "; all of host %s is out of reach: %s",
                 host, control_rank_list(mark, server->config.world, list, sizeof list));
    free(mark);
    control_server_lose(server, rank, why);
    give_up(server, rank, why);
}

static bool is_gone(const struct control_server *server, int rank) {
    const struct control_member *member = &server->member[rank];
    int64_t grace_ns = control_server_row(server, rank) ? close_grace_here_ns : close_grace_ns;
    return member->closed_ns && server->now_ns - member->closed_ns >= grace_ns;
}

void control_server_timers(struct control_server *server) {
    int64_t now = server->now_ns;
    for (int i = 0; i < server->config.world; i++) {
        const struct control_member *member = &server->member[i];
        if (member->state != CONTROL_JOINED) continue;
        if (is_gone(server, i)) {
            control_server_lose(server, i, "its connection closed");
        } else if (silent_s(server, i) > server->config.silent_limit_s) {
            lose_silent(server, i);
        }
    }
    if (server->welcome || server->failed) return;
    double waited_s = (double)(now - server->begin_ns) * 1e-9,
           say_s = fmin(SAY_MISSING_S, server->config.join_limit_s / 2);
    if (waited_s > server->config.join_limit_s)
        name_missing(server);
    else if (waited_s > say_s && !server->said_missing)
        say_missing(server);
}

/* --- joining --- */

void control_facts_free(struct control_facts *facts) {
    for (int i = 0; i < facts->count; i++) {
        free((char *)facts->fact[i].key);
        free((char *)facts->fact[i].value);
    }
    free(facts->fact);
    *facts = (struct control_facts){0};
}

static void read_facts(struct control_unpack *from, struct control_facts *facts) {
    uint32_t count = control_unpack_u32(from);
    if (count > CONTROL_FACTS_MOST) from->bad = true;
    if (from->bad) return;
    facts->fact = MEM_ARRAY(struct control_fact, count + 1);
    for (uint32_t i = 0; i < count && !from->bad; i++) {
        const char *key = control_unpack_text(from, CONTROL_FACT_KEY);
        const char *value = control_unpack_text(from, CONTROL_FACT_VALUE);
        bool fixed = control_unpack_u32(from) != 0;
        facts->fact[i] = (struct control_fact){mem_text(key), mem_text(value), fixed};
        facts->count++;
    }
}

/* "host h1 (ranks 0-1)": where this server is, and who is there with it; for those who lose it. */
static void describe_here(const struct control_server *server, char text[CONTROL_WHY_BYTES]) {
    char host[CONTROL_HOST_BYTES] = "", list[400];
    bool *mark = MEM_ARRAY(bool, server->config.world), any = false;
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < server->config.world; i++)
        any |= mark[i] = strcmp(server->member[i].host, host) == 0;
    control_rank_list(mark, server->config.world, list, sizeof list);
    snprintf(text, CONTROL_WHY_BYTES, "host %s%s%s%s", host, any ? " (" : "", any ? list : "",
             any ? ")" : "");
    free(mark);
}

static void welcome(struct control_server *server, const char *soft) {
    char here[CONTROL_WHY_BYTES];
    describe_here(server, here);
    server->welcome = true;
    struct control_message *out = answer(server, CONTROL_WELCOME, 0);
    control_pack_u32(out, soft[0] == 0);
    control_pack_i64(out, (int64_t)(server->config.silent_limit_s * 1e9));
    control_pack_text(out, soft, CONTROL_WHY_BYTES);
    control_pack_text(out, here, CONTROL_WHY_BYTES);
    send_all(server);
}

static void decide(struct control_server *server) {
    int world = server->config.world;
    char why[CONTROL_WHY_BYTES], soft[CONTROL_WHY_BYTES];
    if (server->joined < world || server->failed) return;
    struct control_facts *facts = MEM_ARRAY(struct control_facts, world);
    for (int i = 0; i < world; i++) facts[i] = server->member[i].facts;
    bool agree = control_agree(facts, world, why, soft);
    free(facts);
    if (agree)
        welcome(server, soft);
    else
        control_server_fail(server, STATUS_USAGE, why);
}

struct hello {
    uint32_t world, pid;
    char host[CONTROL_HOST_BYTES];
    struct control_facts facts;
};

/* NULL, or why this rank cannot be let in; `all` when that is the end for everybody. */
static bool admissible(struct control_server *server, const struct hello *hello, bool *all,
                       char why[CONTROL_WHY_BYTES]) {
    int rank = server->in.rank, world = server->config.world;
    *all = false;
    if (server->in.version != CONTROL_VERSION)
        snprintf(why, CONTROL_WHY_BYTES,
                 "rank %d (host %s) speaks version %u of the control protocol, the server version "
                 "%d\n  install the same version of stretto on all hosts",
                 rank, hello->host, server->in.version, CONTROL_VERSION);
    else if (server->in.epoch != server->config.epoch)
        snprintf(why, CONTROL_WHY_BYTES,
                 "rank %d (host %s) belongs to start %u of the job, the server to start %u", rank,
                 hello->host, server->in.epoch, server->config.epoch);
    else if (hello->world != (uint32_t)world) {
        *all = true;
        snprintf(why, CONTROL_WHY_BYTES,
                 "rank %d (host %s) was started for a world of %u ranks, the server for %d\n"
                 "  give every rank the same world size",
                 rank, hello->host, hello->world, world);
    } else if (rank < 0 || rank >= world)
        snprintf(why, CONTROL_WHY_BYTES,
                 "rank %d (host %s) is not in a world of %d ranks\n  ranks are 0 to %d", rank,
                 hello->host, world, world - 1);
    else
        return true;
    return false;
}

static void join(struct control_server *server, struct hello *hello) {
    struct control_member *member = &server->member[server->in.rank];
    pthread_mutex_lock(&server->lock);
    member->state = CONTROL_JOINED;
    member->peer = server->in.from;
    member->fd = server->in.fd;
    member->pid = (int)hello->pid;
    memcpy(member->host, hello->host, sizeof member->host);
    member->facts = hello->facts;
    member->heard_ns = server->now_ns;
    member->doing = (struct control_doing){.step = -1, .text = "joining"};
    pthread_mutex_unlock(&server->lock);
    hello->facts = (struct control_facts){0};
    server->joined++;
    decide(server);
}

/* A rank that comes when the job has failed already: told why, and then waited for until it has
 * heard. */
static void refuse_hello(struct control_server *server) {
    struct control_member *member = &server->member[server->in.rank];
    refuse(server, &server->in.from, server->failed_status, server->failed_why);
    member->fd = server->in.fd;
    member->heard_ns = server->now_ns;
    set_state(server, server->in.rank, CONTROL_JOINED);
}

/* Remembered for whom the stop waits. */
static void note_claim(struct control_server *server, uint32_t world) {
    int claimed = world < (uint32_t)INT_MAX ? (int)world : INT_MAX;
    if (server->claims++ == 0 || claimed < server->least_claimed) server->least_claimed = claimed;
    if (claimed > server->most_claimed) server->most_claimed = claimed;
    if (server->in.rank < server->config.world) return;
    server->outside++;
    server->outside_ns = server->now_ns;
}

static void take_hello(struct control_server *server) {
    struct control_unpack from = control_unpack(&server->in);
    const struct control_peer *peer = &server->in.from;
    struct hello hello = {.world = control_unpack_u32(&from), .pid = control_unpack_u32(&from)};
    bool all;
    char why[CONTROL_WHY_BYTES];
    control_clean_copy(hello.host, sizeof hello.host,
                       control_unpack_text(&from, CONTROL_HOST_BYTES));
    if (server->in.version == CONTROL_VERSION) read_facts(&from, &hello.facts);
    const struct control_member *member =
        server->in.rank >= 0 && server->in.rank < server->config.world
            ? &server->member[server->in.rank]
            : NULL;
    if (server->in.version == CONTROL_VERSION && !control_unpack_done(&from)) {
        refuse(server, peer, STATUS_USAGE, "the server cannot read the HELLO of this rank");
    } else if (!admissible(server, &hello, &all, why)) {
        if (all) control_server_fail(server, STATUS_USAGE, why);
        if (all) note_claim(server, hello.world);
        if (all && member && member->state == CONTROL_ABSENT)
            refuse_hello(server);
        else
            refuse(server, peer, STATUS_USAGE, why);
    } else if (member->state != CONTROL_ABSENT) {
        snprintf(why, sizeof why,
                 "rank %d is taken by process %d on host %s; this is process %u on host %s\n"
                 "  give each process a rank of its own",
                 server->in.rank, member->pid, member->host, hello.pid, hello.host);
        refuse(server, peer, STATUS_USAGE, why);
    } else if (server->failed) {
        refuse_hello(server);
    } else {
        join(server, &hello);
    }
    control_facts_free(&hello.facts);
}

/* --- members --- */

static void take_beat(struct control_server *server, struct control_member *member) {
    struct control_unpack from = control_unpack(&server->in);
    int64_t step = control_unpack_i64(&from), since = control_unpack_i64(&from);
    const char *doing = control_unpack_text(&from, CONTROL_DOING_BYTES);
    if (!control_unpack_done(&from)) return;
    pthread_mutex_lock(&server->lock);
    member->beat_ns = server->now_ns;
    member->doing_ns = since;
    member->doing.step = step;
    control_clean_copy(member->doing.text, sizeof member->doing.text, doing);
    pthread_mutex_unlock(&server->lock);
    answer(server, CONTROL_ALIVE, 0);
    send_peer(server, &member->peer);
}

static void take_put(struct control_server *server, int rank) {
    struct control_unpack from = control_unpack(&server->in);
    size_t bytes;
    const char *key = control_unpack_text(&from, CONTROL_KEY_BYTES);
    const void *value = control_unpack_bytes(&from, CONTROL_VALUE_BYTES, &bytes);
    const char *refused = control_unpack_done(&from)
                              ? control_key_values_put(server->key_values, key, value, bytes)
                              : "key or value too long";
    reply(server, rank, server->in.id, refused, NULL, 0);
}

static void take_get(struct control_server *server, int rank) {
    struct control_unpack from = control_unpack(&server->in);
    const char *key = control_unpack_text(&from, CONTROL_KEY_BYTES);
    const char *refused = control_unpack_done(&from)
                              ? control_key_values_get(server->key_values, key, rank, server->in.id)
                              : "key too long";
    if (refused) reply(server, rank, server->in.id, refused, NULL, 0);
}

static void take_where(struct control_server *server, int asker) {
    struct control_unpack from = control_unpack(&server->in);
    int rank = (int)control_unpack_u32(&from);
    bool one = rank >= 0 && rank < server->config.world;
    int first = one ? rank : 0;
    int last = one ? rank + 1 : server->config.world;
    if (last - first > WHERE_ROWS) last = first + WHERE_ROWS;
    SCOPED(control_message_free) struct control_message rows = {0};
    for (int i = first; i < last; i++) {
        struct control_where where;
        control_server_where(server, i, &where);
        control_where_pack(&rows, &where);
    }
    reply(server, asker, server->in.id, NULL, rows.body, rows.bytes);
}

/* The rank bound to the connection the message came by, or -1. */
static int rank_of(const struct control_server *server) {
    int rank = server->in.rank;
    if (rank < 0 || rank >= server->config.world) return -1;
    const struct control_member *member = &server->member[rank];
    bool same = member->state != CONTROL_ABSENT && member->peer.bytes == server->in.from.bytes &&
                memcmp(member->peer.name, server->in.from.name, member->peer.bytes) == 0;
    return same ? rank : -1;
}

/* A rank that was given up as silent and wakes again: the others went on without it. */
static void send_refusal(struct control_server *server, int rank) {
    struct control_message *out = answer(server, CONTROL_LOSS, 0);
    control_pack_u32(out, (uint32_t)rank);
    control_pack_text(out, "this rank was silent too long and has been given up by the others",
                      CONTROL_WHY_BYTES);
    send_peer(server, &server->member[rank].peer);
}

/* A rank that gives up says why. */
static void take_bye(struct control_server *server, int rank) {
    struct control_unpack from = control_unpack(&server->in);
    char why[CONTROL_WHY_BYTES];
    if (server->in.bytes > 0) {
        control_clean_copy(why, sizeof why, control_unpack_text(&from, CONTROL_WHY_BYTES));
        control_server_lose(server, rank, why);
    } else {
        set_state(server, rank, CONTROL_LEFT);
        control_key_values_forget(server->key_values, rank);
    }
    reply(server, rank, server->in.id, NULL, NULL, 0);
}

void control_server_message(struct control_server *server) {
    if (server->in.type == CONTROL_HELLO) {
        control_server_events(server);
        take_hello(server);
        return;
    }
    int rank = rank_of(server);
    if (rank < 0 || server->in.version != CONTROL_VERSION ||
        server->in.epoch != server->config.epoch)
        return;
    if (server->member[rank].state == CONTROL_LOST) send_refusal(server, rank);
    if (server->member[rank].state != CONTROL_JOINED) return;
    server->member[rank].heard_ns = server->now_ns;
    switch (server->in.type) {
    case CONTROL_BEAT: take_beat(server, &server->member[rank]); break;
    case CONTROL_PUT: take_put(server, rank); break;
    case CONTROL_GET: take_get(server, rank); break;
    case CONTROL_WHERE: take_where(server, rank); break;
    case CONTROL_BYE: take_bye(server, rank); break;
    default: break; /* the server's own kinds are nothing a rank says */
    }
}
