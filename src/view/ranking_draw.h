/* A search as a picture: time against memory of all plans that were simulated, and the timelines of
 * the best of them. */
#ifndef VIEW_RANKING_DRAW_H
#define VIEW_RANKING_DRAW_H

#include "planned/planned_search.h"

/* Local, blocking (plans the rows it shows once more). One page that needs nothing else, written
 * atomically; the path ends in .html. */
enum status ranking_draw(const struct planned_search *search, const char *path);

#endif
