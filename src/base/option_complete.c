/* What the table says to shells: completion of commands, options and their values.
 *
 * Both scripts are made from the rows at run time and ask the program nothing while one types: a
 * completion that starts processes is felt. Each has a line for every option, and which commands
 * take it. */
#include "base/option_print.h"

#include <stdlib.h>
#include <string.h>

#include "base/option_value.h"

/* What may follow an option. */
enum value_kind { VALUE_NONE, VALUE_FREE, VALUE_WORDS, VALUE_FILE, VALUE_FOLDER };

static enum value_kind kind_of(const struct option_row *row) {
    if (row->registry || row->type == OPTION_TYPE_CHOICE || row->type == OPTION_TYPE_LIST)
        return VALUE_WORDS;
    if (row->type == OPTION_TYPE_FLAG)
        return strcmp(row->initial, "on") == 0 ? VALUE_WORDS : VALUE_NONE;
    if (strcmp(row->placeholder, "FILE") == 0) return VALUE_FILE;
    return strcmp(row->placeholder, "DIR") == 0 ? VALUE_FOLDER : VALUE_FREE;
}

static bool print_word(const char *word, size_t length, void *context) {
    fprintf(context, " %.*s", (int)length, word);
    return false;
}

static void print_words(const struct option_row *row, FILE *out) {
    if (row->type == OPTION_TYPE_FLAG)
        fputs("on off", out);
    else
        option_value_words(row, print_word, out);
}

static const char *command_name(unsigned command) {
    return option_commands[__builtin_ctz(command)].name;
}

static void print_names(const unsigned *commands, int count, const char *between, FILE *out) {
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? between : "", command_name(commands[i]));
}

/* --- bash --- */

static void bash_value(const struct option_row *row, FILE *out) {
    enum value_kind kind = kind_of(row);
    if (kind == VALUE_NONE) return;
    fputs("    ", out);
    if (row->letter) fprintf(out, "-%c | ", row->letter);
    fprintf(out, "--%s) ", row->name);
    if (kind == VALUE_WORDS) {
        fputs("COMPREPLY=($(compgen -W '", out);
        print_words(row, out);
        fputs("' -- \"$word\")); ", out);
    } else if (kind != VALUE_FREE) {
        fprintf(out, "COMPREPLY=($(compgen -%c -- \"$word\")); ", kind == VALUE_FOLDER ? 'd' : 'f');
    }
    fputs("return ;;\n", out);
}

static void bash_options(unsigned command, FILE *out) {
    fprintf(out, "    %s) words='", command_name(command));
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        if (!(row->commands & command)) continue;
        if (row->letter) fprintf(out, " -%c", row->letter);
        fprintf(out, " --%s", row->name);
    }
    fputs("' ;;\n", out);
}

/* In bash "=" and ":" are words of their own. */
static const char bash_begin[] =
    "# Completion of stretto for bash. To use it: source <(stretto completion bash)\n"
    "_stretto() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
    "    if [ \"$word\" = = ]; then word=\n"
    "    elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    local commands='";
static const char bash_middle[] =
    "'\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        COMPREPLY=($(compgen -W \"--help --version $commands\" -- \"$word\")); return\n"
    "    fi\n"
    "    case $before in\n";
static const char bash_end[] =
    "    esac\n"
    "    case ${COMP_WORDS[1]}:$word in\n"
    "    *:-*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
    "    help:*) COMPREPLY=($(compgen -W \"$commands\" -- \"$word\")) ;;\n"
    "    completion:*) COMPREPLY=($(compgen -W 'bash zsh' -- \"$word\")) ;;\n"
    "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
    "    esac\n"
    "}\n"
    "complete -o filenames -F _stretto stretto\n";

void options_print_bash(const unsigned *commands, int count, FILE *out) {
    fputs(bash_begin, out);
    print_names(commands, count, " ", out);
    fputs(bash_middle, out);
    for (int id = 0; id < OPTION_COUNT; id++) bash_value(&option_rows[id], out);
    fputs("    esac\n    case ${COMP_WORDS[1]} in\n", out);
    for (int i = 0; i < count; i++) bash_options(commands[i], out);
    fputs(bash_end, out);
}

/* --- zsh --- */

/* Text between single quotes, with what _arguments and _describe would take for their own signs. */
static void zsh_text(const char *text, const char *signs, FILE *out) {
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, strchr(signs, *text) ? "\\%c" : "%c", *text);
    }
}

static void zsh_value(const struct option_row *row, FILE *out) {
    enum value_kind kind = kind_of(row);
    if (kind == VALUE_NONE) return;
    fputc(':', out);
    zsh_text(*row->placeholder ? row->placeholder : "value", "\\:", out);
    fputc(':', out);
    if (kind == VALUE_FILE) fputs("_files", out);
    if (kind == VALUE_FOLDER) fputs("_files -/", out);
    if (kind == VALUE_FREE) fputc(' ', out);
    if (kind != VALUE_WORDS) return;
    fputs(row->type == OPTION_TYPE_LIST ? "_values -s , value none" : "(", out);
    print_words(row, out);
    if (row->type != OPTION_TYPE_LIST) fputc(')', out);
}

/* A spec of _arguments a form of the name; "=" and "+" let a value be the next word, too. */
static void zsh_spec(const struct option_row *row, bool letter, FILE *out) {
    bool value = kind_of(row) != VALUE_NONE;
    fputs("        '", out);
    if (letter)
        fprintf(out, "-%c%s[", row->letter, value ? "+" : "");
    else
        fprintf(out, "--%s%s[", row->name, value ? "=" : "");
    char *help = option_help_text(row);
    zsh_text(help, "\\[]", out);
    free(help);
    fputc(']', out);
    zsh_value(row, out);
    fputs("'\n", out);
}

/* Which of the commands take options of this mask: "    [[ $words[2] == (train|explain) ]] &&". */
static void zsh_when(unsigned mask, const unsigned *commands, int count, FILE *out) {
    const char *between = "    [[ $words[2] == (";
    for (int i = 0; i < count; i++) {
        if (!(mask & commands[i])) continue;
        fprintf(out, "%s%s", between, command_name(commands[i]));
        between = "|";
    }
    fputs(") ]] && specs+=(\n", out);
}

/* Options that stand together and belong to the same commands share a condition. */
static void zsh_options(const unsigned *commands, int count, FILE *out) {
    unsigned open = 0;
    for (int id = 0; id < OPTION_COUNT; id++) {
        const struct option_row *row = &option_rows[id];
        unsigned mask = row->commands & COMMAND_ALL;
        if (mask != open) {
            if (open) fputs("    )\n", out);
            zsh_when(mask, commands, count, out);
            open = mask;
        }
        if (row->letter) zsh_spec(row, true, out);
        zsh_spec(row, false, out);
    }
    fputs("    )\n", out);
}

static void zsh_command(unsigned command, FILE *out) {
    fprintf(out, " '%s:", command_name(command));
    zsh_text(option_commands[__builtin_ctz(command)].summary, "\\:", out);
    fputc('\'', out);
}

/* Found in $fpath the file is the function's body; sourced it defines it. */
static const char zsh_begin[] =
    "#compdef stretto\n"
    "# Completion of stretto for zsh, after compinit. To use it: source <(stretto completion zsh)\n"
    "_stretto() {\n"
    "    local -a commands general specs\n"
    "    commands=(";
static const char zsh_middle[] =
    " )\n"
    "    general=( '--help:show the commands' '--version:show the version' )\n"
    "    if (( CURRENT == 2 )); then\n"
    "        _describe -t commands command commands -- general\n"
    "        return\n"
    "    fi\n";
static const char zsh_end[] =
    "    case $words[2] in\n"
    "    help) specs+=( '1:command:('\"${(j: :)${(@)commands%%:*}}\"')' ) ;;\n"
    "    completion) specs+=( '1:shell:(bash zsh)' ) ;;\n"
    "    *) specs+=( '*:file:_files' ) ;;\n"
    "    esac\n"
    "    shift words\n"
    "    (( CURRENT-- ))\n"
    "    _arguments -S $specs\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _stretto ]; then _stretto \"$@\"; else compdef _stretto stretto; "
    "fi\n";

void options_print_zsh(const unsigned *commands, int count, FILE *out) {
    fputs(zsh_begin, out);
    for (int i = 0; i < count; i++) zsh_command(commands[i], out);
    fputs(zsh_middle, out);
    zsh_options(commands, count, out);
    fputs(zsh_end, out);
}
