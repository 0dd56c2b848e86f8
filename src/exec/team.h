/* A team: the ranks of a training as threads of one process, from their plans to what they trained.
 * For whoever compares trainings: `check --numeric` and the equality matrix of the tests.
 *
 * A rank's plan is made on its own thread, since a device sets up the threads of whoever opens it;
 * rank 0 is the caller's. Nothing is written, evaluated or saved. */
#ifndef EXEC_TEAM_H
#define EXEC_TEAM_H

#include "exec/exec.h"

/* What was trained: equal trainings have equal answers. */
struct team_answer {
    uint64_t params, buffers; /* hashes; of buffers replica 0's */
    double loss, norm;        /* of the last step */
    float **param;            /* [param_count] plain, by number in the graph; NULL: not kept */
    int param_count;
};

struct team_config {
    int ranks;
    void *context;
    /* The plan of a rank, on its thread, of rank 0 first; it outlives the call. */
    enum status (*plan)(void *context, int rank, const struct plan **out);
    /* The rank is about to begin; NULL: nothing is to be done. */
    enum status (*ready)(void *context, int rank, struct exec *exec);
    const struct exec_observer *observers; /* [ranks]; NULL: nobody watches */
    bool keep_params;
};

/* Local, blocking. Runs all steps of the plans. STATUS_NO, in words, where replicas have become
 * different. The caller frees the answer. */
enum status team_train(const struct team_config *config, struct team_answer *out);
void team_answer_free(struct team_answer *answer);
/* Local, pure. What of two answers differs, in a word or two; NULL: nothing. */
const char *team_difference(const struct team_answer *a, const struct team_answer *b);

#endif
