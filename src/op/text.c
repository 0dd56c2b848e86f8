/* How a call's attributes are shown in listings: what a reader would want to know, and no defaults.
 */
#include "op/rule.h"

#include <stdarg.h>
#include <stdio.h>

void op_say(struct op_line *line, const char *format, ...) {
    size_t left = OP_TEXT_BYTES - line->used;
    if (line->used && left > 1) {
        line->text[line->used++] = ' ';
        line->text[line->used] = 0;
        left--;
    }
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line->text + line->used, left, format, args);
    va_end(args);
    if (length > 0) line->used += (size_t)length < left ? (size_t)length : left - 1;
}

void op_say_pair(struct op_line *line, const char *name, const int pair[2], int usual) {
    if (pair[0] == pair[1]) {
        if (pair[0] != usual) op_say(line, "%s %d", name, pair[0]);
    } else {
        op_say(line, "%s %dx%d", name, pair[0], pair[1]);
    }
}

const char *op_attrs_text(const struct op_call *call, char text[OP_TEXT_BYTES]) {
    struct op_line line = {text, 0};
    const struct op_def *def = op_def(call->op);
    text[0] = 0;
    if (def->text) def->text(call, &line);
    if (call->attrs.activation != ACTIVATION_NONE)
        op_say(&line, "%s", op_def(op_of_activation(call->attrs.activation))->name);
    return text;
}
