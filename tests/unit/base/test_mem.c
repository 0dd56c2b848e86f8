/* What of a mapping is resident. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "calls.h"

/* By the page table alone: /proc/self/smaps has a text for every mapping of the process, so that
 * ranks which map one another's heaps would need time by the square of their number to start. */
Test(base_mem, resident_pages_are_asked_of_the_page_table) {
    enum { PAGES = 3000, TOUCHED = 1100 }; /* more than are asked for at once */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = PAGES * page;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert(memory != MAP_FAILED);
    cr_expect_eq(mem_resident_in(memory, bytes), 0);
    memset(memory + 500 * page, 1, TOUCHED * page);
    cr_expect_eq(mem_resident_in(memory, bytes), TOUCHED * page);
    cr_expect_eq(mem_resident_in(memory + 400 * page, 101 * page), page);
    calls = (struct calls){.failing = CALL_OPEN, .path = "/pagemap", .code = EACCES};
    cr_expect_eq(mem_resident_in(memory, bytes), 0);
    calls = (struct calls){0};
    munmap(memory, bytes);
}
