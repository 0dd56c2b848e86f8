/* MUNGE as a seal. Private to src/control; called through control/seal.h. */
#ifndef CONTROL_MUNGE_H
#define CONTROL_MUNGE_H

#include "control/seal.h"

/* See control_seal_munge. */
bool control_munge_try(const char *place, struct control_seal *out, char why[CONTROL_SEAL_WHY]);

#endif
