/* Philox 4x32-10 (Salmon et al. 2011): four random words for each (key, index). */
#ifndef BASE_PHILOX_H
#define BASE_PHILOX_H

#include <stdint.h>

/* Local. The words of one block. */
void philox_block(uint64_t key, uint64_t index, uint32_t out[4]);
/* Local. Of `count` blocks from `first` on the first `words` words, 2 or 4: count * words in all.
 */
void philox_blocks(uint64_t key, uint64_t first, int64_t count, int words, uint32_t *out);

#endif
