/* The forecast of a job as its options want it: where costs come from, what is said of it. */
#ifndef VIEW_OUTLOOK_H
#define VIEW_OUTLOOK_H

#include <stdio.h>

#include <jansson.h>

#include "job/job.h"
#include "sim/forecast.h"

enum { OUTLOOK_NAME_COLUMNS = 12 }; /* of a row's name */

struct outlook {
    const struct job *job;
    struct costs costs; /* the job's, with the crowd of its machine */
    struct forecast forecast;
    bool clip_waits;  /* STEP awaits the norm of all ranks' gradients, for clipping, which takes */
    double clip_time; /* this much of a step */
};

/* Local. Whether an option of the forecast is given. */
bool outlook_is_wanted(const struct options *options);
/* Local. Simulates the job's program; the job must outlive it, and it stays where it is. `apart`:
 * every rank is run by itself, to be set beside what was measured. The caller closes it. */
enum status outlook_open(const struct job *job, bool apart, struct outlook *out);
void outlook_close(struct outlook *outlook);

/* Local. On one screen; as members of a JSON object that the caller owns. */
void outlook_print(const struct outlook *outlook, FILE *out);
/* The same in one row of explain's screen. */
void outlook_print_row(const struct outlook *outlook, FILE *out);
json_t *outlook_json(const struct outlook *outlook);

/* Local, blocking. The last step as a picture: FILE.svg or FILE.html. */
enum status outlook_draw(const struct outlook *outlook, const char *path);

/* Local. Ranks, stages and the like, and the path, in words; the caller frees them. */
char *outlook_shape_text(const struct outlook *outlook);
char *outlook_path_text(const struct outlook *outlook);

#endif
