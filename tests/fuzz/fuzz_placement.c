/* Any bytes as a placement; what is accepted gives every rank of its own hosts exactly once. */
#include "fuzz.h"
#include "plan/placement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stage_placement placement;
    fuzz_begin();
    enum status status = stage_placement_parse("input", data, size, &placement);
    fuzz_end(status);
    if (status != STATUS_OK) return 0;
    int64_t count = placement.stages * placement.replicas, *first, ranks = 0;
    bool *seen = calloc((size_t)count, sizeof *seen);
    first = calloc((size_t)placement.host_count, sizeof *first);
    if (!seen || !first) abort();
    for (int h = 0; h < placement.host_count; ranks += placement.host[h++].ranks) first[h] = ranks;
    if (ranks != count) fuzz_wrong("hosts have other ranks than there are cells");
    for (int64_t i = 0; i < count; i++) {
        int64_t rank = first[placement.cell[i].host] + placement.cell[i].index;
        if (rank < 0 || rank >= count || seen[rank]) fuzz_wrong("a rank twice");
        seen[rank] = true;
    }
    free(first);
    free(seen);
    stage_placement_free(&placement);
    return 0;
}
