/* The keys of npy: and hdf5:. A path with a comma in it cannot be named; a link to it can. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "data/arrays.h"

enum { CLASSES_MOST = 1 << 20, CHANNELS_MOST = 4096 };

static enum status set_name(const char *kind, const char *key, const char *value,
                            struct array_spec *spec) {
    static const char *const keys[ARRAY_ROLES] = {"x", "y", "test_x", "test_y"};
    (void)kind;
    for (int role = 0; role < ARRAY_ROLES; role++) {
        if (strcmp(key, keys[role]) != 0) continue;
        spec->name[role] = value;
        spec->needed[role] = true;
    }
    return STATUS_OK;
}

static enum status set_layout(const char *kind, const char *key, const char *value,
                              struct array_spec *spec) {
    if (strcmp(value, "nchw") != 0 && strcmp(value, "nhwc") != 0)
        return fail(STATUS_USAGE, "%s: %s '%s', expected nchw or nhwc", kind, key, value);
    spec->layout = strcmp(value, "nchw") == 0 ? LAYOUT_NCHW : LAYOUT_NHWC;
    return STATUS_OK;
}

static enum status set_classes(const char *kind, const char *key, const char *value,
                               struct array_spec *spec) {
    if (number_int(value, &spec->classes) && spec->classes >= 1 && spec->classes <= CLASSES_MOST)
        return STATUS_OK;
    return fail(STATUS_USAGE, "%s: %s '%s', expected 1 to %d", kind, key, value, CLASSES_MOST);
}

/* "0.5" or "0.49:0.48:0.45". */
static enum status set_numbers(const char *kind, const char *key, const char *value,
                               struct array_spec *spec) {
    bool deviation = strcmp(key, "std") == 0;
    int count = 1, done = 0;
    for (const char *at = value; *at; at++) count += *at == ':';
    float *numbers = count <= CHANNELS_MOST ? MEM_ARRAY(float, count) : NULL;
    for (const char *at = value; numbers && done < count; done++, at++) {
        double number;
        if (!number_decimal(&at, &number) || (deviation && !((float)number > 0)) ||
            (*at != ':' && *at != 0))
            break;
        numbers[done] = (float)number;
    }
    if (done < count) {
        free(numbers);
        return fail(STATUS_USAGE, "%s: %s '%s', expected %s, or one for each channel: a:b:c", kind,
                    key, value, deviation ? "a number above 0" : "a number");
    }
    free(deviation ? spec->std : spec->mean);
    *(deviation ? &spec->std : &spec->mean) = numbers;
    *(deviation ? &spec->std_count : &spec->mean_count) = count;
    return STATUS_OK;
}

static const struct {
    const char *name;
    enum status (*set)(const char *kind, const char *key, const char *value,
                       struct array_spec *spec);
} keys[] = {
    {"x", set_name},        {"y", set_name},          {"test_x", set_name},  {"test_y", set_name},
    {"layout", set_layout}, {"classes", set_classes}, {"mean", set_numbers}, {"std", set_numbers},
};

static enum status set_key(const char *kind, char *item, struct array_spec *spec) {
    char *value = strchr(item, '=');
    if (value) *value++ = 0;
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++) {
        if (strcmp(keys[k].name, item) != 0) continue;
        if (value && *value) return keys[k].set(kind, item, value, spec);
        return fail(STATUS_USAGE, "%s: '%s' has no value\n  write it as %s=...", kind, item, item);
    }
    return fail(STATUS_USAGE,
                "%s: unknown key '%s'\n  known: x y test_x test_y layout classes mean std", kind,
                item);
}

enum status array_spec_parse(const char *kind, const char *argument, bool unlabelled,
                             struct array_spec *out) {
    struct array_spec spec = {.text = mem_text(argument),
                              .needed = {[ARRAY_X] = true, [ARRAY_Y] = !unlabelled},
                              .name = {"x_train", "y_train", "x_test", "y_test"}};
    char *rest = spec.text, *item;
    enum status status = STATUS_OK;
    spec.path = strsep(&rest, ",");
    if (!*spec.path) status = fail(STATUS_USAGE, "%s: no path before the first comma", kind);
    while (status == STATUS_OK && (item = strsep(&rest, ","))) status = set_key(kind, item, &spec);
    if (status == STATUS_OK)
        *out = spec;
    else
        array_spec_free(&spec);
    return status;
}

void array_spec_free(struct array_spec *spec) {
    free(spec->text);
    free(spec->mean);
    free(spec->std);
    *spec = (struct array_spec){0};
}
