/* What tests of sync policies share. */
#ifndef TESTS_SYNC_KIT_H
#define TESTS_SYNC_KIT_H

#include "program/program.h"

/* Printed, read back and printed again it is the same. */
void expect_same_text(const struct program *program);

#endif
