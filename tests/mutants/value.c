/* See value.h. */
#include "value.h"

static uint64_t mix(uint64_t word) {
    word = (word ^ word >> 31) * 0x7fb5d329728ea185u;
    word = (word ^ word >> 27) * 0x81dadef4bc2dd44du;
    return word ^ word >> 33;
}

value value_of(enum value_kind kind, value a, value b) {
    value made = mix(mix(mix((uint64_t)kind + 0x9e3779b97f4a7c15u) + a) * 3 + b);
    return made <= VALUE_NEUTRAL ? made + 2 : made;
}

value value_sum(value into, value from) {
    if (into == VALUE_NEUTRAL) return from;
    return from == VALUE_NEUTRAL ? into : value_of(VALUE_SUM, into, from);
}

value value_tied(value gradient) {
    return gradient == VALUE_NEUTRAL ? gradient : value_of(VALUE_TIED, gradient, 0);
}

value value_tree(value *items, int count) {
    if (count == 0) return VALUE_NEUTRAL;
    while (count > 1) {
        int half = 0;
        for (int i = 0; i < count; i += 2)
            items[half++] = i + 1 < count ? value_sum(items[i], items[i + 1]) : items[i];
        count = half;
    }
    return items[0];
}
