/* A drawing as a file; its form is the ending of its name. */
#include "record/draw.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"

enum status draw_check(const char *path) {
    char text[TEXT_QUOTED_BYTES];
    if (text_ends_in(path, ".svg") || text_ends_in(path, ".html")) return STATUS_OK;
    return fail(STATUS_USAGE, "drawing %s: the name must end in .svg or .html",
                text_quoted(path, text));
}

enum status draw_write(const char *path, const struct timeline *timeline) {
    struct file_writer writer;
    bool svg = text_ends_in(path, ".svg");
    TRY(draw_check(path));
    TRY(file_begin(path, &writer));
    enum status status = STATUS_OK;
    if (svg)
        status = draw_svg(writer.stream, timeline);
    else
        draw_html_page(writer.stream, timeline);
    if (status == STATUS_OK) return file_commit(&writer);
    file_abandon(&writer);
    return status;
}
