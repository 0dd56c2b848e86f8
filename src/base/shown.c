/* See shown.h. The format is walked here, since only that tells our own newlines, which stand in
 * it, from those of a name. Numbers are left to snprintf. Nothing is allocated by shown_format:
 * messages about memory pass through it. */
#include "base/shown.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/text.h"

bool shown_turns(uint32_t code) {
    return code == 0x061C || code == 0x200E || code == 0x200F ||
           (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

bool shown_is_control(uint32_t code) {
    return shown_turns(code) || code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x2028 ||
           code == 0x2029 || code == 0xFEFF || (code & 0xFFFE) == 0xFFFE;
}

bool shown_is_plain(const char *text) {
    return shown_format(NULL, 0, "%s", text) == strlen(text);
}

/* --- where it goes --- */

struct shown {
    char *out;
    size_t size, used; /* used: also what had no room */
};

static void put(struct shown *to, const char *text, size_t bytes) {
    size_t room = to->used < to->size ? to->size - to->used : 0;
    if (room) memcpy(to->out + to->used, text, bytes < room ? bytes : room);
    to->used += bytes;
}

static void put_blanks(struct shown *to, int count) {
    for (int i = 0; i < count; i++) put(to, " ", 1);
}

static void put_byte(struct shown *to, unsigned char byte) {
    char text[8];
    put(to, text, (size_t)snprintf(text, sizeof text, "\\x%02x", byte));
}

/* Bytes of the sequence at `text`, of which `left` may be read; 0: it is broken. */
static int sequence(const char *text, size_t left, uint32_t *code) {
    char part[5] = "";
    memcpy(part, text, left < 4 ? left : 4);
    return text_utf8(part, code);
}

static void put_outside(struct shown *to, const char *text, size_t bytes, bool newlines) {
    for (size_t at = 0; at < bytes;) {
        uint32_t code = 0;
        int length = sequence(text + at, bytes - at, &code);
        if (length > 0 && (!shown_is_control(code) || (newlines && code == '\n'))) {
            put(to, text + at, (size_t)length);
            at += (size_t)length;
        } else {
            put_byte(to, (unsigned char)text[at++]);
        }
    }
}

/* --- one conversion --- */

struct arguments {
    va_list list;
};

struct conversion {
    char flags[8];
    int width, precision; /* precision: -1 for none */
    char length[3];       /* "", "l", "ll", "z" ... */
    char letter;
};

static int read_number(const char **at, struct arguments *arguments) {
    if (**at == '*') return (*at)++, va_arg(arguments->list, int);
    int value = 0;
    while (**at >= '0' && **at <= '9') value = value * 10 + *(*at)++ - '0';
    return value;
}

static void read_signs(const char **at, const char *signs, char *out, size_t size) {
    size_t used = 0;
    for (; **at && strchr(signs, **at); (*at)++)
        if (used + 1 < size) out[used++] = **at;
    out[used] = 0;
}

/* Behind the percent sign. */
static struct conversion read_conversion(const char **at, struct arguments *arguments) {
    struct conversion conversion = {.precision = -1};
    read_signs(at, "-+ #0", conversion.flags, sizeof conversion.flags);
    conversion.width = read_number(at, arguments);
    if (**at == '.') (*at)++, conversion.precision = read_number(at, arguments);
    read_signs(at, "hlzjt", conversion.length, sizeof conversion.length);
    conversion.letter = **at;
    if (**at) (*at)++;
    return conversion;
}

static intmax_t signed_of(const struct conversion *conversion, struct arguments *arguments) {
    switch (conversion->length[0]) {
    case 'l':
        return conversion->length[1] ? va_arg(arguments->list, long long)
                                     : va_arg(arguments->list, long);
    case 'z': return va_arg(arguments->list, ssize_t);
    case 'j': return va_arg(arguments->list, intmax_t);
    case 't': return va_arg(arguments->list, ptrdiff_t);
    default: return va_arg(arguments->list, int);
    }
}

static uintmax_t unsigned_of(const struct conversion *conversion, struct arguments *arguments) {
    switch (conversion->length[0]) {
    case 'l':
        return conversion->length[1] ? va_arg(arguments->list, unsigned long long)
                                     : va_arg(arguments->list, unsigned long);
    case 'z': return va_arg(arguments->list, size_t);
    case 'j': return va_arg(arguments->list, uintmax_t);
    case 't': return (uintmax_t)va_arg(arguments->list, ptrdiff_t);
    default: return va_arg(arguments->list, unsigned);
    }
}

/* The number's own conversion with the widest type. */
static void put_number(struct shown *to, const struct conversion *conversion,
                       struct arguments *arguments) {
    char text[512], format[24];
    int width = conversion->width, precision = conversion->precision, bytes = 0;
    bool real = strchr("eEfFgGaA", conversion->letter),
         with_sign = strchr("di", conversion->letter);
    snprintf(format, sizeof format, "%%%s*.*%s%c", conversion->flags, real ? "" : "j",
             conversion->letter);
    if (real)
        bytes =
            snprintf(text, sizeof text, format, width, precision, va_arg(arguments->list, double));
    else if (with_sign)
        bytes =
            snprintf(text, sizeof text, format, width, precision, signed_of(conversion, arguments));
    else
        bytes = snprintf(text, sizeof text, format, width, precision,
                         unsigned_of(conversion, arguments));
    if (bytes > 0) put(to, text, (size_t)bytes < sizeof text ? (size_t)bytes : sizeof text - 1);
}

/* A cut inside a character leaves that one out. */
static size_t cut_length(const char *text, int precision) {
    size_t bytes = precision < 0 ? strlen(text) : strnlen(text, (size_t)precision), back = bytes;
    if (precision < 0 || bytes < (size_t)precision || !text[bytes]) return bytes;
    while (back > 0 && bytes - back < 3 && ((unsigned char)text[back] & 0xC0) == 0x80) back--;
    uint32_t code;
    return text_utf8(text + back, &code) > 1 ? back : bytes;
}

static void put_words(struct shown *to, const struct conversion *conversion,
                      struct arguments *arguments) {
    char single[2] = "";
    const char *text = single;
    if (conversion->letter == 'c')
        single[0] = (char)va_arg(arguments->list, int);
    else
        text = va_arg(arguments->list, const char *);
    if (!text) text = "(null)";
    bool left = conversion->flags[0] == '-' || conversion->width < 0;
    bool newlines = conversion->flags[0] == '-' && conversion->width == 0;
    int width = conversion->width < 0 ? -conversion->width : conversion->width;
    size_t bytes = conversion->letter == 'c' ? 1 : cut_length(text, conversion->precision);
    struct shown whole = {0};
    put_outside(&whole, text, bytes, newlines);
    int blanks = (size_t)width > whole.used ? width - (int)whole.used : 0;
    if (!left) put_blanks(to, blanks);
    put_outside(to, text, bytes, newlines);
    if (left) put_blanks(to, blanks);
}

static void put_conversion(struct shown *to, const char **at, struct arguments *arguments) {
    struct conversion conversion = read_conversion(at, arguments);
    if (conversion.letter == '%')
        put(to, "%", 1);
    else if (conversion.letter == 's' || conversion.letter == 'c')
        put_words(to, &conversion, arguments);
    else if (conversion.letter && strchr("diuoxXeEfFgGaA", conversion.letter))
        put_number(to, &conversion, arguments);
    else
        CHECK(false, "a format with %%%c, which messages do not use", conversion.letter);
}

/* --- for everybody --- */

size_t shown_vformat(char *out, size_t size, const char *format, va_list args) {
    struct shown to = {.out = out, .size = size ? size - 1 : 0};
    struct arguments arguments;
    va_copy(arguments.list, args);
    while (*format) {
        size_t plain = strcspn(format, "%");
        put(&to, format, plain);
        format += plain;
        if (*format) format++, put_conversion(&to, &format, &arguments);
    }
    va_end(arguments.list);
    if (size) out[to.used < size ? to.used : size - 1] = 0;
    return to.used;
}

size_t shown_format(char *out, size_t size, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t bytes = shown_vformat(out, size, format, args);
    va_end(args);
    return bytes;
}

char *shown_vtext(const char *format, va_list args) {
    size_t bytes = shown_vformat(NULL, 0, format, args) + 1;
    char *text = mem_new(bytes);
    shown_vformat(text, bytes, format, args);
    return text;
}

char *shown_text(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = shown_vtext(format, args);
    va_end(args);
    return text;
}

void shown_print(FILE *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    SCOPED_FREE char *text = shown_vtext(format, args);
    va_end(args);
    fputs(text, out);
}
