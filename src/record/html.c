/* Escaping and number formats of pages. */
#include "record/html.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"
#include "base/shown.h"

static bool is_control(uint32_t code) {
    return shown_is_control(code) && code != '\n' && code != '\t';
}

static const char *entity_of(uint32_t code) {
    switch (code) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void html_text(FILE *stream, const char *text) {
    if (!text) return;
    while (*text) {
        uint32_t code = 0;
        int length = text_utf8(text, &code);
        const char *entity = entity_of(code);
        if (length == 0 || is_control(code))
            fputs("\xEF\xBF\xBD", stream);
        else if (entity)
            fputs(entity, stream);
        else
            fwrite(text, 1, (size_t)length, stream);
        text += length ? length : 1;
    }
}

/* "1e-05" to "1e-5". */
static void shorten_exponent(char *text) {
    char *at = strchr(text, 'e');
    if (!at) return;
    at += at[1] == '-' ? 2 : 1;
    size_t skip = strspn(at, "+0");
    memmove(at, at + skip, strlen(at + skip) + 1);
}

const char *html_number(double value, char text[TEXT_BYTES]) {
    double size = fabs(value);
    if (!isfinite(value))
        snprintf(text, TEXT_BYTES, "not finite");
    else if (size >= 999.95 && size < 1e12)
        html_integer(llround(value), text);
    else
        snprintf(text, TEXT_BYTES, "%.4g", value);
    shorten_exponent(text);
    return text;
}

const char *html_percent(double fraction, char text[TEXT_BYTES]) {
    if (!isfinite(fraction))
        snprintf(text, TEXT_BYTES, "not finite");
    else
        snprintf(text, TEXT_BYTES, fabs(fraction) < 10 ? "%.2f%%" : "%.3g%%", fraction * 100);
    return text;
}

const char *html_integer(int64_t value, char text[TEXT_BYTES]) {
    char digits[TEXT_BYTES];
    int length =
        snprintf(digits, sizeof digits, "%" PRIu64, value < 0 ? -(uint64_t)value : (uint64_t)value);
    int out = 0;
    if (value < 0) text[out++] = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = 0;
    return text;
}

const char *html_nonce(char nonce[HTML_NONCE_BYTES]) {
    unsigned char bytes[HTML_NONCE_BYTES / 2];
    CHECK(getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes, "no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(nonce + 2 * i, 3, "%02x", bytes[i]);
    return nonce;
}
