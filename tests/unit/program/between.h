/* The lists between steps as text, for programs that are written by hand: what is added to a body
 * of a rank that is alone, or (BETWEEN_RANKS) of one whose replicas are group `q`. */
#ifndef TESTS_PROGRAM_BETWEEN_H
#define TESTS_PROGRAM_BETWEEN_H

#define BETWEEN_EVAL(rank)                                                                         \
    "rank " rank " eval\n#100 r" rank " LOAD s0 m0 a0\n#101 r" rank " F s0 m0 a0\n"                \
    "rank " rank " eval-end\n#102 r" rank " REPORT q0\n"
#define BETWEEN_SAVE(rank)                                                                         \
    "rank " rank " save\n#105 r" rank " OPEN q0\n#106 r" rank " WRITE\n#107 r" rank " COMMIT q0\n"
#define BETWEEN(rank) BETWEEN_EVAL(rank) BETWEEN_SAVE(rank)
#define BETWEEN_RANKS(rank, q)                                                                     \
    "rank " rank " eval-start\n#103 r" rank " STATS_ALL " q                                        \
    "\n" BETWEEN_EVAL(rank) "#104 r" rank " STATS_OWN\n" BETWEEN_SAVE(rank)

#endif
