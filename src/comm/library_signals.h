/* Signals stay ours. By default UCX takes over SIGSEGV, SIGILL and SIGHUP as it is loaded, and with
 * them our own handlers. Where MPI is linked with UCX, as Open MPI 5 is, it is loaded before main.
 */
#ifndef COMM_LIBRARY_SIGNALS_H
#define COMM_LIBRARY_SIGNALS_H

/* Local; before UCX is loaded, so in the program before it starts itself again. Says in the
 * environment that UCX shall take no signals; what the user has set stays. */
void comm_keep_signals(void);

#endif
