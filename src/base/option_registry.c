/* See option_registry.h: what is said of words, whatever table they are from. */
#include "base/option_registry.h"

#include <string.h>

#include "base/mem.h"

static const char *const titles[OPTION_REGISTRY_COUNT] = {
#define REGISTRY(name, title) [OPTION_REGISTRY_##name] = title,
#include "base/options.def"
};

const char *option_registry_title(enum option_registry registry) {
    return titles[registry];
}

const char *option_registry_name(enum option_registry registry) {
    static const char *const names[OPTION_REGISTRY_COUNT] = {
        "none",
#define REGISTRY(name, title) [OPTION_REGISTRY_##name] = #name,
#include "base/options.def"
    };
    return names[registry];
}

char *option_word_usage(const struct option_word *word) {
    const char *argument = word->argument ? word->argument : "";
    bool may_miss = *argument == '[';
    const char *before = may_miss ? "[:" : *argument ? ":" : "";
    return mem_format("%s%s%s", word->name, before, argument + may_miss);
}

bool option_word_acts(const struct option_word *word, const char *option) {
    for (const char *at = word->acts ? word->acts : ""; *at;) {
        size_t length = strcspn(at, " ");
        if (strlen(option) == length && strncmp(at, option, length) == 0) return true;
        at += length + (at[length] == ' ');
    }
    return false;
}
