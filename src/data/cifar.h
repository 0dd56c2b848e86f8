/* The binary files of CIFAR-10 and CIFAR-100: records of label bytes and 3x32x32 pixel bytes, red
 * plane first, no header. */
#ifndef DATA_CIFAR_H
#define DATA_CIFAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { CIFAR_PIXELS = 3 * 32 * 32, CIFAR_MAX_LABELS = 2 };

/* The label bytes in front of a record's pixels, by their number of classes. */
struct cifar_form {
    int labels;
    int classes[CIFAR_MAX_LABELS];
};
extern const struct cifar_form cifar_10;  /* one label */
extern const struct cifar_form cifar_100; /* coarse, then fine */

/* Local. Bytes of a record. */
size_t cifar_record(const struct cifar_form *form);
/* Local. Checks a whole file held in memory: length and every label. `name` is for messages;
 * *out_records is the count of records. */
enum status cifar_parse(const char *name, const struct cifar_form *form, const unsigned char *data,
                        size_t count, int64_t *out_records);

#endif
