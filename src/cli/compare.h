/* The core of `stretto compare`, for the command and for whoever must show that two trainings
 * agree. */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include <stdio.h>

#include "base/status.h"

enum compare_form { COMPARE_TEXT, COMPARE_JSON, COMPARE_SILENT };

/* Local, blocking. Compares the tensors of two safetensors files by name and writes what differs to
 * `out`, the largest difference first. STATUS_OK: the same names, types, shapes and bits;
 * STATUS_NO: not; STATUS_DATA: a file cannot be read. Metadata are not compared. */
enum status compare_files(const char *path_a, const char *path_b, FILE *out,
                          enum compare_form form);

#endif
