/* The forecast of a planned run as its options want it: where costs come from, what is said of it.
 */
#ifndef VIEW_VIEW_FORECAST_H
#define VIEW_VIEW_FORECAST_H

#include <stdio.h>

#include <jansson.h>

#include "planned/planned.h"
#include "sim/forecast.h"

enum { VIEW_NAME_COLUMNS = 12 }; /* of a row's name */

struct view_forecast {
    const struct planned_run *planned;
    struct costs costs; /* the run's, with the crowd of its machine */
    struct forecast forecast;
    struct forecast_unequal unequal; /* what laws of --hetero cost */
    bool clip_waits;  /* STEP awaits the norm of all ranks' gradients, for clipping, which takes */
    double clip_time; /* this much of a step */
};

/* Local. Whether an option of the forecast is given. */
bool view_forecast_is_wanted(const struct options *options);
/* Local. Simulates the run's program; the planned run must outlive it, and it stays where it is.
 * `apart`: every rank is run by itself, to be set beside what was measured. The caller closes it.
 */
enum status view_forecast_open(const struct planned_run *planned, bool apart,
                               struct view_forecast *out);
void view_forecast_close(struct view_forecast *view);

/* Local. On one screen; as members of a JSON object that the caller owns. */
void view_forecast_print(const struct view_forecast *view, FILE *out);
/* The same in one row of explain's screen. */
void view_forecast_print_row(const struct view_forecast *view, FILE *out);
json_t *view_forecast_json(const struct view_forecast *view);

/* Local, blocking. The last step as a picture: FILE.svg or FILE.html. */
enum status view_forecast_draw(const struct view_forecast *view, const char *path);

/* Local. Ranks, stages and the like, and the path, in words; the caller frees them. */
char *view_forecast_shape_text(const struct view_forecast *view);
char *view_forecast_path_text(const struct view_forecast *view);

#endif
