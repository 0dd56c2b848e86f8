/* The pictures of one split of a folder: what their headers say, and the decoding of one.
 *
 * All headers are read when it is opened: so the memory that decoding takes is known before the
 * start, and what is no picture shows then. That costs one short read a file, spread over threads.
 * Rejected: decoding everything once (an hour for ImageNet), and finding out at the first epoch. */
#ifndef DATA_IMAGE_FOLDER_SPLIT_H
#define DATA_IMAGE_FOLDER_SPLIT_H

#include <stdatomic.h>

#include "data/image_folder_list.h"
#include "data/picture.h"

/* One picture that is a sample. */
struct image_folder_sample {
    const char *path; /* below the split's folder */
    int32_t label;
    int32_t height, width;
    atomic_bool said; /* that it is damaged */
};

struct image_folder_split {
    char *base; /* path of its folder, owned; "": paths are whole */
    struct image_folder_files files;
    struct image_folder_sample *sample; /* owned */
    int64_t count, damaged;
};

/* The most that any picture needs. */
struct image_folder_room {
    size_t file_bytes, decoder_bytes, transform_bytes;
};

/* Local, blocking. Reads the headers of the split's files, which are listed: those that are
 * pictures become its samples, and the room grows with what they need but for transform_bytes. A
 * damaged one is an error, or with `skip` left out, counted and named. */
enum status image_folder_split_open(struct image_folder_split *split, bool skip,
                                    struct image_folder_room *room);
void image_folder_split_free(struct image_folder_split *split);

/* Local. Bytes of scratch for one picture. */
size_t image_folder_room_bytes(const struct image_folder_room *room);
void image_folder_room_transform(struct image_folder_room *room,
                                 const struct image_folder_sample *sample,
                                 const struct augment *augment);

/* Local, blocking, thread safe. Decodes a picture in `scratch`, 64-byte aligned, so that
 * transform_end of *reading gives the image. False: reading->why says what is wrong. */
bool image_folder_split_decode(const struct image_folder_split *split,
                               const struct image_folder_sample *sample,
                               const struct augment *augment, uint64_t key,
                               const struct image_folder_room *room, char *scratch,
                               struct picture_reading *reading);
/* Local, thread safe. Names a picture whose decoding failed, once. STATUS_OK with `skip`. */
enum status image_folder_split_damaged(const struct image_folder_split *split,
                                       struct image_folder_sample *sample, bool skip,
                                       const char *why);

/* Local. The path of a sample's file; the caller frees it. */
char *image_folder_split_file(const struct image_folder_split *split, int64_t index);

#endif
