/* What is said of a row of a search: its name, why it is not first, the command that runs it. */
#ifndef VIEW_RANKING_WORDS_H
#define VIEW_RANKING_WORDS_H

#include "planned/planned_search.h"

/* Local. "zbv, zero1"; "ddp, recompute always:block". The caller frees it, as all texts here. */
char *ranking_name(const struct planner_row *row);
/* Local. Why a row is slower than the first one, in one clause: what it loses most time by. */
char *ranking_why(const struct planned_search *search, const struct planner_row *row);
/* Local. Why a family has no row: by how much its smallest candidate misses, or that there is none.
 */
char *ranking_none(const struct planned_search *search, int kind);
/* Local. Whether the two take the same time, as far as is known: the 90% interval of their
 * difference contains 0; with a cluster, whose figures are taken at their word, within 2%. */
bool ranking_tie(const struct planned_search *search, const struct planner_row *a,
                 const struct planner_row *b);

/* Local, blocking (plans nothing). "stretto train ...", with the options that the user gave and
 * those of the row, as a shell reads them; of `command`. */
enum status ranking_command(const struct planned_search *search, const struct planner_row *row,
                            enum option_command command, char **out);

#endif
