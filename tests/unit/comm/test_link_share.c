/* comm_link_share: every rank gets the value of every rank, by a number of messages that grows with
 * the ranks, not with their pairs. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "comm/link_share.h"

/* --- a link between threads --- */

enum { PAIRS = 1024 };

struct board {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        char *key;
        struct bytes value;
    } pair[PAIRS];
    int count, messages;
    size_t longest;
};

static enum status board_put(void *context, const char *key, const void *value, size_t bytes) {
    struct board *board = context;
    pthread_mutex_lock(&board->lock);
    cr_assert(board->count < PAIRS && bytes <= COMM_LINK_VALUE_BYTES);
    board->pair[board->count].key = mem_text(key);
    board->pair[board->count++].value =
        (struct bytes){memcpy(mem_new(bytes + 1), value, bytes), bytes};
    board->messages++;
    if (bytes > board->longest) board->longest = bytes;
    pthread_cond_broadcast(&board->changed);
    pthread_mutex_unlock(&board->lock);
    return STATUS_OK;
}

static int find(const struct board *board, const char *key) {
    for (int i = 0; i < board->count; i++)
        if (strcmp(board->pair[i].key, key) == 0) return i;
    return -1;
}

static enum status board_get(void *context, const char *key, void **value, size_t *bytes) {
    struct board *board = context;
    int at;
    pthread_mutex_lock(&board->lock);
    while ((at = find(board, key)) < 0) pthread_cond_wait(&board->changed, &board->lock);
    *bytes = board->pair[at].value.count;
    *value = memcpy(mem_new(*bytes + 1), board->pair[at].value.data, *bytes);
    board->messages++;
    pthread_mutex_unlock(&board->lock);
    return STATUS_OK;
}

static void board_free(struct board *board) {
    for (int i = 0; i < board->count; i++) {
        free(board->pair[i].key);
        bytes_free(&board->pair[i].value);
    }
}

/* --- ranks --- */

struct sharer {
    struct board *board;
    int index, count;
    size_t bytes;
    bool right;
};

/* Of another length for every rank; the last one's is empty. */
static size_t length_of(const struct sharer *sharer, int index) {
    return index == sharer->count - 1 ? 0 : sharer->bytes + (size_t)index;
}

static bool is_value_of(const struct sharer *sharer, int index, const struct bytes *value) {
    bool same = value->count == length_of(sharer, index);
    for (size_t i = 0; same && i < value->count; i++)
        same = value->data[i] == (unsigned char)(index + (int)i);
    return same;
}

static void *share(void *argument) {
    struct sharer *sharer = argument;
    struct comm_link link = {.context = sharer->board, .put = board_put, .get = board_get};
    struct bytes own = {mem_new(sharer->bytes + 1000), length_of(sharer, sharer->index)};
    for (size_t i = 0; i < own.count; i++) own.data[i] = (unsigned char)(sharer->index + (int)i);
    struct bytes *all = MEM_ARRAY(struct bytes, sharer->count);
    sharer->right =
        comm_link_share(&link, "key", sharer->index, sharer->count, &own, all) == STATUS_OK;
    for (int i = 0; i < sharer->count && sharer->right; i++)
        sharer->right = is_value_of(sharer, i, &all[i]);
    comm_link_share_free(all, sharer->count);
    free(all);
    bytes_free(&own);
    return NULL;
}

static void share_all(struct board *board, int count, size_t bytes) {
    pthread_t thread[64];
    struct sharer sharer[64];
    pthread_mutex_init(&board->lock, NULL);
    pthread_cond_init(&board->changed, NULL);
    for (int i = 0; i < count; i++) {
        sharer[i] = (struct sharer){.board = board, .index = i, .count = count, .bytes = bytes};
        cr_assert_eq(pthread_create(&thread[i], NULL, share, &sharer[i]), 0);
    }
    for (int i = 0; i < count; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < count; i++) cr_expect(sharer[i].right, "rank %d of %d", i, count);
}

Test(comm_link_share, all_get_all_and_messages_are_linear, .timeout = 60) {
    static const int counts[] = {1, 2, 7, 64};
    for (int c = 0; c < 4; c++) {
        struct board board = {.count = 0};
        share_all(&board, counts[c], 100);
        cr_expect(board.messages <= 3 * counts[c], "%d messages of %d ranks", board.messages,
                  counts[c]);
        board_free(&board);
    }
}

Test(comm_link_share, what_a_link_does_not_take_at_once_goes_in_parts, .timeout = 60) {
    struct board board = {.count = 0};
    share_all(&board, 5, 700 * 1000);
    cr_expect_eq(board.longest, COMM_LINK_VALUE_BYTES);
    board_free(&board);
}

/* --- a first rank that publishes nonsense --- */

struct nonsense {
    const unsigned char *data;
    size_t bytes;
};

static enum status take_anything(void *context, const char *key, const void *value, size_t bytes) {
    (void)context, (void)key, (void)value, (void)bytes;
    return STATUS_OK;
}

static enum status give_nonsense(void *context, const char *key, void **value, size_t *bytes) {
    const struct nonsense *nonsense = context;
    (void)key;
    *bytes = nonsense->bytes;
    *value = memcpy(mem_new(*bytes + 1), nonsense->data, *bytes);
    return STATUS_OK;
}

Test(comm_link_share, damaged_values_are_refused) {
    const uint64_t rows[][4] = {
        {0, 0, 0, 0},           /* all of no length */
        {32, 8, 0, 9},          /* the second value is longer than what is left */
        {32, 0, 0, 0},          /* more than two values */
        {32, UINT64_MAX, 0, 0}, /* overflows */
        {UINT64_MAX, 0, 0, 0},  /* no memory holds them */
    };
    struct bytes own = {(unsigned char *)"x", 1}, all[2];
    char text[512] = "";
    for (int i = 0; i < 5; i++)
        for (size_t bytes = 0; bytes <= 32; bytes += 4) {
            struct nonsense nonsense = {(const unsigned char *)rows[i], bytes};
            struct comm_link link = {
                .context = &nonsense, .put = take_anything, .get = give_nonsense};
            log_capture(text, sizeof text);
            enum status status = comm_link_share(&link, "key", 1, 2, &own, all);
            log_capture(NULL, 0);
            cr_expect_eq(status, STATUS_BUG, "row %d, %zu bytes", i, bytes);
            cr_expect(strstr(text, "damaged"), "%s", text);
            comm_link_share_free(all, 2);
        }
}
