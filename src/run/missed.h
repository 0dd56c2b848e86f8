/* A forecast that a run did not keep to: what differs, as far as the run has measured it, and what
 * to try. All local; the words follow from the facts alone.
 *
 * Only what was observed is named. Where nothing that was measured explains it, that is said. */
#ifndef RUN_MISSED_H
#define RUN_MISSED_H

#include <stdbool.h>

/* Of the steps that were timed; times of a step, of rank 0. NaN: not known. */
struct missed_facts {
    double step_ms;                 /* the median */
    double p50_ms, low_ms, high_ms; /* the forecast; low = high: it has no interval */
    double data_ms;                 /* waited for data */
    double passes_ms, predicted_passes_ms;
    double waits_ms, predicted_waits_ms; /* for other ranks and messages */
    double other_cores;                  /* that other programs kept busy, of this machine */
    double stolen_cores;                 /* that a hypervisor gave to others */
    double coreless;    /* share of time in which rank 0 could have run and had no core */
    int ranks, threads; /* of this machine; of a rank */
    int usable_cores, online_cores;
    double crowd;        /* threads to a core that the forecast counts with */
    const char *profile; /* that it rests on; NULL: the rules of the operations */
    bool estimated;      /* not all operations are in the profile */
    bool spread;         /* ranks are on several machines */
};

/* The texts of three rows; the caller frees them with missed_free. */
struct missed_words {
    char *forecast, *differs, *hints;
};

/* False: the median step lies inside the interval, or one of them is not known. */
bool missed_words(const struct missed_facts *facts, struct missed_words *out);
void missed_free(struct missed_words *words);

#endif
