/* The text form, read back. Every number is bounded before it sizes or indexes anything; anything
 * unexpected is refused with the line it stands on. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "program/program.h"

enum { MAX_WORDS = 16 };

struct parser {
    const char *name;
    int line;
    struct program *program;
    int rank; /* being filled, -1 before the first section */
    enum list_name list;
    char *word[MAX_WORDS];
    int words;
};

static enum status bad(const struct parser *parser, const char *what, const char *found) {
    return fail(STATUS_DATA, "%s: line %d: expected %s, found \"%.60s\"", parser->name,
                parser->line, what, found);
}

static const char *word_at(const struct parser *parser, int index) {
    return index < parser->words ? parser->word[index] : "(end of line)";
}

/* A decimal number in [low, high] and nothing behind it. */
static bool read_number(const char *text, int low, int high, int *out) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < low || value > high) return false;
    *out = (int)value;
    return true;
}

static enum status read_pair(struct parser *parser, int at, const char *key, int high, int *out) {
    char what[64];
    if (strcmp(word_at(parser, at), key) != 0) return bad(parser, key, word_at(parser, at));
    snprintf(what, sizeof what, "%s from 1 to %d", key, high);
    if (!read_number(word_at(parser, at + 1), 1, high, out))
        return bad(parser, what, word_at(parser, at + 1));
    return STATUS_OK;
}

static enum status parse_header(struct parser *parser) {
    int ranks, stages, replicas, micro_batches, slots, grads;
    TRY(read_pair(parser, 0, "ranks", PROGRAM_MAX_RANKS, &ranks));
    TRY(read_pair(parser, 2, "stages", PROGRAM_MAX_SMALL, &stages));
    TRY(read_pair(parser, 4, "replicas", PROGRAM_MAX_MICROS, &replicas));
    TRY(read_pair(parser, 6, "micro-batches", PROGRAM_MAX_MICROS, &micro_batches));
    if (strcmp(word_at(parser, 8), "sum") != 0) return bad(parser, "sum", word_at(parser, 8));
    int sum = SUM_REPLICA;
    while (sum <= SUM_REPLICAS_FIRST &&
           strcmp(word_at(parser, 9), sum_order_name((enum sum_order)sum)) != 0)
        sum++;
    if (sum > SUM_REPLICAS_FIRST)
        return bad(parser, "replica, tree or replicas-first", word_at(parser, 9));
    TRY(read_pair(parser, 10, "slots", PROGRAM_MAX_SMALL, &slots));
    TRY(read_pair(parser, 12, "grads", PROGRAM_MAX_SMALL, &grads));
    int buckets = 1, last = 14;
    if (parser->words > last) {
        TRY(read_pair(parser, last, "buckets", PROGRAM_MAX_SMALL, &buckets));
        last += 2;
    }
    if (parser->words != last) return bad(parser, "the end of the line", word_at(parser, last));
    if ((int64_t)replicas * micro_batches > PROGRAM_MAX_MICROS)
        return bad(parser, "fewer micro-batches", parser->word[7]);
    parser->program = program_new(ranks, stages, replicas, micro_batches, (enum sum_order)sum);
    parser->program->slots = slots;
    parser->program->grads = grads;
    parser->program->buckets = buckets;
    return STATUS_OK;
}

static enum status parse_section(struct parser *parser) {
    if (!read_number(word_at(parser, 1), 0, parser->program->ranks - 1, &parser->rank))
        return bad(parser, "a rank of the program", word_at(parser, 1));
    int list = 0;
    while (list < LIST_COUNT && strcmp(word_at(parser, 2), list_names[list]) != 0) list++;
    if (list == LIST_COUNT) return bad(parser, "start, body or drain", word_at(parser, 2));
    if (parser->words != 3) return bad(parser, "the end of the line", word_at(parser, 3));
    parser->list = (enum list_name)list;
    return STATUS_OK;
}

static void set_operand(struct instr *instr, char letter, int value) {
    switch (letter) {
    case 's': instr->stage = (int16_t)value; break;
    case 'm': instr->micro = value; break;
    case 'a': instr->slot = (int16_t)value; break;
    case 'g': instr->grad = (int16_t)value; break;
    case 'e': instr->segment = (int16_t)value; break;
    case 'b': instr->bucket = (int16_t)value; break;
    default: instr->other = (int16_t)value;
    }
}

static enum status parse_operands(struct parser *parser, struct instr *instr) {
    int at = 3;
    for (const char *letter = instr_operands(instr->op); *letter; letter++, at++) {
        const char *word = word_at(parser, at);
        if (*letter == '?' && word[0] != *++letter) { /* an optional one, left out */
            at--;
            continue;
        }
        int value, high = *letter == 'm' ? PROGRAM_MAX_MICROS : PROGRAM_MAX_SMALL;
        char what[32];
        snprintf(what, sizeof what, "operand %c and a number", *letter);
        if (word[0] != *letter || !read_number(word + 1, 0, high, &value))
            return bad(parser, what, word);
        set_operand(instr, *letter, value);
    }
    for (; at < parser->words; at++) {
        int bit = 0;
        while (instr_flag_name(bit) && strcmp(parser->word[at], instr_flag_name(bit)) != 0) bit++;
        if (!instr_flag_name(bit))
            return bad(parser, "new, pure, stats or the end of the line", parser->word[at]);
        instr->flags |= (uint8_t)(1 << bit);
    }
    return STATUS_OK;
}

static enum status parse_instr(struct parser *parser) {
    int id, rank, op = 0;
    if (parser->rank < 0)
        return bad(parser, "a line \"rank N body\" before the first instruction", parser->word[0]);
    if (!read_number(parser->word[0] + 1, 0, 1 << 30, &id))
        return bad(parser, "#number", parser->word[0]);
    const char *second = word_at(parser, 1);
    if (second[0] != 'r' || !read_number(second + 1, 0, PROGRAM_MAX_RANKS, &rank) ||
        rank != parser->rank)
        return bad(parser, "r and the rank of this section", second);
    while (op < INSTR_COUNT_ && strcmp(word_at(parser, 2), instr_name((enum instr_op)op)) != 0)
        op++;
    if (op == INSTR_COUNT_) return bad(parser, "an instruction", word_at(parser, 2));
    struct instr *instr =
        program_add(parser->program, parser->rank, parser->list, (enum instr_op)op);
    instr->id = id;
    return parse_operands(parser, instr);
}

static enum status split_words(struct parser *parser, char *line) {
    parser->words = 0;
    char *state = NULL;
    for (char *word = strtok_r(line, " \t\r", &state); word;
         word = strtok_r(NULL, " \t\r", &state)) {
        if (parser->words == MAX_WORDS) return bad(parser, "a shorter line", word);
        parser->word[parser->words++] = word;
    }
    return STATUS_OK;
}

static enum status parse_line(struct parser *parser, char *line) {
    parser->line++;
    if (parser->line == 1)
        return strcmp(line, "stretto program 1") == 0 ? STATUS_OK
                                                      : bad(parser, "stretto program 1", line);
    TRY(split_words(parser, line));
    if (parser->words == 0) return STATUS_OK;
    if (!parser->program) return parse_header(parser);
    if (parser->word[0][0] == '#') return parse_instr(parser);
    if (strcmp(parser->word[0], "rank") == 0) return parse_section(parser);
    return bad(parser, "an instruction (#...) or a section (rank N start|body|drain)",
               parser->word[0]);
}

enum status program_parse(const char *name, const char *text, size_t count, struct program **out) {
    struct parser parser = {.name = name, .rank = -1};
    char *copy = mem_new(count + 1), *cursor = copy;
    memcpy(copy, text, count);
    enum status status =
        memchr(text, 0, count) ? fail(STATUS_DATA, "%s: not a text file", name) : STATUS_OK;
    while (status == STATUS_OK && cursor && *cursor) {
        char *end = strchr(cursor, '\n');
        if (end) *end = 0;
        status = parse_line(&parser, cursor);
        cursor = end ? end + 1 : NULL;
    }
    free(copy);
    if (status == STATUS_OK && !parser.program)
        status = fail(STATUS_DATA, "%s: line %d: expected a program, found the end of the file",
                      name, parser.line + 1);
    if (status == STATUS_OK)
        *out = parser.program;
    else
        program_free(&parser.program);
    return status;
}
