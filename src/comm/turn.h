/* Waits of a rank, and what else goes on meanwhile. */
#ifndef COMM_TURN_H
#define COMM_TURN_H

#include "comm/comm.h"

/* Local. Called as often as a wait of this rank looks whether it is over, for what else others need
 * of it; a failure ends the wait. NULL: nobody. */
void comm_set_turn(struct comm *comm, enum status (*turn)(void *context), void *context);
/* Local, about ten times a second in a wait that is not the communicator's: STATUS_PEER, said,
 * where a rank is lost; tells the link what is awaited since when. */
enum status comm_look(struct comm *comm, const char *what, int64_t since_ns);

#endif
