/* See environment.h. */
#include "launch/environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/registry.h"
#include "base/mem.h"
#include "launch/openmp.h"

enum { OURS_MAX = 16 };

static bool same_name(const char *a, const char *b) {
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

static bool is_replaced(char *const *ours, int count, const char *entry) {
    for (int i = 0; i < count; i++) {
        if (same_name(ours[i], entry)) return true;
    }
    /* Left over from an outer launcher, and not said anew. */
    return strncmp(entry, "STRETTO_CONTROL=", 16) == 0 ||
           strncmp(entry, "STRETTO_SECRET_FD=", 18) == 0 ||
           strncmp(entry, "STRETTO_BOARD_FD=", 17) == 0;
}

static int own_entries(const struct environment_config *config, char **out) {
    int count = 0;
    out[count++] = mem_format("STRETTO_RANK=%d", config->rank);
    out[count++] = mem_format("STRETTO_WORLD=%d", config->world);
    out[count++] = mem_format("STRETTO_LOCAL_RANK=%d", config->local_rank);
    out[count++] = mem_format("STRETTO_LOCAL_WORLD=%d", config->local_world);
    out[count++] = mem_format("STRETTO_NODE=%d", config->node);
    out[count++] = mem_format("STRETTO_NODES=%d", config->nodes);
    out[count++] = mem_format("STRETTO_THREADS=%d", config->threads);
    out[count++] = mem_format("STRETTO_ATTEMPT=%d", config->attempt);
    out[count++] = mem_format("OMP_NUM_THREADS=%d", config->threads);
    out[count++] = mem_text("OMP_DYNAMIC=false");
    if (config->passive && !getenv("OMP_WAIT_POLICY"))
        out[count++] = mem_text("OMP_WAIT_POLICY=passive");
    if (config->settled) out[count++] = mem_text(OPENMP_SETTLED "=1");
    if (config->isa) out[count++] = mem_format(BACKEND_TRIED_ISA "=%s", config->isa);
    if (config->address) out[count++] = mem_format("STRETTO_CONTROL=%s", config->address);
    if (config->secret >= 0) out[count++] = mem_format("STRETTO_SECRET_FD=%d", config->secret);
    if (config->status_table >= 0)
        out[count++] = mem_format("STRETTO_BOARD_FD=%d", config->status_table);
    return count;
}

char **environment_new(const struct environment_config *config) {
    char *ours[OURS_MAX];
    int own = own_entries(config, ours), others = 0;
    while (environ[others]) others++;
    char **out = MEM_ARRAY(char *, own + others + 1);
    int count = 0;
    for (int i = 0; i < others; i++) {
        if (!is_replaced(ours, own, environ[i])) out[count++] = mem_text(environ[i]);
    }
    for (int i = 0; i < own; i++) out[count++] = ours[i];
    return out;
}

void environment_free(char **environment) {
    for (int i = 0; environment[i]; i++) free(environment[i]);
    free(environment);
}
