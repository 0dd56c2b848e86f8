/* Text for people. Nothing here knows what the words mean. */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/display.h"
#include "base/log.h"
#include "base/shown.h"

enum { LONGEST_WORD = 64 }; /* longer words are not compared: they are no slips of the finger */

static int least(int a, int b) {
    return a < b ? a : b;
}

/* "ZeRO3" and "AdamW" are how others write them: case is no slip. */
static bool same(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

int text_distance(const char *a, const char *b) {
    int rows = (int)strnlen(a, LONGEST_WORD + 1), columns = (int)strnlen(b, LONGEST_WORD + 1);
    if (rows > LONGEST_WORD || columns > LONGEST_WORD) return LONGEST_WORD;
    int cost[LONGEST_WORD + 1][LONGEST_WORD + 1];
    for (int i = 0; i <= rows; i++) cost[i][0] = i;
    for (int j = 0; j <= columns; j++) cost[0][j] = j;
    for (int i = 1; i <= rows; i++) {
        for (int j = 1; j <= columns; j++) {
            int best = cost[i - 1][j - 1] + !same(a[i - 1], b[j - 1]);
            best = least(best, least(cost[i - 1][j], cost[i][j - 1]) + 1);
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                best = least(best, cost[i - 2][j - 2] + 1);
            cost[i][j] = best;
        }
    }
    return cost[rows][columns];
}

/* A word cut short ("micro-batch-s") or run on is near, too, however many letters are missing; also
 * where others write a line below for a dash ("vit_tiny_patch16_224"). */
static bool begins_with(const char *longer, const char *shorter) {
    size_t i = 0;
    while (shorter[i] && (same(longer[i], shorter[i]) || (longer[i] == '_' && shorter[i] == '-')))
        i++;
    return i >= 3 && !shorter[i];
}

/* A word of the list that goes on after a dash where this one ends: "resnet18" of "resnet18-cifar".
 * Nobody types that much of a name by a slip. */
static const char *longer_name(const char *word, const char *const *list, int count) {
    size_t length = strlen(word);
    for (int i = 0; i < count; i++) {
        if (begins_with(list[i], word) && list[i][length] == '-') return list[i];
    }
    return NULL;
}

const char *text_nearest(const char *word, const char *const *list, int count) {
    const char *best = longer_name(word, list, count);
    if (best) return best;
    int slips = (int)strnlen(word, LONGEST_WORD) / 3; /* one in three letters */
    int best_distance = (slips > 0 ? slips : 1) + 1;
    if (best_distance > (int)strlen(word)) best_distance = (int)strlen(word);
    for (int i = 0; i < count; i++) {
        int distance = text_distance(word, list[i]);
        if (distance >= best_distance) continue;
        best = list[i];
        best_distance = distance;
    }
    for (int i = 0; !best && i < count; i++) {
        if (begins_with(list[i], word) || begins_with(word, list[i])) best = list[i];
    }
    return best;
}

const char *text_size(int64_t bytes, char text[TEXT_BYTES]) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes > -1024 && bytes < 1024) {
        snprintf(text, TEXT_BYTES, "%lld B", (long long)bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    int unit = 0;
    while (fabs(value) >= 1023.95 && unit < 5)
        value /= 1024, unit++; /* 1023.95 would print as 1024.0 */
    snprintf(text, TEXT_BYTES, fabs(value) < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

const char *text_duration(double seconds, char text[TEXT_BYTES]) {
    double size = fabs(seconds);
    if (!isfinite(seconds))
        snprintf(text, TEXT_BYTES, "-");
    else if (size == 0)
        snprintf(text, TEXT_BYTES, "0 s");
    else if (size < 0.9995e-3)
        snprintf(text, TEXT_BYTES, "%.3g us", seconds * 1e6);
    else if (size < 0.9995)
        snprintf(text, TEXT_BYTES, "%.3g ms", seconds * 1e3);
    else if (size < 59.95)
        snprintf(text, TEXT_BYTES, "%.3g s", seconds);
    else if (size < 3599.5) {
        long whole = lround(seconds);
        snprintf(text, TEXT_BYTES, "%ld min %02ld s", whole / 60, labs(whole % 60));
    } else if (size < 100 * 3600.0) {
        long minutes = lround(seconds / 60);
        snprintf(text, TEXT_BYTES, "%ld h %02ld min", minutes / 60, labs(minutes % 60));
    } else
        snprintf(text, TEXT_BYTES, "%.1f days", seconds / 86400);
    return text;
}

const char *text_count(int64_t count, const char *noun, char text[TEXT_BYTES]) {
    size_t length = strlen(noun);
    const char *end = length >= 2 ? noun + length - 2 : noun;
    bool hissing = strcmp(end, "ch") == 0 || strcmp(end, "ss") == 0;
    snprintf(text, TEXT_BYTES, "%lld %s%s", (long long)count, noun,
             count == 1 ? ""
             : hissing  ? "es"
                        : "s");
    return text;
}

const char *text_thousands(int64_t value, char text[TEXT_BYTES]) {
    char digits[TEXT_BYTES];
    int count = snprintf(digits, sizeof digits, "%lld", (long long)value), used = 0;
    for (int i = 0; i < count; i++) {
        text[used++] = digits[i];
        if (digits[i] != '-' && i < count - 1 && (count - 1 - i) % 3 == 0) text[used++] = ',';
    }
    text[used] = 0;
    return text;
}

const char *text_rate(double rate, char text[TEXT_BYTES]) {
    if (rate >= 999.5) return text_thousands(llround(rate), text);
    snprintf(text, TEXT_BYTES, "%.3g", rate);
    return text;
}

const char *text_accuracy(double first, double five, char text[TEXT_BYTES]) {
    int used = snprintf(text, TEXT_BYTES, "%.2f%%", first * 100);
    if (!isnan(five))
        snprintf(text + used, TEXT_BYTES - (size_t)used, " (top 5: %.2f%%)", five * 100);
    return text;
}

const char *text_real(double value, char text[TEXT_BYTES]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, TEXT_BYTES, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    return text;
}

int text_utf8(const char *at, uint32_t *out) {
    const unsigned char *byte = (const unsigned char *)at;
    int length = byte[0] < 0x80   ? 1
                 : byte[0] < 0xC2 ? 0
                 : byte[0] < 0xE0 ? 2
                 : byte[0] < 0xF0 ? 3
                                  : 4;
    if (length == 0 || byte[0] > 0xF4) return 0;
    uint32_t code = length == 1 ? byte[0] : byte[0] & (0xFFu >> (length + 1));
    for (int i = 1; i < length; i++) {
        if ((byte[i] & 0xC0) != 0x80) return 0; /* a terminating zero stops here, too */
        code = code << 6 | (byte[i] & 0x3F);
    }
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < smallest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return 0;
    *out = code;
    return length;
}

bool text_is_clean(const char *text) {
    uint32_t code = 0;
    for (int length; *text; text += length) {
        length = text_utf8(text, &code);
        if (length == 0 || (shown_is_control(code) && !shown_turns(code))) return false;
    }
    return true;
}

const char *text_quoted(const char *value, char text[TEXT_QUOTED_BYTES]) {
    size_t used = 0, room = TEXT_QUOTED_BYTES - 6; /* for the end: ...'\0 */
    text[used++] = '\'';
    while (*value && used + 4 < room) {
        uint32_t code = 0;
        int length = text_utf8(value, &code);
        if (length == 0 || shown_is_control(code)) {
            used += (size_t)snprintf(text + used, 5, "\\x%02x", (unsigned char)*value);
            value++;
            continue;
        }
        memcpy(text + used, value, (size_t)length);
        used += (size_t)length;
        value += length;
    }
    snprintf(text + used, TEXT_QUOTED_BYTES - used, *value ? "...'" : "'");
    return text;
}

char *text_mended(const char *text) {
    char *whole = mem_new(3 * strlen(text) + 1), *to = whole;
    uint32_t code;
    for (int length; *text; text += length ? length : 1) {
        length = text_utf8(text, &code);
        memcpy(to, length ? text : "\xEF\xBF\xBD", length ? (size_t)length : 3);
        to += length ? length : 3;
    }
    return whole;
}

bool text_is_digits(const char *text) {
    return *text && text[strspn(text, "0123456789")] == 0;
}

bool text_ends_in(const char *text, const char *ending) {
    size_t length = strlen(text), tail = strlen(ending);
    return length >= tail && strcmp(text + length - tail, ending) == 0;
}

int text_width(const char *text) {
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

int text_columns(FILE *stream, int otherwise) {
    struct winsize size;
    bool known = ioctl(display_fd(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return known ? size.ws_col : otherwise;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Bytes of a number and its unit, or of any other word. */
static int unit_length(const char *words) {
    enum { UNIT = 4 }; /* "MiB," */
    int length = (int)strcspn(words, " ");
    bool number = length > 0 && is_digit(words[length - 1]);
    bool letter = number && words[length] && !is_digit(words[length + 1]);
    int unit = letter ? (int)strcspn(words + length + 1, " ") : 0;
    return unit > 0 && unit <= UNIT ? length + 1 + unit : length;
}

/* Bytes up to the next place where a line may end: a number stays with its unit, and with the name
 * before it. */
static int unbroken(const char *words) {
    int length = (int)strcspn(words, " ");
    bool name = length > 0 && is_letter(words[length - 1]) && words[length];
    if (!name || !is_digit(words[length + 1])) return unit_length(words);
    return length + 1 + unit_length(words + length + 1);
}

/* A path that is longer than a line goes on in the next behind a slash; anything else stays whole.
 */
static int part_of_path(const char *words, int length, int room) {
    for (int cut = room; cut > 1; cut--)
        if (cut < length && words[cut - 1] == '/') return cut;
    return length;
}

void text_wrap(FILE *out, const char *words, int indent, int width) {
    int column = indent;
    while (*words) {
        int length = unbroken(words), columns = 0;
        for (int i = 0; i < length; i++) columns += ((unsigned char)words[i] & 0xC0) != 0x80;
        int part = columns > width - indent ? part_of_path(words, length, width - indent) : length;
        if (part < length) columns = length = part;
        if (column > indent && column + 1 + columns > width) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", length, words);
        column += columns;
        words += length;
        words += strspn(words, " ");
    }
    fputc('\n', out);
}

char *text_wrapped(const char *words, int indent, int width) {
    char *lines = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&lines, &bytes);
    CHECK(stream, "a stream in memory");
    text_wrap(stream, words, indent, width);
    fclose(stream);
    lines[bytes - 1] = 0;
    return lines;
}

void text_entry(FILE *out, const char *name, int column, const char *words) {
    enum { WIDEST = 100, LEAST_ROOM = 20 };
    int width = text_columns(out, WIDEST), used = text_width(name);
    if (width > WIDEST) width = WIDEST;
    if (width < column + LEAST_ROOM) width = column + LEAST_ROOM;
    bool fits = used + 2 <= column;
    fprintf(out, "%s%s%*s", name, fits ? "" : "\n", fits ? column - used : column, "");
    text_wrap(out, words, column, width);
}

void text_row(FILE *out, const char *name, int column, const char *format, ...) {
    va_list args;
    va_start(args, format);
    SCOPED_FREE char *words = shown_vtext(format, args);
    va_end(args);
    text_entry(out, name, column, words);
}

void text_troff(FILE *out, const char *words) {
    static const struct {
        char sign;
        const char *escape;
    } rows[] = {{'-', "\\-"},   {'\\', "\\e"},  {'\'', "\\(aq"}, {'`', "\\(ga"},
                {'^', "\\(ha"}, {'~', "\\(ti"}, {'"', "\\(dq"}};
    if (*words == '.') fputs("\\&", out); /* would begin a request */
    for (; *words; words++) {
        size_t row = 0;
        while (row < sizeof rows / sizeof rows[0] && rows[row].sign != *words) row++;
        if (row < sizeof rows / sizeof rows[0])
            fputs(rows[row].escape, out);
        else
            fputc(*words, out);
    }
}

void text_table_cell(struct text_table *table, const char *format, ...) {
    va_list args;
    va_start(args, format);
    SCOPED_FREE char *text = shown_vtext(format, args);
    va_end(args);
    table->cell = mem_grow(table->cell, &table->capacity, table->count + 1, sizeof *table->cell);
    table->cell[table->count++] = arena_text(&table->arena, text);
}

static int column_width(const struct text_table *table, size_t column, size_t columns) {
    int width = 0;
    for (size_t i = column; i < table->count; i += columns) {
        int cell = text_width(table->cell[i]);
        if (cell > width) width = cell;
    }
    return width;
}

void text_table_print(const struct text_table *table, int indent, FILE *out) {
    size_t columns = strlen(table->align);
    for (size_t i = 0; i < table->count; i++) {
        size_t column = i % columns;
        int gap = column_width(table, column, columns) - text_width(table->cell[i]);
        bool last = column + 1 == columns || i + 1 == table->count;
        fprintf(out, "%*s", column == 0 ? indent : 2, "");
        if (table->align[column] == 'r')
            fprintf(out, "%*s%s", gap, "", table->cell[i]);
        else
            fprintf(out, "%s%*s", table->cell[i], last ? 0 : gap, "");
        if (last) fputc('\n', out);
    }
}

void text_table_free(struct text_table *table) {
    arena_free(&table->arena);
    free(table->cell);
    *table = (struct text_table){0};
}

int text_find(const char *word, const void *rows, size_t row_bytes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char *name;
        memcpy(&name, (const char *)rows + i * row_bytes, sizeof name);
        if (name && strcmp(name, word) == 0) return (int)i;
    }
    return -1;
}
