/* See image_folder_split.h. */
#include "data/image_folder_split.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"

enum {
    FIRST_BYTES = 4096, /* of a file, read for its header */
    FILE_LIMIT = 1 << 30,
    NAMED = 10, /* damaged pictures that are named one by one */
    PROBERS = 8,
    PROBER_FILES = 256 /* files that are worth another thread */
};

static char *path_of(const struct image_folder_split *split, const char *path) {
    return *split->base ? folder_path(split->base, path) : mem_text(path);
}

char *image_folder_split_file(const struct image_folder_split *split, int64_t index) {
    return path_of(split, split->sample[index].path);
}

/* --- headers --- */

struct probe {
    struct image_folder_split *split;
    struct picture_header *header; /* of each file */
    atomic_size_t next;
};

/* At most `bytes` of a file; less where it is shorter. -1: errno says why. */
static ssize_t read_some(int fd, unsigned char *to, size_t bytes) {
    size_t done = 0;
    while (done < bytes) {
        ssize_t count = read(fd, to + done, bytes - done);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        if (count == 0) break;
        done += (size_t)count;
    }
    return (ssize_t)done;
}

static bool open_picture(const struct image_folder_split *split, const char *path, int *fd,
                         char why[PICTURE_WHY_BYTES]) {
    SCOPED_FREE char *full = path_of(split, path);
    *fd = open(full, O_RDONLY | O_CLOEXEC);
    if (*fd < 0) snprintf(why, PICTURE_WHY_BYTES, "%s", strerror(errno));
    return *fd >= 0;
}

/* The header is mostly in the first bytes; where a camera's notes come before it, the whole file is
 * read. */
static bool probe_open(int fd, int64_t bytes, struct picture_header *out,
                       char why[PICTURE_WHY_BYTES]) {
    unsigned char first[FIRST_BYTES], *whole = NULL;
    bool more = false, good = false;
    ssize_t count = read_some(fd, first, sizeof first);
    if (count >= 0) good = picture_probe(first, (size_t)count, (size_t)bytes, out, &more, why);
    if (more && bytes > count) {
        whole = mem_new((size_t)bytes);
        memcpy(whole, first, (size_t)count);
        ssize_t rest = read_some(fd, whole + count, (size_t)(bytes - count));
        count = rest < 0 ? rest : count + rest;
        if (count >= 0) good = picture_probe(whole, (size_t)count, (size_t)count, out, &more, why);
    }
    if (count < 0) snprintf(why, PICTURE_WHY_BYTES, "%s", strerror(errno));
    free(whole);
    return good;
}

static bool probe_file(const struct image_folder_split *split, const struct image_folder_file *file,
                       struct picture_header *out, char why[PICTURE_WHY_BYTES]) {
    int fd;
    if (file->bytes > FILE_LIMIT) {
        snprintf(why, PICTURE_WHY_BYTES, "%lld bytes, more than the limit of %d",
                 (long long)file->bytes, FILE_LIMIT);
        return false;
    }
    if (!open_picture(split, file->path, &fd, why)) return false;
    bool good = probe_open(fd, file->bytes, out, why);
    close(fd);
    return good;
}

static void *prober(void *argument) {
    struct probe *probe = argument;
    struct image_folder_files *files = &probe->split->files;
    size_t i;
    while ((i = atomic_fetch_add(&probe->next, 1)) < files->count) {
        struct image_folder_file *file = &files->file[i];
        char why[PICTURE_WHY_BYTES] = "";
        if (!file->why && !probe_file(probe->split, file, &probe->header[i], why))
            file->why = mem_text(why); /* kept until the files are given back */
    }
    return NULL;
}

/* This thread is one of them; more where there are enough files and the system gives them. */
static void probe_all(struct probe *probe) {
    pthread_t thread[PROBERS];
    int started = 0, wanted = (int)(probe->split->files.count / PROBER_FILES);
    if (wanted > PROBERS) wanted = PROBERS;
    while (started < wanted && thread_try(&thread[started], prober, probe) == 0) started++;
    prober(probe);
    for (int t = 0; t < started; t++) pthread_join(thread[t], NULL);
}

/* --- damage --- */

static enum status fail_damaged(const struct image_folder_split *split, const char *path,
                                const char *why) {
    SCOPED_FREE char *full = path_of(split, path);
    return fail(STATUS_DATA, "%s: damaged picture: %s\n  --damaged skip leaves such pictures out",
                full, why);
}

static void warn_damaged(const struct image_folder_split *split, const char *path,
                         const char *why) {
    SCOPED_FREE char *full = path_of(split, path);
    log_warning("%s: damaged picture, skipped: %s", full, why);
}

/* For messages about all files; files given by name have no folder. */
static const char *whole_name(const struct image_folder_split *split) {
    return *split->base ? split->base : "--input";
}

/* In the order of the files, so that every rank names the same. */
static enum status judge_files(bool skip, struct image_folder_split *split) {
    for (size_t i = 0; i < split->files.count; i++) {
        const struct image_folder_file *file = &split->files.file[i];
        if (!file->why) continue;
        if (!skip) return fail_damaged(split, file->path, file->why);
        if (split->damaged++ < NAMED) warn_damaged(split, file->path, file->why);
    }
    if (split->damaged > NAMED)
        log_warning("%s: %lld more damaged pictures, skipped", whole_name(split),
                    (long long)(split->damaged - NAMED));
    if (split->damaged == (int64_t)split->files.count)
        return fail(STATUS_DATA, "%s: all %lld pictures are damaged", whole_name(split),
                    (long long)split->damaged);
    return STATUS_OK;
}

/* --- opening --- */

static void most(size_t value, size_t *so_far) {
    if (value > *so_far) *so_far = value;
}

static void keep_samples(struct image_folder_split *split, const struct picture_header *header,
                         struct image_folder_room *room) {
    split->sample = MEM_ARRAY(struct image_folder_sample, split->files.count);
    for (size_t i = 0; i < split->files.count; i++) {
        const struct image_folder_file *file = &split->files.file[i];
        if (file->why) continue;
        struct image_folder_sample *sample = &split->sample[split->count++];
        sample->path = file->path;
        sample->label = file->label;
        sample->height = header[i].height;
        sample->width = header[i].width;
        most((size_t)file->bytes, &room->file_bytes);
        most(header[i].decoder_bytes, &room->decoder_bytes);
    }
}

enum status image_folder_split_open(struct image_folder_split *split, bool skip,
                                    struct image_folder_room *room) {
    struct probe probe = {.split = split,
                          .header = MEM_ARRAY(struct picture_header, split->files.count)};
    for (size_t i = 0; i < split->files.count; i++) {
        struct image_folder_file *file = &split->files.file[i];
        if (file->why) file->why = mem_text(file->why); /* so that all are given back alike */
    }
    probe_all(&probe);
    enum status status = judge_files(skip, split);
    if (status == STATUS_OK) keep_samples(split, probe.header, room);
    free(probe.header);
    return status;
}

void image_folder_split_free(struct image_folder_split *split) {
    for (size_t i = 0; i < split->files.count; i++) free((char *)split->files.file[i].why);
    image_folder_files_free(&split->files);
    free(split->sample);
    free(split->base);
}

/* --- decoding --- */

static size_t whole_lines(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

/* Room for a file and one byte more, which tells that it grew. */
static size_t file_room(const struct image_folder_room *room) {
    return whole_lines(room->file_bytes + 1);
}

size_t image_folder_room_bytes(const struct image_folder_room *room) {
    return file_room(room) + whole_lines(room->decoder_bytes) + whole_lines(room->transform_bytes);
}

void image_folder_room_transform(struct image_folder_room *room,
                                 const struct image_folder_sample *sample,
                                 const struct augment *augment) {
    most(transform_bytes(sample->height, sample->width, augment->out_height, augment->out_width),
         &room->transform_bytes);
}

/* The whole file into the scratch; one that is longer than at the start is not the same. */
static bool read_file(const struct image_folder_room *room, const struct image_folder_split *split,
                      const struct image_folder_sample *sample, struct picture_reading *reading,
                      unsigned char *to) {
    int fd;
    if (!open_picture(split, sample->path, &fd, reading->why)) return false;
    ssize_t count = read_some(fd, to, room->file_bytes + 1);
    if (count < 0) snprintf(reading->why, sizeof reading->why, "%s", strerror(errno));
    if (count > (ssize_t)room->file_bytes)
        snprintf(reading->why, sizeof reading->why, "it changed since the run began");
    close(fd);
    reading->data = to;
    reading->count = (size_t)count;
    return count >= 0 && count <= (ssize_t)room->file_bytes;
}

bool image_folder_split_decode(const struct image_folder_split *split,
                               const struct image_folder_sample *sample,
                               const struct augment *augment, uint64_t key,
                               const struct image_folder_room *room, char *scratch,
                               struct picture_reading *reading) {
    char *decoder = scratch + file_room(room),
         *transform = decoder + whole_lines(room->decoder_bytes);
    *reading = (struct picture_reading){.augment = augment,
                                        .key = key,
                                        .memory = {decoder, room->decoder_bytes, 0},
                                        .transform_memory = transform,
                                        .transform_bytes = room->transform_bytes};
    return read_file(room, split, sample, reading, (unsigned char *)scratch) &&
           picture_read(reading);
}

enum status image_folder_split_damaged(const struct image_folder_split *split,
                                       struct image_folder_sample *sample, bool skip,
                                       const char *why) {
    bool said =
        atomic_exchange(&sample->said, true); /* it may be read again, and ahead of its use */
    if (!skip) return said ? STATUS_DATA : fail_damaged(split, sample->path, why);
    if (!said) warn_damaged(split, sample->path, why);
    return STATUS_OK;
}
