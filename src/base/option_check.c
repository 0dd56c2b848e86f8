/* What options must satisfy together: the batch equation, pairs that exclude one another, and
 * options that would have no effect. Nothing a user named is bent to fit: it is refused. */
#include "base/option.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

enum { BATCH_LIMIT = 1 << 24 };

static enum status batch_contradicts(const struct option_batch *b) {
    char replicas[TEXT_BYTES], micro[TEXT_BYTES];
    return fail(STATUS_USAGE,
                "batch %" PRId64 " contradicts %s x %s x micro-batch size %" PRId64 " = %" PRId64
                "\n  leave one of the three numbers out, or make them agree",
                b->batch, text_count(b->replicas, "replica", replicas),
                text_count(b->micro_batches, "micro-batch", micro), b->micro_batch_size,
                b->replicas * b->micro_batches * b->micro_batch_size);
}

static enum status batch_does_not_divide(const struct option_batch *b, int64_t group,
                                         const char *factor, int64_t value) {
    int64_t below = b->batch / group * group;
    char hint[64], replicas[TEXT_BYTES];
    if (below)
        snprintf(hint, sizeof hint, "%" PRId64 " and %" PRId64, below, below + group);
    else
        snprintf(hint, sizeof hint, "%" PRId64, group);
    return fail(STATUS_USAGE,
                "batch %" PRId64 " is not divisible by %s x %s %" PRId64 " = %" PRId64
                "\n  the nearest that works: %s",
                b->batch, text_count(b->replicas, "replica", replicas), factor, value, group, hint);
}

static enum status batch_product(struct option_batch *b) {
    int64_t product;
    char replicas[TEXT_BYTES], micro[TEXT_BYTES];
    if (__builtin_mul_overflow(b->replicas, b->micro_batches, &product) ||
        __builtin_mul_overflow(product, b->micro_batch_size, &product) || product > BATCH_LIMIT)
        return fail(STATUS_USAGE,
                    "%s x %s x micro-batch size %" PRId64 " is more than the largest batch, %d",
                    text_count(b->replicas, "replica", replicas),
                    text_count(b->micro_batches, "micro-batch", micro), b->micro_batch_size,
                    BATCH_LIMIT);
    if (b->batch && b->batch != product) return batch_contradicts(b);
    b->batch = product;
    return STATUS_OK;
}

/* batch / replicas / known, exactly. */
static enum status batch_quotient(const struct option_batch *b, int64_t known, const char *factor,
                                  int64_t *out) {
    int64_t group;
    char replicas[TEXT_BYTES];
    if (__builtin_mul_overflow(b->replicas, known, &group) || group > BATCH_LIMIT)
        return fail(STATUS_USAGE, "%s x %s %" PRId64 " is more than the largest batch, %d",
                    text_count(b->replicas, "replica", replicas), factor, known, BATCH_LIMIT);
    if (b->batch % group) return batch_does_not_divide(b, group, factor, known);
    *out = b->batch / group;
    return STATUS_OK;
}

enum status options_check_batch(const struct option_batch *given,
                                const struct option_batch *fallback, struct option_batch *out) {
    struct option_batch b = *given;
    if (!b.replicas) b.replicas = 1;
    if (!b.batch && !(b.micro_batches && b.micro_batch_size)) b.batch = fallback->batch;
    if (!b.micro_batches && !b.micro_batch_size) b.micro_batches = fallback->micro_batches;
    if (!b.micro_batch_size)
        TRY(batch_quotient(&b, b.micro_batches, "micro-batches", &b.micro_batch_size));
    else if (!b.micro_batches)
        TRY(batch_quotient(&b, b.micro_batch_size, "micro-batch size", &b.micro_batches));
    TRY(batch_product(&b));
    *out = b;
    return STATUS_OK;
}

static int64_t given_or_zero(const struct options *options, enum option_id id, int64_t value) {
    return option_is_given(options, id) ? value : 0;
}

static void derive(struct options *options, enum option_id id, int64_t *field, int64_t value) {
    if (option_is_given(options, id)) return;
    if (*field != value || options->source[id] == OPTION_UNSET)
        options->source[id] = OPTION_DERIVED;
    *field = value;
}

enum status options_solve_batch(struct options *options, int64_t ranks) {
    const struct option_batch fallback = {.batch = options->batch,
                                          .micro_batches = options->micro_batches};
    struct option_batch given = {
        .batch = given_or_zero(options, OPTION_batch, options->batch),
        .replicas = ranks,
        .micro_batches = given_or_zero(options, OPTION_micro_batches, options->micro_batches),
        .micro_batch_size =
            given_or_zero(options, OPTION_micro_batch_size, options->micro_batch_size),
    };
    if (option_is_set(options, OPTION_deal)) {
        if (ranks > 1 && ranks != options->deal.replicas)
            return fail(STATUS_USAGE,
                        "--deal %" PRId64 "x%" PRId64 " replays %" PRId64
                        " replicas on one device, this run has %" PRId64 " ranks",
                        options->deal.replicas, options->deal.micro_batches, options->deal.replicas,
                        ranks);
        if (given.micro_batches && given.micro_batches != options->deal.micro_batches)
            return fail(STATUS_USAGE,
                        "--deal %" PRId64 "x%" PRId64 " means %" PRId64
                        " micro-batches a replica, but --micro-batches is %" PRId64,
                        options->deal.replicas, options->deal.micro_batches,
                        options->deal.micro_batches, given.micro_batches);
        given.replicas = options->deal.replicas;
        given.micro_batches = options->deal.micro_batches;
    }
    struct option_batch solved;
    TRY(options_check_batch(&given, &fallback, &solved));
    derive(options, OPTION_batch, &options->batch, solved.batch);
    derive(options, OPTION_micro_batches, &options->micro_batches, solved.micro_batches);
    derive(options, OPTION_micro_batch_size, &options->micro_batch_size, solved.micro_batch_size);
    return STATUS_OK;
}

/* The words of a registry with which an option acts: "adam|adamw"; the caller frees it. */
static char *acting_words(enum option_registry registry, const char *option) {
    struct option_word word;
    char *words = mem_text("");
    for (int i = 0; option_registry_word(registry, i, &word); i++) {
        if (!option_word_acts(&word, option)) continue;
        char *longer = mem_format("%s%s%s", words, *words ? "|" : "", word.name);
        free(words);
        words = longer;
    }
    return words;
}

static bool acts_with(const struct option_row *row, enum option_registry registry,
                      const char *value) {
    struct option_word word = {0};
    int i = 0;
    while (option_registry_word(registry, i, &word) && strcmp(word.name, value) != 0) i++;
    return option_word_acts(&word, row->name);
}

static enum status check_need(const struct options *options, const struct option_row *row) {
    const struct option_row *choice = &option_rows[row->choice];
    const char *value = *(const char *const *)((const char *)options + choice->field);
    if (!option_is_set(options, row->choice) || acts_with(row, choice->registry, value))
        return STATUS_OK;
    SCOPED_FREE char *words = acting_words(choice->registry, row->name);
    return fail(STATUS_USAGE, "--%s has no effect with --%s %s\n  it acts with: %s", row->name,
                choice->name, value, words);
}

/* Options that act only with certain choices: named on the command line without them, they are
 * refused. In a file they may stand, since config.yml lists every option. */
static enum status check_needs(const struct options *options) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (row->needs == OPTION_NEEDS_CHOICE && options->source[id] == OPTION_FROM_COMMAND_LINE)
            TRY(check_need(options, row));
    }
    return STATUS_OK;
}

const char *options_asking_ranks(const struct options *options) {
    for (int id = 0; id < OPTION_COUNT; id++) {
        if ((option_rows[id].commands & OPTION_ASKS_RANKS) && option_is_given(options, id))
            return option_rows[id].name;
    }
    return NULL;
}

static enum status check_node(const struct options *options) {
    bool nodes = option_is_given(options, OPTION_nodes) ||
                 option_is_given(options, OPTION_hostfile) ||
                 option_is_given(options, OPTION_nodes_file);
    if (nodes || !option_is_given(options, OPTION_node_rank)) return STATUS_OK;
    return fail(STATUS_USAGE, "--node-rank is given, but not the number of nodes\n"
                              "  give --nodes, --hostfile or --nodes-file");
}

/* Ranks follow from stages and replicas: on one machine -n need not be said. */
static void derive_ranks(struct options *options) {
    bool elsewhere = options_asking_ranks(options) != NULL;
    int64_t ranks = options_ranks(options);
    if (!elsewhere && ranks > 1) derive(options, OPTION_local_ranks, &options->local_ranks, ranks);
}

/* Costs come from one place. */
static enum status check_costs(const struct options *options) {
    static const enum option_id from[] = {OPTION_costs, OPTION_profile, OPTION_cluster,
                                          OPTION_delay};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof from / sizeof from[0]; i++) {
        if (!option_is_given(options, from[i])) continue;
        const char *name = option_rows[from[i]].name;
        if (first)
            return fail(STATUS_USAGE,
                        "--%s and --%s exclude one another\n"
                        "  each says alone what a step costs",
                        first, name);
        first = name;
    }
    bool units = option_is_given(options, OPTION_costs) || option_is_given(options, OPTION_delay);
    if (!units || !option_is_given(options, OPTION_hetero)) return STATUS_OK;
    return fail(STATUS_USAGE,
                "--%s and --hetero exclude one another\n"
                "  laws are of passes that compute; --hetero base=20ms says what these take",
                first);
}

/* Passes that only wait have no arithmetic to run in virtual time. */
static enum status check_clock(const struct options *options) {
    bool simulated = strcmp(options->clock, "virtual") == 0;
    if (!simulated || !option_is_given(options, OPTION_delay)) return STATUS_OK;
    return fail(STATUS_USAGE, "--delay and --clock virtual exclude one another\n"
                              "  --hetero base=20ms gives passes that compute their time");
}

enum status options_check(struct options *options) {
    if (options->resume && options->overwrite)
        return fail(STATUS_USAGE, "--resume and --overwrite exclude one another\n"
                                  "  --resume continues the run in --out, --overwrite discards it");
    if (options->nesterov && options->momentum == 0)
        return fail(STATUS_USAGE, "--nesterov needs a --momentum above 0");
    derive_ranks(options);
    TRY(check_needs(options));
    TRY(check_node(options));
    TRY(check_costs(options));
    TRY(check_clock(options));
    if (option_is_given(options, OPTION_steps) && !option_is_given(options, OPTION_epochs)) {
        options->epochs = 0;
        options->source[OPTION_epochs] = OPTION_UNSET;
    }
    return STATUS_OK;
}
