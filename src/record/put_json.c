/* Errors stay in the stream; whoever closes or commits it looks. */
#include "record/put_json.h"

#include <math.h>

#include "base/text.h"

void put_json_text(FILE *stream, const char *text) {
    if (!text) {
        fputs("null", stream);
        return;
    }
    putc('"', stream);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(stream, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(stream, "\\u%04x", *c);
        else
            putc(*c, stream);
    }
    putc('"', stream);
}

void put_json_number(FILE *stream, double value) {
    if (!isfinite(value)) {
        fputs("null", stream);
        return;
    }
    char text[TEXT_BYTES];
    fputs(text_real(value, text), stream);
}
