/* Which seals this build has. */
#include "control/seal.h"

#include <stdio.h>
#include <string.h>

#include "control/munge.h"

/* NULL: left out of the build. */
static bool (*const munge_try)(const char *, struct control_seal *, char *) =
#ifdef HAVE_MUNGE
    control_munge_try;
#else
    NULL;
#endif

bool control_seal_exists(const char *name) {
    return strcmp(name, "munge") == 0 && munge_try;
}

bool control_seal_munge(const char *place, struct control_seal *out, char why[CONTROL_SEAL_WHY]) {
    if (munge_try) return munge_try(place, out, why);
    snprintf(why, CONTROL_SEAL_WHY, "this build has none: it needs libmunge-dev");
    return false;
}
