/* The simulator moved on from outside, one rank and one instruction at a time: by whoever runs the
 * programs and wants to know the times. The rules and the code are those of sim_run, so the times
 * are those of a forecast, to the last bit. All functions are local and do not block; one thread at
 * a time. Ranks are numbered as in the program. */
#ifndef SIM_LIVE_H
#define SIM_LIVE_H

#include "sim/run.h"
#include "sync/controller.h"

struct sim_live;

/* What the input has is borrowed until sim_live_free. `shares` are the samples of a short last
 * step's micro-batches as a part of those of others, for all replicas; NULL: there is no such step.
 */
struct sim_live *sim_live_new(const struct sim_input *input, const double *shares);
void sim_live_free(struct sim_live **live);

/* The rank begins a step of this number, from 0 on: its body, or the short last one. */
void sim_live_begin(struct sim_live *live, int rank, enum list_name list, int64_t step);
/* Before an instruction is run, and behind it; `at` is its place in the list, of the end its count.
 * False: the rank waits, and is to ask again once sim_live_woken has named it. */
bool sim_live_come(struct sim_live *live, int rank, int at);
bool sim_live_ran(struct sim_live *live, int rank, int at);
/* Behind the list, whose end has come: notes when the step ended. */
void sim_live_end(struct sim_live *live, int rank);

/* The row of the instruction that the rank is at; when what it posted last was issued and has
 * ended, once that is known: of an operation of a group when all have come. */
int sim_live_row(const struct sim_live *live, int rank);
void sim_live_times(const struct sim_live *live, int rank, int row, double *issued, double *end);
/* Time that a rank has waited for others, beyond data under way. */
double sim_live_waits(const struct sim_live *live, int rank);

/* Where members of groups are chosen (input->groups): whoever decides, whose state may be saved and
 * loaded between rounds. A round begins, and all clocks stand at the latest one from then on. A
 * rank asks for the number of its replica's mini-batch `index`; whether that is known. Decides what
 * was asked for first, if no rank can ask for anything before `time` and, at that time, `rank`;
 * false: nothing was. Ranks that wait for it are woken. */
struct controller *sim_live_controller(const struct sim_live *live);
void sim_live_round(struct sim_live *live, int64_t round, int64_t end, bool last);
void sim_live_draw(struct sim_live *live, int rank, int64_t index);
bool sim_live_number(struct sim_live *live, int rank, int64_t index, int64_t *out);
bool sim_live_decide(struct sim_live *live, double time, int rank);

double sim_live_clock(const struct sim_live *live, int rank);
/* Between steps of all ranks: the state as numbers, into room for the count that it returns (NULL:
 * it only counts), and back. Numbers of another program, or not `all`, set the clocks alone, to the
 * latest one: the answer is false. */
enum { SIM_LIVE_LATEST = 1 }; /* the latest clock, among them */
int sim_live_save(const struct sim_live *live, double *out);
bool sim_live_load(struct sim_live *live, const double *numbers, int count, bool all);
/* A rank that may go on, each once; -1: no further one. */
int sim_live_woken(struct sim_live *live);
/* The time from the end of the step before to the end of a step, each that of the last rank; of the
 * first step from 0. NaN: not all have ended it, or it is long ago. */
double sim_live_step(const struct sim_live *live, int64_t step);

#endif
