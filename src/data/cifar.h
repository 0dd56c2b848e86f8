/* CIFAR-10's binary files: records of one label byte and 3x32x32 pixel bytes, red plane first, no
 * header. */
#ifndef DATA_CIFAR_H
#define DATA_CIFAR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    CIFAR_PIXELS = 3 * 32 * 32,
    CIFAR_RECORD = 1 + CIFAR_PIXELS,
    CIFAR_CLASSES = 10,
    CIFAR_FILE_RECORDS = 10000
};

/* Local. Checks a whole file held in memory: length and every label. `name` is for messages;
 * *out_records is the count of records. */
enum status cifar_parse(const char *name, const unsigned char *data, size_t count,
                        int64_t *out_records);

#endif
