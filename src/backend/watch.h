/* What can be seen of devices beside their work. */
#ifndef BACKEND_WATCH_H
#define BACKEND_WATCH_H

#include "backend/backend.h"

struct backend_watch {
    /* Any of these may be NULL: not to be had. */

    /* Local, any thread. How busy the device and its memory were of late, in percent; false: not
     * known. */
    bool (*busy)(struct device *device, double *busy, double *memory);
    /* Local, cheap: no library is opened. Whether this machine seems to have such a device. */
    bool (*seen)(void);
    /* Local, asynchronous on the stream. The device notes `number`, from 1 on, when it comes here
     * and has done all before; the last one that it noted, which is known also when it has failed.
     */
    void (*mark)(struct device *device, struct stream *stream, uint32_t number);
    uint32_t (*marked)(struct device *device);
    /* Local. Whether it has failed for good; logs nothing. There where `mark` is. */
    bool (*failed)(struct device *device);
};

#endif
