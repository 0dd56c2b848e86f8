/* See key.h. */
#include "cost/key.h"

#include <stdio.h>

#include "base/log.h"

static void put_shape(FILE *out, const struct shape *shape) {
    for (int d = 0; d < shape->rank; d++)
        fprintf(out, "%s%lld", d ? "x" : "", (long long)shape->dim[d]);
    if (shape->rank == 0) fputc('1', out);
}

/* "64x128 10x128 10" or "plain aBcd16b plain": a word for each input, then for each output. A
 * layout of a narrow type says so: "bf16:plain". */
static void put_layout(FILE *out, const struct layout *layout) {
    if (layout && dtype_is_narrow(layout->type.dtype))
        fprintf(out, "%s:", dtype_name(layout->type.dtype));
    fputs(layout ? layout->text : "-", out);
}

static const char *words(const struct graph *graph, const struct node *node, bool layouts,
                         struct arena *arena) {
    SCOPED_FREE char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    for (int i = 0; i < node->in_count + node->out_count; i++) {
        int value = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
        if (i) fputc(' ', out);
        if (value == NO_VALUE)
            fputc('-', out);
        else if (layouts)
            put_layout(out, graph->values[value].layout);
        else
            put_shape(out, &graph->values[value].type.shape);
    }
    fclose(out);
    return arena_text(arena, text);
}

struct profile_key profile_key_of(const struct graph *graph, const struct node *node,
                                  struct arena *arena) {
    enum profile_pass pass = node->phase == PHASE_FORWARD ? PROFILE_FORWARD
                             : node->half == OP_HALF_W    ? PROFILE_BACKWARD_WEIGHT
                                                          : PROFILE_BACKWARD_INPUT;
    return (struct profile_key){.op = op_def(node->op)->name,
                                .pass = pass,
                                .shape = words(graph, node, false, arena),
                                .layout = words(graph, node, true, arena)};
}

struct profile_place profile_place_of(const char *device, int index, int threads, int ranks,
                                      char isa[PROFILE_ISA_BYTES]) {
    const struct backend *backend = backend_find(device);
    CHECK(backend, "no device is called %s", device);
    backend->isa(index, isa, PROFILE_ISA_BYTES);
    return (struct profile_place){.device = device, .isa = isa, .threads = threads, .ranks = ranks};
}
