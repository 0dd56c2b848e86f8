/* make bench-groups: groups that form while ranks run, without ranks. Runs random traces and checks
 * what must hold of each (tests/unit/sync/traces.h), and prints how large groups become, beside a
 * published figure. Ends with 1 where something does not hold.
 *
 * bench-groups [TRACES]   10,000 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tests/unit/sync/traces.h"

/* The same groups in the same order, whether the state goes on or is saved and loaded between any
 * two calls. */
static int run_traces(int64_t count) {
    int64_t groups = 0, windows = 0, wrong = 0;
    for (int64_t number = 0; number < count; number++) {
        struct trace trace = trace_draw((uint64_t)number);
        struct trace_result result, again;
        trace_run(&trace, &result);
        trace.reload = true;
        trace_run(&trace, &again);
        groups += result.groups;
        windows += result.windows;
        const char *what = result.wrong[0] ? result.wrong : again.wrong;
        if (!what[0] && result.lists != again.lists) what = "a loaded state forms other groups";
        if (what[0]) printf("trace %lld: %s\n", (long long)number, what);
        wrong += what[0] != 0;
    }
    printf("%lld traces, %lld groups, %lld windows: %lld wrong\n", (long long)count,
           (long long)groups, (long long)windows, (long long)wrong);
    return wrong > 0;
}

static int size_at(const struct trace_result *result, double share) {
    int64_t seen = 0;
    int size = 0;
    while (size < TRACE_MOST && (double)seen <= share * (double)result->groups)
        seen += result->sizes[++size];
    return size;
}

/* Eight equal replicas, whose times differ by so much. */
static int print_sizes(int connect, double jitter, const char *published) {
    struct trace trace = {.config = {.rule = "window",
                                     .replicas = 8,
                                     .keys = 1,
                                     .connect = connect,
                                     .wait = {1000000, 10000, 10000000, 2, 0.9}},
                          .batches = 8 * 1000,
                          .seed = 1,
                          .slowest = 1.0001,
                          .step_ms = 100,
                          .jitter = jitter};
    struct trace_result result;
    trace_run(&trace, &result);
    int least = 1, most = TRACE_MOST;
    while (result.sizes[least] == 0) least++;
    while (result.sizes[most] == 0) most--;
    printf("%9d  %6d  %3d to %-3d  %3d to %-3d  %s\n", connect, size_at(&result, 0.5),
           size_at(&result, 0.25), size_at(&result, 0.75), least, most, published);
    return result.wrong[0] || (connect == 1 && least != 8);
}

int main(int count, char **args) {
    int bad = run_traces(count > 1 ? atoll(args[1]) : 10000);
    printf("\n  connect  median  quartiles   range       published, 8 workers\n");
    bad |= print_sizes(1, 0.01, "always 8");
    bad |= print_sizes(2, 0.01, "median 8, quartiles 6 to 8, least 3");
    bad |= print_sizes(5, 0.01, "median 4, quartiles 3 to 6, range 2 to 8");
    bad |= print_sizes(10, 0.01, "");
    return bad;
}
