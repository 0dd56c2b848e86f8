/* Profiles as JSON. Sections and rows are written in the order of their keys, so that files can be
 * compared line by line; "check" is the checksum of all else. The format is looked at before the
 * check, which a newer one may form in another way. See profile.h and docs/profile.md. */
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "cost/profile.h"

enum { FORMAT = 1, MAX_BYTES = 64 << 20 };
#define NUMBER_MAX 1e18

/* ---- writing ---- */

static json_t *measure_json(const struct measure *measure) {
    return json_pack("{s:f, s:f, s:I}", "median", measure->median, "iqr", measure->iqr, "samples",
                     (json_int_t)measure->samples);
}

static json_t *rates_json(const struct profile_section *section) {
    json_t *object = json_object();
    for (int rate = 0; rate < PROFILE_RATE_COUNT; rate++)
        if (section->rate[rate].samples > 0)
            json_object_set_new(object, profile_rate_names[rate],
                                measure_json(&section->rate[rate]));
    return object;
}

static json_t *links_json(const struct profile_section *section) {
    json_t *object = json_object();
    for (int kind = 0; kind < PROFILE_LINK_COUNT; kind++) {
        const struct profile_link *link = &section->link[kind];
        if (link->latency_ns.samples > 0 && link->bytes_per_ns.samples > 0)
            json_object_set_new(object, profile_link_names[kind],
                                json_pack("{s:o, s:o}", "latency_ns",
                                          measure_json(&link->latency_ns), "bytes_per_ns",
                                          measure_json(&link->bytes_per_ns)));
    }
    return object;
}

static int by_key(const void *a, const void *b) {
    const struct profile_key *left = &(*(const struct profile_row *const *)a)->key,
                             *right = &(*(const struct profile_row *const *)b)->key;
    int order = strcmp(left->op, right->op);
    if (order == 0) order = (int)left->pass - (int)right->pass;
    if (order == 0) order = strcmp(left->shape, right->shape);
    return order ? order : strcmp(left->layout, right->layout);
}

static json_t *row_json(const struct profile_row *row) {
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "op", row->key.op, "pass",
                     profile_pass_names[row->key.pass], "shape", row->key.shape, "layout",
                     row->key.layout, "ns", measure_json(&row->ns));
}

static json_t *rows_json(const struct profile_section *section) {
    json_t *list = json_array();
    SCOPED_FREE const struct profile_row **sorted =
        MEM_ARRAY(const struct profile_row *, section->row_count + 1);
    for (size_t i = 0; i < section->row_count; i++) sorted[i] = &section->row[i];
    qsort(sorted, section->row_count, sizeof *sorted, by_key);
    for (size_t i = 0; i < section->row_count; i++)
        json_array_append_new(list, row_json(sorted[i]));
    return list;
}

static json_t *section_json(const struct profile_section *section) {
    return json_pack("{s:s, s:s, s:I, s:I, s:o, s:o, s:o}", "device", section->place.device, "isa",
                     section->place.isa, "threads", (json_int_t)section->place.threads, "ranks",
                     (json_int_t)section->place.ranks, "rates", rates_json(section), "links",
                     links_json(section), "rows", rows_json(section));
}

static int by_place(const void *a, const void *b) {
    const struct profile_place *left = &(*(const struct profile_section *const *)a)->place,
                               *right = &(*(const struct profile_section *const *)b)->place;
    int order = strcmp(left->device, right->device);
    if (order == 0) order = strcmp(left->isa, right->isa);
    if (order == 0) order = (left->threads > right->threads) - (left->threads < right->threads);
    return order ? order : (left->ranks > right->ranks) - (left->ranks < right->ranks);
}

static json_t *sections_json(const struct profile *profile) {
    json_t *list = json_array();
    size_t count = profile->section_count;
    SCOPED_FREE const struct profile_section **sorted =
        MEM_ARRAY(const struct profile_section *, count + 1);
    for (size_t i = 0; i < count; i++) sorted[i] = profile->section[i];
    qsort(sorted, count, sizeof *sorted, by_place);
    for (size_t i = 0; i < count; i++) json_array_append_new(list, section_json(sorted[i]));
    return list;
}

char *profile_print(const struct profile *profile) {
    json_t *root =
        json_pack("{s:i, s:o}", "format", (int)FORMAT, "sections", sections_json(profile));
    CHECK(root, "a profile cannot be written as JSON");
    char check[16];
    snprintf(check, sizeof check, "%08x", json_content_check(root));
    json_object_set_new(root, "check", json_string(check));
    char *text = json_dumps(root, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(root);
    CHECK(text, "a profile cannot be written as JSON");
    return text;
}

enum status profile_write(const struct profile *profile, const char *path) {
    SCOPED_FREE char *text = profile_print(profile);
    return file_write_text(path, text);
}

/* ---- reading ---- */

/* A list of keys and its length, as json_check_keys takes them. */
#define KEYS(...)                                                                                  \
    (const char *const[]){__VA_ARGS__},                                                            \
        (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static enum status read_measure(const struct json_place *parent, const char *key, double least,
                                struct measure *out) {
    struct json_place place = json_member(parent, key);
    TRY(json_check_keys(&place, KEYS("median", "iqr", "samples")));
    struct json_place median = json_member(&place, "median"), iqr = json_member(&place, "iqr"),
                      samples = json_member(&place, "samples");
    TRY(json_get_real(&median, least, NUMBER_MAX, &out->median));
    TRY(json_get_real(&iqr, 0, NUMBER_MAX, &out->iqr));
    return json_get_int(&samples, 1, 1LL << 40, &out->samples);
}

/* Operations that were not measured are estimated from the first two rates: these must be there. */
static enum status read_rates(const struct json_place *parent, struct profile_section *section) {
    struct json_place place = json_member(parent, "rates");
    TRY(json_check_keys(&place, profile_rate_names, PROFILE_RATE_COUNT));
    for (int rate = 0; rate < PROFILE_RATE_COUNT; rate++) {
        bool needed = rate == PROFILE_FLOPS || rate == PROFILE_BYTES;
        if (!needed && !json_object_get(place.value, profile_rate_names[rate])) continue;
        TRY(read_measure(&place, profile_rate_names[rate], needed ? 1e-9 : 0,
                         &section->rate[rate]));
    }
    return STATUS_OK;
}

static enum status read_links(const struct json_place *parent, struct profile_section *section) {
    struct json_place place = json_member(parent, "links");
    TRY(json_check_keys(&place, profile_link_names, PROFILE_LINK_COUNT));
    for (int kind = 0; kind < PROFILE_LINK_COUNT; kind++) {
        struct json_place link = json_member(&place, profile_link_names[kind]);
        if (!link.value) continue;
        TRY(json_check_keys(&link, KEYS("latency_ns", "bytes_per_ns")));
        TRY(read_measure(&link, "latency_ns", 0, &section->link[kind].latency_ns));
        TRY(read_measure(&link, "bytes_per_ns", 1e-9, &section->link[kind].bytes_per_ns));
    }
    return STATUS_OK;
}

static enum status read_pass(const struct json_place *parent, enum profile_pass *out) {
    struct json_place place = json_member(parent, "pass");
    const char *text = json_string_value(place.value);
    int pass = text ? TEXT_FIND(text, profile_pass_names) : -1;
    if (pass < 0)
        return json_refuse_value(&place, "forward, backward-input, backward-weight or backward");
    *out = (enum profile_pass)pass;
    return STATUS_OK;
}

static enum status read_row(const struct json_place *place, struct profile *profile,
                            struct profile_section *section) {
    struct profile_key key = {0};
    struct measure ns;
    TRY(json_check_keys(place, KEYS("op", "pass", "shape", "layout", "ns")));
    struct json_place op = json_member(place, "op"), shape = json_member(place, "shape"),
                      layout = json_member(place, "layout");
    TRY(json_get_text(&op, &key.op));
    TRY(read_pass(place, &key.pass));
    TRY(json_get_text(&shape, &key.shape));
    TRY(json_get_text(&layout, &key.layout));
    TRY(read_measure(place, "ns", 0, &ns));
    if (profile_find(section, &key))
        return json_refuse(place, "a row of this op, pass, shape and layout was there before");
    profile_record(profile, section, &key, &ns);
    return STATUS_OK;
}

static enum status read_rows(const struct json_place *parent, struct profile *profile,
                             struct profile_section *section) {
    struct json_place place = json_member(parent, "rows");
    TRY(json_expect_list(&place));
    for (size_t i = 0; i < json_array_size(place.value); i++) {
        struct json_place row = json_item(&place, i);
        TRY(read_row(&row, profile, section));
    }
    return STATUS_OK;
}

static enum status read_section(const struct json_place *place, struct profile *profile) {
    struct profile_place where;
    TRY(json_check_keys(place,
                        KEYS("device", "isa", "threads", "ranks", "rates", "links", "rows")));
    struct json_place device = json_member(place, "device"), isa = json_member(place, "isa"),
                      threads = json_member(place, "threads"), ranks = json_member(place, "ranks");
    TRY(json_get_text(&device, &where.device));
    TRY(json_get_text(&isa, &where.isa));
    TRY(json_get_int(&threads, 1, 1 << 20, &where.threads));
    TRY(json_get_int(&ranks, 1, 1 << 24, &where.ranks));
    size_t before = profile->section_count;
    struct profile_section *section = profile_section_for(profile, &where);
    if (profile->section_count == before)
        return json_refuse(place,
                           "a section of this device, isa, threads and ranks was there before");
    TRY(read_rates(place, section));
    TRY(read_links(place, section));
    return read_rows(place, profile, section);
}

static enum status check_format(const struct json_file *file) {
    struct json_file other = *file;
    other.status = STATUS_USAGE; /* it is whole: another version wrote it */
    struct json_place root = json_root(&other), place = json_member(&root, "format");
    json_int_t format = json_integer_value(place.value);
    if (!json_is_integer(place.value)) return fail(file->status, "%s: not a profile", file->name);
    if (format == FORMAT) return STATUS_OK;
    return json_refuse(&place, "%lld; this version reads %d\n  measure again with --save-profile",
                       (long long)format, FORMAT);
}

static enum status read_root(struct json_file *file, struct profile *profile) {
    TRY(check_format(file));
    TRY(json_check_content(file));
    struct json_place root = json_root(file), place = json_member(&root, "sections");
    TRY(json_check_keys(&root, KEYS("format", "sections")));
    TRY(json_expect_list(&place));
    for (size_t i = 0; i < json_array_size(place.value); i++) {
        struct json_place section = json_item(&place, i);
        TRY(read_section(&section, profile));
    }
    return STATUS_OK;
}

enum status profile_parse(const char *name, const char *text, size_t bytes, struct profile *out) {
    SCOPED(json_file_free) struct json_file file = {0};
    SCOPED(profile_free) struct profile profile = {0};
    TRY(json_file_parse(name, text, bytes, STATUS_DATA, &file));
    profile_init(name, &profile);
    TRY(read_root(&file, &profile));
    *out = profile;
    profile = (struct profile){0};
    return STATUS_OK;
}

enum status profile_read(const char *path, struct profile *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, MAX_BYTES, &text));
    return profile_parse(path, (const char *)text.data, text.count, out);
}

enum status profile_read_all(const char *paths, struct profile *out) {
    if (file_exists(paths)) return profile_read(paths, out); /* a comma may be a part of its name */
    SCOPED_FREE char *copy = mem_text(paths);
    SCOPED(profile_free) struct profile all = {0};
    profile_init(paths, &all);
    for (char *path, *rest = copy; (path = strsep(&rest, ","));) {
        SCOPED(profile_free) struct profile one = {0};
        if (!*path) return fail(STATUS_DATA, "--profile: a name is empty: a comma too many?");
        TRY(profile_read(path, &one));
        profile_merge(&all, &one);
    }
    *out = all;
    all = (struct profile){0};
    return STATUS_OK;
}
