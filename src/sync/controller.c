/* See controller.h. */
#include "sync/controller.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

/* What a replica was last told at a key. */
struct answer {
    int64_t arrived; /* its mini-batches that have come here */
    int64_t formed;  /* those that have a group: as many, or one fewer */
    struct controller_group group;
    int *replica; /* room for all */
    double *weight;
};

struct controller {
    struct groups_config config;
    struct groups *groups;
    int64_t next;       /* number to be handed out */
    int64_t round, end; /* under way; -1: none was yet */
    bool last;
    int64_t *had;          /* per replica: numbers */
    int64_t *number;       /* the newest of them, in a ring of CONTROLLER_KEPT each */
    bool *ended;           /* per replica: it was told that there is none */
    struct answer *answer; /* per key and replica */
};

static struct answer *answer_of(const struct controller *controller, int key, int replica) {
    CHECK(key >= 0 && key < controller->config.keys && replica >= 0 &&
              replica < controller->config.replicas,
          "replica %d, key %d", replica, key);
    return &controller->answer[key * controller->config.replicas + replica];
}

struct controller *controller_open(const struct groups_config *config, int64_t next) {
    struct controller *controller = MEM_NEW(struct controller);
    int replicas = config->replicas, answers = replicas * config->keys;
    *controller = (struct controller){.config = *config,
                                      .groups = groups_open(config),
                                      .next = next,
                                      .round = -1,
                                      .had = MEM_ARRAY(int64_t, replicas),
                                      .number = MEM_ARRAY(int64_t, replicas * CONTROLLER_KEPT),
                                      .ended = MEM_ARRAY(bool, replicas),
                                      .answer = MEM_ARRAY(struct answer, answers)};
    for (int i = 0; i < answers; i++) {
        controller->answer[i].replica = MEM_ARRAY(int, replicas);
        controller->answer[i].weight = MEM_ARRAY(double, replicas);
    }
    return controller;
}

void controller_close(struct controller **pointer) {
    struct controller *controller = *pointer;
    if (!controller) return;
    for (int i = 0; i < controller->config.replicas * controller->config.keys; i++) {
        free(controller->answer[i].replica);
        free(controller->answer[i].weight);
    }
    groups_close(&controller->groups);
    free(controller->had);
    free(controller->number);
    free(controller->ended);
    free(controller->answer);
    free(controller);
    *pointer = NULL;
}

/* --- numbers --- */

void controller_place(struct controller *controller, int64_t next, int64_t each) {
    CHECK(controller->round < 0, "round %lld is under way", (long long)controller->round);
    controller->next = next;
    for (int r = 0; r < controller->config.replicas; r++) {
        controller->had[r] = each;
        for (int k = 0; k < controller->config.keys; k++)
            answer_of(controller, k, r)->arrived = answer_of(controller, k, r)->formed = each;
    }
}

static int64_t *number_at(const struct controller *controller, int replica, int64_t index) {
    return &controller->number[replica * CONTROLLER_KEPT + index % CONTROLLER_KEPT];
}

static bool hand_out(struct controller *controller, int replica) {
    if (controller->next >= controller->end) return false;
    *number_at(controller, replica, controller->had[replica]++) = controller->next++;
    return true;
}

/* It comes to this key no more in this round. */
static void go(struct controller *controller, int key, int replica) {
    if (controller->last)
        groups_leave(controller->groups, key, replica);
    else
        groups_rest(controller->groups, key, replica);
}

void controller_begin(struct controller *controller, int64_t round, int64_t end, bool last) {
    if (round <= controller->round) return;
    controller->round = round;
    controller->end = end;
    controller->last = last;
    groups_return(controller->groups);
    for (int r = 0; r < controller->config.replicas; r++) {
        controller->ended[r] = !hand_out(controller, r);
        for (int k = 0; controller->ended[r] && k < controller->config.keys; k++)
            go(controller, k, r);
    }
}

int64_t controller_pause(struct controller *controller) {
    int64_t replicas = controller->config.replicas,
            end = (controller->next + replicas - 1) / replicas * replicas;
    if (end < controller->end) controller->end = end;
    return controller->end;
}

int64_t controller_draw(struct controller *controller, int replica, int64_t index) {
    int64_t had = controller->had[replica];
    CHECK(index <= had, "replica %d asks for %lld after %lld", replica, (long long)index,
          (long long)had);
    bool asks = index == had && !controller->ended[replica];
    if (asks) controller->ended[replica] = !hand_out(controller, replica);
    return controller_number(controller, replica, index);
}

int64_t controller_number(const struct controller *controller, int replica, int64_t index) {
    int64_t had = controller->had[replica];
    if (index >= had) return controller->ended[replica] ? CONTROLLER_NONE : CONTROLLER_UNKNOWN;
    CHECK(index >= had - CONTROLLER_KEPT, "replica %d asks for %lld after %lld", replica,
          (long long)index, (long long)had);
    return *number_at(controller, replica, index);
}

int64_t controller_drawn(const struct controller *controller, int replica) {
    return controller->had[replica];
}

int64_t controller_next_number(const struct controller *controller) {
    return controller->next;
}

/* --- groups --- */

void controller_arrive(struct controller *controller, int key, int replica, int64_t index,
                       int64_t now_ns) {
    struct answer *answer = answer_of(controller, key, replica);
    CHECK(answer->arrived == index && answer->formed == index,
          "replica %d comes with %lld after %lld", replica, (long long)index,
          (long long)answer->arrived);
    answer->arrived++;
    groups_arrive(controller->groups, key, replica, now_ns);
}

static void tell(struct answer *answer, const struct group_formed *formed) {
    size_t count = (size_t)formed->count;
    memcpy(answer->replica, formed->replica, count * sizeof *answer->replica);
    memcpy(answer->weight, formed->weight, count * sizeof *answer->weight);
    answer->formed = answer->arrived;
    answer->group = (struct controller_group){.number = formed->number,
                                              .spread = formed->spread,
                                              .count = formed->count,
                                              .key = formed->key,
                                              .connects = formed->connects,
                                              .replica = answer->replica,
                                              .weight = answer->weight};
}

/* A replica whose last number this was rests from now on; in pairs, others of its window are still
 * to be handed out, and it goes when these are. */
static void let_go(struct controller *controller, int key) {
    for (int r = 0; r < controller->config.replicas; r++) {
        const struct answer *answer = answer_of(controller, key, r);
        bool done = controller->ended[r] && answer->formed == controller->had[r];
        if (done && !groups_is_away(controller->groups, key, r)) go(controller, key, r);
    }
}

bool controller_form(struct controller *controller, int64_t now_ns, struct group_formed *out) {
    if (!groups_next(controller->groups, now_ns, out)) return false;
    for (int i = 0; i < out->count; i++)
        tell(answer_of(controller, out->key, out->replica[i]), out);
    if (!groups_is_closing(controller->groups, out->key)) let_go(controller, out->key);
    return true;
}

int64_t controller_wake_ns(const struct controller *controller) {
    return groups_wake_ns(controller->groups);
}

bool controller_group(const struct controller *controller, int key, int replica, int64_t index,
                      struct controller_group *out) {
    const struct answer *answer = answer_of(controller, key, replica);
    if (answer->formed <= index) return false;
    CHECK(answer->formed == index + 1, "replica %d asks for the group of %lld, which is past",
          replica, (long long)index);
    *out = answer->group;
    return true;
}

int controller_waiting(const struct controller *controller, int key) {
    return groups_waiting(controller->groups, key);
}

/* --- checkpoints --- */

enum { HEAD = 1 }; /* next; then `had` of each, then the groups */

int64_t controller_save(const struct controller *controller, int64_t *out) {
    int replicas = controller->config.replicas;
    int64_t head = HEAD + replicas;
    if (out) {
        out[0] = controller->next;
        for (int r = 0; r < replicas; r++) out[HEAD + r] = controller->had[r];
    }
    return head + groups_save(controller->groups, out ? out + head : NULL);
}

enum status controller_load(struct controller *controller, const int64_t *numbers, int64_t count) {
    int replicas = controller->config.replicas;
    int64_t head = HEAD + replicas;
    if (count < head)
        return fail(STATUS_DATA,
                    "a controller of %d replicas has more than %lld "
                    "numbers",
                    replicas, (long long)count);
    for (int i = 0; i < head; i++)
        if (numbers[i] < 0 || numbers[i] > INT64_MAX / 4)
            return fail(STATUS_DATA, "these are not the numbers of a controller");
    TRY(groups_load(controller->groups, numbers + head, count - head));
    for (int k = 0; k < controller->config.keys; k++)
        if (groups_waiting(controller->groups, k) > 0)
            return fail(STATUS_DATA, "the controller was saved while replicas waited");
    controller->next = numbers[0];
    for (int r = 0; r < replicas; r++) {
        controller->had[r] = numbers[HEAD + r];
        for (int k = 0; k < controller->config.keys; k++)
            answer_of(controller, k, r)->arrived = answer_of(controller, k, r)->formed =
                controller->had[r];
    }
    return STATUS_OK;
}
