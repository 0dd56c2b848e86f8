/* A checker of pages that knows only what our pages use: a tag outside the list, an attribute
 * without quotes, a tag that is not closed in order, or a number gone wrong in an attribute is an
 * error. It is stricter than a browser, which would mend most of them in silence. */
#ifndef TESTS_RECORD_MARKUP_H
#define TESTS_RECORD_MARKUP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MARKUP_DEPTH = 32, MARKUP_NAME = 16 };

struct markup {
    const char *at;
    char open[MARKUP_DEPTH][MARKUP_NAME];
    int depth;
    char error[200]; /* "" when the page is good */
};

static bool markup_fail(struct markup *page, const char *what) {
    if (!page->error[0]) snprintf(page->error, sizeof page->error, "%s at: %.80s", what, page->at);
    return false;
}

static bool markup_listed(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

/* name="value" pairs up to the end of the tag. */
static bool markup_attributes(struct markup *page) {
    static const char *const names[] = {
        "lang", "charset", "http-equiv", "content", "name",       "class", "style",
        "role", "title",   "d",          "viewBox", "aria-label", "open",  "preserveAspectRatio",
        NULL};
    while (*page->at == ' ') {
        size_t length = strcspn(++page->at, "= />\"'<");
        char name[32] = "";
        if (length == 0 || length >= sizeof name) return markup_fail(page, "attribute name");
        memcpy(name, page->at, length);
        if (!markup_listed(name, names)) return markup_fail(page, "attribute not known");
        page->at += length;
        if (strcmp(name, "open") == 0) continue;
        if (strncmp(page->at, "=\"", 2) != 0) return markup_fail(page, "attribute without quotes");
        const char *value = page->at + 2;
        size_t bytes = strcspn(value, "\"<>");
        if (value[bytes] != '"') return markup_fail(page, "attribute value");
        bool numbers = strcmp(name, "d") == 0 || strcmp(name, "style") == 0;
        if (numbers && (memmem(value, bytes, "nan", 3) || memmem(value, bytes, "inf", 3)))
            return markup_fail(page, "number gone wrong");
        page->at = value + bytes + 1;
    }
    return true;
}

static bool markup_close(struct markup *page, const char *name) {
    if (*page->at++ != '>') return markup_fail(page, "end tag");
    if (page->depth == 0 || strcmp(page->open[page->depth - 1], name) != 0)
        return markup_fail(page, "closed out of order");
    page->depth--;
    return true;
}

static bool markup_tag(struct markup *page) {
    static const char *const names[] = {
        "html",    "head",    "meta",   "title",  "style",      "body",  "main", "header",
        "div",     "h1",      "h2",     "h3",     "small",      "span",  "dl",   "dt",
        "dd",      "section", "strong", "figure", "figcaption", "u",     "i",    "b",
        "em",      "svg",     "path",   "br",     "p",          "table", "tr",   "td",
        "details", "summary", "pre",    NULL};
    static const char *const empty[] = {"meta", "br", NULL};
    bool closing = *page->at == '/';
    page->at += closing;
    size_t length = strcspn(page->at, " />");
    char name[MARKUP_NAME] = "";
    if (length == 0 || length >= sizeof name) return markup_fail(page, "tag name");
    memcpy(name, page->at, length);
    if (!markup_listed(name, names)) return markup_fail(page, "tag not known");
    page->at += length;
    if (closing) return markup_close(page, name);
    if (!markup_attributes(page)) return false;
    bool alone = *page->at == '/';
    page->at += alone;
    if (*page->at++ != '>') return markup_fail(page, "tag not ended");
    if (alone || markup_listed(name, empty)) return true;
    if (page->depth == MARKUP_DEPTH) return markup_fail(page, "too deep");
    memcpy(page->open[page->depth++], name, sizeof name);
    if (strcmp(name, "style") == 0) page->at += strcspn(page->at, "<");
    return true;
}

/* Content: no bare > and every & begins an entity. */
static bool markup_content(struct markup *page) {
    if (*page->at == '>') return markup_fail(page, "bare >");
    if (*page->at == '&' && page->at[1 + strcspn(page->at + 1, " ;<&")] != ';')
        return markup_fail(page, "bare &");
    page->at++;
    return true;
}

/* "" when the text is a page of ours, else what is wrong with it where. */
static const char *markup_check(struct markup *page, const char *text) {
    static const char start[] = "<!DOCTYPE html>\n";
    *page = (struct markup){.at = text};
    bool good = strncmp(text, start, sizeof start - 1) == 0 || markup_fail(page, "doctype");
    page->at += good ? sizeof start - 1 : 0;
    while (good && *page->at) {
        if (*page->at == '<') {
            page->at++;
            good = markup_tag(page);
        } else
            good = markup_content(page);
    }
    if (good && page->depth != 0) markup_fail(page, "not closed");
    return page->error;
}

#endif
