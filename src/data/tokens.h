/* Files of tokens: see tokens.c for the layout. */
#ifndef DATA_TOKENS_H
#define DATA_TOKENS_H

#include <stdint.h>

enum { TOKENS_HEADER_BYTES = 32 };

struct tokens_header {
    int width; /* bytes of a token */
    uint64_t count, vocab;
};

/* Local. The header as it stands in the file. */
void tokens_header_write(const struct tokens_header *header,
                         unsigned char out[TOKENS_HEADER_BYTES]);
/* Local. The bytes of a token that a vocabulary needs. */
int tokens_width(uint64_t vocab);

#endif
