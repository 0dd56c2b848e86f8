/* Element types, shapes and the 16-bit conversions, over every 16-bit value. */
#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

#include "tensor/tensor.h"

Test(tensor_tensor, types_name_one_another) {
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype back;
        cr_assert(dtype_from_safetensors(dtype_safetensors_name((enum dtype)i), &back));
        cr_assert_eq((int)back, i);
        cr_assert(dtype_bytes((enum dtype)i) >= 1);
    }
    enum dtype none;
    cr_assert_not(dtype_from_safetensors("F33", &none));
}

Test(tensor_tensor, an_element_of_every_type_is_a_number) {
    const struct {
        enum dtype dtype;
        unsigned char bytes[8]; /* little-endian */
        double value;
    } row[] = {
        {DTYPE_F32, {0, 0, 0xC0, 0xBF}, -1.5},
        {DTYPE_F64, {0, 0, 0, 0, 0, 0, 0xF8, 0xBF}, -1.5},
        {DTYPE_BF16, {0xC0, 0xBF}, -1.5},
        {DTYPE_F16, {0, 0xBE}, -1.5},
        {DTYPE_I32, {0xFE, 255, 255, 255}, -2},
        {DTYPE_I64, {0, 0, 0, 0, 1}, 4294967296.0},
        {DTYPE_U8, {200}, 200},
    };
    _Static_assert(sizeof row / sizeof row[0] == DTYPE_COUNT, "a row for each type");
    for (int i = 0; i < DTYPE_COUNT; i++) {
        unsigned char odd[9];
        memcpy(odd + 1, row[i].bytes, 8);
        cr_expect_eq(dtype_value(row[i].dtype, odd + 1), row[i].value, "%s",
                     dtype_name(row[i].dtype));
    }
}

Test(tensor_tensor, shapes) {
    struct shape a = SHAPE(2, 3, 4), b = SHAPE(2, 3), scalar = SHAPE_SCALAR;
    char text[SHAPE_TEXT_BYTES];
    cr_assert_eq(shape_count(&a), 24);
    cr_assert_eq(shape_count(&scalar), 1);
    cr_assert_eq(shape_span(&a, 1, 3), 12);
    cr_assert(shape_equal(&a, &a));
    cr_assert_not(shape_equal(&a, &b));
    cr_assert_str_eq(shape_text(&a, text), "[2,3,4]");
    cr_assert_str_eq(shape_text(&scalar, text), "[]");
}

Test(tensor_tensor, sixteen_bits_survive_the_way_through_f32) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float bf16 = bf16_to_f32((uint16_t)bits), f16 = f16_to_f32((uint16_t)bits);
        if (isnan(bf16))
            cr_assert(isnan(bf16_to_f32(bf16_from_f32(bf16))));
        else
            cr_assert_eq(bf16_from_f32(bf16), bits);
        if (isnan(f16))
            cr_assert(isnan(f16_to_f32(f16_from_f32(f16))));
        else
            cr_assert_eq(f16_from_f32(f16), bits);
    }
}

/* Between two neighbours the nearer one wins, and in the middle the even one. */
static void check_rounding(uint16_t (*from)(float), float (*to)(uint16_t), uint16_t last) {
    for (uint16_t bits = 0; bits < last; bits++) {
        double low = to(bits), high = to((uint16_t)(bits + 1)), middle = (low + high) / 2;
        cr_assert_eq(from((float)middle), bits % 2 ? bits + 1 : bits, "%04x", bits);
        cr_assert_eq(from(nextafterf((float)middle, 0)), bits, "%04x", bits);
        cr_assert_eq(from(nextafterf((float)middle, INFINITY)), bits + 1, "%04x", bits);
    }
}

Test(tensor_tensor, sixteen_bits_round_to_nearest_even) {
    check_rounding(f16_from_f32, f16_to_f32, 0x7BFF);
    check_rounding(bf16_from_f32, bf16_to_f32, 0x7F7F);
    cr_assert_eq(f16_from_f32(65519.0f), 0x7BFF);
    cr_assert_eq(f16_from_f32(65520.0f), 0x7C00);
    cr_assert_eq(f16_from_f32(-1e9f), 0xFC00);
    cr_assert_eq(bf16_from_f32(3.4e38f), 0x7F80);
}
