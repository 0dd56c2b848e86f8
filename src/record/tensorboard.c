/* Framing and messages of event files.
 *
 *   record: u64 length | u32 masked CRC of the length | message | u32 masked CRC of the message
 *   Event: wall_time = 1 (double), step = 2 (varint), file_version = 3 (text), summary = 5,
 * session_log = 7 Summary: value = 1;  Value: tag = 1 (text), simple_value = 2 (float); SessionLog:
 * status = 1 (START is 1)
 *
 * A resumed run opens a file of its own. Its START record makes readers drop the steps that will be
 * run again; editing the older files was rejected: a TensorBoard that is reading them would lose
 * its place. */
#include "record/tensorboard.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"

static const char prefix[] = "events.out.tfevents.";
static const int64_t flush_every_ns = 2000000000;

struct tensorboard {
    FILE *stream;
    char *path;
    int64_t flushed_ns;
};

/* A message under construction. Callers bound what they put: see the sizes in the header. */
struct message {
    unsigned char *data;
    size_t count;
};

static void put_bytes(struct message *message, const void *data, size_t bytes) {
    memcpy(message->data + message->count, data, bytes);
    message->count += bytes;
}

static void put_varint(struct message *message, uint64_t value) {
    for (; value >= 0x80; value >>= 7)
        message->data[message->count++] = (unsigned char)(value | 0x80);
    message->data[message->count++] = (unsigned char)value;
}

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_key(struct message *message, unsigned field, enum wire wire) {
    put_varint(message, field << 3 | (unsigned)wire);
}

static void put_block(struct message *message, unsigned field, const void *data, size_t bytes) {
    put_key(message, field, WIRE_BYTES);
    put_varint(message, bytes);
    put_bytes(message, data, bytes);
}

static uint32_t masked_crc(const void *data, size_t bytes) {
    uint32_t crc = crc32c(0, data, bytes);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/* Frames what `event` holds after its first 12 bytes, which were left free for the length and its
 * CRC. */
static size_t frame(struct message *event) {
    uint64_t length = event->count - 12;
    uint32_t length_crc = masked_crc(&length, sizeof length);
    uint32_t data_crc = masked_crc(event->data + 12, (size_t)length);
    memcpy(event->data, &length, 8);
    memcpy(event->data + 8, &length_crc, 4);
    put_bytes(event, &data_crc, 4);
    return event->count;
}

static struct message event_begin(unsigned char *out, double wall_s) {
    struct message event = {out, 12};
    put_key(&event, 1, WIRE_64);
    put_bytes(&event, &wall_s, sizeof wall_s);
    return event;
}

static void put_step(struct message *event, int64_t step) {
    if (step == 0) return; /* the default is never written */
    put_key(event, 2, WIRE_VARINT);
    put_varint(event, (uint64_t)step);
}

size_t tensorboard_encode_version(double wall_s, unsigned char out[TENSORBOARD_RECORD_BYTES]) {
    struct message event = event_begin(out, wall_s);
    put_block(&event, 3, "brain.Event:2", 13);
    return frame(&event);
}

size_t tensorboard_encode_start(double wall_s, int64_t step,
                                unsigned char out[TENSORBOARD_RECORD_BYTES]) {
    struct message event = event_begin(out, wall_s);
    put_step(&event, step);
    put_block(&event, 7, (unsigned char[]){1 << 3 | WIRE_VARINT, 1}, 2);
    return frame(&event);
}

size_t tensorboard_encode_scalar(double wall_s, int64_t step, const char *tag, float value,
                                 unsigned char out[TENSORBOARD_RECORD_BYTES]) {
    unsigned char value_data[TENSORBOARD_TAG_BYTES + 16], summary_data[TENSORBOARD_TAG_BYTES + 24];
    struct message item = {value_data, 0}, summary = {summary_data, 0};
    put_block(&item, 1, tag, strnlen(tag, TENSORBOARD_TAG_BYTES));
    put_key(&item, 2, WIRE_32);
    put_bytes(&item, &value, sizeof value);
    put_block(&summary, 1, item.data, item.count);
    struct message event = event_begin(out, wall_s);
    put_step(&event, step);
    put_block(&event, 5, summary.data, summary.count);
    return frame(&event);
}

static void put_real(struct message *message, unsigned field, double value) {
    put_key(message, field, WIRE_64);
    put_bytes(message, &value, sizeof value);
}

/* HistogramProto: least, most, how many, sum, sum of squares; then the upper ends of buckets, and
 * what is in each. A number has a bucket of its own. */
static void put_histogram(struct message *histogram, const int64_t *count, int numbers) {
    double least = -1, most = 0, all = 0, sum = 0, squares = 0;
    for (int i = 0; i < numbers; i++) {
        if (count[i] > 0 && least < 0) least = i;
        if (count[i] > 0) most = i;
        all += (double)count[i];
        sum += (double)count[i] * i;
        squares += (double)count[i] * i * i;
    }
    const double heads[] = {least < 0 ? 0 : least, most, all, sum, squares};
    for (unsigned h = 0; h < 5; h++) put_real(histogram, h + 1, heads[h]);
    put_key(histogram, 6, WIRE_BYTES);
    put_varint(histogram, (uint64_t)numbers * sizeof(double));
    for (int i = 0; i < numbers; i++) put_bytes(histogram, &(double){i + 0.5}, sizeof(double));
    put_key(histogram, 7, WIRE_BYTES);
    put_varint(histogram, (uint64_t)numbers * sizeof(double));
    for (int i = 0; i < numbers; i++)
        put_bytes(histogram, &(double){(double)count[i]}, sizeof(double));
}

size_t tensorboard_encode_histogram(double wall_s, int64_t step, const char *tag,
                                    const int64_t *count, int numbers, unsigned char *out) {
    size_t room = TENSORBOARD_RECORD_BYTES + 64 * (size_t)numbers;
    SCOPED_FREE unsigned char *histogram_data = mem_new(room), *item_data = mem_new(room),
                              *summary_data = mem_new(room);
    struct message histogram = {histogram_data, 0}, item = {item_data, 0},
                   summary = {summary_data, 0};
    put_histogram(&histogram, count, numbers);
    put_block(&item, 1, tag, strnlen(tag, TENSORBOARD_TAG_BYTES));
    put_block(&item, 5, histogram.data, histogram.count);
    put_block(&summary, 1, item.data, item.count);
    struct message event = event_begin(out, wall_s);
    put_step(&event, step);
    put_block(&event, 5, summary.data, summary.count);
    return frame(&event);
}

/* The seconds in the newest event file's name, 0 when there is none. Readers take files in the
 * order of their names, so ours must be later even when a run is resumed within the second. */
static long long newest_seconds(const char *folder) {
    long long newest = 0;
    DIR *open_folder = opendir(folder);
    for (struct dirent *entry; open_folder && (entry = readdir(open_folder));) {
        if (strncmp(entry->d_name, prefix, sizeof prefix - 1) != 0) continue;
        long long seconds = strtoll(entry->d_name + sizeof prefix - 1, NULL, 10);
        if (seconds > newest && seconds < 9999999999) newest = seconds;
    }
    if (open_folder) closedir(open_folder);
    return newest;
}

static char *new_path(const char *folder) {
    static int number; /* the second file of a process in the same second needs another name */
    char host[256] = "host";
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == 0 || strchr(host, '/'))
        snprintf(host, sizeof host, "host");
    long long seconds = (long long)clock_wall_s(), newest = newest_seconds(folder);
    if (seconds <= newest) seconds = newest + 1;
    return mem_format("%s/%s%010lld.%s.%d.%d", folder, prefix, seconds, host, (int)getpid(),
                      number++);
}

static enum status put(struct tensorboard *board, const unsigned char *record, size_t bytes) {
    if (fwrite(record, 1, bytes, board->stream) == bytes) return STATUS_OK;
    return fail(STATUS_DATA, "%s: write failed: %s", board->path, strerror(errno));
}

enum status tensorboard_open(const char *folder, int64_t first_step, struct tensorboard **out) {
    SCOPED(tensorboard_close) struct tensorboard *board = MEM_NEW(struct tensorboard);
    board->path = new_path(folder);
    board->stream = fopen(board->path, "wbxe");
    if (!board->stream)
        return fail(STATUS_DATA, "%s: cannot write: %s", board->path, strerror(errno));
    unsigned char record[TENSORBOARD_RECORD_BYTES];
    TRY(put(board, record, tensorboard_encode_version(clock_wall_s(), record)));
    if (first_step > 0)
        TRY(put(board, record, tensorboard_encode_start(clock_wall_s(), first_step, record)));
    TRY(tensorboard_flush(board));
    *out = board;
    board = NULL;
    return STATUS_OK;
}

enum status tensorboard_scalar(struct tensorboard *board, double wall_s, int64_t step,
                               const char *tag, float value) {
    unsigned char record[TENSORBOARD_RECORD_BYTES];
    TRY(put(board, record, tensorboard_encode_scalar(wall_s, step, tag, value, record)));
    return clock_ns() - board->flushed_ns < flush_every_ns ? STATUS_OK : tensorboard_flush(board);
}

enum status tensorboard_histogram(struct tensorboard *board, double wall_s, int64_t step,
                                  const char *tag, const int64_t *count, int numbers) {
    SCOPED_FREE unsigned char *record = mem_new(TENSORBOARD_RECORD_BYTES + 64 * (size_t)numbers);
    return put(board, record,
               tensorboard_encode_histogram(wall_s, step, tag, count, numbers, record));
}

enum status tensorboard_flush(struct tensorboard *board) {
    board->flushed_ns = clock_ns();
    if (fflush(board->stream) == 0) return STATUS_OK;
    return fail(STATUS_DATA, "%s: write failed: %s", board->path, strerror(errno));
}

enum status tensorboard_close(struct tensorboard **board) {
    enum status status = STATUS_OK;
    if (!*board) return status;
    bool said = (*board)->stream && ferror((*board)->stream);
    if (said) status = STATUS_DATA;
    if ((*board)->stream && fclose((*board)->stream) != 0 && !said)
        status = fail(STATUS_DATA, "%s: write failed: %s", (*board)->path, strerror(errno));
    free((*board)->path);
    free(*board);
    *board = NULL;
    return status;
}
