/* --save-profile: the times of a run's operations, measured while it trains with all ranks busy,
 * and of its memory and links, measured at its end. docs/profile.md has the file. */
#ifndef RUN_PROFILING_H
#define RUN_PROFILING_H

#include "cost/profile.h"
#include "exec/engine.h"
#include "planned/planned.h"

struct profiling;

/* Local. What a run of this plan measures; NULL unless --save-profile is given. The planned run
 * must outlive it. profiling_free accepts NULL and clears the pointer. */
struct profiling *profiling_new(const struct planned_run *planned);
void profiling_free(struct profiling **profiling);

/* Local. A node of a training graph took so long; an instruction ran, or (NULL) a step
 * has ended. */
void profiling_node(struct profiling *profiling, const struct graph *graph, const struct node *node,
                    int64_t ns);
void profiling_instr(struct profiling *profiling, const struct instr *instr, int64_t begin_ns,
                     int64_t end_ns);
/* Local. From now on measurements count: those before were of cold caches. */
void profiling_begin(struct profiling *profiling);

/* Collective over the ranks, blocking, after the last step. Measures what is left, brings all to
 * rank 0, which writes the file. Gradients are not those of the step any more. */
enum status profiling_save(struct profiling *profiling, struct engine *engine, const char *path);

#endif
