/* See deepspeed.h. First every key of the file is looked up in the table, which refuses unknown and
 * unsupported ones; then the keys that mean something here are read, group by group. Where
 * DeepSpeed has a default for a key of a group that is given, and ours differs, the default is set,
 * too. */
#include "plan/deepspeed.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/option_word.h"
#include "base/text.h"

enum { BYTES_MAX = 1 << 20, ELEMENT_BYTES = 4, COUNT_MAX = 1 << 24 };
#define STEPS_MAX 1000000000000
#define ELEMENTS_MAX 1000000000000000

enum kind { OBJECT, READ, IDLE, ASIDE, OFF, SWITCH };

static const struct row {
    const char *path;
    enum kind kind;
    const char *off;
} rows[] = {
#define KEY(path, kind, off) {path, kind, off},
#include "plan/deepspeed.def"
};
enum { ROWS = sizeof rows / sizeof rows[0] };

struct reading {
    struct json_file file;
    int64_t replicas;
    struct deepspeed out;
    char *idle; /* "a, b, c" */
    struct json_place root, optimizer, optimizer_params, scheduler, scheduler_params, zero;
    int64_t stage; /* of ZeRO */
};

/* ---- the table ---- */

/* The part of a row's path that is one key below `prefix`, or NULL. */
static const char *below(const struct row *row, const char *prefix) {
    size_t length = strlen(prefix);
    const char *rest = row->path;
    if (length > 0) {
        if (strncmp(row->path, prefix, length) != 0 || row->path[length] != '.') return NULL;
        rest += length + 1;
    }
    return strchr(rest, '.') ? NULL : rest;
}

static enum status find_row(const struct json_place *place, const char *prefix,
                            const struct row **out) {
    const char *names[ROWS];
    int count = 0;
    for (int i = 0; i < ROWS; i++) {
        const char *name = below(&rows[i], prefix);
        if (!name) continue;
        if (strcmp(name, place->key) == 0) *out = &rows[i];
        if (strcmp(name, place->key) == 0) return STATUS_OK;
        names[count++] = name;
    }
    const char *near = text_nearest(place->key, names, count);
    SCOPED_FREE char *answer =
        near ? mem_format("did you mean %s?", near)
             : option_word_answer(place->key, COMMAND_TRAIN, OPTION_FORM_ARGUMENT);
    return json_refuse(place, "unknown key%s%s", answer ? "; " : "", answer ? answer : "");
}

/* Refuses what is switched on and not here; of fp16 and amp, what is. */
static enum status refuse_switch(const struct json_place *place, const char *word, const char *what,
                                 const char *hint) {
    SCOPED_FREE char *answer = option_word_answer(word, COMMAND_TRAIN, OPTION_FORM_ARGUMENT);
    return json_refuse(place, "%sis not supported%s%s\n  %s", what, answer ? "; " : "",
                       answer ? answer : "", hint);
}

/* Not given: null, or left to the command line ("auto"). */
static bool is_auto(const json_t *value) {
    return json_is_string(value) && strcmp(json_string_value(value), "auto") == 0;
}

static bool is_given(const struct json_place *place) {
    return place->value && !json_is_null(place->value) && !is_auto(place->value);
}

static void add_idle(struct reading *reading, const struct json_place *place) {
    char path[JSON_PATH_BYTES];
    char *longer = mem_format("%s%s%s", reading->idle ? reading->idle : "",
                              reading->idle ? ", " : "", json_path(place, path));
    free(reading->idle);
    reading->idle = longer;
}

/* Equal as JSON, whole numbers and reals alike. */
static bool is_off(const json_t *value, const char *off) {
    json_auto_t *wanted = json_loads(off, JSON_DECODE_ANY, NULL);
    return json_is_number(value) && json_is_number(wanted)
               ? json_number_value(value) == json_number_value(wanted)
               : json_equal(value, wanted);
}

static enum status check_switch(const struct json_place *place) {
    TRY(json_expect_object(place));
    struct json_place enabled = json_member(place, "enabled");
    if (json_object_size(place->value) == 0 || json_is_false(enabled.value)) return STATUS_OK;
    return refuse_switch(place, place->key, "", "remove it, or set \"enabled\": false");
}

static enum status check_object(struct reading *reading, const struct json_place *place,
                                const char *prefix);

static enum status check_key(struct reading *reading, const struct json_place *place,
                             const char *prefix) {
    const struct row *row = NULL;
    char value[JSON_VALUE_BYTES];
    TRY(find_row(place, prefix, &row));
    if (!is_given(place)) return STATUS_OK;
    switch (row->kind) {
    case OBJECT: return check_object(reading, place, row->path);
    case SWITCH: return check_switch(place);
    case ASIDE: TRY(json_expect_object(place)); /* fall through */
    case IDLE: add_idle(reading, place); return STATUS_OK;
    case READ: return STATUS_OK;
    case OFF: break;
    }
    if (is_off(place->value, row->off)) return STATUS_OK;
    SCOPED_FREE char *what = mem_format("%s ", json_value_text(place->value, value)),
                     *hint = mem_format("remove the key, or set it to %s", row->off);
    const char *word = strcmp(place->key, "enabled") == 0 ? prefix : place->key;
    return refuse_switch(place, word, what, hint);
}

/* "zero_optimization": true is an old spelling. */
static enum status check_object(struct reading *reading, const struct json_place *place,
                                const char *prefix) {
    const char *key;
    json_t *value;
    if (strcmp(prefix, "zero_optimization") == 0 && json_is_boolean(place->value)) return STATUS_OK;
    TRY(json_expect_object(place));
    json_object_foreach((json_t *)place->value, key, value) {
        struct json_place member = json_member(place, key);
        TRY(check_key(reading, &member, prefix));
    }
    return STATUS_OK;
}

/* ---- options ---- */

__attribute__((format(printf, 4, 5))) static void emit(struct reading *reading, const char *option,
                                                       const struct json_place *from,
                                                       const char *format, ...) {
    struct deepspeed *out = &reading->out;
    char path[JSON_PATH_BYTES], value[64];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    SCOPED_FREE char *where =
        mem_format("%s:%d: %s", reading->file.name, json_line(from), json_path(from, path));
    out->option = mem_grow(out->option, &out->capacity, out->count + 1, sizeof *out->option);
    out->option[out->count++] = (struct deepspeed_option){.option = option,
                                                          .value = arena_text(&out->arena, value),
                                                          .from = arena_text(&out->arena, where)};
}

static void emit_real(struct reading *reading, const char *option, const struct json_place *from,
                      double value) {
    char text[TEXT_BYTES];
    emit(reading, option, from, "%s", text_real(value, text));
}

static enum status read_flag(struct reading *reading, const struct json_place *parent,
                             const char *key, const char *option) {
    struct json_place place = json_member(parent, key);
    bool value;
    if (!is_given(&place)) return STATUS_OK;
    TRY(json_get_flag(&place, &value));
    emit(reading, option, &place, "%s", value ? "on" : "off");
    return STATUS_OK;
}

/* A number from low to high. What is not given is `otherwise`, with `type` as its source; what is
 * "auto" is left to the command line. */
static enum status read_real(struct reading *reading, const struct json_place *parent,
                             const char *key, const char *option, double high, double otherwise,
                             const struct json_place *type) {
    struct json_place place = json_member(parent, key);
    double value = otherwise;
    if (is_auto(place.value)) return STATUS_OK;
    if (is_given(&place)) TRY(json_get_real(&place, 0, high, &value));
    emit_real(reading, option, is_given(&place) ? &place : type, value);
    return STATUS_OK;
}

/* ---- batch ---- */

enum { TRAIN, MICRO, STEPS, SIZES };
static const char *const size_names[SIZES] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                              "gradient_accumulation_steps"};

static enum status refuse_batch(const struct reading *reading, const int64_t size[SIZES]) {
    char text[SIZES][TEXT_BYTES];
    for (int i = 0; i < SIZES; i++)
        snprintf(text[i], TEXT_BYTES, size[i] ? "%lld" : "?", (long long)size[i]);
    int named = size[TRAIN] ? TRAIN : MICRO;
    struct json_place place = json_member(&reading->root, size_names[named]);
    return json_refuse(&place,
                       "%s = %s x %s x %lld does not hold\n  train_batch_size = "
                       "train_micro_batch_size_per_gpu x gradient_accumulation_steps x "
                       "data-parallel ranks",
                       text[TRAIN], text[MICRO], text[STEPS], (long long)reading->replicas);
}

/* Any two give the third; of one alone, micro-batches are 1. Accumulation alone says nothing about
 * the batch. */
static enum status solve_batch(const struct reading *reading, int64_t size[SIZES]) {
    if (!size[TRAIN] && !size[MICRO]) return STATUS_OK;
    if (!size[STEPS] && !(size[TRAIN] && size[MICRO])) size[STEPS] = 1;
    double product = (double)reading->replicas * (double)(size[MICRO] ? size[MICRO] : 1) *
                     (double)(size[STEPS] ? size[STEPS] : 1);
    if (product > COUNT_MAX) return refuse_batch(reading, size);
    int64_t known =
        reading->replicas * (size[MICRO] ? size[MICRO] : 1) * (size[STEPS] ? size[STEPS] : 1);
    if (!size[TRAIN]) size[TRAIN] = known;
    int64_t share = size[TRAIN] / known;
    if (share * known != size[TRAIN] || share == 0) return refuse_batch(reading, size);
    if (size[MICRO] && size[STEPS] && share != 1) return refuse_batch(reading, size);
    if (!size[MICRO]) size[MICRO] = share;
    if (!size[STEPS]) size[STEPS] = share;
    return STATUS_OK;
}

static enum status read_batch(struct reading *reading) {
    static const char *const options[SIZES] = {"batch", "micro-batch-size", "micro-batches"};
    int64_t size[SIZES] = {0};
    struct json_place place[SIZES];
    const struct json_place *source = NULL;
    for (int i = 0; i < SIZES; i++) {
        place[i] = json_member(&reading->root, size_names[i]);
        if (!is_given(&place[i])) continue;
        TRY(json_get_int(&place[i], 1, COUNT_MAX, &size[i]));
        if (!source) source = &place[i];
    }
    TRY(solve_batch(reading, size));
    for (int i = 0; i < SIZES; i++)
        if (size[i])
            emit(reading, options[i], is_given(&place[i]) ? &place[i] : source, "%" PRId64,
                 size[i]);
    return STATUS_OK;
}

/* ---- optimizer ---- */

/* Refuses parameters of another kind of optimizer or scheduler. */
static enum status refuse_params(const struct json_place *params, const char *type,
                                 const char *const *foreign, int count) {
    for (int i = 0; i < count; i++) {
        struct json_place place = json_member(params, foreign[i]);
        if (is_given(&place)) return json_refuse(&place, "%s has no such parameter", type);
    }
    return STATUS_OK;
}

static enum status read_betas(struct reading *reading, const struct json_place *type) {
    static const char *const options[] = {"beta1", "beta2"};
    static const double initial[] = {0.9, 0.999};
    struct json_place betas = json_member(&reading->optimizer_params, "betas");
    if (is_auto(betas.value)) return STATUS_OK;
    if (is_given(&betas) && json_array_size(betas.value) != 2)
        return json_refuse_value(&betas, "a list of two numbers: [0.9, 0.999]");
    for (size_t i = 0; i < 2; i++) {
        struct json_place beta = json_item(&betas, i);
        double value = initial[i];
        if (is_given(&betas)) TRY(json_get_real(&beta, 0, 1, &value));
        emit_real(reading, options[i], is_given(&betas) ? &betas : type, value);
    }
    return STATUS_OK;
}

static enum status read_flag_or(const struct json_place *parent, const char *key, bool otherwise,
                                bool *out) {
    struct json_place place = json_member(parent, key);
    *out = otherwise;
    return is_given(&place) ? json_get_flag(&place, out) : STATUS_OK;
}

/* All parameters decay in DeepSpeed. */
static enum status read_decay(struct reading *reading, const struct json_place *type,
                              double otherwise) {
    struct json_place decay = json_member(&reading->optimizer_params, "weight_decay");
    TRY(read_real(reading, &reading->optimizer_params, "weight_decay", "weight-decay", 1e9,
                  otherwise, type));
    if (is_given(&decay) && json_number_value(decay.value) > 0)
        emit(reading, "no-decay", &decay, "none");
    return STATUS_OK;
}

/* "Adam" is AdamW unless adam_w_mode is false. */
static enum status read_adam(struct reading *reading, const struct json_place *type, bool adamw) {
    static const char *const foreign[] = {"momentum", "nesterov", "dampening"};
    const struct json_place *params = &reading->optimizer_params;
    bool mode, torch;
    TRY(refuse_params(params, json_string_value(type->value), foreign, 3));
    TRY(read_flag_or(params, "adam_w_mode", true, &mode));
    TRY(read_flag_or(params, "torch_adam", false, &torch));
    adamw = adamw || mode;
    emit(reading, "optimizer", type, "%s", adamw ? "adamw" : "adam");
    TRY(read_betas(reading, type));
    TRY(read_real(reading, params, "eps", "eps", 1, 1e-8, type));
    return read_decay(reading, type, torch && adamw ? 0.01 : 0);
}

static enum status read_sgd(struct reading *reading, const struct json_place *type) {
    static const char *const foreign[] = {"betas",           "eps",        "amsgrad",
                                          "bias_correction", "torch_adam", "adam_w_mode"};
    const struct json_place *params = &reading->optimizer_params;
    TRY(refuse_params(params, "SGD", foreign, 6));
    emit(reading, "optimizer", type, "sgd");
    TRY(read_real(reading, params, "momentum", "momentum", 1, 0, type));
    TRY(read_flag(reading, params, "nesterov", "nesterov"));
    return read_decay(reading, type, 0);
}

static enum status read_optimizer(struct reading *reading) {
    struct json_place type = json_member(&reading->optimizer, "type");
    const char *name;
    if (!is_given(&reading->optimizer)) return STATUS_OK;
    TRY(json_get_text(&type, &name));
    if (strcasecmp(name, "adam") == 0) return read_adam(reading, &type, false);
    if (strcasecmp(name, "adamw") == 0) return read_adam(reading, &type, true);
    if (strcasecmp(name, "sgd") == 0) return read_sgd(reading, &type);
    return json_refuse_value(&type, "Adam, AdamW or SGD");
}

/* ---- scheduler and learning rate ---- */

static enum status read_warmup(struct reading *reading, int64_t *steps) {
    struct json_place type = json_member(&reading->scheduler_params, "warmup_type"),
                      num = json_member(&reading->scheduler_params, "warmup_num_steps");
    const char *shape = is_given(&type) ? json_string_value(type.value) : "log"; /* its default */
    if (!shape || (strcmp(shape, "linear") != 0 && strcmp(shape, "log") != 0))
        return json_refuse_value(&type, "linear or log");
    if (!is_auto(type.value))
        emit(reading, "warmup-type", is_given(&type) ? &type : &reading->scheduler, "%s", shape);
    *steps = 0;
    if (is_auto(num.value)) return STATUS_OK;
    *steps = 1000;
    if (is_given(&num)) TRY(json_get_int(&num, 0, STEPS_MAX, steps));
    if (*steps < 2) *steps = 2; /* as DeepSpeed does */
    emit(reading, "warmup", is_given(&num) ? &num : &reading->scheduler, "%" PRId64, *steps);
    return STATUS_OK;
}

/* Decays end with the run: total_num_steps is its length. */
static enum status read_total(struct reading *reading, int64_t warmup) {
    struct json_place total = json_member(&reading->scheduler_params, "total_num_steps");
    int64_t steps;
    if (is_auto(total.value)) return STATUS_OK;
    TRY(json_get_int(&total, 1, STEPS_MAX, &steps));
    if (steps <= warmup)
        return json_refuse(&total, "%lld is not above warmup_num_steps, %lld", (long long)steps,
                           (long long)warmup);
    emit(reading, "steps", &total, "%" PRId64, steps);
    return STATUS_OK;
}

static enum status check_cosine_end(const struct reading *reading) {
    struct json_place place = json_member(&reading->scheduler_params, "cos_min_ratio");
    char value[JSON_VALUE_BYTES];
    if (is_auto(place.value) ||
        (json_is_number(place.value) && json_number_value(place.value) == 0))
        return STATUS_OK;
    return json_refuse(&place,
                       "%s is not supported: the cosine ends at 0\n  write "
                       "\"cos_min_ratio\": 0",
                       place.value ? json_value_text(place.value, value) : "0.0001, the default,");
}

/* What the scheduler reaches holds; the optimizer's own rate is then without effect. */
static enum status read_rate(struct reading *reading, bool by_scheduler) {
    struct json_place own = json_member(&reading->optimizer_params, "lr"),
                      peak = json_member(&reading->scheduler_params, "warmup_max_lr");
    const struct json_place *from = by_scheduler && is_given(&peak) ? &peak : &own;
    double value = 0.001;
    if (is_given(from)) TRY(json_get_real(from, 0, 1e9, &value));
    if (from == &peak && is_given(&own)) add_idle(reading, &own);
    if (is_given(from))
        emit_real(reading, "lr", from, value);
    else if (is_given(&reading->optimizer) && !own.value)
        emit_real(reading, "lr", &reading->optimizer, value);
    return STATUS_OK;
}

static const struct scheduler {
    const char *type, *policy;
    bool total, ratio; /* takes total_num_steps; scales the optimizer's rate */
} schedulers[] = {
    {"WarmupLR", "const", false, false},
    {"WarmupDecayLR", "linear", true, false},
    {"WarmupCosineLR", "cosine", true, true},
};

static enum status apply_scheduler(struct reading *reading, const struct json_place *type,
                                   const struct scheduler *scheduler) {
    static const char *const ratios[] = {"warmup_min_ratio", "cos_min_ratio"},
                             *const rates[] = {"warmup_min_lr", "warmup_max_lr"},
                             *const totals[] = {"total_num_steps"};
    const struct json_place *params = &reading->scheduler_params;
    int64_t warmup;
    TRY(refuse_params(params, scheduler->type, scheduler->ratio ? rates : ratios, 2));
    if (!scheduler->total) TRY(refuse_params(params, scheduler->type, totals, 1));
    emit(reading, "lr-policy", type, "%s", scheduler->policy);
    TRY(read_warmup(reading, &warmup));
    if (scheduler->total) TRY(read_total(reading, warmup));
    if (scheduler->ratio) TRY(check_cosine_end(reading));
    return read_rate(reading, !scheduler->ratio);
}

static enum status read_scheduler(struct reading *reading) {
    struct json_place type = json_member(&reading->scheduler, "type");
    const char *name;
    if (!is_given(&reading->scheduler) || (reading->scheduler.value && json_is_null(type.value)))
        return read_rate(reading, false);
    TRY(json_get_text(&type, &name));
    for (size_t i = 0; i < sizeof schedulers / sizeof schedulers[0]; i++)
        if (strcmp(name, schedulers[i].type) == 0)
            return apply_scheduler(reading, &type, &schedulers[i]);
    return json_refuse_value(&type, "WarmupLR, WarmupDecayLR or WarmupCosineLR");
}

/* ---- ZeRO and the rest ---- */

static enum status read_elements(struct reading *reading, const char *key, const char *option,
                                 int64_t stage) {
    struct json_place place = json_member(&reading->zero, key);
    int64_t elements;
    if (!is_given(&place)) return STATUS_OK;
    TRY(json_get_int(&place, 0, ELEMENTS_MAX, &elements));
    if (reading->stage < stage)
        add_idle(reading, &place);
    else
        emit(reading, option, &place, "%" PRId64, elements * ELEMENT_BYTES);
    return STATUS_OK;
}

static enum status read_zero(struct reading *reading) {
    const struct json_place *zero = &reading->zero;
    struct json_place stage = json_member(zero, "stage");
    if (!is_given(zero)) return STATUS_OK;
    if (json_is_boolean(zero->value)) reading->stage = json_is_true(zero->value);
    if (is_given(&stage)) TRY(json_get_int(&stage, 0, 3, &reading->stage));
    if (reading->stage > 0)
        emit(reading, "zero-stage", is_given(&stage) ? &stage : zero, "%" PRId64, reading->stage);
    TRY(read_elements(reading, "reduce_bucket_size", "bucket-size", 1));
    TRY(read_elements(reading, "stage3_prefetch_bucket_size", "zero-prefetch", 3));
    return read_elements(reading, "stage3_param_persistence_threshold", "zero-keep", 3);
}

/* Parameters, sums and losses are f32 in both; false leaves the choice to the command line. */
static enum status read_bf16(struct reading *reading) {
    struct json_place section = json_member(&reading->root, "bf16");
    struct json_place enabled = json_member(&section, "enabled");
    bool on = false;
    if (!is_given(&section) || !is_given(&enabled)) return STATUS_OK;
    TRY(json_get_flag(&enabled, &on));
    if (on) emit(reading, "dtype", &enabled, "bf16");
    return STATUS_OK;
}

static enum status read_rest(struct reading *reading) {
    struct json_place clip = json_member(&reading->root, "gradient_clipping"),
                      print = json_member(&reading->root, "steps_per_print");
    double norm;
    int64_t steps;
    if (is_given(&clip)) {
        TRY(json_get_real(&clip, 0, 1e18, &norm));
        emit_real(reading, "clip", &clip, norm);
    }
    if (is_given(&print)) {
        TRY(json_get_int(&print, 1, 1000000000, &steps));
        emit(reading, "log-every", &print, "%" PRId64, steps);
    }
    return read_flag(reading, &reading->root, "dataloader_drop_last", "drop-last");
}

static enum status read_file(struct reading *reading) {
    reading->root = json_root(&reading->file);
    TRY(json_expect_object(&reading->root));
    TRY(check_object(reading, &reading->root, ""));
    reading->optimizer = json_member(&reading->root, "optimizer");
    reading->optimizer_params = json_member(&reading->optimizer, "params");
    reading->scheduler = json_member(&reading->root, "scheduler");
    reading->scheduler_params = json_member(&reading->scheduler, "params");
    reading->zero = json_member(&reading->root, "zero_optimization");
    TRY(read_batch(reading));
    TRY(read_optimizer(reading));
    TRY(read_scheduler(reading));
    TRY(read_zero(reading));
    TRY(read_bf16(reading));
    return read_rest(reading);
}

enum status deepspeed_parse(const char *name, const char *text, size_t bytes, int64_t replicas,
                            struct deepspeed *out) {
    struct reading reading = {.replicas = replicas};
    TRY(json_file_parse(name, text, bytes, STATUS_USAGE, &reading.file));
    enum status status = read_file(&reading);
    if (reading.idle) {
        SCOPED_FREE char *note = mem_format("%s: keys without effect here: %s", name, reading.idle);
        reading.out.note = arena_text(&reading.out.arena, note);
    }
    free(reading.idle);
    json_file_free(&reading.file);
    if (status == STATUS_OK)
        *out = reading.out;
    else
        deepspeed_free(&reading.out);
    return status;
}

enum status deepspeed_read(const char *path, int64_t replicas, struct deepspeed *out) {
    SCOPED(bytes_free) struct bytes text = {0};
    TRY(file_read(path, BYTES_MAX, &text));
    return deepspeed_parse(path, (const char *)text.data, text.count, replicas, out);
}

void deepspeed_free(struct deepspeed *deepspeed) {
    free(deepspeed->option);
    arena_free(&deepspeed->arena);
    *deepspeed = (struct deepspeed){0};
}
