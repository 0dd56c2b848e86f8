/* Options of a resumed run: those it was started with, and on top what is named now. */
#ifndef CLI_RESUME_H
#define CLI_RESUME_H

#include "base/option.h"

/* Local, blocking. Where `given` asks for --resume, fills `out` from the config.yml of its --out,
 * where there is one, and then from what the user named in `given`, checks all of it together, and
 * *found is true; the caller frees `out`. Otherwise leaves `out` alone. */
enum status resume_options(const struct options *given, struct options *out, bool *found);

#endif
