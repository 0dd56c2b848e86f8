/* Options: one table (options.def) from which everything about the command line follows.
 *
 * A value comes from, each stronger than the one before: the default in the table, a YAML file
 * (--config), the command line. Options whose default depends on something else (the model's
 * learning rate) stay unset until the command resolves them:
 *
 *     if (!option_is_set(options, OPTION_lr))
 *         options->lr = family->lr, option_resolve(options, OPTION_lr);
 *
 * All functions here are local and do not block, but for reading the file of --config. A struct
 * options may be copied plainly: texts belong to the first one's arena, which options_free gives
 * back. */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/option_registry.h"
#include "base/status.h"

struct option_list { /* LIST: "bias,norm"; "none" is the empty list */
    int count;
    const char *const *item;
};
struct option_period { /* PERIOD: "100" steps, "epoch", "2epochs", "never": both 0 */
    int64_t steps, epochs;
};
struct option_share { /* SHARE: "100" steps, or "5%": fraction 0.05 of all steps */
    int64_t steps;
    double fraction;
};
struct option_deal { /* DEAL: "2x4" */
    int64_t replicas, micro_batches;
};
struct option_range { /* RANGE: "10-20", both included */
    int64_t first, last;
};

enum option_type {
#define OPTION_TYPE(NAME, name, c_type) OPTION_TYPE_##NAME,
#include "base/option_types.def"
    OPTION_TYPE_COUNT
};

/* option_c_INT is int64_t, ...: only struct options needs them. */
#define OPTION_TYPE(NAME, name, c_type) typedef c_type option_c_##NAME;
#include "base/option_types.def"

enum option_group {
#define GROUP(ID, name, title) OPTION_GROUP_##ID,
#include "base/options.def"
    OPTION_GROUP_COUNT
};

/* OPTION_lr, OPTION_micro_batches, ...: the field's name. */
enum option_id {
#define OPTION(group, field, ...) OPTION_##field,
#include "base/options.def"
    OPTION_COUNT
};

enum option_command_index {
#define COMMAND(ID, ...) COMMAND_INDEX_##ID,
#include "base/options.def"
    COMMAND_COUNT
};

/* COMMAND_TRAIN, ...: a bit each. */
enum option_command {
#define COMMAND(ID, ...) COMMAND_##ID = 1 << COMMAND_INDEX_##ID,
#include "base/options.def"
    COMMAND_ALL = (1 << COMMAND_COUNT) - 1,
    OPTION_OF_LAYOUT = 1 << 27,  /* how ranks are laid out: goes with the strategy */
    OPTION_ASKS_RANKS = 1 << 28, /* of other processes */
    OPTION_NOT_KEPT = 1 << 29,   /* of a start, not of a run: config.yml only mentions it */
    OPTION_NOT_IN_FILE = 1 << 30 /* for the command line only */
};

/* Where a value comes from, weakest first. DERIVED: follows from others, so config.yml leaves it
 * out; RESOLVED: chosen by the command, so config.yml keeps it. */
enum option_source {
    OPTION_UNSET,
    OPTION_DEFAULT,
    OPTION_DERIVED,
    OPTION_RESOLVED,
    OPTION_FROM_FILE,
    OPTION_FROM_SEARCH, /* --strategy best found it */
    OPTION_FROM_COMMAND_LINE
};

struct options {
#define OPTION(group, field, type, ...) option_c_##type field;
#include "base/options.def"
    enum option_command command;
    int argument_count; /* what is not an option: the two files of compare */
    const char *const *argument;
    enum option_source source[OPTION_COUNT];
    struct arena arena;
};

/* Columns of options.def, where they are explained. */
enum option_resume {
    OPTION_RESUME_FIXED,
    OPTION_RESUME_TOLD,
    OPTION_RESUME_RAN_ON,
    OPTION_RESUME_WITHIN,
    OPTION_RESUME_FREE
};
enum option_needs { OPTION_NEEDS_NOTHING, OPTION_NEEDS_CHOICE, OPTION_NEEDS_RANKS };

/* A row of the table, as data. `field` and `bytes` locate the value in struct options. */
struct option_row {
    enum option_group group;
    enum option_type type;
    const char *name;
    char letter; /* 0: none */
    const char *initial, *placeholder, *limits, *help;
    enum option_registry registry;
    unsigned commands;
    enum option_resume resume;
    enum option_needs needs;
    enum option_id choice; /* of OPTION_NEEDS_CHOICE */
    size_t field, bytes;
};
struct option_command_row {
    const char *name, *arguments, *summary;
    int least, most;
};
struct option_group_row {
    const char *name, *title;
};
extern const struct option_row option_rows[OPTION_COUNT];
extern const struct option_command_row option_commands[COMMAND_COUNT];
extern const struct option_group_row option_groups[OPTION_GROUP_COUNT];

/* The whole way: defaults, then --config, then the arguments (argv[0] is the first one after the
 * command's name), then options_check; with --resume, and for eval and predict, that is later,
 * together with the run's own options (run/resume.h). On failure one message was logged and `out`
 * is untouched. With --help only that is set. The caller frees with options_free. */
enum status options_parse(enum option_command command, int argc, char *const *argv,
                          struct options *out);
void options_free(struct options *options);

/* Its parts, for tests, fuzzers and the API. options_parse_yaml reads a YAML text into `options`;
 * `name` is for messages. After a failure `options` may hold some of the file's values and must
 * only be freed. */
void options_init(enum option_command command, struct options *out);
enum status options_parse_yaml(const char *name, const void *data, size_t count,
                               struct options *options);
/* What options must satisfy together. May be called again after resolving some. */
enum status options_check(struct options *options);
/* Solves the batch equation for a number of ranks (another launcher may have started more than -n
 * says). Refused when it has no solution. */
enum status options_solve_batch(struct options *options, int64_t ranks);

/* The name of the first given option that asks for ranks of other processes; NULL: none is. */
const char *options_asking_ranks(const struct options *options);

/* Sets one option from text, or fails naming `where` (such as "--lr"), the text and what is
 * allowed. */
enum status option_set(struct options *options, enum option_id id, const char *text,
                       const char *where, enum option_source source);

/* Puts back the default, or none; has a value, from anywhere; was named by the user; note a value
 * the caller just stored in the field, as OPTION_RESOLVED or OPTION_DERIVED. */
void option_reset(struct options *options, enum option_id id);
bool option_is_set(const struct options *options, enum option_id id);
bool option_is_given(const struct options *options, enum option_id id);
void option_resolve(struct options *options, enum option_id id);
void option_derive(struct options *options, enum option_id id);

/* False when there is none of that name (without dashes). */
bool option_find(const char *name, enum option_id *out);
/* The nearest name of these commands' options for a "did you mean", or NULL; static text. */
const char *option_nearest(const char *name, unsigned commands);
/* The value as text that option_set would read back to the same value; the caller frees it. */
char *option_text(const struct options *options, enum option_id id);
/* Of an option of type TEXT: its value, borrowed. NULL where it is not set. */
const char *option_string(const struct options *options, enum option_id id);
/* "a whole number from 1 to 64", "one of sgd, adam, adamw"; the caller frees it. */
char *option_allowed(enum option_id id);

/* All set options as a YAML text that --config reads back to them; the caller frees it. */
char *options_write_yaml(const struct options *options);

/* The batch equation: batch = replicas x micro_batches x micro_batch_size. */
struct option_batch {
    int64_t batch, replicas, micro_batches, micro_batch_size;
};
/* Pure. In `given`, 0 is "not named" (replicas is always known). Any two of the other three give
 * the third; `fallback` supplies what is still missing: first its batch, then its micro_batches.
 * Refused with both values: numbers that contradict one another, and a batch that does not divide.
 */
enum status options_check_batch(const struct option_batch *given,
                                const struct option_batch *fallback, struct option_batch *out);

#endif
