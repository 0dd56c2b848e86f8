/* Allocation, regions, arenas, and what the kernel says about our size. */
#include "base/mem.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"

static void die_out_of_memory(size_t bytes) {
    fail(STATUS_MEMORY, "out of memory: %zu bytes were refused by the system", bytes);
    _exit(status_exit_code(STATUS_MEMORY));
}

/* Large pages, where the system gives them: fewer faults where much is written once, as by the
 * simulator. Not for regions: a step gains nothing by them (measured), and starts a second later,
 * since the system has to make room for them in one piece. */
static void prefer_large_pages(void *memory, size_t bytes) {
    enum { LEAST = 16 * 1024 * 1024 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (size_t)memory + bytes;
    size_t first = ((size_t)memory + page - 1) / page * page;
    if (bytes >= LEAST) madvise((void *)first, (end - first) / page * page, MADV_HUGEPAGE);
}

void *mem_new(size_t bytes) {
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory) die_out_of_memory(bytes);
    prefer_large_pages(memory, bytes);
    return memory;
}

void *mem_array(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) die_out_of_memory(SIZE_MAX);
    return mem_new(total);
}

void *mem_grow(void *array, size_t *capacity, size_t need, size_t element_bytes) {
    if (need <= *capacity) return array;
    size_t wanted = *capacity ? *capacity * 2 : 8;
    if (wanted < need) wanted = need;
    void *grown = realloc(array, wanted * element_bytes);
    if (!grown) die_out_of_memory(wanted * element_bytes);
    memset((char *)grown + *capacity * element_bytes, 0, (wanted - *capacity) * element_bytes);
    *capacity = wanted;
    return grown;
}

/* Pointers of any type come here: copied, not read as a void *. */
void mem_free_scoped(void *pointer) {
    void *memory;
    memcpy(&memory, pointer, sizeof memory);
    free(memory);
}

char *mem_text(const char *text) {
    size_t length = strlen(text) + 1;
    return memcpy(mem_new(length), text, length);
}

char *mem_format(const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *text = NULL;
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) die_out_of_memory(0);
    return text;
}

enum status region_map(size_t bytes, const char *what, struct region *out) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t rounded = (bytes + page - 1) / page * page;
    if (rounded == 0) rounded = page;
    void *base = mmap(NULL, rounded, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (base == MAP_FAILED)
        return fail(STATUS_MEMORY, "out of memory: %zu bytes for %s were refused by the system",
                    bytes, what);
    *out = (struct region){base, rounded};
    return STATUS_OK;
}

void region_free(struct region *region) {
    if (region->base) munmap(region->base, region->bytes);
    *region = (struct region){0};
}

void mem_give_back(void) {
#ifndef STRETTO_SANITIZE /* whose heap is another */
    malloc_trim(0);
#endif
}

/* A byte is added nothing to, in one piece: a write that loses nobody else's. */
void mem_touch(void *memory, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t at = 0; at < bytes; at += page) atomic_fetch_or((_Atomic char *)memory + at, 0);
    if (bytes) atomic_fetch_or((_Atomic char *)memory + bytes - 1, 0);
}

enum { ARENA_BLOCK_BYTES = 64 * 1024, ARENA_ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t used, size;
    _Alignas(ARENA_ALIGN) char data[];
};

void *arena_new(struct arena *arena, size_t bytes) {
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct arena_block *block = arena->blocks;
    if (!block || block->size - block->used < bytes) {
        size_t size = bytes > ARENA_BLOCK_BYTES ? bytes : ARENA_BLOCK_BYTES;
        block = mem_new(sizeof *block + size);
        block->size = size;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *piece = block->data + block->used;
    block->used += bytes;
    return piece;
}

char *arena_text(struct arena *arena, const char *text) {
    size_t length = strlen(text) + 1;
    return memcpy(arena_new(arena, length), text, length);
}

void arena_free(struct arena *arena) {
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

static size_t proc_status_kib(const char *key) {
    FILE *file = fopen("/proc/self/status", "r");
    if (!file) return 0;
    char line[256];
    size_t kib = 0, length = strlen(key);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, key, length) == 0 && sscanf(line + length, " %zu", &kib) == 1) break;
    }
    fclose(file);
    return kib;
}

size_t mem_resident_bytes(void) {
    return proc_status_kib("VmRSS:") * 1024;
}

struct mem_parts mem_resident_parts(void) {
    size_t all = mem_resident_bytes(), file = proc_status_kib("RssFile:") * 1024;
    return (struct mem_parts){.own_bytes = all > file ? all - file : 0, .file_bytes = file};
}

size_t mem_shared_bytes(void) {
    return proc_status_kib("RssShmem:") * 1024;
}

size_t mem_peak_bytes(void) {
    return proc_status_kib("VmHWM:") * 1024;
}

size_t mem_mapped_bytes(void) {
    return proc_status_kib("VmSize:") * 1024;
}

void mem_reset_peak(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return; /* then the peak includes what came before, and over-reports */
    fputs("5", file);
    fclose(file);
}

/* Asks the page table for just these pages: 8 bytes a page, the top bit says that it is there. The
 * text of /proc/self/smaps would be formatted for every mapping of the process each time. */
size_t mem_resident_in(const void *base, size_t bytes) {
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    enum { ENTRIES = 1024 };
    uint64_t entry[ENTRIES];
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 0;
    size_t at = (uintptr_t)base / page, end = ((uintptr_t)base + bytes + page - 1) / page;
    while (at < end) {
        size_t want = end - at < ENTRIES ? end - at : ENTRIES;
        ssize_t got = pread(file, entry, want * sizeof *entry, (off_t)(at * sizeof *entry));
        size_t pages = got > 0 ? (size_t)got / sizeof *entry : 0;
        if (!pages) break;
        for (size_t i = 0; i < pages; i++) count += entry[i] >> 63;
        at += pages;
    }
    close(file);
    return count * page;
}
