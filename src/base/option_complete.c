/* What the table says to shells. */
#include "base/option_print.h"

#include <string.h>

#include "base/option_value.h"

static bool print_word(const char *word, size_t length, void *context) {
    fprintf(context, " %.*s", (int)length, word);
    return false;
}

static const char *find_words(const struct option_words *more, enum option_id id) {
    while (more->words && more->id != id) more++;
    return more->words;
}

/* Words for what a value may be; file names where the placeholder says so. */
static void print_value_case(const struct option_row *row, const char *known, FILE *out) {
    bool file = !strcmp(row->placeholder, "FILE") || !strcmp(row->placeholder, "DIR");
    bool words = row->type == OPTION_TYPE_CHOICE || row->type == OPTION_TYPE_LIST;
    if (!file && !words && !known) return;
    fprintf(out, "    --%s) COMPREPLY=($(compgen ", row->name);
    if (known)
        fprintf(out, "-W '%s'", known);
    else if (file)
        fprintf(out, "-%c", !strcmp(row->placeholder, "DIR") ? 'd' : 'f');
    else {
        fputs("-W '", out);
        option_value_words(row, print_word, out);
        fputs("'", out);
    }
    fputs(" -- \"$word\")); return ;;\n", out);
}

void options_print_completion(const unsigned *commands, int count, const struct option_words *more,
                              FILE *out) {
    fputs("# Completion of stretto for bash. To use it: source <(stretto completion bash)\n"
          "_stretto() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    local commands='",
          out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? " " : "", option_commands[__builtin_ctz(commands[i])].name);
    fputs("'\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"--help --version $commands\" -- \"$word\")); return\n"
          "    fi\n"
          "    case $before in\n",
          out);
    for (int id = 0; id < OPTION_COUNT; id++)
        print_value_case(&option_rows[id], find_words(more, id), out);
    fputs("    esac\n    case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "    %s) words='", option_commands[__builtin_ctz(commands[i])].name);
        for (int id = 0; id < OPTION_COUNT; id++) {
            if (option_rows[id].commands & commands[i]) fprintf(out, " --%s", option_rows[id].name);
        }
        fputs("' ;;\n", out);
    }
    fputs(
        "    esac\n"
        "    case $word in\n"
        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
        "    *) if [ \"${COMP_WORDS[1]}\" = help ]; then COMPREPLY=($(compgen -W \"$commands\" -- "
        "\"$word\"))\n"
        "        else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n"
        "    esac\n"
        "}\n"
        "complete -o filenames -F _stretto stretto\n",
        out);
}
