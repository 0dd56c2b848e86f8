/* --init: where the ranks of a job meet. Local, not blocking. */
#ifndef LAUNCH_INIT_H
#define LAUNCH_INIT_H

#include "base/status.h"
#include "launch/identity.h"

enum init_form { INIT_NONE, INIT_TCP, INIT_FILE };

struct init {
    enum init_form kind;
    char host[256]; /* TCP: a name or address, without brackets */
    int port;
    char path[1024]; /* FILE: absolute */
};

/* tcp://host:port, tcp://[fd00::1]:port, file:///path, env:// (MASTER_ADDR and MASTER_PORT); no
 * --init is INIT_NONE. */
enum status init_parse(const struct launch_config *config, struct init *out);

/* Whether MASTER_ADDR or MASTER_PORT is set. */
bool init_is_exported(const struct launch_config *config);
/* The options of a rank whose number was set by hand: what is exported is --init env:// where no
 * --init is given. A launcher that says where its ranks meet does not need it. Texts stay the
 * options'. */
struct launch_config init_by_hand(const struct launch_config *config);

#endif
