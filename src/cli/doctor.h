/* The parts of `stretto doctor`: rows of checks, and who prints them. Private to cli/doctor*.c and
 * its test. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include <stdbool.h>
#include <stdio.h>

#include "backend/backend.h"
#include "base/status.h"
#include "launch/cores.h"

enum doctor_level { DOCTOR_OK, DOCTOR_WARN, DOCTOR_BAD };

struct finding {
    enum doctor_level level; /* BAD: a run would stop */
    char value[256];
    char hint[256]; /* what to do, or why this value is used; "" for nothing */
};

struct check {
    const char *section, *name;
    /* Local. Looks at one thing; `out` is zeroed before. */
    void (*look)(const struct check *check, struct finding *out);
    const void *data; /* the row's own */
};
extern const struct check doctor_checks[];
extern const int doctor_check_count;

/* Local. Runs the checks and prints them. STATUS_NO when one of them is BAD. */
enum status doctor_report(const struct check *checks, int count, bool json, FILE *out);

/* Local. For checks: the value found; how it is judged, and why or what to do. */
void doctor_say(struct finding *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void doctor_judge(struct finding *out, enum doctor_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Local. What the device named by the row's data says of itself: library, version, instruction set.
 */
void doctor_look_device(const struct check *check, struct finding *out);

/* A row of a backend's table `part`, and what this machine has of it. */
struct doctor_part {
    const struct backend *backend;
    int index;
};
void doctor_look_part(const struct check *check, struct finding *out);

/* Local, blocking (a child process a try). The best instruction set that works, by oneDNN's names.
 */
void doctor_look_isa(const struct check *check, struct finding *out);

/* Local, blocking for some 0.3 s. How fast does the device of this name copy and multiply? */
void doctor_look_rates(const struct check *check, struct finding *out);
/* Local, blocking for some 0.2 s. Is bf16 faster than f32? */
void doctor_look_bf16(const struct check *check, struct finding *out);

/* Local; names are looked up. Ranks and networks: cli/doctor_ranks.c. */
void doctor_look_identity(const struct check *check, struct finding *out);
void doctor_look_rendezvous(const struct check *check, struct finding *out);
void doctor_look_rank_cores(const struct check *check, struct finding *out);
/* Cores and threads of this process, as a run without --threads would have them. */
void doctor_rank_share(struct cores_share *out);
void doctor_look_network(const struct check *check, struct finding *out);
void doctor_look_host(const struct check *check, struct finding *out);
void doctor_look_slurm(const struct check *check, struct finding *out);

#endif
