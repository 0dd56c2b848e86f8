/* The text form, read back. Every number is bounded before it sizes or indexes anything; anything
 * unexpected is refused with the line it stands on. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"
#include "program/program.h"
#include "program/resource.h"

enum { MAX_WORDS = 32 };

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

/* A decimal number in [low, high] and nothing after it. */
static bool read_number(const char *text, int low, int high, int *out) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    long value = strtol(text, &end, 10);
    if (*end || value < low || value > high) return false;
    *out = (int)value;
    return true;
}

static enum status bad_number(const struct parser *parser, const char *what, int number) {
    char found[16];
    snprintf(found, sizeof found, "%d", number);
    return bad(parser, what, found);
}

/* --- the header: keys with numbers, those with a usual value may be left out --- */

enum header_key {
    KEY_RANKS,
    KEY_STAGES,
    KEY_REPLICAS,
    KEY_MICRO_BATCHES,
    KEY_CHUNKS,
    KEY_V_SHAPE,
    KEY_REPLICAS_EACH,
    KEY_DRIVERS,
    KEY_SERVERS,
    KEY_AHEAD,
    KEY_EVERY,
    KEY_FROZEN,
    KEY_CREDITS,
    KEY_COUNT
};

enum { NEEDED = -1 };

static const struct {
    const char *name;
    int low, high, usual;
} keys[KEY_COUNT] = {
    [KEY_RANKS] = {"ranks", 1, PROGRAM_MAX_RANKS, NEEDED},
    [KEY_STAGES] = {"stages", 1, PROGRAM_MAX_SMALL, NEEDED},
    [KEY_REPLICAS] = {"replicas", 1, PROGRAM_MAX_MICROS, NEEDED},
    [KEY_MICRO_BATCHES] = {"micro-batches", 0, PROGRAM_MAX_MICROS, NEEDED},
    [KEY_CHUNKS] = {"chunks", 1, GRID_MAX_CHUNKS, 1},
    [KEY_V_SHAPE] = {"v-shape", 0, 1, 0},
    [KEY_REPLICAS_EACH] = {"replicas-each", 1, PROGRAM_MAX_MICROS, 1},
    [KEY_DRIVERS] = {"drivers", 0, PROGRAM_MAX_RANKS, 0},
    [KEY_SERVERS] = {"servers", 0, PROGRAM_MAX_RANKS, 0},
    [KEY_AHEAD] = {"ahead", 0, PROGRAM_MAX_SMALL, 0},
    [KEY_EVERY] = {"every", 0, PROGRAM_MAX_EVERY, 0},
    [KEY_FROZEN] = {"frozen", 0, PROGRAM_MAX_SMALL, 0},
    [KEY_CREDITS] = {"credits", 1, PROGRAM_MAX_SMALL, PROGRAM_CREDITS},
};

/* The number after the key at `at`. */
static enum status read_size(struct parser *parser, int at, int low, int high, int *out) {
    char what[64];
    snprintf(what, sizeof what, "%s from %d to %d", parser->word[at], low, high);
    return read_number(word_at(parser, at + 1), low, high, out)
               ? STATUS_OK
               : bad(parser, what, word_at(parser, at + 1));
}

static enum status read_key(struct parser *parser, int at, int value[KEY_COUNT]) {
    int key = TEXT_FIND(parser->word[at], keys);
    if (key < 0) return bad(parser, "a key of the header", parser->word[at]);
    return read_size(parser, at, keys[key].low, keys[key].high, &value[key]);
}

/* Keys whose values are words. */
enum { WORD_SUM, WORD_SLICED, WORD_LASTING, WORD_COUNT };
static const struct {
    const char *name, *allowed; /* NULL: letters of buffers that last */
    int (*find)(const char *word);
    int usual;
} words[WORD_COUNT] = {
    [WORD_SUM] = {"sum", "replica, tree or replicas-first", sum_order_find, -1},
    [WORD_SLICED] = {"sliced", "o, og, op or ogp", sliced_find, 0},
    [WORD_LASTING] = {"lasting", NULL, resource_find, 0},
};

static enum status read_word(struct parser *parser, int at, int key, int value[WORD_COUNT]) {
    char letters[RESOURCE_LETTERS_BYTES], some[RESOURCE_LETTERS_BYTES + 16];
    value[key] = words[key].find(word_at(parser, at + 1));
    if (value[key] >= 0) return STATUS_OK;
    snprintf(some, sizeof some, "letters of %s", resource_letters(resource_lasting(), letters));
    return bad(parser, words[key].allowed ? words[key].allowed : some, word_at(parser, at + 1));
}

static enum status read_keys(struct parser *parser, int value[KEY_COUNT], int word[WORD_COUNT]) {
    for (int k = 0; k < KEY_COUNT; k++) value[k] = keys[k].usual;
    for (int w = 0; w < WORD_COUNT; w++) word[w] = words[w].usual;
    for (int at = 0; at < parser->words; at += 2) {
        int key = TEXT_FIND(parser->word[at], words);
        TRY(key >= 0 ? read_word(parser, at, key, word) : read_key(parser, at, value));
    }
    for (int k = 0; k < KEY_COUNT; k++)
        if (value[k] == NEEDED) return bad(parser, keys[k].name, "(end of line)");
    return word[WORD_SUM] < 0 ? bad(parser, "sum", "(end of line)") : STATUS_OK;
}

static enum status bad_ranks(const struct parser *parser, const struct grid *grid, int64_t ranks,
                             int found) {
    if (grid->replicas % grid->replicas_each != 0)
        return fail(STATUS_DATA, "%s: line %d: replicas %d are no multiple of replicas-each %d",
                    parser->name, parser->line, grid->replicas, grid->replicas_each);
    return fail(STATUS_DATA,
                "%s: line %d: stages %d, replicas %d of which a rank has %d, drivers %d and "
                "servers %d make ranks %lld, found ranks %d",
                parser->name, parser->line, grid->stages, grid->replicas, grid->replicas_each,
                grid->drivers, grid->servers, (long long)ranks, found);
}

static enum status parse_header(struct parser *parser) {
    int value[KEY_COUNT], word[WORD_COUNT];
    TRY(read_keys(parser, value, word));
    struct grid grid = {.stages = value[KEY_STAGES],
                        .chunks = value[KEY_CHUNKS],
                        .replicas = value[KEY_REPLICAS],
                        .replicas_each = value[KEY_REPLICAS_EACH],
                        .v_shape = value[KEY_V_SHAPE],
                        .drivers = value[KEY_DRIVERS],
                        .servers = value[KEY_SERVERS]};
    int64_t pipelines = grid.replicas / grid.replicas_each,
            ranks = pipelines * grid.stages + grid.drivers + grid.servers;
    if (grid.replicas % grid.replicas_each != 0 || ranks != value[KEY_RANKS])
        return bad_ranks(parser, &grid, ranks, value[KEY_RANKS]);
    if ((int64_t)grid.replicas * value[KEY_MICRO_BATCHES] > PROGRAM_MAX_MICROS)
        return bad_number(parser, "fewer micro-batches", value[KEY_MICRO_BATCHES]);
    if ((int64_t)grid.stages * grid.chunks > PROGRAM_MAX_SMALL)
        return bad_number(parser, "fewer stages and chunks", grid.stages);
    if (value[KEY_FROZEN] >= grid.stages * grid.chunks)
        return bad_number(parser, "fewer frozen stages than there are", value[KEY_FROZEN]);
    parser->program = program_new(&grid, value[KEY_MICRO_BATCHES], (enum sum_order)word[WORD_SUM]);
    parser->program->ahead = value[KEY_AHEAD];
    parser->program->every = value[KEY_EVERY];
    parser->program->frozen = value[KEY_FROZEN];
    parser->program->credits = value[KEY_CREDITS];
    parser->program->sliced = (unsigned)word[WORD_SLICED];
    parser->program->lasting = (unsigned)word[WORD_LASTING];
    return STATUS_OK;
}

static enum status parse_groups(struct parser *parser) {
    if (parser->program->group_count > 0 || parser->rank >= 0)
        return bad(parser, "one line of groups, before the ranks", parser->word[0]);
    for (int at = 1; at < parser->words; at++) {
        int family = group_family_find(parser->word[at]);
        if (family < 0) return bad(parser, "world, replicas, pipeline or tied", parser->word[at]);
        if (at > PROGRAM_MAX_GROUPS) return bad(parser, "fewer groups", parser->word[at]);
        program_declare_group(parser->program, (enum group_family)family);
    }
    return STATUS_OK;
}

/* "3.1": a stage and a bucket of it; "3": a stage alone. */
static bool read_part(const char *text, int *stage, int *bucket) {
    char copy[16];
    const char *dot = strchr(text, '.');
    size_t length = dot ? (size_t)(dot - text) : strlen(text);
    *bucket = INSTR_ALL;
    if (length >= sizeof copy) return false;
    memcpy(copy, text, length);
    copy[length] = 0;
    return read_number(copy, 0, PROGRAM_MAX_SMALL, stage) &&
           (!dot || read_number(dot + 1, 0, PROGRAM_MAX_SMALL, bucket));
}

/* "tied" STAGE.BUCKET STAGE[.BUCKET] */
static enum status parse_tie(struct parser *parser) {
    struct program_tie tie;
    if (parser->rank >= 0) return bad(parser, "ties before the ranks", parser->word[0]);
    if (!read_part(word_at(parser, 1), &tie.stage, &tie.bucket) || tie.bucket == INSTR_ALL)
        return bad(parser, "stage.bucket", word_at(parser, 1));
    if (!read_part(word_at(parser, 2), &tie.other, &tie.other_bucket))
        return bad(parser, "stage.bucket or a stage", word_at(parser, 2));
    const char *wanted = program_declare_tie(parser->program, &tie);
    if (wanted) return bad(parser, wanted, parser->word[2]);
    return parser->words == 3 ? STATUS_OK : bad(parser, "the end of the line", word_at(parser, 3));
}

/* --- ranks --- */

static struct rank_program *being_read(const struct parser *parser) {
    return &parser->program->kinds[parser->program->kind_of[parser->rank]];
}

/* A number for each chunk, behind the key at `at`: "4,2". `stride` is that of struct chunk_sizes.
 */
static enum status read_list(struct parser *parser, int at, int low, int high, int *to) {
    const int stride = sizeof(struct chunk_sizes) / sizeof(int);
    char copy[GRID_MAX_CHUNKS * 8] = "", what[96], *state = NULL;
    int found = 0, chunks = parser->program->grid.chunks;
    const char *text = word_at(parser, at + 1);
    snprintf(what, sizeof what, "%s from %d to %d, for each stage of the rank (%d)",
             parser->word[at], low, high, chunks);
    if (strlen(text) >= sizeof copy) return bad(parser, what, text);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *one = strtok_r(copy, ",", &state); one; one = strtok_r(NULL, ",", &state), found++)
        if (found == chunks || !read_number(one, low, high, to + found * stride))
            return bad(parser, what, text);
    return found == chunks ? STATUS_OK : bad(parser, what, text);
}

/* A stage has at most a place for each bucket, beside the kept one's. */
static enum status check_places(struct parser *parser, const char *name, size_t field) {
    const struct rank_program *rank = being_read(parser);
    char what[96];
    for (int c = 0; c < rank->chunks; c++) {
        const struct chunk_sizes *sizes = &rank->chunk[c];
        int places = *(const int *)((const char *)sizes + field),
            most = sizes->buckets - sizes->kept;
        if (places <= most) continue;
        snprintf(what, sizeof what, "%s from 1 to %d, a place for each bucket%s", name, most,
                 sizes->kept ? " but the kept one" : "");
        return bad_number(parser, what, places);
    }
    return STATUS_OK;
}

static bool has_word(const struct parser *parser, const char *word) {
    int at = parser->words - 1;
    while (at >= 0 && strcmp(parser->word[at], word) != 0) at--;
    return at >= 0;
}

/* "rank" N "slots" A,A.. "grads" G "buckets" B,B.., with sliced gradients "windows" W,W.., with
 * sliced parameters "gathered" W,W..; "kept" and "older" where they are not 0. */
static enum status parse_sizes(struct parser *parser) {
    struct rank_program *rank = being_read(parser);
    struct chunk_sizes *first = &rank->chunk[0];
    unsigned sliced = parser->program->sliced;
    int least = parser->program->frozen > 0 ? 0 : 1; /* frozen stages have none */
    const struct {
        const char *name;
        int *to;
        bool there;
        int low, high;
    } sizes[] = {{"slots", &first->slots, true, 1, PROGRAM_MAX_SMALL},
                 {"grads", NULL, true, 0, PROGRAM_MAX_SMALL},
                 {"buckets", &first->buckets, true, least, PROGRAM_MAX_SMALL},
                 {"windows", &first->windows, sliced & SLICED_GRADIENTS, least, PROGRAM_MAX_SMALL},
                 {"gathered", &first->gathered, sliced & SLICED_PARAMS, 1, PROGRAM_MAX_SMALL},
                 {"kept", &first->kept,
                  sliced & (SLICED_GRADIENTS | SLICED_PARAMS) && has_word(parser, "kept"), 0, 1},
                 {"older", &first->older, has_word(parser, "older"), 0, PROGRAM_MAX_SMALL}};
    int at = 2;
    parser->list = LIST_COUNT;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (!sizes[i].there) continue;
        if (strcmp(word_at(parser, at), sizes[i].name) != 0)
            return bad(parser, sizes[i].name, word_at(parser, at));
        TRY(sizes[i].to ? read_list(parser, at, sizes[i].low, sizes[i].high, sizes[i].to)
                        : read_size(parser, at, 0, PROGRAM_MAX_SMALL, &rank->grads));
        at += 2;
    }
    if ((int64_t)rank->grads * sizes_bucket(rank->chunk, rank->chunks, 0) > PROGRAM_MAX_BUFFERS)
        return bad(parser, "fewer gradient buffers and buckets", word_at(parser, 5));
    TRY(check_places(parser, "windows", offsetof(struct chunk_sizes, windows)));
    TRY(check_places(parser, "gathered", offsetof(struct chunk_sizes, gathered)));
    return parser->words == at ? STATUS_OK
                               : bad(parser, "the end of the line", word_at(parser, at));
}

static enum status parse_section(struct parser *parser) {
    int list = TEXT_FIND(word_at(parser, 2), list_names);
    if (!read_number(word_at(parser, 1), 0, parser->program->ranks - 1, &parser->rank))
        return bad(parser, "a rank of the program", word_at(parser, 1));
    if (parser->program->kind_of[parser->rank] == 0) program_begin(parser->program, parser->rank);
    if (strcmp(word_at(parser, 2), "slots") == 0) return parse_sizes(parser);
    if (list < 0)
        return bad(parser,
                   "slots or a list (start, body, last, drain, eval-start, eval, eval-end, save)",
                   word_at(parser, 2));
    if (parser->words != 3) return bad(parser, "the end of the line", word_at(parser, 3));
    parser->list = (enum list_name)list;
    return STATUS_OK;
}

static enum status parse_operands(struct parser *parser, struct instr *instr) {
    int at = 3;
    for (const char *letter = instr_row(instr)->operands; *letter; letter++, at++) {
        const char *word = word_at(parser, at);
        if (*letter == '?' && word[0] != *++letter) { /* an optional one, left out */
            at--;
            continue;
        }
        int value, high = *letter == 'm' || *letter == 'p' ? PROGRAM_MAX_MICROS : PROGRAM_MAX_SMALL;
        char what[32];
        snprintf(what, sizeof what, "operand %c and a number", *letter);
        if (word[0] != *letter || !read_number(word + 1, 0, high, &value))
            return bad(parser, what, word);
        instr_set_operand(instr, *letter, value);
    }
    for (; at < parser->words; at++) {
        int bit = TEXT_FIND(parser->word[at], flag_words);
        if (bit < 0) return bad(parser, "a flag or the end of the line", parser->word[at]);
        instr->flags |= (uint16_t)(1 << bit);
    }
    return STATUS_OK;
}

static enum status parse_instr(struct parser *parser) {
    int id, rank, op = 0;
    if (parser->rank < 0 || parser->list == LIST_COUNT)
        return bad(parser, "a line \"rank N body\" before the first instruction", parser->word[0]);
    if (!read_number(parser->word[0] + 1, 0, 1 << 30, &id))
        return bad(parser, "#number", parser->word[0]);
    const char *second = word_at(parser, 1);
    if (second[0] != 'r' || !read_number(second + 1, 0, PROGRAM_MAX_RANKS, &rank) ||
        rank != parser->rank)
        return bad(parser, "r and the rank of this section", second);
    while (op < INSTR_COUNT_ && strcmp(word_at(parser, 2), instr_rows[op].name) != 0) op++;
    if (op == INSTR_COUNT_) return bad(parser, "an instruction", word_at(parser, 2));
    struct instr *instr = program_add(being_read(parser), parser->list, (enum instr_op)op);
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

static enum status check_version(const struct parser *parser, const char *line) {
    static const char any[] = "stretto program ";
    if (strcmp(line, PROGRAM_TEXT_VERSION) == 0) return STATUS_OK;
    if (strncmp(line, any, sizeof any - 1) != 0) return bad(parser, PROGRAM_TEXT_VERSION, line);
    return fail(STATUS_DATA,
                "%s: a program of version %.20s, this stretto reads version %s\n"
                "  make it again with --save-program",
                parser->name, line + sizeof any - 1, &PROGRAM_TEXT_VERSION[sizeof any - 1]);
}

static enum status parse_line(struct parser *parser, char *line) {
    parser->line++;
    if (parser->line == 1) return check_version(parser, line);
    TRY(split_words(parser, line));
    if (parser->words == 0) return STATUS_OK;
    if (!parser->program) return parse_header(parser);
    if (parser->word[0][0] == '#') return parse_instr(parser);
    if (strcmp(parser->word[0], "rank") == 0) return parse_section(parser);
    if (strcmp(parser->word[0], "groups") == 0) return parse_groups(parser);
    if (strcmp(parser->word[0], "tied") == 0) return parse_tie(parser);
    return bad(parser, "an instruction (#...) or a section (rank N body)", parser->word[0]);
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
    if (status != STATUS_OK) {
        program_free(&parser.program);
        return status;
    }
    program_share(parser.program);
    *out = parser.program;
    return STATUS_OK;
}
