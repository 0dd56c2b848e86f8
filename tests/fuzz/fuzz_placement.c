/* Any bytes as a placement; what is accepted gives every rank of its own hosts exactly once. */
#include "fuzz.h"
#include "plan/placement.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stage_placement placement;
    fuzz_begin();
    enum status status = stage_placement_parse("input", data, size, &placement);
    fuzz_end(status);
    if (status != STATUS_OK) return 0;
    int64_t *rank, count = placement.stages * placement.replicas;
    bool *seen = calloc((size_t)count, sizeof *seen);
    fuzz_begin();
    status = stage_placement_ranks(&placement, placement.host, placement.host_count, &rank);
    if (status != STATUS_OK || !seen) fuzz_wrong("its own hosts are refused");
    for (int64_t i = 0; i < count; i++) {
        if (rank[i] < 0 || rank[i] >= count || seen[rank[i]]) fuzz_wrong("a rank twice");
        seen[rank[i]] = true;
    }
    fuzz_end(status);
    free(rank);
    free(seen);
    stage_placement_free(&placement);
    return 0;
}
