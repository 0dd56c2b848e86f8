/* What the executor tells, as events of the trace: which tracks there are, what events are called
 * and which numbers they carry. All of it follows from instr.def and operand.def. */
#ifndef PLANNED_EVENTS_H
#define PLANNED_EVENTS_H

#include "base/option.h"
#include "plan/plan.h"
#include "record/trace.h"

/* COMPUTE is the rank's own thread: instructions, posts (of the queue COMM) and waits. COMM has
 * what was posted, for as long as it was under way. */
enum { TRACK_COMPUTE, TRACK_COMM, TRACK_COUNT };
extern const struct trace_schema events_schema;

/* Local. The events of struct engine_observer, whose steps are counted from 0. An event carries the
 * instruction's id and operands; a wait those of what was awaited, and the id of who waited. */
struct trace_event events_ran(const struct instr *instr, int64_t step, int64_t begin_ns,
                              int64_t end_ns);
struct trace_event events_posted(const struct instr *instr, int64_t step, int64_t begin_ns,
                                 int64_t end_ns);
struct trace_event events_waited(const struct instr *waiter, const struct instr *awaited,
                                 int64_t step, int64_t begin_ns, int64_t end_ns);

/* Local. Adds the bytes that the device's memory had taken behind it; 0: not known. */
void events_set_memory(struct trace_event *event, double bytes);

/* Local. The other way: what an event tells of its instruction, whose id and operands are set. */
enum events_told { TOLD_RAN, TOLD_POST, TOLD_WAIT };
enum events_told events_read(const struct trace_event *event, struct instr *out);

/* Local. The message that a SEND or RECV of `rank` is, so that both ends of it are known for one;
 * none of any other instruction. */
struct trace_message events_message(const struct instr *instr, const struct program *program,
                                    int rank);

/* Local. What the trace of a rank will be. */
struct trace_config events_trace_config(const struct plan *plan, const struct options *options,
                                        int rank);

#endif
