/* The program bochner-lab, which `bochner lab` runs. */
#include "lab.h"
#include "../common/external.h"

int main(int argc, char **argv)
{
    static const cli_listed lab = {.name = "lab", .usages = {&cli_lab_usage}};
    return cli_external_main(&lab, cli_lab, argc, argv);
}
