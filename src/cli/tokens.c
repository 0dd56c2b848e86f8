/* stretto tokens TRAIN.txt [TEST.txt] DIR: text to the files that --data tokens:DIR reads. A token
 * is a byte, so that any text in any language has a vocabulary of 256 and nothing is lost. Without
 * a text to test on, the last tenth is taken for it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/shown.h"
#include "cli/cli.h"
#include "data/tokens.h"
#include "run/outputs.h"

enum { BYTE_TOKENS = 256, CHUNK = 1 << 16, TEST_PART = 10 };

static enum status write_all(struct file_writer *writer, const unsigned char *text, size_t count) {
    struct tokens_header header = {
        .width = tokens_width(BYTE_TOKENS), .count = count, .vocab = BYTE_TOKENS};
    unsigned char first[TOKENS_HEADER_BYTES], wide[2 * CHUNK];
    tokens_header_write(&header, first);
    TRY(file_write(writer, first, sizeof first));
    for (size_t at = 0; at < count;) {
        size_t part = count - at < CHUNK ? count - at : CHUNK;
        for (size_t i = 0; i < part; i++) wide[2 * i] = text[at + i], wide[2 * i + 1] = 0;
        TRY(file_write(writer, wide, 2 * part));
        at += part;
    }
    return STATUS_OK;
}

struct part {
    const char *name;
    const unsigned char *text;
    size_t count;
    struct file_writer writer;
    bool begun;
};

static enum status write_part(const char *folder, struct part *part) {
    SCOPED_FREE char *path = mem_format("%s/%s", folder, part->name);
    TRY(file_begin(path, &part->writer));
    part->begun = true;
    TRY(write_all(&part->writer, part->text, part->count));
    if (fflush(part->writer.stream) == 0) return STATUS_OK;
    return fail(STATUS_DATA, "%s: write failed: %s", part->writer.path, strerror(errno));
}

/* Both are whole before either gets its name: no split is left with another text's. */
static enum status write_parts(const char *folder, struct part *parts, int count) {
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++) status = write_part(folder, &parts[i]);
    for (int i = 0; i < count && parts[i].begun; i++) {
        if (status != STATUS_OK)
            file_abandon(&parts[i].writer);
        else if ((status = file_commit(&parts[i].writer)) == STATUS_OK)
            shown_print(stdout, "%s/%s: %zu tokens\n", folder, parts[i].name, parts[i].count);
    }
    return status;
}

/* A data set that took hours may be there. */
static enum status check_free(const struct options *options, const char *folder) {
    static const char *const names[] = {"train.tokens", "test.tokens", "train.tokens.gz",
                                        "test.tokens.gz"};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !options->overwrite; i++) {
        char *path = mem_format("%s/%s", folder, names[i]);
        bool there = file_exists(path);
        free(path);
        if (there)
            return fail(STATUS_USAGE,
                        "%s holds a data set: %s is there\n  --overwrite replaces it, or name "
                        "another folder",
                        folder, names[i]);
    }
    return STATUS_OK;
}

/* Whether both files may be written; with --overwrite older ones are there. */
static enum status check_places(const struct options *options, const char *folder) {
    static const char *const names[] = {"train.tokens", "test.tokens"};
    enum status status = outputs_judge_folder(folder, "tokens");
    for (size_t i = 0; i < sizeof names / sizeof names[0] && status == STATUS_OK; i++) {
        char *path = folder_path(folder, names[i]);
        struct output output = {
            .kind = OUTPUT_TOKENS, .path = path, .label = "tokens", .folder_later = true};
        status = outputs_judge(&output, options);
        free(path);
    }
    return status;
}

enum status tokens_run(const struct options *options) {
    const char *folder = options->argument[options->argument_count - 1];
    SCOPED(bytes_free) struct bytes train = {0}, test = {0};
    bool two = options->argument_count == 3;
    TRY(check_free(options, folder));
    TRY(check_places(options, folder));
    TRY(file_read(options->argument[0], (size_t)1 << 40, &train));
    if (two) TRY(file_read(options->argument[1], (size_t)1 << 40, &test));
    size_t kept = two ? train.count : train.count - train.count / TEST_PART;
    const unsigned char *behind = two ? test.data : train.data + kept;
    size_t behind_count = two ? test.count : train.count - kept;
    if (kept == 0 || behind_count == 0)
        return fail(STATUS_DATA, "%s: %zu bytes: too little to train and to test on",
                    options->argument[0], train.count);
    TRY(folder_make(folder));
    struct part parts[] = {{.name = "train.tokens", .text = train.data, .count = kept},
                           {.name = "test.tokens", .text = behind, .count = behind_count}};
    return write_parts(folder, parts, 2);
}
