/* --out: which folder a run gets. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../base/calls.h"
#include "../exec/kit.h"
#include "base/file.h"
#include "base/mem.h"
#include "run/run_folder.h"

TestSuite(run_folder, .init = kit_enter, .fini = kit_leave);

static int rivals;

/* Other runs of this second, each a moment faster: the folder is theirs, and a run is in it. */
static void be_faster(const char *path) {
    static bool inside;
    if (inside || rivals == 0 || !strstr(path, "mlp-") || file_exists(path)) return;
    inside = true;
    rivals--;
    char *mark = mem_format("%s/metrics.jsonl", path);
    cr_assert_eq(mkdir(path, 0777), 0);
    cr_assert_eq(file_write_text(mark, "{}\n"), STATUS_OK);
    free(mark);
    inside = false;
}

Test(run_folder, a_name_belongs_to_whoever_made_the_folder) {
    struct options options;
    kit_options("--model mlp", &options);
    for (int others = 0; others < 4; others++) {
        struct lock *lock;
        char *folder;
        rivals = others;
        calls = (struct calls){.making = be_faster};
        cr_assert_eq(run_folder_open(&options, &folder, &lock), STATUS_OK);
        cr_expect_eq(rivals, 0);
        char *theirs = mem_format("%s/metrics.jsonl", folder);
        cr_expect(!file_exists(theirs), "%s is another run's", folder);
        free(theirs);
        lock_give_back(&lock);
        free(folder);
    }
    options_free(&options);
}
