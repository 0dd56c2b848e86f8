/* The plan of a run: graphs, placements and programs, known and printable before any tensor memory
 * exists.
 *
 * A step's micro-batches have one size, those of an epoch's short last step at most two others,
 * evaluation one or two more: each distinct size is a micro_plan, a lowered graph with its
 * placement. All share one set of parameters, whose layouts the main training graph chooses, and
 * the arenas: each slot has one, as large as the largest of them needs, since micro-batches of
 * several sizes may be under way; and where that is smaller, transient values have one that all
 * slots share (graph/memory.h). Evaluation runs between steps, when all of it is free. */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include "base/file.h"
#include "data/loader.h"
#include "graph/memory.h"
#include "graph/range.h"
#include "plan/buckets.h"
#include "plan/choice.h"
#include "plan/config.h"
#include "plan/forms.h"
#include "plan/holdings.h"
#include "plan/partition.h"
#include "plan/pool.h"
#include "plan/state_layout.h"
#include "program/program.h"

struct micro_plan {
    int64_t samples;
    bool training;
    struct graph *graph;
    struct ranges ranges;        /* a segment of backward for each bucket of a stage's gradients */
    struct crossing *crossing;   /* per cut and phase; see ranges_crossing */
    struct placement *placement; /* per chunk of the rank and form of slots; see plan_placement */
};

/* One chunk of this rank: a stage of the model. */
struct chunk_plan {
    int stage;
    struct bucket_list buckets;    /* of its gradients */
    size_t slot_bytes[FORM_COUNT]; /* of a slot's arena, by its form */
    size_t arena_begin;            /* of its slots' arenas, one behind the other */
    size_t eval_bytes, eval_begin; /* of the one that evaluation has in their place */
};

/* Predicted bytes of a rank, by purpose. What plans do not know, library and trace, is filled in by
 * the caller. */
struct memory_estimate {
    bool apart; /* the device has memory of its own: that alone is counted */
#define MEMORY(field, ...) size_t field;
#include "plan/memory.def"
#undef MEMORY
};

/* Local. Its parts as users see them: row `index`, from 0 on; false after the last. */
struct memory_part {
    const char *name, *doc;
    size_t bytes;
};
bool memory_part(const struct memory_estimate *estimate, int index, struct memory_part *out);
size_t memory_sum(const struct memory_estimate *estimate);

enum { PLAN_MAX_MICRO = 6 };
/* Steps that one rank enqueues beside the oldest under way, on a device that is apart. */
enum { PLAN_STEPS_AHEAD = 2 };

/* What a plan does not make itself. All borrowed, and used by plan_new alone, but for the name. */
struct plan_given {
    const char *name;            /* of the program in messages */
    const struct bytes *program; /* in place of the schedule's own body; NULL */
    const struct bytes *agreed;  /* of auto: the text of rank 0's program; NULL */
    const struct choice
        *chosen;            /* of auto: what another plan of the run has chosen; NULL: choose */
    struct plan_pool *pool; /* of a search: graphs are shared, and described only; outlives the
                               plan. NULL: its own */
};

struct plan {
    const struct run_config config; /* of auto: with the grid that was chosen */
    struct plan_given given; /* after plan_new its name alone; NULL: the plan's own program */
    const char *comm;        /* by which ranks talk; NULL: one rank */
    const char *plane;       /* of its devices, as plane_open names it; NULL: by that */
    struct plan_pool *pool;  /* that device and graphs belong to; NULL: they are the plan's own */
    struct device *device;
    struct program *program;                   /* has list last where last_samples says so */
    int64_t *last_samples;                     /* per micro-batch of the short last step */
    struct choice choice;                      /* of auto; empty with other schedules */
    struct partition partition;                /* of the model into stages */
    struct ties ties;                          /* of the stages; buckets and all */
    struct holdings holdings;                  /* of this rank */
    struct bucket_rules rules;                 /* by which buckets are made */
    struct stage_buckets buckets;              /* of all stages of the model */
    struct chunk_plan chunk[GRID_MAX_CHUNKS];  /* of this rank */
    struct chunk_sizes sizes[GRID_MAX_CHUNKS]; /* the most that any program of the run needs */
    int chunk_count;
    struct slot_forms forms;                 /* of this rank's slots */
    struct state_layout *store;              /* parameters, gradients, optimizer state */
    struct micro_plan micro[PLAN_MAX_MICRO]; /* [0] is the main training graph */
    int micro_count;
    int64_t eval_batch,
        eval_rounds; /* samples of a pipeline in a round; rounds, alike on all ranks */
    struct loader_config train_loader, eval_loader;
    struct memory_estimate memory;
    int grads;           /* the most any program of the run needs */
    size_t shared_begin; /* of the arena that all slots share, behind their own */
    size_t shared_bytes;
    bool split;     /* some step runs backward as I and W: memory is placed for that */
    double flop_ns; /* by --hetero base: what passes take for each of their flops; 0: no such law */
};

/* Local. Plans a run; allocates nothing of the size of a tensor. `given` may be NULL. The caller
 * owns the plan. It takes the time of making graphs, kernels and programs, and is done once in a
 * process for each plan: what other ranks of the run need is asked of the same plan. */
enum status plan_new(const struct run_config *config, const struct plan_given *given,
                     struct plan **out);
/* Local. How many plans this process has made. */
int plan_count(void);
void plan_free(struct plan **plan);

/* Local. Stages of the model: of all chunks. */
static inline int plan_stages(const struct plan *plan) {
    return plan->config.grid.stages * plan->config.grid.chunks;
}

/* Local. The micro_plan for a number of samples; never NULL for sizes the run meets. */
const struct micro_plan *plan_micro(const struct plan *plan, int64_t samples, bool training);

/* Local. Whether its graph is ever run. A forward program has the graph of training all the same:
 * that one chooses the layouts of parameters, so kernels are those of the evaluations in training.
 */
bool plan_runs(const struct plan *plan, const struct micro_plan *micro);

/* Local. Where the values of a graph lie in a slot of a chunk; where that slot's arena begins. */
const struct placement *plan_placement(const struct plan *plan, const struct micro_plan *micro,
                                       int chunk, int slot);
size_t plan_slot_begin(const struct plan *plan, int chunk, int slot);

/* Local. Predicted bytes of another rank of the run, with this plan's graphs and programs. */
enum status plan_memory_of(const struct plan *plan, int rank, struct memory_estimate *out);

/* Local. Predicted peak of this rank; the part of it that must come from comm_alloc. */
size_t plan_bytes(const struct plan *plan);
size_t plan_heap_bytes(const struct plan *plan);

/* Local. The most that a rank at a position stores: parameters, gradients, windows of both,
 * optimizer state and buffers. */
size_t plan_store_bytes_at(const struct plan *plan, int position);
/* Local. The most of both that any rank of the run needs. */
void plan_most_shared_bytes(const struct plan *plan, size_t *heap, size_t *channels);

/* Local. Whether STEP awaits the norm of all gradients: to clip, or to leave a step out. */
static inline bool plan_clips(const struct run_config *config) {
    return config->clip > 0 || config->dtype == DTYPE_F16;
}
/* Local. The program of another schedule or sync policy for the same stages, replicas and
 * micro-batches, which goes with them; the caller frees it. */
enum status plan_other_program(const struct plan *plan, const struct run_config *config,
                               struct program **out);
/* Local. Ranks will talk by another communicator than the plan was made for: changes its part of
 * the estimate. */
void plan_use_comm(struct plan *plan, const char *name);

/* Local. Costs of this rank: floating-point operations of one training step; time of a step and of
 * an evaluation by the backend's own estimate, ns. */
double plan_step_flops(const struct plan *plan);
double plan_recompute_flops(const struct plan *plan); /* the part of it that runs again */
double plan_step_ns(const struct plan *plan);
/* Local. With --delay: what an instruction waits. */
int64_t plan_delay_ns(const struct plan *plan, const struct instr *instr);
double plan_evaluation_ns(const struct plan *plan);
/* Local. Arithmetic of a pass of a graph. */
double plan_pass_flops(const struct plan *plan, const struct micro_plan *micro,
                       const struct instr *instr);

/* Local. Lets the backend make now what the first kernels of the model's operations, and the first
 * copy of a parameter between layouts, would make later: its memory can then be measured
 * beforehand. */
enum status plan_warm_up(const struct plan *plan);

/* Local. Calls of a driver in a step; meetings in which it waits for the other ranks. 0 without
 * a driver. */
int plan_calls(const struct plan *plan);
int plan_round_trips(const struct plan *plan);

#include "plan/message_bytes.h"

#endif
