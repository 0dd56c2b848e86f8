/* Where a rank is, in words: the server knows, ranks ask it and the launcher has it printed.
 * Private to src/control. Local, not blocking. */
#ifndef CONTROL_WHERE_H
#define CONTROL_WHERE_H

#include <stdbool.h>
#include <stddef.h>

#include "control/message.h"
#include "control/server.h"

struct control_where {
    int rank;
    enum control_state state;
    double silent_s, doing_s;   /* since it was heard of; since it began what it does */
    struct control_doing doing; /* without since_ns, which is of its host's clock */
    const char *host;           /* inside the message or the server's row */
};

void control_where_pack(struct control_message *out, const struct control_where *where);
bool control_where_unpack(struct control_unpack *from, struct control_where *out);

/* "rank 3 is at step 411 #9 F for 2.1 s (heard 0.3 s ago, slow)"; `slow` is said of a rank that is
 * waited for. */
const char *control_where_text(const struct control_where *where, bool waited_for, char *text,
                               size_t bytes);

#endif
