/* OpenMP's environment, settled before OpenMP reads it. Only the program does this (cli/main.c): in
 * a program that links the library the environment is its own.
 *
 * OpenMP reads its variables when it is loaded, before main, so the process starts itself once more
 * to change them. Told to bind threads to cores (cluster profiles often do), libgomp has by then
 * tied the process to one core: threads made later inherit that, the launcher has one core to deal
 * out, and teams of ranks that are threads all begin at the first core. So these variables are set
 * aside, and the process gets back the cores it was given: the system spreads the threads of a rank
 * over them. Rejected: to keep the variables and let OpenMP bind in the second start; it binds one
 * team well, but knows neither loader nor data-plane threads nor ranks that are threads. */
#ifndef LAUNCH_OPENMP_H
#define LAUNCH_OPENMP_H

#include <stdbool.h>

#include "base/status.h"

/* Local; from .preinit_array, which runs before the initialisation of any library. Notes the cores
 * this process was given. */
void openmp_note_cores(void);

/* Local; first thing in main. Does not return where the process can start itself again; returns in
 * the process so started, and where it cannot. */
void openmp_settle(char *const argv[]);
/* Whether it has: a process that this one starts need not start itself again when it finds this
 * variable. */
bool openmp_is_settled(void);
#define OPENMP_SETTLED "STRETTO_STARTED"

/* Local. STATUS_USAGE, logged, where the system gives threads, or the environment the further
 * `threads` of OpenMP, less stack than kernels need: they would crash. openmp_settle has taken care
 * of the environment in the program itself. */
enum status openmp_check_stacks(int threads);

/* Local. Moves the variables that bind threads out of OpenMP's sight; what openmp_settle does with
 * the environment. */
void openmp_set_aside(void);

/* The variables that bind threads, NULL at the end; the value one had before it was set aside, NULL
 * for none (environment's own, valid until it changes). Local. */
extern const char *const openmp_binding[];
const char *openmp_aside(const char *name);

#endif
