/* Older versions of the parameters, for passes that began before the last updates; private to
 * src/exec, but for what the library does to parameters between steps.
 *
 * Version n is what the parameters were after n updates. The newest is the array ARRAY_PARAM, which
 * updates change in place and which everybody else knows; before an update it is copied to one of
 * the arrays ARRAY_VERSION, over the oldest one. That is one copy more than updating from one array
 * into the next, and nobody but the passes has to know which one is the newest. */
#ifndef EXEC_VERSIONS_H
#define EXEC_VERSIONS_H

#include "exec/store.h"

/* Local. How many older ones are kept. */
int versions_kept(const struct store *store);
/* Local. The array of a version; those before the first update are the first. It must be kept. */
int versions_array(const struct store *store, int64_t version);
/* Local. Where among the older ones the one is that was there `before` updates ago. */
int versions_place(const struct store *store, int before);
/* Local, asynchronous on the device. Keeps the newest before it is updated. */
enum status versions_keep(struct store *store);
/* Local. So many updates were made: the arrays are those of the versions before. */
void versions_set(struct store *store, int64_t updates);
/* Local, asynchronous on the device. All older ones become the newest. */
enum status versions_fill(struct store *store);
/* Local, blocking. New values of a parameter that this rank holds, of which all versions are now.
 */
enum status versions_put(struct store *store, int item, const void *plain);

#endif
