/* What a model made of its inputs, written batch after batch: a .npy file, or JSON lines.
 *
 * One rank writes as it goes. Of several each writes its batches to a part file beside the output,
 * and the first rank joins the parts in the order of the samples: so ranks need a file system that
 * they share, as for checkpoints. The output appears under its name when it is whole. */
#ifndef RUN_PREDICTIONS_H
#define RUN_PREDICTIONS_H

#include "run/session.h"

struct predictions;

/* Local. Whether --output names something that can be written: STATUS_USAGE. */
enum status predictions_check(const struct options *options);

/* Collective over the ranks, blocking. */
enum status predictions_open(struct session *session, struct predictions **out);
/* Local, blocking: see struct engine_sink. STATUS_NUMERIC where a score is not finite. */
enum status predictions_add(void *predictions, const struct engine_output *output);
/* Collective, blocking. Gives the output its name where all went well on all ranks (`status`, which
 * they agree on); else nothing is left. Sets the pointer to NULL, and accepts NULL there. */
enum status predictions_close(struct predictions **predictions, enum status status);

#endif
