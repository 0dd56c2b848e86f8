/* The record of a rendezvous: which process publishes it, the control server's address, and the
 * secret. Text, with a checksum, so that a torn or damaged record is never taken for a whole one.
 * Private to src/control. */
#ifndef CONTROL_RENDEZVOUS_RECORD_H
#define CONTROL_RENDEZVOUS_RECORD_H

#include "control/control.h"

enum { CONTROL_RENDEZVOUS_BYTES = 2048, CONTROL_RENDEZVOUS_WORD = 128 };

struct control_rendezvous_record {
    char job[CONTROL_RENDEZVOUS_WORD]; /* "-": none was given */
    char nonce[CONTROL_RENDEZVOUS_WORD];
    char host[CONTROL_RENDEZVOUS_WORD], boot[CONTROL_RENDEZVOUS_WORD];
    char space[CONTROL_RENDEZVOUS_WORD],
        net[CONTROL_RENDEZVOUS_WORD]; /* of process numbers, of networks */
    int pid, world;                   /* world: for people */
    struct control_rendezvous_info info;
};

enum control_rendezvous_state {
    CONTROL_RENDEZVOUS_GOOD,
    CONTROL_RENDEZVOUS_TORN,  /* a record once, or the beginning of one */
    CONTROL_RENDEZVOUS_ALIEN, /* a file that is no rendezvous record */
};

/* Local. A record of this process, with a nonce of its own. */
enum status control_rendezvous_record_new(const char *job, int world,
                                          const struct control_rendezvous_info *info,
                                          struct control_rendezvous_record *out);
/* Local. The text of a record; its length. */
size_t control_rendezvous_record_print(const struct control_rendezvous_record *record,
                                       char text[CONTROL_RENDEZVOUS_BYTES]);
/* Local. `out` is written when good. */
enum control_rendezvous_state
control_rendezvous_record_parse(const char *text, size_t bytes,
                                struct control_rendezvous_record *out);
/* Local. The same kernel (its boot), and the same numbering of processes too. */
bool control_rendezvous_same_boot(const struct control_rendezvous_record *a,
                                  const struct control_rendezvous_record *b);
bool control_rendezvous_same_space(const struct control_rendezvous_record *a,
                                   const struct control_rendezvous_record *b);
/* Local. The same kernel and the same networks: a socket without a file reaches from one to the
 * other. */
bool control_rendezvous_same_host(const struct control_rendezvous_record *a,
                                  const struct control_rendezvous_record *b);

#endif
