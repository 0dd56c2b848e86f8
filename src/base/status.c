/* The status table: see status.def. */
#include "base/status.h"

int status_exit_code(enum status status) {
    static const int codes[] = {
#define STATUS(name, code, text) code,
#include "base/status.def"
#undef STATUS
    };
    return codes[status];
}

const char *status_text(enum status status) {
    static const char *const texts[] = {
#define STATUS(name, code, text) text,
#include "base/status.def"
#undef STATUS
    };
    return texts[status];
}
