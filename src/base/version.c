/* The version as text, made from the numbers in the public header: the one place that says them. */
#include "stretto.h"

#define TEXT_OF(value) #value
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *stretto_version(void) {
    return DOTTED(STRETTO_VERSION_MAJOR, STRETTO_VERSION_MINOR, STRETTO_VERSION_PATCH);
}
