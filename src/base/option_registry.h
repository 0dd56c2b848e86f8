/* Registries: tables of modules above base (optimizers, models, communicators ...) whose names are
 * the words of an option. A row of such a table is thereby in --help, the completion, the manual
 * page, the documents, "did you mean" and the refusals, and can say which options act with it
 * alone.
 *
 * Base cannot include those modules: it declares option_registry_word, and the module at the top
 * that sees all of them defines it (planned/choices.c). A missing registry is then an error of the
 * build. Rejected: a table that is passed in when the program starts; the library, tests and fuzz
 * targets would each have to do so before the first default is read. All local. */
#ifndef BASE_OPTION_REGISTRY_H
#define BASE_OPTION_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum option_registry {
    OPTION_REGISTRY_none,
#define REGISTRY(name, title) OPTION_REGISTRY_##name,
#include "base/options.def"
    OPTION_REGISTRY_COUNT
};

struct option_word {
    const char *name;
    const char *argument; /* of "mnist:DIR": "DIR"; "[KEY=VALUE,...]" may be left out; NULL: none */
    const char *help;     /* NULL: none */
    const char
        *acts; /* options with the column BY(...) that act with it, "beta1 beta2"; NULL: none */
};

/* Row `index` of a registry; false behind the last. Texts are static. Defined above base. */
bool option_registry_word(enum option_registry registry, int index, struct option_word *out);

/* In a file of options a line that begins so, with the path of a program, says whose words it may
 * hold: another program that lacks one of them says which to use. */
#define OPTION_PROGRAM_LINE "# program: "

/* What row `index` gives an option of which the user says nothing, as text; "" where it gives none,
 * or there is no such row. Defined above base. */
const char *option_registry_default(enum option_registry registry, int index, const char *option,
                                    char text[TEXT_BYTES]);

/* Ranks that the options ask for by stages, replicas and strategy; 1 where they name none. Defined
 * above base. */
struct options;
int64_t options_ranks(const struct options *options);

/* "lr_policies", as the tables write it; "learning-rate policies", for people. */
const char *option_registry_name(enum option_registry registry);
const char *option_registry_title(enum option_registry registry);
/* The word as it is typed: "mnist:DIR", "synthetic[:KEY=VALUE,...]"; the caller frees it. */
char *option_word_usage(const struct option_word *word);
/* Whether the option of this name is listed in `acts`. */
bool option_word_acts(const struct option_word *word, const char *option);

#endif
