/* A folder that looks like /, for what reads /proc and /sys: made and removed with a suite. */
#ifndef TESTS_BASE_PRETEND_H
#define TESTS_BASE_PRETEND_H

extern char pretend_root[];

/* For TestSuite(..., .init, .fini). */
void pretend_make(void);
void pretend_remove(void);
/* Writes a file below the root, with its folders. */
void pretend_put(const char *name, const char *text);

#endif
