/* See weigher.h. */
#include "planned/weigher.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "base/mem.h"
#include "base/status.h"

/* The options that somebody named, as arguments; the caller frees them. */
static char **arguments_of(const struct options *options) {
    char **argv = MEM_ARRAY(char *, 2 * OPTION_COUNT + 4);
    int count = 0;
    argv[count++] = mem_text("stretto");
    argv[count++] = mem_text("explain");
    for (int id = 0; id < OPTION_COUNT; id++) {
        bool talks = id == OPTION_json || id == OPTION_quiet || id == OPTION_show;
        if (talks || !(option_rows[id].commands & COMMAND_EXPLAIN)) continue;
        if (!option_is_given(options, (enum option_id)id)) continue;
        argv[count++] = mem_format("--%s", option_rows[id].name);
        argv[count++] = option_text(options, (enum option_id)id);
    }
    argv[count++] = mem_text("--json");
    return argv;
}

static void run_explain(char *const *argv, int to) {
    int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing >= 0) dup2(nothing, STDERR_FILENO);
    dup2(to, STDOUT_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

struct weigher weigher_ask(const struct options *options) {
    struct weigher weigher = {.pid = -1, .answer = -1};
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return weigher;
    char **argv = arguments_of(options);
    weigher.pid = fork();
    if (weigher.pid == 0) run_explain(argv, ends[1]);
    close(ends[1]);
    weigher.answer = ends[0];
    for (char **one = argv; *one; one++) free(*one);
    free(argv);
    return weigher;
}

static struct weighed read_answer(int from) {
    struct weighed weighed = {0};
    json_int_t library, most;
    FILE *stream = fdopen(from, "r");
    json_t *root = stream ? json_loadf(stream, 0, NULL) : NULL;
    weighed.found = json_unpack(root, "{s:I, s:{s:I}}", "predicted_peak_bytes", &most, "memory",
                                "library", &library) == 0;
    if (weighed.found) weighed.most_bytes = most, weighed.library_bytes = library;
    json_decref(root);
    if (stream)
        fclose(stream);
    else
        close(from);
    return weighed;
}

struct weighed weigher_answer(struct weigher *weigher) {
    struct weighed weighed = {0};
    int ended = 0;
    if (weigher->answer >= 0) weighed = read_answer(weigher->answer);
    while (weigher->pid > 0 && waitpid(weigher->pid, &ended, 0) < 0 && errno == EINTR) {
    }
    bool refused = WIFEXITED(ended) && WEXITSTATUS(ended) == status_exit_code(STATUS_MEMORY);
    weighed.fits = weighed.found && !refused;
    *weigher = (struct weigher){.pid = -1, .answer = -1};
    return weighed;
}
