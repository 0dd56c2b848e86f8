/* Any bytes as a cluster file; what is accepted answers every question about its first and last
 * ranks. Costs and delays, which are texts as well, take the same bytes. */
#include "cost/cluster.h"
#include "cost/units.h"
#include "fuzz.h"

static void ask(const struct cluster *cluster) {
    int64_t step = cluster->ranks > 64 ? cluster->ranks / 64 : 1;
    for (int64_t rank = 0; rank < cluster->ranks; rank += step) {
        int64_t other = cluster->ranks - 1 - rank;
        struct cost_link link = cluster_link(cluster, rank, other),
                         back = cluster_link(cluster, other, rank);
        struct op_cost cost = {.flops = 1, .bytes = 1};
        const struct cluster_class *class = cluster_class(cluster, rank);
        fuzz_touch(class->name, strlen(class->name));
        if (!(link.bytes_per_time > 0) || !(link.latency >= 0)) fuzz_wrong("a link without rate");
        if (memcmp(&link, &back, sizeof link) != 0 && rank != other) fuzz_wrong("one-way link");
        if (rank < class->ranks.first || rank > class->ranks.last) fuzz_wrong("another's class");
        if (!(cluster_class_ns(class, OP_ADD, &cost, DTYPE_F32, false) > 0)) fuzz_wrong("no time");
        if (!(cluster_slowness(cluster->slow, cluster->slow_count, rank) >= 1))
            fuzz_wrong("faster than its class");
        if (cluster_host(cluster, rank) >= cluster->hosts) fuzz_wrong("a host too many");
        if (cluster_memory_bytes(cluster, rank) < 0) fuzz_wrong("negative memory");
    }
}

static void as_costs(const char *text) {
    struct cost_units costs, again;
    fuzz_begin();
    enum status status = cost_units_parse("--costs", text, &costs);
    fuzz_end(status);
    if (status == STATUS_OK) {
        char *printed = cost_units_text(&costs);
        if (cost_units_parse("--costs", printed, &again) != STATUS_OK ||
            memcmp(&costs, &again, sizeof costs) != 0)
            fuzz_wrong("costs do not read back");
        free(printed);
    }
    fuzz_begin();
    fuzz_end(cost_units_parse_delay("--delay", text, &costs));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct cluster cluster;
    fuzz_begin();
    enum status status = cluster_parse("input", data, size, &cluster);
    fuzz_end(status);
    if (status == STATUS_OK) {
        ask(&cluster);
        cluster_free(&cluster);
    }
    char *text = calloc(1, size + 1);
    if (!text) abort();
    memcpy(text, data, size);
    as_costs(text);
    free(text);
    return 0;
}
