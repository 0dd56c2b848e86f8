/* TensorBoard event files: scalars that a stock TensorBoard shows while the run goes on.
 *
 * A file is a sequence of framed records, each a small protocol buffer message. Only a few messages
 * and fields are ever needed, so they are encoded by hand; a protobuf library would be the
 * largest dependency. */
#ifndef RECORD_TENSORBOARD_H
#define RECORD_TENSORBOARD_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct tensorboard;

/* Local, blocking. Starts a new event file in `folder`, which must exist; the caller closes it. It
 * sorts after those already there, and readers forget what those hold from `first_step` on: pass
 * the step after the one resumed from, or 0. The version record is on disk when this returns. */
enum status tensorboard_open(const char *folder, int64_t first_step, struct tensorboard **out);
/* Local. Adds one value; reaches the disk within a few seconds of calls, or with tensorboard_flush.
 */
enum status tensorboard_scalar(struct tensorboard *board, double wall_s, int64_t step,
                               const char *tag, float value);
/* Local. Adds a histogram of whole numbers: count[i] times the number i. */
enum status tensorboard_histogram(struct tensorboard *board, double wall_s, int64_t step,
                                  const char *tag, const int64_t *count, int numbers);
/* Local, blocking. */
enum status tensorboard_flush(struct tensorboard *board);
/* Local, blocking. Flushes and frees, also on failure; accepts NULL. */
enum status tensorboard_close(struct tensorboard **board);

/* Local. The encodings alone: each fills `out` with one framed record and returns its bytes. A tag
 * is cut after TENSORBOARD_TAG_BYTES. */
enum { TENSORBOARD_TAG_BYTES = 100, TENSORBOARD_RECORD_BYTES = 192 };
size_t tensorboard_encode_version(double wall_s, unsigned char out[TENSORBOARD_RECORD_BYTES]);
size_t tensorboard_encode_start(double wall_s, int64_t step,
                                unsigned char out[TENSORBOARD_RECORD_BYTES]);
size_t tensorboard_encode_scalar(double wall_s, int64_t step, const char *tag, float value,
                                 unsigned char out[TENSORBOARD_RECORD_BYTES]);
/* ... of a histogram: `out` has room for TENSORBOARD_RECORD_BYTES and 64 for each number. */
size_t tensorboard_encode_histogram(double wall_s, int64_t step, const char *tag,
                                    const int64_t *count, int numbers, unsigned char *out);

#endif
