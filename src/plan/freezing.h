/* Which blocks are frozen when, and how a pipeline with frozen blocks is cut: pure functions in
 * exact integers.
 *
 * A rule freezes more blocks from period to period, the first ones first. The rule `alpha` leaves
 * (1 - alpha)^t of the model's L blocks to be trained in period t: as L (1 - (1 - alpha)^t),
 * rounded up, where alpha is a fraction p / q. Rounding errors of a double would freeze a block too
 * many where that is a whole number, so it is computed with integers of any length. The rule `norm`
 * looks at the gradients of a period when it is over: what freezes is known only then, and alpha,
 * if it is given, is the most that may be. */
#ifndef PLAN_FREEZING_H
#define PLAN_FREEZING_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* A share p / q of the blocks that are trained, above 0 and below 1. */
struct freezing_share {
    int64_t part, of;
};
/* Local. From "1/3", "0.07" or ".5". STATUS_USAGE with the text where it is none of these or not in
 * (0, 1). */
enum status freezing_share_read(const char *text, struct freezing_share *out);

/* Local. Frozen blocks of `blocks` in periods 0 to `periods` - 1. */
void freezing_by_alpha(int blocks, struct freezing_share alpha, int periods, int *out);

/* Local. The rule `norm`, of a period: all below the trained block whose gradients are smallest are
 * frozen, but no more than `cap`, and no fewer than before. `squares` are per block; those of
 * frozen blocks are not looked at. Of equal ones the first. */
int freezing_by_norm(int blocks, int before, int cap, const double *squares);

/* What --freeze says: a list, of which period t has item t and all later ones the last; or, where
 * its share is above 0, the rule alpha; or the rule norm, with that share as its cap where it is
 * above 0. A list of one number is frozen from the start. */
enum { FREEZING_LIST = 64, FREEZING_BLOCKS = 4096, FREEZING_PERIODS = 10000 };
struct freezing_rule {
    int list[FREEZING_LIST], count; /* none and no share: nothing is frozen */
    struct freezing_share alpha;
    bool norm;
};
/* Local. From "3", "0,4,7,9", "alpha=1/3", "norm" or "alpha=1/3,norm". STATUS_USAGE with the text
 * and what is wrong. */
enum status freezing_rule_read(const char *text, struct freezing_rule *out);

/* Local. Whether more is frozen later than at first; how much is at first, which no rule needs the
 * model for. */
bool freezing_changes(const struct freezing_rule *rule);
int freezing_first(const struct freezing_rule *rule);
/* Local. The most that a rule of shares or norms may have frozen in a period: by its share, or all;
 * by norms alone the last block is always trained, since what is below a block freezes. */
int freezing_most(const struct freezing_rule *rule, int blocks, int period);

/* --- cuts by the number of parameters --- */

/* What --auto-pipe names. */
enum pipe_rule { PIPE_OFF, PIPE_PARAMS, PIPE_PARAMS_LAMBDA };

/* Units that no cut divides, in the order of the model: their parameters. The first `frozen` of
 * them stay together in the first group. */
struct pipe_units {
    const int64_t *params;
    int count, frozen;
    bool weighs; /* rule params-lambda: frozen parameters count a sixth of their number in the first
                    group; rule params: they do not count */
};
enum { PIPE_LAMBDA = 6 };

/* Local. Units of each of so many groups; in the first one the frozen ones are counted, too. A
 * group takes units while its parameters stay below the mean of what is left, and its variance, for
 * each of the groups left (in millions of parameters); it takes one at least, and leaves one for
 * each group behind it. Returns the parameters of the largest group, in PIPE_LAMBDA-ths. */
int64_t pipe_cut(const struct pipe_units *units, int groups, int *out);

/* Local. The number of groups that frozen units leave: half as many, again and again, as long as
 * the largest group is not above `most` (PIPE_LAMBDA-ths). */
int pipe_shrink(const struct pipe_units *units, int groups, int64_t most);

#endif
