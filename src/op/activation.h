/* The activations: rows ACTIVATION of op.def. Apart from op.h, because C++ code on devices reads it
 * too. */
#ifndef OP_ACTIVATION_H
#define OP_ACTIVATION_H

enum activation {
    ACTIVATION_NONE,
#define OP(NAME, name, doc)
#define ACTIVATION(NAME, name, doc) ACTIVATION_##NAME,
#include "op/op.def"
#undef OP
    ACTIVATION_COUNT
};

#endif
