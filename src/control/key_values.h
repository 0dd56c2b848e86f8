/* The key-value store of a job, in the server: bounded, and it remembers who waits for which key.
 * Used by the server's thread alone. */
#ifndef CONTROL_KEY_VALUES_H
#define CONTROL_KEY_VALUES_H

#include <stddef.h>
#include <stdint.h>

enum {
    CONTROL_STORE_BYTES = 64 << 20, /* keys and values together */
    CONTROL_STORE_KEYS = 1 << 16,
    CONTROL_STORE_WAITS = 64, /* gets a rank may have open */
};

struct control_key_values;

/* Local. Told of each waiting get whose key has come. */
typedef void control_key_values_found(void *context, int rank, uint64_t id, const void *value,
                                      size_t bytes);

struct control_key_values *control_key_values_new(int world, control_key_values_found *found,
                                                  void *context);
void control_key_values_free(struct control_key_values **key_values);

/* Local. Copies; an older value is replaced. NULL, or why it was refused (static). */
const char *control_key_values_put(struct control_key_values *key_values, const char *key,
                                   const void *value, size_t bytes);
/* Local. Calls `found` now or when the key comes. NULL, or why it was refused. */
const char *control_key_values_get(struct control_key_values *key_values, const char *key, int rank,
                                   uint64_t id);
/* Local. The rank waits for nothing any more. */
void control_key_values_forget(struct control_key_values *key_values, int rank);

#endif
