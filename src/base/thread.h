/* Threads beside a rank's own: signals are not for them, so all are blocked there. Handlers run on
 * the main thread, which has a stack for them (exec/stop.h). Their messages go where those of the
 * thread that starts them do (base/log.h). */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/status.h"

/* Local. The caller joins or detaches it. Where the system gives no
 * more: limit_fail. */
enum status thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
/* The same without a message: 0, or errno. */
int thread_try(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
