/* A seal closes a message so that processes of this user, and of no other, can open it on any host
 * of the cluster, and know that one of their own closed it: how a secret crosses a network on which
 * nobody is known yet. MUNGE's credentials are one, since every host that runs Slurm has its
 * daemon. Tests have one of their own. */
#ifndef CONTROL_SEAL_H
#define CONTROL_SEAL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

enum { CONTROL_SEAL_WHY = 256, CONTROL_SEAL_PATH = 256 };

struct control_seal {
    char place[CONTROL_SEAL_PATH]; /* of the daemon's socket; "": where it is by default */
    /* Local, blocking while the daemon works. *text: printable, one line, the caller's. */
    enum status (*close)(const struct control_seal *seal, const void *data, size_t bytes,
                         char **text);
    /* Local, blocking likewise. False, with the reason, when nobody of this user closed it, it is
     * meant for another, was opened before or is damaged. *data is the caller's. */
    bool (*open)(const struct control_seal *seal, const char *text, char **data, size_t *bytes,
                 char why[CONTROL_SEAL_WHY]);
};

/* Local. Whether this build has the seal of that name: "munge". */
bool control_seal_exists(const char *name);
/* Local, blocking while the daemon is tried. MUNGE's, at the socket `place` ("": the default).
 * False where this build, this machine or its daemon has none; why. */
bool control_seal_munge(const char *place, struct control_seal *out, char why[CONTROL_SEAL_WHY]);

#endif
