/* A DeepSpeed configuration file as options of ours: --deepspeed FILE. All local; only
 * deepspeed_read blocks, on the file. docs/deepspeed.md lists the keys, deepspeed.def is the table.
 *
 * The answer is a list of options with their values as text, which the command line sets as if they
 * had been typed, weaker than what was typed: no other module knows DeepSpeed. Nothing is dropped
 * in silence: a key that cannot be obeyed is refused, one without effect is in the note. */
#ifndef PLAN_DEEPSPEED_H
#define PLAN_DEEPSPEED_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

struct deepspeed_option {
    const char *option; /* without dashes: "zero-stage" */
    const char *value;
    const char *from; /* "ds.json:12: zero_optimization.stage": for the messages of option_set */
};

struct deepspeed {
    struct deepspeed_option *option;
    size_t count, capacity;
    const char *note; /* keys without effect here, in words; NULL: none */
    struct arena arena;
};

/* `replicas` is the number of data-parallel ranks, for the batch identity. STATUS_USAGE: not JSON,
 * unknown keys, values that are not allowed, batch sizes that contradict one another, features that
 * are not here; the message names file, line and key. The caller frees, and logs the note once. */
enum status deepspeed_parse(const char *name, const char *text, size_t bytes, int64_t replicas,
                            struct deepspeed *out);
enum status deepspeed_read(const char *path, int64_t replicas, struct deepspeed *out);
void deepspeed_free(struct deepspeed *deepspeed);

#endif
