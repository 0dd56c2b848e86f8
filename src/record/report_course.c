/* What report.html makes of a run whose plan changed on its way: its parts over the steps, one bar
 * of them, one of what is frozen, and a row for each with its grid and its speed. */
#include "record/report_parts.h"

#include <math.h>

#include "record/html.h"

enum { COLORS = 6 };

static int64_t end_of(const struct report_course *course, int part) {
    bool last = part + 1 == course->count;
    return last ? course->steps : course->part[part + 1].step;
}

static double share_of(const struct report_course *course, int part) {
    int64_t length = end_of(course, part) - course->part[part].step;
    return course->steps > 0 && length > 0 ? (double)length / (double)course->steps : 0;
}

/* The mean of the rows of metrics in these steps, which count from 1; NaN: there is none. */
static double speed_of(const struct series *speed, int64_t begin, int64_t end) {
    double sum = 0;
    int64_t rows = 0;
    for (int i = 0; i < speed->count; i++) {
        const struct series_point *point = &speed->point[i];
        if (point->finite == 0 || point->first <= begin || point->last > end) continue;
        sum += point->mean * (double)point->finite;
        rows += point->finite;
    }
    return rows > 0 ? sum / (double)rows : NAN;
}

static void emit_parts(FILE *stream, const struct report_course *course) {
    fputs("<div class=\"stack\">", stream);
    for (int i = 0; i < course->count; i++)
        fprintf(stream, "<i class=\"t%d\" style=\"width:%.3f%%\" title=\"%d x %d\"></i>",
                i % COLORS, 100 * share_of(course, i), course->part[i].stages,
                course->part[i].replicas);
    fputs("</div>\n", stream);
}

/* As much of each part's height as is frozen. */
static void emit_frozen(FILE *stream, const struct report_course *course) {
    double x = 0;
    fputs(
        "<svg viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" style=\"width:100%;height:40px\" "
        "role=\"img\" aria-label=\"share of the blocks that are frozen\"><path "
        "style=\"fill:currentColor;fill-opacity:.35\" d=\"M0,20",
        stream);
    for (int i = 0; i < course->count; i++) {
        double height = course->of > 0 ? 20.0 * course->part[i].frozen / course->of : 0;
        fprintf(stream, "V%.3fH%.3f", 20 - height, x += 100 * share_of(course, i));
    }
    fputs("V20Z\"></path></svg>\n<p class=\"note\">Above: the parts of the run. Below: how many of "
          "the "
          "blocks are frozen.</p>\n",
          stream);
}

static void emit_row(FILE *stream, const struct report_course *course, int part,
                     const struct series *speed) {
    const struct report_course_part *of = &course->part[part];
    char step[TEXT_BYTES], each[TEXT_BYTES];
    double samples = speed_of(speed, of->step, end_of(course, part));
    fprintf(stream,
            "<tr><td><u class=\"k t%d\"></u>from step %s</td><td>%d of %d frozen</td>"
            "<td>%d x %d, %d micro-batch%s</td><td>%s</td></tr>\n",
            part % COLORS, html_integer(of->step + 1, step), of->frozen, course->of, of->stages,
            of->replicas, of->micro_batches, of->micro_batches == 1 ? "" : "es",
            isnan(samples) ? "&ndash;" : html_number(samples, each));
}

void report_course(FILE *stream, const struct report_course *course, const struct curves *curves) {
    if (course->count == 0) return;
    fputs("<section class=\"panel\">\n<h2>Course</h2>\n", stream);
    emit_parts(stream, course);
    emit_frozen(stream, course);
    fputs("<table>\n<tr><td></td><td>blocks</td><td>stages x replicas</td><td>samples a "
          "second</td></tr>\n",
          stream);
    for (int i = 0; i < course->count; i++) emit_row(stream, course, i, &curves->samples_per_s);
    fputs("</table>\n</section>\n", stream);
}
