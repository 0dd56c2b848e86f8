/* What of a training survives a new plan: how far it is, what it was told, what it has saved, who
 * watches it. Engines come and go with plans; each points to it and moves it on. */
#ifndef EXEC_TRAIN_STATE_H
#define EXEC_TRAIN_STATE_H

#include <stdint.h>

#include "base/exact.h"
#include "graph/graph.h"
#include "plan/course.h"
#include "program/instr.h"

/* What is told to whoever watches, of training; evaluating and saving are each one thing, which
 * struct train_observer tells. Callbacks run on the engine's thread and must not block for
 * long. Steps are counted from 0, and an instruction's is the one that it belongs to
 * (program/ahead.h); times are clock_ns(), or virtual (engine_clock.h). */
struct engine_observer {
    void *context;
    void (*starting)(void *context, const struct instr *instr, int64_t step,
                     int64_t now_ns /* of the wall clock, also in virtual time */);
    /* It has run, or (queue COMM) has been posted. */
    void (*instr)(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                  int64_t end_ns);
    /* A node of a pass of a step has run. */
    void (*node)(void *context, const struct graph *graph, const struct node *node, int64_t ns);
    /* What an instruction of the queue COMM posted was under way from the post to the moment at
     * which any thread of this rank saw that it was done. Told when the engine awaits it. */
    void (*posted)(void *context, const struct instr *instr, int64_t step, int64_t begin_ns,
                   int64_t end_ns);
    /* `waiter` (NULL: the end of the list) has waited for what `awaited` posted; for an exchange
     * inside itself where both are the same. */
    void (*waited)(void *context, const struct instr *waiter, const struct instr *awaited,
                   int64_t step, int64_t begin_ns, int64_t end_ns);
    /* The plan changes behind so many steps: "DECIDE", "PLAN", "TAKE" (values out of the old
     * engine), "OPEN" (the new one), "MOVE" (values to who needs them), "START". NULL: nobody asks.
     * There may be no engine. */
    void (*changing)(void *context, const char *what, int64_t steps);
};

/* What losses of f16 are multiplied by, so that small gradients are not 0: halved where a gradient
 * overflows, in a step that is left out; doubled after many that are not. As torch's GradScaler. */
struct loss_scale {
    double scale;    /* 0: losses are not scaled */
    int64_t good;    /* steps since it changed */
    int64_t skipped; /* steps left out so far */
};

/* What a checkpoint has of it. */
struct checkpoint_state {
    int64_t step;      /* updates done */
    int64_t best_step; /* of those, done at the best evaluation so far, -1 for none */
    double best_score; /* higher is better */
    struct loss_scale scale;
    int64_t saved_step; /* of the newest checkpoint that this run saved or resumed from, or -1 */
};

/* The sample that the next step begins with, in the order of its epoch. Another plan may take
 * another number of samples in a step; updates and samples are counted apart. */
struct train_position {
    int64_t epoch, sample;
};
struct train_place {
    int64_t step; /* updates done */
    struct train_position next;
};

/* Of --hetero. */
struct train_laws {
    int64_t begin_ns;     /* of the first pass, from which traces count; 0: none yet */
    int64_t passes, late; /* that `base` has a time for; that computed longer than that */
};

/* Updates, by how many others came to the same parameters between their forward and themselves; the
 * last one counts all that are more. */
enum { STALE_MOST = 63 };
struct train_stale {
    int64_t updates[STALE_MOST + 1];
};

/* Per block of the model, the exact sum of the squares of its gradients in the steps of a period,
 * as far as ranks have told one another; alike on all of them. */
struct train_norms {
    struct exact_sum *squares; /* the opener's */
    int blocks;                /* 0: nobody asks */
};

/* What a checkpoint keeps of a run whose plan changes: the parts so far, and norms. */
struct train_course {
    const struct course_part *part;
    int count; /* 0: it has one plan */
    struct train_norms norms;
};

/* Averages over groups that were chosen, by their members, and by how many updates the oldest
 * member's parameters lacked of those that the newest had seen; the last ones count all that are
 * more. Each member counts, once for all stages that have the same group. */
struct train_groups {
    int64_t members[STALE_MOST + 1], spread[STALE_MOST + 1];
};

struct train_state {
    struct checkpoint_state done;
    struct train_position next;
    struct train_laws laws;
    struct train_stale stale;
    struct train_groups groups;
    double lr;                       /* asked for; NaN: the policy's */
    struct engine_observer observer; /* of instructions */
    struct train_norms norms;
    const struct course *course;  /* of a run whose plan changes, the opener's; else NULL */
    uint64_t moved_bytes;         /* of tensors, at the last change of the plan */
    struct tensor_values *values; /* on their way from one plan to the next; else NULL */
};

/* Local. Of a training that has not begun and that nobody watches. */
struct train_state train_fresh(void);

#endif
