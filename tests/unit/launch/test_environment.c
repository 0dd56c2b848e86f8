/* What the launcher tells a rank. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend/registry.h"
#include "launch/environment.h"
#include "launch/openmp.h"

/* The value of a rank's variable; "" where it has none, "twice" where it has several. */
static const char *told(char *const *environment, const char *name) {
    const char *found = NULL;
    size_t length = strlen(name);
    for (int i = 0; environment[i]; i++) {
        if (strncmp(environment[i], name, length) != 0 || environment[i][length] != '=') continue;
        if (found) return "twice";
        found = environment[i] + length + 1;
    }
    return found ? found : "";
}

static void expect_policy(const char *users, bool passive, const char *expected) {
    struct environment_config config = {
        .world = 1, .threads = 3, .passive = passive, .secret = -1, .status_table = -1};
    unsetenv("OMP_WAIT_POLICY");
    if (users) setenv("OMP_WAIT_POLICY", users, 1);
    setenv("OMP_NUM_THREADS", "7", 1);
    char **environment = environment_new(&config);
    cr_expect_str_eq(told(environment, "OMP_WAIT_POLICY"), expected);
    cr_expect_str_eq(told(environment, "OMP_NUM_THREADS"), "3");
    environment_free(environment);
}

/* A rank takes from its launcher what costs time to find out. */
Test(launch_environment, ranks_need_not_prepare_again) {
    struct environment_config config = {.world = 1, .threads = 1, .secret = -1, .status_table = -1};
    char **environment = environment_new(&config);
    cr_expect_str_eq(told(environment, OPENMP_SETTLED), "");
    cr_expect_str_eq(told(environment, BACKEND_TRIED_ISA), "");
    environment_free(environment);
    config.settled = true;
    config.isa = "avx2";
    environment = environment_new(&config);
    cr_expect_str_eq(told(environment, OPENMP_SETTLED), "1");
    cr_expect_str_eq(told(environment, BACKEND_TRIED_ISA), "avx2");
    environment_free(environment);
}

Test(launch_environment, workers_of_too_many_threads_sleep_unless_the_user_says_how_to_wait) {
    expect_policy(NULL, false, "");
    expect_policy(NULL, true, "passive");
    expect_policy("active", true, "active");
    expect_policy("active", false, "active");
}
