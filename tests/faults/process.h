/* Ranks and servers as processes for the fault tests, so that they can be killed and stopped.
 *
 * Address and secret are chosen beforehand: processes are forked before any thread is started, and
 * ranks try until the server is there. All traffic stays on this host. */
#ifndef TESTS_FAULTS_PROCESS_H
#define TESTS_FAULTS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "control/control.h"

/* Sanitizers keep freed memory and are slow, so there sizes and times say nothing. */
#ifdef STRETTO_SANITIZE
static const bool process_sanitized = true;
#else
static const bool process_sanitized = false;
#endif

struct process_job {
    char address[CONTROL_ADDRESS_BYTES];
    struct control_secret secret;
    uint32_t epoch;   /* of the server, and of ranks that are not told otherwise */
    const char *host; /* of ranks that are not told otherwise; NULL: "here" */
    int world;
    double join_s, silent_s;
};

/* What a forked rank does after it joined; it ends with the exit code of the status it met. */
enum process_role {
    PROCESS_WAITS,   /* for a key nobody puts, until a loss */
    PROCESS_PUTS,    /* one large value after the other, until a loss */
    PROCESS_LEAVES,  /* at once */
    PROCESS_WATCHES, /* leaves cleanly after 6 seconds; exit code 4 when anybody was lost */
};

void process_job(struct process_job *job, int world, double join_s, double silent_s);
struct control_config process_rank_config(const struct process_job *job, int rank);
struct control_server_config process_server_config(const struct process_job *job);
/* Forks; what it says is not shown. */
pid_t process_rank(const struct process_job *job, int rank, enum process_role role);
pid_t process_server(const struct process_job *job);
/* Awaits the end of a process: its exit code, 128 + signal, or -1 after the limit (it is killed).
 */
int process_end(pid_t pid, int limit_ms);
void process_kill(pid_t pid);
void process_sleep_ms(int ms);

#endif
