/* Errors stay in the stream; whoever closes or commits it looks. */
#include "record/emit.h"

#include <math.h>
#include <stdlib.h>

void emit_text(FILE *stream, const char *text) {
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

void emit_number(FILE *stream, double value) {
    if (!isfinite(value)) {
        fputs("null", stream);
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) { /* 17 always suffice */
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, stream);
}
