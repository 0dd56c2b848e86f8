/* Checksums and identities: CRC32C (ISA-L) guards files, hash64 names contents (param_hash and the
 * like). */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Local. CRC32C (Castagnoli) of `bytes`, continued from `crc` (start with 0). */
uint32_t crc32c(uint32_t crc, const void *data, size_t bytes);

/* Local. 64-bit content hash, continued from `hash` (start with HASH64_START); not cryptographic.
 * Pieces must be cut at the same places to give the same hash. */
#define HASH64_START 0x5354524554544F00u
uint64_t hash64(uint64_t hash, const void *data, size_t bytes);

#endif
