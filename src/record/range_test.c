/* The advice of a range test. The rows of loss and rate are the same rows, so point i of one series
 * belongs to point i of the other. */
#include "record/range_test.h"

#include <math.h>

#include "base/mem.h"

/* The loss of a point; where it is not known, one that is never the lowest. */
static double loss_at(const struct curves *curves, int i) {
    double loss = curves->loss.point[i].smooth;
    return isnan(loss) ? INFINITY : loss;
}

struct range_test range_test_read(const struct curves *curves) {
    enum { LEAST_POINTS = 10, REACH = 2 };
    const double least_drop = 0.05; /* of the first loss; less is noise */
    int count = curves->loss.count, low = 0, steep = 0;
    if (count < LEAST_POINTS || curves->lr.count != count) return (struct range_test){0};
    for (int i = 1; i < count; i++)
        if (loss_at(curves, i) < loss_at(curves, low)) low = i;
    if (!(loss_at(curves, low) < (1 - least_drop) * loss_at(curves, 0)))
        return (struct range_test){0};
    double drop = 0;
    for (int i = REACH; i + REACH < count && i <= low; i++) {
        double here = loss_at(curves, i - REACH) - loss_at(curves, i + REACH);
        if (!(here > drop)) continue;
        drop = here;
        steep = i;
    }
    double rate = curves->lr.point[low].mean;
    return (struct range_test){
        .fell = true,
        .still_falls = low == count - 1 && !(curves->loss.point[low].mean > loss_at(curves, low)),
        .lowest = rate,
        .steepest = curves->lr.point[steep].mean,
        .suggested = rate / 10};
}

char *range_test_words(const struct range_test *test) {
    if (!test->fell)
        return mem_text("The loss did not fall by more than noise: more steps, or another range of "
                        "learning rates (--lr-min, --lr), may show where it does.");
    if (test->still_falls)
        return mem_format("The loss still fell at the last learning rate, %.2g: a test that ends "
                          "higher (--lr) will show where it rises.",
                          test->lowest);
    return mem_format("The loss was lowest at a learning rate of %.2g and fell fastest at %.2g. A "
                      "tenth of the former is a good peak: --lr %.2g.",
                      test->lowest, test->steepest, test->suggested);
}
