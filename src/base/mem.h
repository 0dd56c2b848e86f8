/* Memory. Small objects come from mem_new (never NULL: the process ends with exit code 5 when the
 * system has none left). Large, planned memory is a region: mapped, zeroed, page aligned, refused
 * with a status. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

#include "base/status.h"

/* Local. Zeroed memory; the caller owns it and gives it back with free(). */
void *mem_new(size_t bytes);
#define MEM_NEW(type) ((type *)mem_new(sizeof(type)))
#define MEM_ARRAY(type, count) ((type *)mem_array((size_t)(count), sizeof(type)))
void *mem_array(size_t count, size_t bytes);

/* Local. Grows an array to hold at least `need` elements (doubling); returns the new array, old one
 * dead. */
void *mem_grow(void *array, size_t *capacity, size_t need, size_t element_bytes);

/* Local. A private copy of a string; the caller frees it. */
char *mem_text(const char *text);
char *mem_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Stands ahead of a local variable's type: where its scope ends, however that is left,
 * SCOPED(x_free) calls x_free(&variable), and SCOPED_FREE gives its memory back with free(). The
 * variable needs an initialiser; whoever hands on what it holds leaves NULL or zeros in it. It
 * counts for every variable of the declaration. */
#define SCOPED(end) __attribute__((cleanup(end), unused))
#define SCOPED_FREE SCOPED(mem_free_scoped)
void mem_free_scoped(void *pointer);

/* Local. A region of zeroed memory, at least page aligned, all of it resident from the start: what
 * a run will use is taken before it begins, not in the middle of it. region_free accepts NULL and
 * zeroes the struct. */
struct region {
    void *base;
    size_t bytes;
};
enum status region_map(size_t bytes, const char *what, struct region *out);
void region_free(struct region *region);

/* Local. What was freed goes back to the system: after much that does not come again. */
void mem_give_back(void);

/* Local. Makes mapped memory resident, as region_map does; what others write into it meanwhile
 * stays. */
void mem_touch(void *memory, size_t bytes);

/* Local. An arena hands out zeroed pieces that live until arena_free; for plan-time objects. */
struct arena {
    struct arena_block *blocks;
};
void *arena_new(struct arena *arena, size_t bytes);
char *arena_text(struct arena *arena, const char *text);
void arena_free(struct arena *arena);

/* Local. Resident size of this process now, its peak since the last reset, and what is mapped (0
 * when unknown). */
size_t mem_resident_bytes(void);
/* Local. The same in two parts: memory of this process, and pages of files (code above all), which
 * processes share and the system can read again. */
struct mem_parts {
    size_t own_bytes, file_bytes;
};
struct mem_parts mem_resident_parts(void);
size_t mem_peak_bytes(void);
size_t mem_mapped_bytes(void);
void mem_reset_peak(void);
/* Local, reads a file. Shared memory that is resident in this process; 0 when unknown. */
size_t mem_shared_bytes(void);
/* Local, reads a file. How much of the pages of [base, base + bytes) is resident in this process; 0
 * when unknown. */
size_t mem_resident_in(const void *base, size_t bytes);

#endif
