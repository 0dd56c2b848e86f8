/* See fault.h. */
#include "run/fault.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

static const char *const actions[] = {
    [FAULT_KILL] = "kill",   [FAULT_STOP] = "stop",
    [FAULT_PAUSE] = "pause", [FAULT_HANG] = "hang",
    [FAULT_EXIT] = "exit",   [FAULT_NAN] = "nan",
    [FAULT_FLIP] = "flip",   [FAULT_NAN_GRADIENT] = "nan-gradient"};

static enum status refuse(const char *part) {
    char quoted[TEXT_QUOTED_BYTES];
    return fail(STATUS_USAGE,
                "STRETTO_FAULT: %s is not understood\n"
                "  it is for tests, such as rank=1,step=7,at=REDUCE,do=kill",
                text_quoted(part, quoted));
}

static bool read_number(const char *text, int64_t *out) {
    char *end;
    *out = strtoll(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == 0;
}

static bool read_action(const char *text, enum fault_action *out) {
    for (int action = FAULT_KILL; action <= FAULT_NAN_GRADIENT; action++) {
        if (strcmp(text, actions[action]) == 0) *out = (enum fault_action)action;
    }
    return *out != FAULT_NONE;
}

static bool read_part(const char *part, struct fault *fault, int64_t *rank) {
    if (strncmp(part, "rank=", 5) == 0) return read_number(part + 5, rank);
    if (strncmp(part, "step=", 5) == 0) return read_number(part + 5, &fault->step);
    if (strncmp(part, "do=", 3) == 0) return read_action(part + 3, &fault->action);
    if (strncmp(part, "at=", 3) != 0 || !part[3] || strlen(part + 3) >= sizeof fault->at)
        return false;
    memcpy(fault->at, part + 3, strlen(part + 3) + 1);
    return true;
}

enum status fault_parse(const char *text, int rank, int attempt, struct fault *out) {
    struct fault fault = {.step = -1};
    int64_t whose = -1;
    enum status status = STATUS_OK;
    char *copy = mem_text(text ? text : ""), *rest = NULL;
    for (char *part = strtok_r(copy, ",", &rest); part && status == STATUS_OK;
         part = strtok_r(NULL, ",", &rest)) {
        if (!read_part(part, &fault, &whose)) status = refuse(part);
    }
    free(copy);
    TRY(status);
    if (text && (whose < 0 || !fault.at[0] || fault.action == FAULT_NONE)) return refuse(text);
    *out = whose == rank && attempt == 0 ? fault : (struct fault){.action = FAULT_NONE};
    return STATUS_OK;
}

enum status fault_read(int rank, struct fault *out) {
    const char *attempt = getenv("STRETTO_ATTEMPT");
    return fault_parse(getenv("STRETTO_FAULT"), rank, attempt ? atoi(attempt) : 0, out);
}

enum fault_action fault_trigger(struct fault *fault, const char *at, int64_t step) {
    if (fault->action == FAULT_NONE || strcmp(fault->at, at) != 0) return FAULT_NONE;
    if (fault->step >= 0 && fault->step != step) return FAULT_NONE;
    enum fault_action action = fault->action;
    fault->action = FAULT_NONE;
    if (action == FAULT_KILL) raise(SIGKILL);
    if (action == FAULT_STOP) raise(SIGSTOP); /* and goes on after SIGCONT */
    if (action == FAULT_PAUSE) sleep(4);
    while (action == FAULT_HANG) pause();
    if (action == FAULT_EXIT) _exit(7);
    return action >= FAULT_NAN ? action : FAULT_NONE;
}

static bool owns(const struct state_layout *layout, int64_t element) {
    for (int i = 0; i < layout->owned_count; i++)
        if (element >= layout->owned[i].begin &&
            element < layout->owned[i].begin + layout->owned[i].count)
            return true;
    return false;
}

/* The first element of the last parameter: behind it there is no ReLU that would hide it. Of a rank
 * that owns slices, of the last block it owns: a copy of what another one owns would be replaced
 * before anybody reads it; and a tensor begins a block, so that it is no padding. */
static float *victim(struct store *store) {
    const struct state_layout *layout = store->layout;
    if (layout->held_count == 0) return NULL; /* all that it holds is frozen */
    int params = state_array(layout, ARRAY_PARAM, 0), last = layout->order[layout->held_count - 1];
    int64_t begin = layout->params[last].begin;
    if (!owns(layout, begin)) {
        int slice = layout->owned_count - 1;
        while (slice > 0 && layout->owned[slice].count == 0) slice--;
        if (slice < 0 || layout->owned[slice].count == 0) return NULL; /* it owns nothing */
        begin = layout->owned[slice].begin;
    }
    return store_elements(store, params, begin, 1).data;
}

void fault_corrupt(struct store *store, enum fault_action action) {
    bool corrupts = action == FAULT_NAN || action == FAULT_FLIP;
    float *element = corrupts ? victim(store) : NULL;
    uint32_t bits;
    if (!element) return;
    memcpy(&bits, element, sizeof bits);
    bits ^= 1;
    memcpy(element, &bits, sizeof bits);
    if (action == FAULT_NAN) *element = NAN;
}
