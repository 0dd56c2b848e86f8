/* Outputs: whether a place that the user named may be written to. This is the one judge of it.
 * Every command asks it before it computes anything, so that a wrong name costs neither a file nor
 * the time of a run. docs/usage.md has the rule. */
#ifndef RUN_OUTPUTS_H
#define RUN_OUTPUTS_H

#include <stdbool.h>

#include "base/option.h"

enum output_kind {
#define OUTPUT(KIND, words, is) OUTPUT_##KIND,
#include "run/output_kinds.def"
    OUTPUT_KINDS
};

/* A file that will be written. Texts are borrowed. */
struct output {
    enum output_kind kind;
    const char *path;
    const char *label; /* what names it: "--output", "stretto_save" */
    bool folder_later; /* its folder is made where it is not there */
};

/* Local, blocking (looks at the disk, and writes a file beside the output that it removes again).
 * STATUS_USAGE for a file that the options name as an input, a file of a run, one of another kind,
 * or a folder; STATUS_DATA where nothing can be written. */
enum status outputs_judge(const struct output *output, const struct options *options);
/* Local, blocking. The same of every file that the options name as an output. */
enum status outputs_check(const struct options *options);

/* Local, blocking. Whether a folder for many files may be this one: STATUS_USAGE for a file, a
 * folder of the system, the home folder, and a part of a run. */
enum status outputs_judge_folder(const char *path, const char *label);
/* Local, blocking. STATUS_USAGE where --overwrite would remove from a run what the options name as
 * an input. */
enum status outputs_keep_inputs(const struct options *options, const char *folder);

/* Local. Whether the option names what is written. */
bool outputs_are_written(enum option_id id);

/* Local, blocking. What a regular file is, by its content: `wanted` where it may be that and
 * another, OUTPUT_KINDS where it is none. Fails, logged, where it cannot be read. */
enum status outputs_kind_of(const char *path, enum output_kind wanted, enum output_kind *out);
/* Local. "a profile". */
const char *outputs_words(enum output_kind kind);
/* Local. Whether there are no older ones that a newer one replaces. */
bool outputs_is_new(enum output_kind kind);

#endif
