/* The layout of rows: said once for files and for synthetic rows. */
#include "data/token.h"

static void declare(const struct field *fields, int count, struct dataset *out) {
    out->field_count = count;
    for (int f = 0; f < count; f++) out->field[f] = fields[f];
}

void token_fields(int64_t seq, int64_t predictions, int64_t vocab, struct dataset *out) {
    const struct field fields[] = {
        {"input_ids", DTYPE_I32, SHAPE(seq), false, vocab},
        {"segment_ids", DTYPE_I32, SHAPE(seq), false, 2},
        {"input_mask", DTYPE_I32, SHAPE(seq), false, 2},
        {"masked_positions", DTYPE_I32, SHAPE(predictions), false, seq},
        {"masked_labels", DTYPE_I32, SHAPE(predictions), true, vocab},
        {"next_sentence", DTYPE_I32, SHAPE_SCALAR, true, 2},
    };
    declare(fields, sizeof fields / sizeof fields[0], out);
    out->vocab = vocab;
    out->classes = 2;
}

void token_text_fields(int64_t seq, int64_t vocab, struct dataset *out) {
    const struct field fields[] = {
        {"input_ids", DTYPE_I32, SHAPE(seq), false, vocab},
        {"next_ids", DTYPE_I32, SHAPE(seq), true, vocab},
    };
    declare(fields, sizeof fields / sizeof fields[0], out);
    out->vocab = vocab;
    out->classes = vocab;
}

struct token_row token_row(void *const out[]) {
    return (struct token_row){out[0], out[1], out[2], out[3], out[4], out[5]};
}
