/* What a training came to, for whoever compares trainings: `check --numeric` and the equality
 * matrix of the tests. Nothing is written, evaluated or saved. */
#ifndef EXEC_ANSWER_H
#define EXEC_ANSWER_H

#include "exec/engine.h"

/* Equal trainings have equal answers. */
struct answer {
    uint64_t params, buffers; /* hashes; of buffers replica 0's */
    double loss, norm;        /* of the last step */
    float **param;            /* [param_count] plain, by number in the graph; NULL: not kept */
    int param_count;
};

struct answer_config {
    int ranks;
    void *context;
    /* The plan of a rank, on its thread, of rank 0 first; it outlives the call. */
    enum status (*plan)(void *context, int rank, const struct plan **out);
    /* The plan of a rank behind so many steps, which outlives the call; NULL: it stays. */
    enum status (*next)(void *context, int rank, int64_t steps, const struct plan **out);
    /* The rank is about to begin; NULL: nothing is to be done. */
    enum status (*ready)(void *context, int rank, struct engine *engine);
    /* The clock of a rank's steps, once rank 0 is planned; NULL: the wall clock's. */
    const struct engine_clock *(*clock)(void *context, int rank);
    const struct engine_observer *observers; /* [ranks]; NULL: nobody watches */
    bool keep_params;
};

/* Local, blocking. Runs all steps of the plans, ranks as threads, rank 0 on the caller's.
 * STATUS_NO, in words, where replicas have become different. The caller frees the answer. */
enum status answer_train(const struct answer_config *config, struct answer *out);
void answer_free(struct answer *answer);
/* Local, pure. What of two answers differs, in a word or two; NULL: nothing. */
const char *answer_difference(const struct answer *a, const struct answer *b);

#endif
