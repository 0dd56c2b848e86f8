/* What can be seen of devices beside their work. */
#ifndef BACKEND_WATCH_H
#define BACKEND_WATCH_H

#include "backend/backend.h"

struct backend_watch {
    /* Local, any thread. How busy the device and its memory were of late, in percent; false: not
     * known. */
    bool (*busy)(struct device *device, double *busy, double *memory);
    /* Local, cheap: no library is opened. Whether this machine seems to have such a device. */
    bool (*seen)(void);
};

#endif
