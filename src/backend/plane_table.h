/* What a plane fills in, and the objects that plane.c keeps for all of them. Private to backend. */
#ifndef BACKEND_PLANE_TABLE_H
#define BACKEND_PLANE_TABLE_H

#include "backend/plane.h"

/* What members tell one another of an operation: alike, but for the offset. */
struct plane_told {
    uint64_t sequence, offset;
    int64_t count;
    int32_t kind, dtype, root;
};

struct plane {
    const struct plane_ops *ops;
    struct device *device;
    struct comm *comm;
    struct stream *stream;
    char *memory; /* of `bytes`, `used` handed out */
    size_t bytes, used;
    struct plane_request *first, *last; /* on their way, in order */
    struct plane_request *spare;
    struct plane_request *awaited; /* by plane_wait, which looks at its request itself */
    struct plane_group *groups;
    bool failed;
};

struct plane_group {
    struct plane *plane;
    struct plane_group *next;
    struct comm_group *telling, *ending;
    int count, member;
    int *rank;
    uint64_t sequence;
    bool busy;   /* an operation of it is being told */
    void *state; /* the table's */
};

enum plane_stage { PLANE_QUEUED, PLANE_TELLING, PLANE_ENDING, PLANE_DONE };

struct plane_request {
    struct plane_group *group;
    struct plane_op op;
    enum plane_stage stage;
    struct comm_request *request; /* of the stage */
    struct plane_told own, *all;  /* of all members */
    int room;                     /* of `all` */
    struct plane_request *next;
    bool kept; /* somebody still asks for it */
};

struct plane_ops {
    const char *name;
    bool one_order; /* a device waits in operations: all ranks give them in one order */
    /* Local. See plane_exists. */
    bool (*exists)(void);
    /* Collective, blocking. Makes the plane, its memory included; frees it. */
    enum status (*open)(const struct plane_config *config, struct plane **out);
    void (*close)(struct plane *plane);
    /* Local, or collective over the group, blocking. NULL: nothing is kept of a group. */
    enum status (*group_new)(struct plane_group *group);
    void (*group_free)(struct plane_group *group);
    /* Local. The data of an operation is what the stream has made so far. NULL: nothing to do. */
    enum status (*tell)(struct plane *plane);
    /* Local. Enqueues this rank's part. */
    enum status (*launch)(struct plane_request *request);
    /* Local. All members have: the stream waits for them. NULL: it does by itself. */
    enum status (*end)(struct plane_request *request);
    /* Local. See plane_follow and plane_fetch; `tell` is called first. NULL: no messages. */
    enum status (*follow)(struct plane *plane, int rank);
    enum status (*fetch)(struct plane *plane, int rank, uint64_t offset, void *to, size_t bytes);
    /* Local. NULL: nothing waits on the device for another rank. */
    void (*abort)(struct plane *plane);
};

#define PLANE(name) extern const struct plane_ops plane_##name;
#include "comm/comm.def"

#endif
