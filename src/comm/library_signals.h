#ifndef COMM_LIBRARY_SIGNALS_H
#define COMM_LIBRARY_SIGNALS_H

/* Local; before UCX is loaded. By default UCX takes over signals (SIGSEGV, SIGILL, SIGHUP) as it is
 * loaded, and with them our own handlers; this says in its environment that it shall not. What the
 * user has set stays. Where MPI is linked with UCX, as Open MPI 5 is, UCX is loaded before main:
 * the environment must say so before the program starts. */
void comm_keep_signals(void);

#endif
