/* Contract 9: do all ranks start from the same facts? And lists of ranks for people. */
#ifndef CONTROL_AGREE_H
#define CONTROL_AGREE_H

#include <stdbool.h>
#include <stddef.h>

enum {
    CONTROL_FACTS_MOST = 128,
    CONTROL_FACT_KEY = 64,
    CONTROL_FACT_VALUE = 512,
    CONTROL_HOST_BYTES = 64,
    CONTROL_WHY_BYTES = 1024,
};

/* The facts of one rank, copied. */
struct control_facts {
    struct control_fact *fact; /* keys and values owned */
    int count;
};

/* Local. True when all fixed facts agree. Otherwise `why` gets the first that does not, with both
 * values and who has them. `soft` gets the names of other facts that differ, or "". */
bool control_agree(const struct control_facts *ranks, int world, char why[CONTROL_WHY_BYTES],
                   char soft[CONTROL_WHY_BYTES]);

/* Local. "rank 3", "ranks 0-2 and 5" of the ranks whose mark is true; returns `text`, cut where it
 * would not fit. */
const char *control_rank_list(const bool *mark, int world, char *text, size_t bytes);

/* Local. Copies what a peer said for showing it to people: control bytes become '?'. */
void control_clean_copy(char *to, size_t bytes, const char *from);

#endif
