/* The version text is the three numbers of the public header. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "stretto.h"

Test(base_version, matches_the_header) {
    int major = -1, minor = -1, patch = -1;
    char rest = 0;
    int read = sscanf(stretto_version(), "%d.%d.%d%c", &major, &minor, &patch, &rest);
    cr_assert(read == 3, "\"%s\" is not three numbers", stretto_version());
    cr_assert(major == STRETTO_VERSION_MAJOR && minor == STRETTO_VERSION_MINOR &&
              patch == STRETTO_VERSION_PATCH);
}
