/* See option_files.h.
 *
 * Ranks are numbered pipeline by pipeline (program/grid.h), and a rank's number is known to
 * whoever starts it: our launcher goes host by host, srun and mpirun as they are told. So a
 * placement cannot move ranks; it says on which host each of them must be, and a rank that finds
 * itself elsewhere refuses to start. Rejected: to renumber ranks by the file, which would make
 * another rank of what the launcher, its logs and the user call rank 3. */
#include "run/option_files.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "launch/network.h"
#include "plan/deepspeed.h"
#include "plan/placement.h"
#include "plan/resolve.h"
#include "run/start.h"

/* --- placement --- */

static const struct stage_placement_cell *cell_of(const struct stage_placement *placement,
                                                  int64_t rank) {
    int64_t stage = rank % placement->stages, replica = rank / placement->stages;
    return &placement->cell[stage * placement->replicas + replica];
}

/* The ranks of a host have its places in their order. */
static enum status check_order(const struct stage_placement *placement) {
    SCOPED_FREE int64_t *next = MEM_ARRAY(int64_t, placement->host_count + 1);
    enum status status = STATUS_OK;
    for (int64_t r = 0; r < placement->stages * placement->replicas && status == STATUS_OK; r++) {
        const struct stage_placement_cell *cell = cell_of(placement, r);
        const char *host = placement->host[cell->host].name;
        if (cell->index != next[cell->host])
            status =
                fail(STATUS_USAGE,
                     "%s:%d:%d: stage %lld of replica %lld is rank %lld, which has place "
                     "%s:%lld, not %s:%lld\n  ranks are numbered pipeline by pipeline, and "
                     "places of a host in that order",
                     placement->name, cell->line, cell->column, (long long)(r % placement->stages),
                     (long long)(r / placement->stages), (long long)r, host,
                     (long long)next[cell->host], host, (long long)cell->index);
        next[cell->host]++;
    }
    return status;
}

static enum status set_number(struct options *options, const struct options *named,
                              enum option_id id, int64_t asked, int64_t number) {
    char text[TEXT_BYTES], where[64];
    if (option_is_given(named, id) && asked != number)
        return fail(STATUS_USAGE, "--%s %lld: --placement %s has %lld", option_rows[id].name,
                    (long long)asked, options->placement, (long long)number);
    snprintf(text, sizeof text, "%lld", (long long)number);
    snprintf(where, sizeof where, "--placement: %s", option_rows[id].name);
    return option_is_given(named, id) ? STATUS_OK
                                      : option_set(options, id, text, where, OPTION_FROM_FILE);
}

static enum status apply_placement(struct options *options, const struct options *named) {
    SCOPED(stage_placement_free) struct stage_placement placement = {0};
    TRY(stage_placement_read(options->placement, &placement));
    TRY(check_order(&placement));
    TRY(set_number(options, named, OPTION_stages, options->stages, placement.stages));
    return set_number(options, named, OPTION_replicas, options->replicas, placement.replicas);
}

enum status run_option_files_check_hosts(const struct options *options, int first, int count) {
    SCOPED(stage_placement_free) struct stage_placement placement = {0};
    enum status status = STATUS_OK;
    if (!option_is_given(options, OPTION_placement)) return STATUS_OK;
    TRY(stage_placement_read(options->placement, &placement));
    int64_t ranks = placement.stages * placement.replicas;
    for (int64_t r = first; r < first + count && r < ranks && status == STATUS_OK; r++) {
        const struct stage_placement_cell *cell = cell_of(&placement, r);
        const char *host = placement.host[cell->host].name;
        if (!network_is_here(host))
            status =
                fail(STATUS_USAGE,
                     "%s:%d:%d: rank %lld (stage %lld of replica %lld) belongs on host %s, and "
                     "is started on another\n  start ranks in the order of the file, pipeline "
                     "by pipeline: docs/placement.md",
                     placement.name, cell->line, cell->column, (long long)r,
                     (long long)(r % placement.stages), (long long)(r / placement.stages), host);
    }
    return status;
}

/* --- DeepSpeed --- */

/* How many ranks the command has, and whether this process speaks for all of them. */
static enum status find_ranks(const struct options *options, int *ranks, bool *speaks) {
    struct start start;
    *ranks = options->local_ranks > 1 ? (int)options->local_ranks : resolve_ranks_asked(options);
    *speaks = true;
    if (!(options->command & (COMMAND_TRAIN | COMMAND_EXPLAIN))) return STATUS_OK;
    TRY(start_find(options, &start));
    *ranks = start.info.ranks;
    *speaks = start_keeps_run(&start);
    return STATUS_OK;
}

static enum status set_option(struct options *options, const struct options *named,
                              const struct deepspeed_option *one) {
    enum option_id id;
    if (!option_find(one->option, &id) || !(option_rows[id].commands & (unsigned)options->command))
        return fail(STATUS_USAGE,
                    "%s asks for --%s %s, an option that this version does not have\n  remove the "
                    "key, or set it to null",
                    one->from, one->option, one->value);
    if (option_is_given(named, id)) return STATUS_OK;
    return option_set(options, id, one->value, one->from, OPTION_FROM_FILE);
}

static enum status apply_deepspeed(struct options *options, const struct options *named) {
    SCOPED(deepspeed_free) struct deepspeed file = {0};
    int ranks, replicas;
    bool speaks;
    TRY(find_ranks(options, &ranks, &speaks));
    TRY(resolve_replicas(options, ranks, &replicas));
    TRY(deepspeed_read(options->deepspeed, replicas, &file));
    for (size_t i = 0; i < file.count; i++) TRY(set_option(options, named, &file.option[i]));
    if (file.note && speaks && !options->quiet) log_note("%s", file.note);
    return STATUS_OK;
}

enum status run_option_files_apply(struct options *options, const struct options *named) {
    bool placed = option_is_given(options, OPTION_placement),
         deepspeed = option_is_given(options, OPTION_deepspeed);
    if (placed) TRY(apply_placement(options, named));
    if (placed) TRY(options_check(options)); /* ranks follow from stages and replicas */
    if (deepspeed) TRY(apply_deepspeed(options, named));
    return deepspeed ? options_check(options) : STATUS_OK;
}
