/* The fields of rows of tokens, for BERT's pre-training and for plain text, shared by every data
 * set that makes such rows. */
#ifndef DATA_TOKEN_H
#define DATA_TOKEN_H

#include <stdint.h>

#include "data/dataset.h"

/* One row's fields, in the order token_fields declares them. */
struct token_row {
    int32_t *input_ids, *segment_ids, *input_mask; /* [T] */
    int32_t *masked_positions, *masked_labels;     /* [K] */
    int32_t *next_sentence;                        /* [] : 0 when B follows A, 1 when it does not */
};

/* Local. Declares the six fields, classes and vocab in `out`. */
void token_fields(int64_t seq, int64_t predictions, int64_t vocab, struct dataset *out);
/* Local. The same for a row of text: "input_ids" [T] and the label "next_ids" [T], each token's
 * successor. */
void token_text_fields(int64_t seq, int64_t vocab, struct dataset *out);
/* Local. The outputs of a read, by name. */
struct token_row token_row(void *const out[]);

#endif
