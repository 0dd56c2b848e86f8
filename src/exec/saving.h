/* A checkpoint being saved, as the list "save" sees it; private to src/exec. checkpoint.c begins
 * and commits it, save.c has the handlers, collect.c that of tensors that slices cut. */
#ifndef EXEC_SAVING_H
#define EXEC_SAVING_H

#include "exec/checkpoint.h"
#include "exec/manifest.h"
#include "exec/tensors.h"

/* What members tell one another: how it went so far, and their part of the checkpoint. */
struct save_report {
    int32_t status;
    uint64_t tensors[PART_COUNT], bytes[PART_COUNT]; /* that the member writes */
    struct safetensors_mark mark[PART_COUNT];        /* of what it has written */
};

/* Where COLLECT is: the array, and whether its slices were gathered. */
struct collect_run {
    bool active, gathering;
    int array;
};

struct saving {
    const struct checkpoint_config *config; /* NULL: only the model is written, to a folder that is
                                               there; or see `values` */
    const struct checkpoint_state *state;
    struct train_position next;
    const struct engine_clock *clock;     /* of virtual time; NULL */
    const struct engine_chooser *chooser; /* of groups that are chosen; NULL */
    int64_t under_way;                    /* steps, by that clock */
    struct train_stale *stale;            /* per rank, on the first; NULL: steps do not overlap */
    char *temporary;                      /* the folder that is written to */
    struct tensor_values *values; /* tensors are kept here, and no file is written; or NULL */
    struct train_course course;   /* count 0: there is one plan */
    struct save_report own, *all;
    int member, members; /* of the group that saves */
    int meeting;         /* of the instruction under way: how many there were */
    struct collect_run collect;
    struct whole_tensor *whole; /* that this rank writes; owned */
    int whole_count;
    size_t whole_room;
};

/* Collective, blocking. Runs the list. */
enum status engine_save(struct engine *engine, struct saving *saving);

/* Local, blocking; the first member alone. Makes the folder where there is room for so many bytes;
 * puts a manifest of these files into it and gives it its name. */
enum status checkpoint_begin(const struct saving *saving, uint64_t bytes);
enum status checkpoint_commit(const struct saving *saving, const struct manifest_file *files,
                              int count);

#endif
