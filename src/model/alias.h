/* What other programs call our parameters: the rows of alias.def. All local. */
#ifndef MODEL_ALIAS_H
#define MODEL_ALIAS_H

#include <stdbool.h>

/* How the elements of another program's tensor lie; alias.def says what these are. */
enum alias_form { ALIAS_SAME, ALIAS_FLAT, ALIAS_TURNED, ALIAS_HWIO };

/* Where a parameter is in a file: one tensor, or several whose elements follow one another. */
enum { ALIAS_MAX_PARTS = 3, ALIAS_NAME_BYTES = 256 };
struct alias_place {
    enum alias_form form;
    int part_count;
    char part[ALIAS_MAX_PARTS][ALIAS_NAME_BYTES];
};

/* Whether a file has a tensor. */
typedef bool alias_has(const void *file, const char *name);

/* The first place of a parameter that the file has, in the order of alias.def, its own name first;
 * false: there is none, and `out` is not written. */
bool alias_find(const char *name, alias_has *has, const void *file, struct alias_place *out);

/* The second name of a tied tensor; NULL: it has none. */
const char *alias_tied(const char *name);
/* Whether a tensor of another program's file is a constant, which no model of ours has. */
bool alias_is_constant(const char *name);

#endif
