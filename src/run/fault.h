/* Fault injection, for tests of what happens when a rank dies, stands still or computes rubbish
 * at a given moment. Off unless the environment says
 *
 *     STRETTO_FAULT="rank=1,step=7,at=REDUCE,do=kill"
 *
 * `at` is an instruction of the program, or JOIN, EVAL, SAVE, or what comes between two plans
 * (struct engine_observer: DECIDE, PLAN, TAKE, OPEN, MOVE, START); `step` counts as progress does
 * and may be left out (the first time); `do` is kill (SIGKILL), stop (SIGSTOP), pause (four
 * seconds, for ranks that are threads), hang (for ever, alive), exit (code 7, unannounced), nan (a
 * parameter of this rank becomes one), flip (its lowest bit is turned over) or nan-gradient (an
 * element of the gradient bucket that the instruction names, such as TIE, becomes one). It is
 * triggered before the instruction, on the first start of the ranks only, so that
 * --restarts can be tested. */
#ifndef RUN_FAULT_H
#define RUN_FAULT_H

#include <stdint.h>

#include "exec/store.h"

enum fault_action {
    FAULT_NONE,
    FAULT_KILL,
    FAULT_STOP,
    FAULT_PAUSE,
    FAULT_HANG,
    FAULT_EXIT,
    FAULT_NAN,
    FAULT_FLIP,
    FAULT_NAN_GRADIENT
};

struct fault {
    enum fault_action action; /* FAULT_NONE: nothing will happen on this rank */
    int64_t step;             /* -1: any */
    char at[16];
};

/* Local. Reads the environment; another rank's fault is none. STATUS_USAGE where it is not
 * understood. */
enum status fault_read(int rank, struct fault *out);
/* Local, pure. The same from a text (NULL: none), at start `attempt` of the ranks. */
enum status fault_parse(const char *text, int rank, int attempt, struct fault *out);

/* Local. Triggers the fault where it is due, once; returns what is left to the caller: to corrupt a
 * parameter, FAULT_NAN or FAULT_FLIP, or a gradient, FAULT_NAN_GRADIENT. */
enum fault_action fault_trigger(struct fault *fault, const char *at, int64_t step);
/* Local. Corrupts the parameter; nothing for any other action. */
void fault_corrupt(struct store *store, enum fault_action action);

#endif
