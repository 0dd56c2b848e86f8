/* The record of a file:// meeting: who hosts it, where its server is, and the secret. Text, with a
 * checksum, so that half a record or a damaged one is never taken for a whole one. Private to
 * src/control. */
#ifndef CONTROL_RECORD_H
#define CONTROL_RECORD_H

#include "control/control.h"

enum { CONTROL_RECORD_BYTES = 2048, CONTROL_RECORD_WORD = 128 };

struct control_record {
    char job[CONTROL_RECORD_WORD]; /* "-": none was given */
    char nonce[CONTROL_RECORD_WORD];
    char host[CONTROL_RECORD_WORD], boot[CONTROL_RECORD_WORD];
    char space[CONTROL_RECORD_WORD], net[CONTROL_RECORD_WORD]; /* of process numbers, of networks */
    int pid, world;                                            /* world: for people */
    struct control_meeting_info info;
};

enum control_record_state {
    CONTROL_RECORD_GOOD,
    CONTROL_RECORD_TORN,  /* a record once, or the beginning of one */
    CONTROL_RECORD_ALIEN, /* somebody's file that has nothing to do with us */
};

/* Local. A record of this process, with a nonce of its own. */
enum status control_record_new(const char *job, int world, const struct control_meeting_info *info,
                               struct control_record *out);
/* Local. The text of a record; its length. */
size_t control_record_print(const struct control_record *record, char text[CONTROL_RECORD_BYTES]);
/* Local. `out` is written when good. */
enum control_record_state control_record_parse(const char *text, size_t bytes,
                                               struct control_record *out);
/* Local. The same kernel (its boot), and the same numbering of processes too. */
bool control_record_same_boot(const struct control_record *a, const struct control_record *b);
bool control_record_same_space(const struct control_record *a, const struct control_record *b);
/* Local. The same kernel and the same networks: a socket without a file reaches from one to the
 * other. */
bool control_record_same_host(const struct control_record *a, const struct control_record *b);

#endif
