/* See placement.h. */
#include "plan/placement.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/number.h"
#include "base/text.h"
#include "base/yaml.h"

struct reading {
    struct yaml_reader yaml;
    struct stage_placement placement;
    size_t cell_capacity, host_capacity;
    size_t cells;
    int first_line; /* of the first stage */
};

/* ---- the document ---- */

/* The number of a host, noted when it is new; places of one host tend to follow one another. */
static enum status find_host(struct reading *reading, const char *name, int *out) {
    struct stage_placement *placement = &reading->placement;
    int last = reading->cells ? placement->cell[reading->cells - 1].host : 0;
    *out = last;
    if (last < placement->host_count && strcmp(placement->host[last].name, name) == 0)
        return STATUS_OK;
    for (*out = 0; *out < placement->host_count; ++*out)
        if (strcmp(placement->host[*out].name, name) == 0) return STATUS_OK;
    if (placement->host_count == PLACEMENT_HOSTS_MAX)
        return YAML_REFUSE(&reading->yaml, reading->yaml.event.start_mark, "more than %d hosts",
                           PLACEMENT_HOSTS_MAX);
    placement->host = mem_grow(placement->host, &reading->host_capacity,
                               (size_t)placement->host_count + 1, sizeof *placement->host);
    placement->host[placement->host_count++] =
        (struct stage_placement_host){.name = arena_text(&placement->arena, name)};
    return STATUS_OK;
}

static enum status refuse_place(const struct reading *reading, const char *text) {
    char quoted[TEXT_QUOTED_BYTES];
    return YAML_REFUSE(&reading->yaml, reading->yaml.event.start_mark,
                       "%s is not a place\n  HOST:INDEX is expected, such as w0:3",
                       text_quoted(text, quoted));
}

static bool is_host_name(const char *text, size_t length) {
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return length > 0 && length <= 253 && !strchr("-.", text[0]) && strspn(text, letters) == length;
}

static enum status read_place(struct yaml_reader *yaml, void *into) {
    struct reading *reading = into;
    struct stage_placement *placement = &reading->placement;
    struct stage_placement_cell cell = {.line = (int)yaml->event.start_mark.line + 1,
                                        .column = (int)yaml->event.start_mark.column + 1};
    const char *text;
    TRY(yaml_scalar(yaml, "a place", &text));
    const char *colon = strrchr(text, ':');
    if (!colon || !is_host_name(text, (size_t)(colon - text)) || !text_is_digits(colon + 1) ||
        !number_int(colon + 1, &cell.index) || cell.index >= PLACEMENT_RANKS_MAX)
        return refuse_place(reading, text);
    if (reading->cells == PLACEMENT_RANKS_MAX)
        return YAML_REFUSE(yaml, yaml->event.start_mark, "more than %d places",
                           PLACEMENT_RANKS_MAX);
    SCOPED_FREE char *host = mem_format("%.*s", (int)(colon - text), text);
    TRY(find_host(reading, host, &cell.host));
    placement->cell = mem_grow(placement->cell, &reading->cell_capacity, reading->cells + 1,
                               sizeof *placement->cell);
    placement->cell[reading->cells++] = cell;
    return STATUS_OK;
}

static enum status read_stage(struct yaml_reader *yaml, void *into) {
    struct reading *reading = into;
    struct stage_placement *placement = &reading->placement;
    yaml_mark_t mark = yaml->event.start_mark;
    size_t before = reading->cells;
    TRY(yaml_list(yaml, "a stage", read_place, reading));
    int64_t width = (int64_t)(reading->cells - before);
    if (width == 0)
        return YAML_REFUSE(yaml, mark, "stage %lld has no place", (long long)placement->stages);
    if (placement->stages == 0) {
        placement->replicas = width;
        reading->first_line = (int)mark.line + 1;
    } else if (width != placement->replicas)
        return YAML_REFUSE(yaml, mark,
                           "stage %lld has %lld places, stage 0 (line %d) has %lld\n  every stage "
                           "has a place for each replica; stages of unequal width are not run yet",
                           (long long)placement->stages, (long long)width, reading->first_line,
                           (long long)placement->replicas);
    placement->stages++;
    return STATUS_OK;
}

static enum status read_document(struct reading *reading) {
    TRY(yaml_root(&reading->yaml));
    TRY(yaml_list(&reading->yaml, "a placement", read_stage, reading));
    if (reading->placement.stages == 0)
        return fail(STATUS_USAGE, "%s: no stage\n  a stage is a line such as: - [w0:0, w1:0]",
                    reading->placement.name);
    return yaml_end(&reading->yaml);
}

/* ---- what places mean together ---- */

/* Host by host, and by index on each; then as in the file. */
static int by_place(const void *a, const void *b) {
    const struct stage_placement_cell *left = *(const struct stage_placement_cell *const *)a,
                                      *right = *(const struct stage_placement_cell *const *)b;
    if (left->host != right->host) return left->host < right->host ? -1 : 1;
    if (left->index != right->index) return left->index < right->index ? -1 : 1;
    return (left > right) - (left < right);
}

static const struct stage_placement_cell **sorted_cells(const struct stage_placement *placement) {
    size_t count = (size_t)(placement->stages * placement->replicas);
    const struct stage_placement_cell **sorted =
        MEM_ARRAY(const struct stage_placement_cell *, count);
    for (size_t i = 0; i < count; i++) sorted[i] = &placement->cell[i];
    qsort(sorted, count, sizeof *sorted, by_place);
    return sorted;
}

/* `cell` against the one before it in order, or NULL. */
static enum status check_cell(const struct stage_placement *placement,
                              const struct stage_placement_cell *cell,
                              const struct stage_placement_cell *before) {
    const char *host = placement->host[cell->host].name;
    bool follows = before && before->host == cell->host;
    int64_t expected = follows ? before->index + 1 : 0;
    if (cell->index == expected) return STATUS_OK;
    if (follows && cell->index == before->index)
        return fail(
            STATUS_USAGE,
            "%s:%d:%d: %s:%lld is given twice, first in line %d\n  a place holds one stage of "
            "one replica",
            placement->name, cell->line, cell->column, host, (long long)cell->index, before->line);
    return fail(
        STATUS_USAGE,
        "%s:%d:%d: %s:%lld, but %s:%lld is nowhere\n  the indices of a host are 0, 1, 2, ... "
        "without a gap",
        placement->name, cell->line, cell->column, host, (long long)cell->index, host,
        (long long)expected);
}

/* Also counts the ranks of each host. */
static enum status check_cells(struct stage_placement *placement) {
    SCOPED_FREE const struct stage_placement_cell **sorted = sorted_cells(placement);
    enum status status = STATUS_OK;
    for (int64_t i = 0; i < placement->stages * placement->replicas && status == STATUS_OK; i++) {
        status = check_cell(placement, sorted[i], i ? sorted[i - 1] : NULL);
        placement->host[sorted[i]->host].ranks++;
    }
    return status;
}

enum status stage_placement_parse(const char *name, const void *text, size_t bytes,
                                  struct stage_placement *out) {
    struct reading reading = {0};
    struct stage_placement *placement = &reading.placement;
    TRY(yaml_open(name, text, bytes, &placement->arena, &reading.yaml));
    placement->name = arena_text(&placement->arena, name);
    enum status status = read_document(&reading);
    if (status == STATUS_OK) status = check_cells(placement);
    yaml_close(&reading.yaml);
    if (status == STATUS_OK)
        *out = *placement;
    else
        stage_placement_free(placement);
    return status;
}

enum status stage_placement_read(const char *path, struct stage_placement *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, PLACEMENT_BYTES_MAX, &text));
    return stage_placement_parse(path, text.data, text.count, out);
}

void stage_placement_free(struct stage_placement *placement) {
    free(placement->cell);
    free(placement->host);
    arena_free(&placement->arena);
    *placement = (struct stage_placement){0};
}
