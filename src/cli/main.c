/* The program. Everything it does is in the library, so that tests can reach it. */
#include "cli/cli.h"

int main(int argc, char **argv) {
    return cli_main(argc, argv);
}
