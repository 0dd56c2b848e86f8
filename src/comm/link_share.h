/* A value of each rank, for all, over the link: how communicators find their peers. */
#ifndef COMM_LINK_SHARE_H
#define COMM_LINK_SHARE_H

#include "base/file.h"
#include "comm/comm.h"

/* Collective over the ranks that name the same key, blocking. Rank `index` of `count` gives a value
 * and gets those of all: out[count], which the caller frees with comm_link_share_free, also after a
 * failure. The first collects them and publishes them together: the messages are linear in the
 * ranks. */
enum status comm_link_share(const struct comm_link *link, const char *key, int index, int count,
                            const struct bytes *own, struct bytes *out);
void comm_link_share_free(struct bytes *values, int count);

#endif
