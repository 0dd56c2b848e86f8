/* The registry, the checks in front of the tables, and the contracts that every backend's memory
 * and layouts keep. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend/copy.h"
#include "backend/registry.h"
#include "base/log.h"

static struct device *open_ref(void) {
    struct device *device = NULL;
    cr_assert(device_open("ref", 0, 1, &device) == STATUS_OK);
    return device;
}

Test(backend_registry, finds_by_name) {
    cr_assert_not_null(backend_find("ref"));
    cr_assert_null(backend_find("abacus"));
    for (int i = 0; backend_all()[i]; i++)
        cr_expect(backend_find(backend_all()[i]->name) == backend_all()[i]);
}

Test(backend_registry, refuses_what_is_not_there) {
    char text[512] = "";
    struct device *device = NULL;
    log_capture(text, sizeof text);
    cr_expect(device_open("abacus", 0, 1, &device) == STATUS_USAGE);
    cr_expect(strstr(text, "abacus") && strstr(text, "ref"), "%s", text);
    cr_expect(device_open("ref", 1, 1, &device) == STATUS_USAGE);
    cr_expect(device_open("ref", 0, 0, &device) == STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect_null(device);
    device_close(&device); /* accepts NULL */
}

/* Every row of backend.def has a name for the options, also where the build lacks it. */
Test(backend_registry, names_what_the_build_lacks) {
    bool cuda = false;
    for (int i = 0; backend_name_at(i); i++) cuda = cuda || strcmp(backend_name_at(i), "cuda") == 0;
    cr_expect(cuda);
}

Test(backend_registry, ranks_take_devices_in_turn) {
    const char *name = NULL;
    int index = -1;
    cr_assert(device_named("ref", 3, &name, &index) == STATUS_OK);
    cr_expect_str_eq(name, "ref");
    cr_expect_eq(index, 0);
    for (int rank = 0; rank < 6; rank++) {
        static const int entries[] = {4, 0, 12};
        cr_assert(device_named("ref:4,0,12", rank, &name, &index) == STATUS_OK);
        cr_expect_eq(index, entries[rank % 3], "rank %d has %d", rank, index);
    }
    char text[512] = "";
    log_capture(text, sizeof text);
    cr_expect(device_named("abacus:1", 0, &name, &index) == STATUS_USAGE);
    log_capture(NULL, 0);
    cr_expect(strstr(text, "abacus") && strstr(text, "ref"), "%s", text);
}

Test(backend_registry, plain_layouts_are_interned) {
    struct device *device = open_ref();
    struct tensor_type a = {DTYPE_F32, SHAPE(2, 3)}, b = {DTYPE_I32, SHAPE(2, 3)};
    const struct layout *layout = device->backend->plain(device, &a);
    cr_expect(layout == device->backend->plain(device, &a));
    cr_expect(layout != device->backend->plain(device, &b));
    cr_expect(layout->plain && layout->bytes == 24);
    device_close(&device);
}

Test(backend_registry, memory_is_zeroed_and_aligned) {
    struct device *device = open_ref();
    size_t sizes[] = {0, 1, 4096, 100000};
    for (int i = 0; i < 4; i++) {
        unsigned char *memory = NULL;
        cr_assert(device->backend->memory_new(device, sizes[i], "a test", (void **)&memory) ==
                  STATUS_OK);
        cr_expect((uintptr_t)memory % 64 == 0);
        for (size_t k = 0; k < sizes[i]; k++) cr_assert(memory[k] == 0);
        memset(memory, 1, sizes[i]);
        device->backend->memory_free(device, memory, sizes[i]);
    }
    device_close(&device);
}

Test(backend_registry, plain_copies_go_both_ways) {
    struct device *device = open_ref();
    struct tensor_type type = {DTYPE_F32, SHAPE(2, 2)};
    const struct layout *layout = device->backend->plain(device, &type);
    float in[] = {1, 2, 3, 4}, out[4] = {0};
    void *memory = NULL;
    cr_assert(device->backend->memory_new(device, layout->bytes, "a test", &memory) == STATUS_OK);
    cr_assert(layout_from_plain(device, layout, in, memory) == STATUS_OK);
    cr_assert(layout_to_plain(device, layout, memory, out) == STATUS_OK);
    cr_expect(memcmp(in, out, sizeof in) == 0);
    device->backend->memory_free(device, memory, layout->bytes);
    device_close(&device);
}
