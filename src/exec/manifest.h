/* manifest.json of a checkpoint; private to src/exec. */
#ifndef EXEC_MANIFEST_H
#define EXEC_MANIFEST_H

#include "base/mem.h"
#include "exec/checkpoint.h"
#include "tensor/safetensors.h"

/* A file of the checkpoint, by its name in the folder. */
struct manifest_file {
    const char *name;
    struct safetensors_mark mark;
};

struct manifest {
    struct checkpoint_state state;
    struct train_position next;          /* epoch -1: it is older than this field */
    const struct checkpoint_fact *facts; /* borrowed when writing, in the arena when read */
    int fact_count;
    const struct manifest_file *files; /* likewise */
    int file_count;
    const double *clock;   /* of virtual time, see engine_clock.h; likewise */
    int clock_count;       /* 0: of the wall clock nothing is kept */
    int64_t under_way;     /* by it: steps whose forwards have begun, and whose update has not */
    const int64_t *groups; /* state of whoever decides on groups (sync/controller.h); likewise */
    int group_count;
    struct train_course course;      /* as recorded; its arrays likewise */
    const struct train_stale *stale; /* per rank; likewise */
    int stale_ranks;                 /* 0: steps do not overlap */
    struct arena arena;
};

/* Local, blocking. Atomic; a checksum over the content is part of it. */
enum status manifest_write(const struct manifest *manifest, const char *path);
/* Local, blocking. The caller frees what was read. STATUS_DATA: damaged or not there;
 * STATUS_UNREADABLE: the system would not read it; STATUS_USAGE: of a version that this one cannot
 * read. */
enum status manifest_read(const char *path, struct manifest *out);
/* Local. The same without a file: a text that the caller frees (NULL: it is no JSON), and from one
 * that messages call `path`. The fuzz test enters here. */
char *manifest_print(const struct manifest *manifest);
enum status manifest_parse(const char *path, const void *text, size_t bytes, struct manifest *out);
void manifest_free(struct manifest *manifest);
/* Local, blocking. Whether a file reads as a manifest, whatever its check says. Says nothing. */
bool manifest_is_one(const char *path);

/* Local. Whether the checkpoint has the same value of a fact. */
bool manifest_has_fact(const struct manifest *manifest, const struct checkpoint_fact *facts,
                       int fact_count, const char *key);
/* Local. Holds the facts of a checkpoint against those of this run; see enum fact_kind. */
enum status manifest_compare(const struct manifest *manifest, const struct checkpoint_fact *facts,
                             int fact_count, const char *where);

#endif
