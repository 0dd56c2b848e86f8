/* See image_folder_list.h. Folders are walked by names alone; a file's size is asked of the system,
 * which also tells what is no file. Nothing is opened here. */
#include "data/image_folder_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"

enum { LIST_LIMIT = 1 << 30, MAX_DEPTH = 64, MAX_CLASSES = 1000000 };

/* --- names --- */

/* ImageFolder's. Those that are neither JPEG nor PNG show by their first bytes, later. */
static bool is_picture_name(const char *name) {
    static const char *const endings[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                          ".pgm", ".tif",  ".tiff", ".webp"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof endings[0]; i++)
        if (strcasecmp(dot, endings[i]) == 0) return true;
    return false;
}

struct names {
    const char **name;
    size_t count, capacity;
    struct arena *arena;
};

static enum status keep_name(void *context, const char *name) {
    struct names *names = context;
    if (name[0] == '.') return STATUS_OK; /* editors' and systems' own */
    names->name = mem_grow(names->name, &names->capacity, names->count + 1, sizeof names->name[0]);
    names->name[names->count++] = arena_text(names->arena, name);
    return STATUS_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names in a folder, in order; the caller frees out->name. */
static enum status names_in(const char *path, struct arena *arena, struct names *out) {
    *out = (struct names){.arena = arena};
    TRY(folder_each(path, keep_name, out));
    if (out->count) qsort(out->name, out->count, sizeof out->name[0], by_name);
    return STATUS_OK;
}

/* --- files --- */

static struct image_folder_file *add_file(struct image_folder_files *files, const char *path,
                                          int32_t label) {
    files->file = mem_grow(files->file, &files->capacity, files->count + 1, sizeof files->file[0]);
    struct image_folder_file *file = &files->file[files->count++];
    *file = (struct image_folder_file){.path = arena_text(&files->arena, path), .label = label};
    return file;
}

/* A walk through the folders of a class; `above` are those that the present one is in. */
struct walk {
    const char *base; /* the split's folder */
    struct image_folder_files *files;
    int32_t label;
    int depth;
    struct {
        dev_t device;
        ino_t number;
    } above[MAX_DEPTH];
};

static enum status walk_folder(struct walk *walk, const char *below, const struct stat *info);

static bool is_above(const struct walk *walk, const struct stat *info) {
    for (int d = 0; d < walk->depth; d++)
        if (walk->above[d].device == info->st_dev && walk->above[d].number == info->st_ino)
            return true;
    return false;
}

/* `below` is the path of something in the split's folder. */
static enum status walk_one(struct walk *walk, const char *below) {
    SCOPED_FREE char *path = mem_format("%s/%s", walk->base, below);
    bool named = is_picture_name(below);
    struct stat info;
    int error = stat(path, &info) == 0 ? 0 : errno;
    bool folder = !error && S_ISDIR(info.st_mode);
    const char *why = NULL;
    if (error && named) why = arena_text(&walk->files->arena, strerror(error));
    if (folder && named) why = "a folder";
    if (folder && !named && (is_above(walk, &info) || walk->depth == MAX_DEPTH))
        why = "a link to a folder that it is in";
    if (!error && !folder && named && !S_ISREG(info.st_mode)) why = "not a regular file";
    if (why)
        add_file(walk->files, below, walk->label)->why = why;
    else if (folder)
        TRY(walk_folder(walk, below, &info));
    else if (named)
        add_file(walk->files, below, walk->label)->bytes = (int64_t)info.st_size;
    return STATUS_OK;
}

static enum status walk_folder(struct walk *walk, const char *below, const struct stat *info) {
    struct names names;
    SCOPED(arena_free) struct arena arena = {0};
    SCOPED_FREE char *path = mem_format("%s/%s", walk->base, below);
    walk->above[walk->depth].device = info->st_dev;
    walk->above[walk->depth++].number = info->st_ino;
    enum status status = names_in(path, &arena, &names);
    for (size_t i = 0; i < names.count && status == STATUS_OK; i++) {
        SCOPED_FREE char *inner = mem_format("%s/%s", below, names.name[i]);
        status = walk_one(walk, inner);
    }
    walk->depth--;
    free(names.name);
    return status;
}

/* By folder, then by name: the order of a path is another one where a folder's name is a part of
 * another's. */
static int by_folder(const void *a, const void *b) {
    const struct image_folder_file *one = a, *two = b;
    const char *slash_one = strrchr(one->path, '/'), *slash_two = strrchr(two->path, '/');
    size_t length_one = (size_t)(slash_one - one->path),
           length_two = (size_t)(slash_two - two->path);
    size_t shorter = length_one < length_two ? length_one : length_two;
    int order = memcmp(one->path, two->path, shorter);
    if (order == 0 && length_one != length_two) order = length_one < length_two ? -1 : 1;
    return order ? order : strcmp(slash_one, slash_two);
}

static enum status walk_class(const char *base, const char *folder, int32_t label,
                              struct image_folder_files *out) {
    struct walk walk = {.base = base, .files = out, .label = label};
    char *path = mem_format("%s/%s", base, folder);
    size_t before = out->count;
    struct stat info;
    enum status status = STATUS_OK;
    if (stat(base, &info) == 0) {
        walk.above[0].device = info.st_dev;
        walk.above[walk.depth++].number = info.st_ino;
    }
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) status = walk_folder(&walk, folder, &info);
    free(path);
    if (out->count > before)
        qsort(out->file + before, out->count - before, sizeof out->file[0], by_folder);
    return status;
}

/* --- classes --- */

/* Calls `line` with each line of a text, cut into the first word and the rest ("" where there is
 * none), until one fails. Lines without a word are passed over. */
static enum status each_line(const char *path,
                             enum status (*line)(void *context, const char *path, int number,
                                                 char *word, char *rest),
                             void *context) {
    SCOPED(bytes_free) struct bytes bytes = {0};
    TRY(file_read(path, LIST_LIMIT, &bytes));
    char *text = (char *)bytes.data, *next;
    for (int number = 1; text; text = next, number++) {
        next = strchr(text, '\n');
        if (next) *next++ = 0;
        text[strcspn(text, "\r")] = 0;
        text += strspn(text, " \t");
        char *rest = text + strcspn(text, " \t");
        if (*rest) *rest++ = 0;
        rest += strspn(rest, " \t");
        if (*text) TRY(line(context, path, number, text, rest));
    }
    return STATUS_OK;
}

struct class_names {
    struct names folder, name;
};

static enum status class_line(void *context, const char *path, int number, char *word, char *rest) {
    struct class_names *names = context;
    if (word[0] == '.' || strchr(word, '/') || names->folder.count >= MAX_CLASSES)
        return fail(STATUS_DATA, "%s: line %d: '%.100s', expected the name of a folder", path,
                    number, word);
    TRY(keep_name(&names->folder, word));
    names->name.name = mem_grow(names->name.name, &names->name.capacity, names->name.count + 1,
                                sizeof names->name.name[0]);
    names->name.name[names->name.count++] = arena_text(names->name.arena, *rest ? rest : word);
    return STATUS_OK;
}

/* A name twice would give a picture two labels. */
static enum status check_once(const char *path, const struct names *names) {
    SCOPED_FREE const char **sorted = MEM_ARRAY(const char *, names->count);
    memcpy(sorted, names->name, names->count * sizeof *sorted);
    qsort(sorted, names->count, sizeof *sorted, by_name);
    for (size_t i = 1; i < names->count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return fail(STATUS_DATA, "%s: class '%.100s' is there twice", path, sorted[i]);
    return STATUS_OK;
}

static enum status classes_of_list(const char *path, struct image_folder_classes *out) {
    struct class_names names = {.folder = {.arena = &out->arena}, .name = {.arena = &out->arena}};
    enum status status = each_line(path, class_line, &names);
    if (status == STATUS_OK && names.folder.count == 0)
        status = fail(STATUS_DATA, "%s: no classes", path);
    if (status == STATUS_OK) status = check_once(path, &names.folder);
    out->folder = names.folder.name;
    out->name = names.name.name;
    out->count = (int64_t)names.folder.count;
    return status;
}

static enum status classes_of_folders(const char *path, struct image_folder_classes *out) {
    struct names names;
    size_t kept = 0;
    enum status status = names_in(path, &out->arena, &names);
    out->folder = names.name;
    for (size_t i = 0; i < names.count; i++) {
        SCOPED_FREE char *inner = mem_format("%s/%s", path, names.name[i]);
        struct stat info;
        if (stat(inner, &info) == 0 && S_ISDIR(info.st_mode)) names.name[kept++] = names.name[i];
    }
    TRY(status);
    if (kept == 0 && !file_exists(path))
        return fail(STATUS_DATA,
                    "%s: the folder to train on is not there\n"
                    "  folder:DIR,train=NAME,test=NAME names the folders of both splits",
                    path);
    if (kept == 0)
        return fail(STATUS_DATA,
                    "%s: no folders in it, one is needed for each class\n"
                    "  as in train/cat/1.jpg, val/cat/2.jpg; or a list in %s.txt",
                    path, path);
    out->name = MEM_ARRAY(const char *, kept);
    memcpy(out->name, out->folder, kept * sizeof *out->name);
    out->count = (int64_t)kept;
    return STATUS_OK;
}

static bool has_pictures(const char *path) {
    SCOPED(arena_free) struct arena arena = {0};
    struct names names;
    struct stat info;
    bool found = false;
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) return false;
    if (names_in(path, &arena, &names) != STATUS_OK) names.count = 0;
    for (size_t i = 0; i < names.count; i++) found |= is_picture_name(names.name[i]);
    free(names.name);
    return found;
}

bool image_folder_has_classes(const char *root) {
    SCOPED(arena_free) struct arena arena = {0};
    struct names names;
    bool found = false;
    if (names_in(root, &arena, &names) != STATUS_OK) names.count = 0;
    for (size_t i = 0; i < names.count && !found; i++) {
        SCOPED_FREE char *path = mem_format("%s/%s", root, names.name[i]);
        found = has_pictures(path);
    }
    free(names.name);
    return found;
}

enum status image_folder_classes_read(const char *root, const char *train,
                                      struct image_folder_classes *out) {
    SCOPED_FREE char *list = mem_format("%s/classes.txt", root),
                     *folder = mem_format("%s/%s", root, train),
                     *files = mem_format("%s.txt", folder);
    *out = (struct image_folder_classes){0};
    if (file_exists(list))
        TRY(classes_of_list(list, out));
    else if (!file_exists(files))
        TRY(classes_of_folders(folder, out));
    return STATUS_OK;
}

void image_folder_classes_free(struct image_folder_classes *classes) {
    free(classes->folder);
    free(classes->name);
    arena_free(&classes->arena);
    *classes = (struct image_folder_classes){0};
}

/* --- the pictures of a split --- */

struct listing {
    const char *base;
    struct image_folder_classes *classes;
    struct image_folder_files *files;
};

/* A class's number, by its folder's name or as digits; -1: neither. */
static int64_t label_of(const struct image_folder_classes *classes, const char *text) {
    for (int64_t c = 0; classes->folder && c < classes->count; c++)
        if (strcmp(classes->folder[c], text) == 0) return c;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    bool known = *text && !*end && errno == 0 && number >= 0 &&
                 number < (classes->folder ? classes->count : MAX_CLASSES);
    return known ? number : -1;
}

static enum status file_line(void *context, const char *path, int number, char *word, char *rest) {
    struct listing *listing = context;
    rest[strcspn(rest, " \t")] = 0;
    int64_t label = label_of(listing->classes, rest);
    if (label < 0)
        return fail(STATUS_DATA,
                    "%s: line %d: class '%.100s' is not known\n"
                    "  a line is a path and a class: its number, or its folder's name",
                    path, number, rest);
    if (!listing->classes->folder && label >= listing->classes->count)
        listing->classes->count = label + 1;
    SCOPED_FREE char *full = mem_format("%s/%s", listing->base, word);
    struct image_folder_file *file = add_file(listing->files, word, (int32_t)label);
    struct stat info;
    if (stat(full, &info) != 0)
        file->why = arena_text(&listing->files->arena, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        file->why = "not a regular file";
    else
        file->bytes = (int64_t)info.st_size;
    return STATUS_OK;
}

/* Names of folders that are no class. ImageFolder would give them numbers of their own, and so
 * shift those of others. */
static enum status check_folders(const char *base, const struct image_folder_classes *classes) {
    SCOPED(arena_free) struct arena arena = {0};
    struct names names;
    enum status status = names_in(base, &arena, &names);
    for (size_t i = 0; i < names.count && status == STATUS_OK; i++) {
        SCOPED_FREE char *path = mem_format("%s/%s", base, names.name[i]);
        struct stat info;
        bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
        bool known = false;
        for (int64_t c = 0; folder && c < classes->count && !known; c++)
            known = strcmp(classes->folder[c], names.name[i]) == 0;
        if (folder && !known)
            status = fail(STATUS_DATA, "%s: no class of the training pictures is called so", path);
    }
    free(names.name);
    return status;
}

static enum status files_of_classes(const char *base, const struct image_folder_classes *classes,
                                    struct image_folder_files *out) {
    if (!classes->folder)
        return fail(STATUS_DATA,
                    "%s: classes have no names, so its pictures have no label\n"
                    "  give the classes in classes.txt, or the pictures in %s.txt",
                    base, base);
    TRY(check_folders(base, classes));
    for (int64_t c = 0; c < classes->count; c++)
        TRY(walk_class(base, classes->folder[c], (int32_t)c, out));
    return STATUS_OK;
}

enum status image_folder_files_read(const char *root, const char *split,
                                    struct image_folder_classes *classes,
                                    struct image_folder_files *out) {
    SCOPED_FREE char *base = mem_format("%s/%s", root, split), *list = mem_format("%s.txt", base);
    struct listing listing = {base, classes, out};
    *out = (struct image_folder_files){0};
    TRY(file_exists(list) ? each_line(list, file_line, &listing)
                          : files_of_classes(base, classes, out));
    if (out->count == 0)
        return fail(STATUS_DATA, "%s: no pictures: no file in it is called *.jpg, *.jpeg or *.png",
                    base);
    return STATUS_OK;
}

/* --- pictures without classes --- */

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct image_folder_file *)a)->path,
                  ((const struct image_folder_file *)b)->path);
}

static enum status loose_in(const char *base, const struct stat *info,
                            struct image_folder_files *out) {
    struct walk walk = {.base = base, .files = out, .depth = 1};
    SCOPED(arena_free) struct arena arena = {0};
    struct names names;
    walk.above[0].device = info->st_dev;
    walk.above[0].number = info->st_ino;
    enum status status = names_in(base, &arena, &names);
    for (size_t i = 0; i < names.count && status == STATUS_OK; i++)
        status = walk_one(&walk, names.name[i]);
    if (status == STATUS_OK && out->count == 0)
        status = fail(STATUS_DATA,
                      "%s: no pictures: no file in it is called *.jpg, *.jpeg or *.png", base);
    if (out->count) qsort(out->file, out->count, sizeof out->file[0], by_path);
    free(names.name);
    return status;
}

static enum status loose_one(const char *path, struct image_folder_files *out) {
    struct stat info;
    if (!*path) return fail(STATUS_USAGE, "--input: a name is empty: a comma too many?");
    if (stat(path, &info) != 0)
        return fail(STATUS_DATA,
                    "%s: %s\n  inputs are a .npy file, pictures, a folder of them, or a data set",
                    path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return fail(STATUS_DATA, "%s: not a regular file", path);
    add_file(out, path, 0)->bytes = (int64_t)info.st_size;
    return STATUS_OK;
}

enum status image_folder_loose_read(const char *paths, char **base,
                                    struct image_folder_files *out) {
    struct stat info;
    bool there = stat(paths, &info) == 0;
    *out = (struct image_folder_files){0};
    *base = mem_text(there && S_ISDIR(info.st_mode) ? paths : "");
    for (size_t end = strlen(*base); end > 1 && (*base)[end - 1] == '/';) (*base)[--end] = 0;
    if (**base) return loose_in(*base, &info, out);
    if (there) return loose_one(paths, out); /* a comma may be a part of its name */
    char *text = mem_text(paths), *rest = text, *item;
    enum status status = STATUS_OK;
    while (status == STATUS_OK && (item = strsep(&rest, ","))) status = loose_one(item, out);
    free(text);
    return status;
}

void image_folder_files_free(struct image_folder_files *files) {
    free(files->file);
    arena_free(&files->arena);
    *files = (struct image_folder_files){0};
}
