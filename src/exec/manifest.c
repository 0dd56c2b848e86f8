/* The manifest is JSON; its "check" is the CRC32C of everything else in canonical form (keys
 * sorted, no spaces).
 *
 * STATUS_DATA means damage: the content is not what was written. A newer format, or fields that
 * this version cannot use under a right check, are STATUS_USAGE: another version wrote them. The
 * format is looked at before the check, which a newer one may form in another way. */
#include "exec/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/option.h"

enum { FORMAT = 1, MAX_MANIFEST_BYTES = 64 << 20 };

static json_t *facts_object(const struct manifest *manifest) {
    json_t *object = json_object();
    for (int i = 0; i < manifest->fact_count; i++)
        json_object_set_new(object, manifest->facts[i].key, json_string(manifest->facts[i].value));
    return object;
}

static json_t *files_object(const struct manifest *manifest) {
    json_t *object = json_object();
    for (int i = 0; i < manifest->file_count; i++) {
        const struct safetensors_mark *mark = &manifest->files[i].mark;
        char crc[16];
        snprintf(crc, sizeof crc, "%08x", mark->crc32c);
        json_object_set_new(
            object, manifest->files[i].name,
            json_pack("{s:I, s:s}", "bytes", (json_int_t)mark->bytes, "crc32c", crc));
    }
    return object;
}

static json_t *clock_list(const struct manifest *manifest) {
    json_t *list = json_array();
    for (int i = 0; i < manifest->clock_count; i++)
        json_array_append_new(list, json_real(manifest->clock[i]));
    return list;
}

static json_t *group_list(const struct manifest *manifest) {
    json_t *list = json_array();
    for (int i = 0; i < manifest->group_count; i++)
        json_array_append_new(list, json_integer((json_int_t)manifest->groups[i]));
    return list;
}

/* One histogram a rank, up to its last count. */
static json_t *stale_list(const struct manifest *manifest) {
    json_t *list = json_array();
    for (int r = 0; r < manifest->stale_ranks; r++) {
        const int64_t *updates = manifest->stale[r].updates;
        json_t *counts = json_array();
        int last = STALE_MOST;
        while (last >= 0 && updates[last] == 0) last--;
        for (int i = 0; i <= last; i++)
            json_array_append_new(counts, json_integer((json_int_t)updates[i]));
        json_array_append_new(list, counts);
    }
    return list;
}

/* {"parts": [[step, frozen, stages, replicas, micro-batches], ...], "norms": [[first limb, limbs
 * ...], ...]}: of each sum, whose carries are passed on, the limbs from the first to the last that
 * is not 0. */
static json_t *sum_list(const struct exact_sum *given) {
    struct exact_sum sum = {0};
    exact_merge(&sum, given);
    int first = 0, end = EXACT_LIMBS;
    while (first < EXACT_LIMBS && sum.limb[first] == 0) first++;
    while (end > first && sum.limb[end - 1] == 0) end--;
    json_t *list = json_pack("[i]", first);
    for (int i = first; i < end; i++)
        json_array_append_new(list, json_integer((json_int_t)sum.limb[i]));
    return list;
}

static json_t *part_list(const struct course_part *part) {
    return json_pack("[I, i, i, i, i]", (json_int_t)part->step, part->frozen, part->stages,
                     part->replicas, part->micro_batches);
}

static json_t *course_object(const struct train_course *course) {
    json_t *parts = json_array(), *norms = json_array();
    for (int i = 0; i < course->count; i++)
        json_array_append_new(parts, part_list(&course->part[i]));
    for (int b = 0; b < course->norms.blocks; b++)
        json_array_append_new(norms, sum_list(&course->norms.squares[b]));
    return json_pack("{s:o, s:o}", "parts", parts, "norms", norms);
}

char *manifest_print(const struct manifest *manifest) {
    const struct checkpoint_state *state = &manifest->state;
    json_auto_t *root =
        json_pack("{s:i, s:I, s:I, s:o, s:o, s:o}", "format", (int)FORMAT, "step",
                  (json_int_t)state->step, "best_step", (json_int_t)state->best_step, "best_score",
                  state->best_step >= 0 ? json_real(state->best_score) : json_null(), "facts",
                  facts_object(manifest), "files", files_object(manifest));
    if (manifest->next.epoch >= 0) {
        json_object_set_new(root, "epoch", json_integer((json_int_t)manifest->next.epoch));
        json_object_set_new(root, "sample", json_integer((json_int_t)manifest->next.sample));
    }
    if (manifest->clock_count) json_object_set_new(root, "clock", clock_list(manifest));
    if (manifest->group_count) json_object_set_new(root, "groups", group_list(manifest));
    if (manifest->stale_ranks) json_object_set_new(root, "staleness", stale_list(manifest));
    if (manifest->course.count)
        json_object_set_new(root, "course", course_object(&manifest->course));
    if (manifest->under_way)
        json_object_set_new(root, "under_way", json_integer((json_int_t)manifest->under_way));
    if (state->scale.scale > 0)
        json_object_set_new(root, "loss_scale",
                            json_pack("{s:f, s:I, s:I}", "scale", state->scale.scale, "good",
                                      (json_int_t)state->scale.good, "skipped",
                                      (json_int_t)state->scale.skipped));
    char check[16];
    snprintf(check, sizeof check, "%08x", json_content_check(root));
    json_object_set_new(root, "check", json_string(check));
    return json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
}

enum status manifest_write(const struct manifest *manifest, const char *path) {
    SCOPED_FREE char *text = manifest_print(manifest);
    if (!text) return fail(STATUS_BUG, "%s: the manifest cannot be written as JSON", path);
    return file_write_text(path, text);
}

/* Eight hexadecimal digits, as %08x writes them. */
static bool read_crc(const char *text, uint32_t *out) {
    if (!text || strlen(text) != 8 || strspn(text, "0123456789abcdef") != 8) return false;
    *out = (uint32_t)strtoul(text, NULL, 16);
    return true;
}

static enum status read_file_mark(const json_t *file, const char *path, const char *name,
                                  struct safetensors_mark *out) {
    const json_t *bytes = json_object_get(file, "bytes");
    if (!read_crc(json_string_value(json_object_get(file, "crc32c")), &out->crc32c) ||
        !json_is_integer(bytes) || json_integer_value(bytes) < 0)
        return fail(STATUS_USAGE, "%s: files.%s lacks bytes or crc32c", path, name);
    out->bytes = (uint64_t)json_integer_value(bytes);
    return STATUS_OK;
}

/* Names are of the folder itself: none leads out of it. */
static bool is_plain_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

static enum status read_files(json_t *object, const char *path, struct manifest *out) {
    size_t count = json_object_size(object);
    if (!json_is_object(object) || count == 0 || count > INT32_MAX)
        return fail(STATUS_USAGE, "%s: files is not usable", path);
    struct manifest_file *files = arena_new(&out->arena, count * sizeof *files);
    const char *name;
    json_t *file;
    json_object_foreach(object, name, file) {
        struct manifest_file *to = &files[out->file_count];
        if (!is_plain_name(name))
            return fail(STATUS_USAGE, "%s: files.%s is not a name in its folder", path, name);
        TRY(read_file_mark(file, path, name, &to->mark));
        to->name = arena_text(&out->arena, name);
        out->file_count++;
    }
    out->files = files;
    return STATUS_OK;
}

static enum status read_facts(const json_t *object, const char *path, struct manifest *out) {
    size_t count = json_object_size(object);
    if (!json_is_object(object) || count > CHECKPOINT_MAX_FACTS)
        return fail(STATUS_USAGE, "%s: facts is not usable", path);
    struct checkpoint_fact *facts = arena_new(&out->arena, (count + 1) * sizeof *facts);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        if (!json_is_string(value))
            return fail(STATUS_USAGE, "%s: facts.%s is not a text", path, key);
        facts[out->fact_count++] =
            (struct checkpoint_fact){.key = arena_text(&out->arena, key),
                                     .value = arena_text(&out->arena, json_string_value(value))};
    }
    out->facts = facts;
    return STATUS_OK;
}

/* best_step is -1, and best_score null, as long as nothing was evaluated. */
static enum status read_state(const json_t *root, const char *path, struct checkpoint_state *out) {
    const json_t *step = json_object_get(root, "step"), *best = json_object_get(root, "best_step"),
                 *score = json_object_get(root, "best_score");
    if (!json_is_integer(step) || json_integer_value(step) < 0)
        return fail(STATUS_USAGE, "%s: step is missing or not a count of steps", path);
    bool none = json_is_integer(best) && json_integer_value(best) == -1;
    if (!none && (!json_is_integer(best) || json_integer_value(best) < 0 || !json_is_number(score)))
        return fail(STATUS_USAGE, "%s: best_step and best_score are missing or do not fit", path);
    out->step = json_integer_value(step);
    out->best_step = json_integer_value(best);
    out->best_score = json_number_value(score);
    return STATUS_OK;
}

/* A run whose losses are not scaled has none. */
static enum status read_scale(const json_t *object, const char *path, struct loss_scale *out) {
    if (!object) return STATUS_OK;
    const json_t *scale = json_object_get(object, "scale"), *good = json_object_get(object, "good"),
                 *skipped = json_object_get(object, "skipped");
    if (!json_is_number(scale) || !(json_number_value(scale) > 0) || !json_is_integer(good) ||
        !json_is_integer(skipped))
        return fail(STATUS_USAGE, "%s: loss_scale is not usable", path);
    *out = (struct loss_scale){json_number_value(scale), json_integer_value(good),
                               json_integer_value(skipped)};
    return STATUS_OK;
}

/* Manifests of before they were kept have neither: there the step alone tells. */
static enum status read_position(const json_t *root, const char *path, struct train_position *out) {
    const json_t *epoch = json_object_get(root, "epoch"), *sample = json_object_get(root, "sample");
    *out = (struct train_position){-1, 0};
    if (!epoch && !sample) return STATUS_OK;
    if (!json_is_integer(epoch) || json_integer_value(epoch) < 0 || !json_is_integer(sample) ||
        json_integer_value(sample) < 0)
        return fail(STATUS_USAGE, "%s: epoch and sample are not both counts", path);
    *out = (struct train_position){json_integer_value(epoch), json_integer_value(sample)};
    return STATUS_OK;
}

/* A run on the wall clock has none. */
static enum status read_clock(const json_t *root, const char *path, struct manifest *out) {
    const json_t *list = json_object_get(root, "clock"),
                 *under_way = json_object_get(root, "under_way");
    if (under_way && (!json_is_integer(under_way) || json_integer_value(under_way) < 0))
        return fail(STATUS_USAGE, "%s: under_way is not a count of steps", path);
    out->under_way = json_integer_value(under_way);
    if (!list) return STATUS_OK;
    size_t count = json_array_size(list);
    double *clock = arena_new(&out->arena, (count + 1) * sizeof *clock);
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_number(number))
            return fail(STATUS_USAGE, "%s: clock has something that is no number", path);
        clock[i] = json_number_value(number);
    }
    out->clock = clock;
    out->clock_count = (int)count;
    return STATUS_OK;
}

static enum status read_groups(const json_t *list, const char *path, struct manifest *out) {
    size_t count = json_array_size(list);
    if (!list) return STATUS_OK;
    int64_t *groups = arena_new(&out->arena, (count + 1) * sizeof *groups);
    for (size_t i = 0; i < count; i++) {
        const json_t *number = json_array_get(list, i);
        if (!json_is_integer(number))
            return fail(STATUS_USAGE, "%s: groups has something that is no number", path);
        groups[i] = json_integer_value(number);
    }
    out->groups = groups;
    out->group_count = (int)count;
    return STATUS_OK;
}

static enum status read_stale(const json_t *list, const char *path, struct manifest *out) {
    size_t ranks = json_array_size(list);
    if (!list) return STATUS_OK;
    struct train_stale *stale = arena_new(&out->arena, (ranks + 1) * sizeof *stale);
    memset(stale, 0, (ranks + 1) * sizeof *stale);
    for (size_t r = 0; r < ranks; r++) {
        const json_t *counts = json_array_get(list, r);
        bool usable = json_is_array(counts) && json_array_size(counts) <= STALE_MOST + 1;
        for (size_t i = 0; usable && i < json_array_size(counts); i++) {
            const json_t *count = json_array_get(counts, i);
            usable = json_is_integer(count) && json_integer_value(count) >= 0;
            stale[r].updates[i] = json_integer_value(count);
        }
        if (!usable)
            return fail(STATUS_USAGE, "%s: staleness of rank %zu is no histogram", path, r);
    }
    out->stale = stale;
    out->stale_ranks = (int)ranks;
    return STATUS_OK;
}

static bool read_part(const json_t *list, struct course_part *out) {
    enum { NUMBERS = 5, MOST = 1 << 20 };
    json_int_t number[NUMBERS];
    if (json_array_size(list) != NUMBERS) return false;
    for (size_t i = 0; i < NUMBERS; i++) {
        if (!json_is_integer(json_array_get(list, i))) return false;
        number[i] = json_integer_value(json_array_get(list, i));
        if (number[i] < (i < 2 ? 0 : 1) || (i > 0 && number[i] > MOST)) return false;
    }
    *out = (struct course_part){.step = number[0],
                                .frozen = (int)number[1],
                                .stages = (int)number[2],
                                .replicas = (int)number[3],
                                .micro_batches = (int)number[4]};
    return out->frozen <= FREEZING_BLOCKS;
}

static enum status read_parts(const json_t *list, const char *path, struct manifest *out) {
    size_t count = json_array_size(list);
    struct course_part *parts = arena_new(&out->arena, (count + 1) * sizeof *parts);
    memset(parts, 0, (count + 1) * sizeof *parts);
    for (size_t i = 0; i < count; i++) {
        bool follows = read_part(json_array_get(list, i), &parts[i]) &&
                       (i == 0 ? parts[i].step == 0 : course_follows(&parts[i], &parts[i - 1]));
        if (!follows)
            return fail(STATUS_USAGE, "%s: course.parts, entry %zu does not follow", path, i);
    }
    out->course.part = parts;
    out->course.count = (int)count;
    return STATUS_OK;
}

/* Squares are not below 0. */
static bool read_sum(const json_t *list, struct exact_sum *out) {
    size_t count = json_array_size(list);
    json_int_t first = json_integer_value(json_array_get(list, 0));
    if (count < 1 || count > EXACT_LIMBS + 1 || !json_is_integer(json_array_get(list, 0)) ||
        first < 0 || first > EXACT_LIMBS - (json_int_t)(count - 1))
        return false;
    *out = (struct exact_sum){.terms = 1};
    for (size_t i = 1; i < count; i++) {
        const json_t *limb = json_array_get(list, i);
        if (!json_is_integer(limb) || json_integer_value(limb) < 0 ||
            json_integer_value(limb) > UINT32_MAX)
            return false;
        out->limb[first + (json_int_t)i - 1] = json_integer_value(limb);
    }
    return true;
}

/* A run with one plan has none. */
static enum status read_course(const json_t *object, const char *path, struct manifest *out) {
    const json_t *norms = json_object_get(object, "norms");
    size_t count = json_array_size(norms);
    if (!object) return STATUS_OK;
    if (!json_is_array(norms) || count > FREEZING_BLOCKS)
        return fail(STATUS_USAGE, "%s: course.norms is not usable", path);
    TRY(read_parts(json_object_get(object, "parts"), path, out));
    struct exact_sum *squares = arena_new(&out->arena, (count + 1) * sizeof *squares);
    for (size_t b = 0; b < count; b++)
        if (!read_sum(json_array_get(norms, b), &squares[b]))
            return fail(STATUS_USAGE, "%s: course.norms of block %zu is no sum", path, b);
    out->course.norms = (struct train_norms){squares, (int)count};
    return STATUS_OK;
}

static enum status check_format(const json_t *root, const char *path) {
    json_int_t format = json_integer_value(json_object_get(root, "format"));
    if (format <= FORMAT) return STATUS_OK;
    return fail(STATUS_USAGE,
                "%s: format %lld, this version reads %d\n  a newer version of stretto wrote it: "
                "resume with that one",
                path, (long long)format, FORMAT);
}

static enum status read_root(json_t *root, const char *path, struct manifest *out) {
    uint32_t stated;
    TRY(check_format(root, path));
    if (!read_crc(json_string_value(json_object_get(root, "check")), &stated))
        return fail(STATUS_DATA, "%s: has no check", path);
    json_object_del(root, "check");
    uint32_t found = json_content_check(root);
    if (found != stated)
        return fail(STATUS_DATA, "%s: content has checksum %08x, it states %08x", path, found,
                    stated);
    if (json_integer_value(json_object_get(root, "format")) != FORMAT)
        return fail(STATUS_USAGE, "%s: format %lld, this version reads %d", path,
                    (long long)json_integer_value(json_object_get(root, "format")), FORMAT);
    TRY(read_state(root, path, &out->state));
    TRY(read_position(root, path, &out->next));
    TRY(read_facts(json_object_get(root, "facts"), path, out));
    TRY(read_clock(root, path, out));
    TRY(read_groups(json_object_get(root, "groups"), path, out));
    TRY(read_stale(json_object_get(root, "staleness"), path, out));
    TRY(read_course(json_object_get(root, "course"), path, out));
    TRY(read_scale(json_object_get(root, "loss_scale"), path, &out->state.scale));
    return read_files(json_object_get(root, "files"), path, out);
}

enum status manifest_parse(const char *path, const void *text, size_t bytes, struct manifest *out) {
    json_error_t error;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        return fail(STATUS_DATA, "%s: line %d column %d: %s", path, error.line, error.column,
                    error.text);
    struct manifest manifest = {0};
    enum status status = read_root(root, path, &manifest);
    json_decref(root);
    if (status == STATUS_OK)
        *out = manifest;
    else
        manifest_free(&manifest);
    return status;
}

enum status manifest_read(const char *path, struct manifest *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, MAX_MANIFEST_BYTES, &text));
    return manifest_parse(path, text.data, text.count, out);
}

bool manifest_is_one(const char *path) {
    json_auto_t *root = file_is_regular(path) ? json_load_file(path, 0, NULL) : NULL;
    return json_is_integer(json_object_get(root, "format")) &&
           json_is_integer(json_object_get(root, "step")) &&
           json_is_object(json_object_get(root, "files")) &&
           json_is_string(json_object_get(root, "check"));
}

void manifest_free(struct manifest *manifest) {
    arena_free(&manifest->arena);
}

static const char *fact_value(const struct manifest *manifest, const char *key) {
    for (int i = 0; i < manifest->fact_count; i++) {
        if (strcmp(manifest->facts[i].key, key) == 0) return manifest->facts[i].value;
    }
    return NULL;
}

bool manifest_has_fact(const struct manifest *manifest, const struct checkpoint_fact *facts,
                       int fact_count, const char *key) {
    const char *then = fact_value(manifest, key);
    for (int i = 0; i < fact_count && then; i++)
        if (strcmp(facts[i].key, key) == 0) return strcmp(facts[i].value, then) == 0;
    return false;
}

enum { FACT_SHOWN_BYTES = 64 };

/* A fact of an option that was left open is an empty text, or a number that none can have. */
static const char *fact_shown(const char *key, const char *value, char text[FACT_SHOWN_BYTES]) {
    enum option_id id;
    bool open = !*value || strcmp(value, "-1") == 0;
    if (!open || !option_find(key, &id)) return *value ? value : "(nothing)";
    const char *initial = option_rows[id].initial; /* such as (the model's) */
    if (*initial != '(') return "not given";
    snprintf(text, FACT_SHOWN_BYTES, "%.*s", (int)strcspn(initial + 1, ")"), initial + 1);
    return text;
}

/* Of an option that there was not yet when the checkpoint was made. */
static const char *value_before(const char *key) {
    enum option_id id;
    return option_find(key, &id) ? option_rows[id].initial : "(nothing)";
}

enum status manifest_compare(const struct manifest *manifest, const struct checkpoint_fact *facts,
                             int fact_count, const char *where) {
    for (int i = 0; i < fact_count; i++) {
        const char *then = fact_value(manifest, facts[i].key), *now = facts[i].value;
        char before[FACT_SHOWN_BYTES], after[FACT_SHOWN_BYTES];
        if (!then && facts[i].kind != FACT_FIXED)
            continue; /* older than this fact, or without a clock */
        if (!then) then = value_before(facts[i].key);
        if (strcmp(then, now) == 0) continue;
        if (facts[i].kind == FACT_CLOCK)
            return fail(STATUS_USAGE,
                        "%s: clock-costs: its virtual time follows from other costs than this "
                        "run's\n  give the "
                        "same --cluster, --profile and --hetero, or --clock wall, or start anew in "
                        "another --out",
                        where);
        if (facts[i].kind == FACT_FIXED)
            return fail(STATUS_USAGE,
                        "%s: %s was %s, this run has %s\n  resume with the same, or start anew in "
                        "another --out",
                        where, facts[i].key, fact_shown(facts[i].key, then, before),
                        fact_shown(facts[i].key, now, after));
        log_warning("%s was %s when the checkpoint was made, it is %s now%s", facts[i].key,
                    fact_shown(facts[i].key, then, before), fact_shown(facts[i].key, now, after),
                    facts[i].kind == FACT_RAN_ON ? ": bits may differ from an unbroken run" : "");
    }
    return STATUS_OK;
}
