/* Everything a run is told, resolved: no defaults left open. Made by resolve.h and const from then
 * on: kept by the plan, read by plan, executor and simulator. */
#ifndef PLAN_CONFIG_H
#define PLAN_CONFIG_H

#include "cost/cost.h"
#include "data/dataset.h"
#include "model/model.h"
#include "optim/optim.h"
#include "plan/balance.h"
#include "plan/freezing.h"
#include "program/program.h"
#include "sync/groups.h"

/* Of the optimizer that takes what replicas that train apart have learnt: nesterov, or (momentum 0)
 * sgd. */
struct outer_config {
    float lr, momentum;
};

/* What keeps replicas equal where there are several, whether this plan has them or not. */
struct several_config {
    const char *sync;
    int zero_stage;
    bool scatters, sync_bn;
};

struct run_config {
    const struct model *model;
    const struct dataset *dataset; /* the caller's; outlives the run */
    struct model_config shape;     /* batch and training are set per graph by the plan */

    bool forward;          /* no step is run: evaluation alone, see program_is_forward */
    bool weights;          /* it reads those of a file, at its beginning or later */
    enum split eval_split; /* what is evaluated */

    const char *schedule; /* "single" */
    const char *sync;     /* "none", "allreduce", "zero" */
    int zero_stage;       /* 1 to 3; 0: nothing is sliced */
    struct several_config several;
    unsigned sliced;             /* what that is for this run: SLICED_... of program.h */
    int64_t zero_keep_bytes;     /* parameters of no more are gathered once a step */
    int64_t zero_prefetch_bytes; /* of parameters gathered ahead; below 0: a bucket */
    int64_t bucket_bytes;        /* most of a bucket of gradients; 0: by the size of the model */
    int ranks, rank;             /* of the job; this one */
    const char *comm;            /* how they talk, as comm_open names it; NULL: one rank */
    const char *plane;           /* how their devices do, as plane_open names it; NULL: by that */
    bool plane_named;            /* the user asked for it */
    int replicas, micro_batches; /* of the deal, R x M: a rank for each replica, or one for all */
    struct grid grid;            /* which stage and replicas each rank holds */
    struct grid_cell cell;       /* what this rank holds */
    enum balance balance;        /* of the stages, unless they are named: */
    const char *const *cut;      /* first layers of the stages after the first; NULL */
    int cut_count;
    int chunks_asked;                /* by --virtual; 0: the schedule's, or what auto finds */
    int64_t memory_limit;            /* bytes of a rank, for auto; 0: none */
    enum recompute_policy recompute; /* of pipelines */
    int64_t batch;                   /* samples a step, a multiple of R * M */
    enum sum_order sum;
    bool unpadded; /* epochs are not padded by replicas: their number may change */
    bool drop_last;
    bool overlaps;      /* steps are not flushed: see program/ahead.h */
    bool vertical_sync; /* ... and all stages of a mini-batch read versions of one update */
    bool apart;         /* replicas have parameters of their own */
    int sync_every;     /* ... steps from one average to the next, and: */
    struct outer_config outer;
    bool chooses;                  /* ... or it is decided while they run who averages, by: */
    struct groups_config groups;   /* of `chooses` */
    bool groups_by_stage;          /* each stage has groups of its own */
    struct freezing_rule freezing; /* which blocks of the model are not trained, and when; */
    int64_t freeze_every;          /* steps of one of its periods */
    int frozen;                    /* blocks, the first ones, that are not trained in this plan */
    enum pipe_rule pipe;           /* how a pipeline with frozen blocks is cut, and shrinks; */
    bool auto_dp;                  /* freed ranks are replicas */
    const struct course_file *course; /* that is replayed, in place of these; NULL: none */
    bool sync_bn; /* batch norm takes the statistics of all replicas; only with several */

    const struct optim_rule *optimizer;
    struct optim_config optim;
    bool decay_bias, decay_norm; /* whether weight decay reaches these classes */
    double clip;                 /* of the gradients' norm; 0: none */
    struct lr_config lr;
    int64_t steps; /* length of the run */
    int64_t steps_per_epoch;
    int64_t eval_batch;    /* samples of a forward pass of evaluation */
    int64_t forward_batch; /* samples of forward passes beside evaluation's; 0: there are none */

    const char *device;
    int device_index; /* of the machine's devices of this kind; a rank has one */
    enum dtype dtype; /* of activations and products: f32, bf16 or f16 */
    bool tf32;        /* products of f32 may round their operands so */
    bool spread;      /* ranks are on several machines */
    int threads;
    enum conv_method conv;
    uint64_t seed;
    int workers;
    bool saves; /* this rank writes all it holds, whichever replica it is */
    bool dry;   /* nothing will run: kernels are described, not made */

    const struct costs *costs; /* the caller's; outlive the plans, as do their delays the run */
};

#endif
