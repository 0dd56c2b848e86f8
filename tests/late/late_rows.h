/* Rows of struct backend of the device `late` that ask `ref`; contracts are there. */
#ifndef TESTS_LATE_LATE_ROWS_H
#define TESTS_LATE_LATE_ROWS_H

#include "backend/backend.h"

/* Local. The device of ref behind it. */
struct device *late_ref(struct device *device);

void late_describe(struct device *device, char *text, size_t bytes);
void late_isa(int index, char *text, size_t bytes);
enum status late_takes(struct device *device, enum dtype dtype);
bool late_supports(struct device *device, const struct op_call *call);
double late_cost_ns(struct device *device, const struct op_call *call);
const struct layout *late_plain(struct device *device, const struct tensor_type *type);

#endif
