/* NumPy's archives read as if they were safetensors files. Files with an index are tested with
 * --weights. */
#include <criterion/criterion.h>

#include "tensor/shards.h"

#define FOLDER "tests/fuzz/corpus/npy/"

Test(tensor_shards, arrays_of_an_archive_are_f32) {
    static const char *const paths[] = {FOLDER "stored.npz", FOLDER "packed.npz"};
    for (int p = 0; p < 2; p++) {
        struct shards *file;
        size_t index;
        float values[12], part[3];
        cr_assert_eq(shards_open(paths[p], &file), STATUS_OK);
        cr_assert_eq(shards_count(file), 11);
        cr_assert(shards_find(file, "f2", &index) && !shards_find(file, "f2.npy", &(size_t){0}));
        const struct safetensors_entry *entry = shards_at(file, index);
        cr_assert_str_eq(entry->name, "f2");
        cr_assert(entry->native && entry->dtype == DTYPE_F32 && entry->bytes == sizeof values);
        cr_assert(shape_equal(&entry->shape, &SHAPE(2, 3, 2)));
        cr_assert_eq(shards_read(file, index, values, sizeof values), STATUS_OK);
        for (int i = 0; i < 12; i++) cr_expect_eq(values[i], (float)i);
        cr_assert_eq(shards_read_part(file, index, 5 * sizeof *part, part, sizeof part), STATUS_OK);
        for (int i = 0; i < 3; i++) cr_expect_eq(part[i], (float)(5 + i));
        shards_close(&file);
    }
}
