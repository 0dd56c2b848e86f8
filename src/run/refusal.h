/* Refusals of ranks that mpirun started. Each plans by itself, so that all of them find the same
 * fault of the command line or of the data; it should be said once.
 *
 * Rank 0 says it at once, and mpirun ends the job as soon as one rank has failed. So the others
 * hold their errors back for some seconds, in which they are ended; what one of them alone has
 * found is said after that. Rejected: telling one another, since there is no job yet to do it in;
 * saying nothing, since hosts may differ. */
#ifndef RUN_REFUSAL_H
#define RUN_REFUSAL_H

/* Local, once, on the thread that plans. Holds errors back from here on where this process is
 * another rank than 0 of mpirun; else it does nothing. */
void refusal_hold(void);
/* Local. The rank is about to join the others: from here on errors are said at once. */
void refusal_release(void);
/* Local, blocking where there is something to say; signals end the process meanwhile. At the end of
 * the command. */
void refusal_say(void);

#endif
