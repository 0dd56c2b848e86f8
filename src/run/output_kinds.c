/* What a file is, by its content: names lie. Only as much is looked at as tells one kind from
 * another; a file that is damaged further on is still one of its kind. */
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/file.h"
#include "planned/planned_search.h"
#include "run/outputs.h"

enum { HEAD_BYTES = 4096 };

/* The first bytes of a file, a zero behind them. */
struct head {
    const char *path;
    char text[HEAD_BYTES + 1];
    size_t count;
    uint64_t total; /* bytes of the file */
};

static bool begins(const struct head *head, const char *text) {
    return strncmp(head->text, text, strlen(text)) == 0;
}

static bool has(const struct head *head, const char *text) {
    return strstr(head->text, text) != NULL;
}

/* Whether it is a JSON object with these keys, NULL behind the last. */
static bool has_keys(const struct head *head, const char *const *keys) {
    json_auto_t *root = begins(head, "{") ? json_load_file(head->path, 0, NULL) : NULL;
    bool is = json_is_object(root);
    for (; *keys; keys++) is &= json_object_get(root, *keys) != NULL;
    return is;
}

static bool is_profile(const struct head *head) {
    return has_keys(head, (const char *const[]){"check", "format", "sections", NULL});
}

static bool is_svg(const struct head *head) {
    return begins(head, "<svg xmlns=\"http://www.w3.org/2000/svg\"") &&
           has(head, "role=\"img\">\n<title>");
}

/* The report of a run has the same title, and another header. */
static bool is_page(const struct head *head) {
    return begins(head, "<!DOCTYPE html>\n") && has(head, " - Stretto</title>") &&
           has(head, "<main>\n<header>\n<h1>");
}

static bool is_config(const struct head *head) {
    return begins(head, PLANNED_CONFIG_LINE);
}

static bool is_results(const struct head *head) {
    return has_keys(head, (const char *const[]){"model", "data", "split", "weights", "samples",
                                                "loss_terms", NULL});
}

static bool is_classes(const struct head *head) {
    return begins(head, "class,name,samples,right,recall,precision");
}

/* Scores are f32 of [samples, classes] or [samples, rows, classes], classes i64 of the same without
 * the last: pictures, and bytes, are somebody's data. */
static bool is_array(const struct head *head) {
    enum { PREFIX = 10 }; /* magic, version, length of the header */
    const char *text = head->text + PREFIX, *shape = strstr(text, "'shape': (");
    bool scores = strstr(text, "'descr': '<f4'"), classes = strstr(text, "'descr': '<i8'");
    int rank = 0;
    if (!begins(head, "\x93NUMPY") || head->count <= PREFIX || !shape) return false;
    for (const char *at = strchr(shape, '('); *at && *at != ')'; at++)
        rank += strchr("( ", *at) && at[1] >= '0' && at[1] <= '9';
    return (scores && (rank == 2 || rank == 3)) || (classes && (rank == 1 || rank == 2));
}

static bool is_lines(const struct head *head) {
    static const char *const keys[] = {"\"file\":", "\"class\":", "\"classes\":[", "\"damaged\":"};
    static const char first[] = "{\"index\":";
    const char *at = head->text + sizeof first - 1;
    if (!begins(head, first)) return false;
    size_t digits = strspn(at, "0123456789");
    bool is = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        is |= digits > 0 && at[digits] == ',' &&
              strncmp(at + digits + 1, keys[i], strlen(keys[i])) == 0;
    return is;
}

static bool is_tensors(const struct head *head) {
    uint64_t header = 0;
    for (int i = 7; i >= 0; i--) header = header << 8 | (unsigned char)head->text[i];
    return head->count > 8 && head->text[8] == '{' && header <= head->total - 8;
}

static bool is_tokens(const struct head *head) {
    return begins(head, "STRETTOK");
}

static const struct {
    const char *words;
    bool (*is)(const struct head *head);
} kinds[OUTPUT_KINDS] = {
#define OUTPUT(KIND, words, is) {words, is},
#include "run/output_kinds.def"
};

const char *outputs_words(enum output_kind kind) {
    return kinds[kind].words;
}

bool outputs_is_new(enum output_kind kind) {
    return kinds[kind].is == NULL;
}

static enum status read_head(const char *path, struct head *out) {
    SCOPED(file_reader_close) struct file_reader reader = {.fd = -1};
    *out = (struct head){.path = path};
    TRY(file_reader_open(path, &reader));
    out->total = reader.total;
    out->count = reader.total < HEAD_BYTES ? (size_t)reader.total : HEAD_BYTES;
    return file_read_at(&reader, 0, out->text, out->count);
}

static bool is_kind(int kind, const struct head *head) {
    return kinds[kind].is && kinds[kind].is(head);
}

enum status outputs_kind_of(const char *path, enum output_kind wanted, enum output_kind *out) {
    struct head head;
    int kind = 0;
    TRY(read_head(path, &head));
    while (kind < OUTPUT_KINDS && !is_kind(kind, &head)) kind++;
    *out = is_kind(wanted, &head) ? wanted : (enum output_kind)kind;
    return STATUS_OK;
}
