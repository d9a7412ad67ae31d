/* bochner bench: speed and quality as ratios measured in one run. */
#include "cli.h"

int cli_bench(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    return cli_wrong_use("bench", "nothing to measure yet");
}
