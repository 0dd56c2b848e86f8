/* The files of a folder of pictures: classes, and the pictures of one split with their labels.
 *
 * Order is torchvision's ImageFolder's: classes by name, then folders, then files. What is there
 * but cannot be a picture (a folder called x.jpg, a link that leads nowhere or back) is in the list
 * too, with the reason. */
#ifndef DATA_IMAGE_FOLDER_LIST_H
#define DATA_IMAGE_FOLDER_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

struct image_folder_classes {
    int64_t count;
    const char **folder; /* of each class; NULL: classes are numbers */
    const char **name;   /* for people; NULL: likewise */
    struct arena arena;  /* of all texts */
};

struct image_folder_file {
    const char *path; /* below the split's folder */
    const char *why;  /* it cannot be a picture; NULL: it may be one */
    int64_t bytes;
    int32_t label;
};

struct image_folder_files {
    struct image_folder_file *file; /* owned */
    size_t count, capacity;
    struct arena arena; /* of the paths and reasons */
};

/* As the name of a split: the classes are in ROOT itself. */
#define FOLDER_HERE "."

/* Local, blocking. Whether a folder in ROOT has a picture right in it, by its name. */
bool image_folder_has_classes(const char *root);

/* Local, blocking. Classes of ROOT: from ROOT/classes.txt, one a line, the folder's name and
 * perhaps a name for people after it; else the sub-folders of ROOT/train, by name; none where
 * ROOT/TRAIN.txt lists the pictures. The caller frees *out, also on failure. */
enum status image_folder_classes_read(const char *root, const char *train,
                                      struct image_folder_classes *out);
void image_folder_classes_free(struct image_folder_classes *classes);

/* Local, blocking. The pictures of ROOT/SPLIT: those of ROOT/SPLIT.txt, lines of a path below
 * ROOT/SPLIT and a class (its number or its folder's name), or else all in the folders of the
 * classes. Where classes have no names their count grows with the labels. The caller frees *out,
 * also on failure. */
enum status image_folder_files_read(const char *root, const char *split,
                                    struct image_folder_classes *classes,
                                    struct image_folder_files *out);
/* Local, blocking. Pictures without classes: all in a folder, at any depth, by path; or files by
 * name, with commas between, in this order. *base is what the paths are below, the caller's; "":
 * they are whole. The caller frees *out, also on failure. */
enum status image_folder_loose_read(const char *paths, char **base, struct image_folder_files *out);
void image_folder_files_free(struct image_folder_files *files);

#endif
