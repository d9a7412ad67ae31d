/* The program bochner-bench, which `bochner bench` runs. */
#include "bench.h"
#include "../cli/common/external.h"

int main(int argc, char **argv)
{
    static const cli_listed bench = {
        .name = "bench",
        .usages = {&bench_machines_usage, &bench_attention_usage, &bench_train_usage, &bench_layers_usage,
                   &bench_recall_usage, &bench_tasks_usage, &bench_decode_usage, &bench_scale_usage,
                   &bench_serve_usage},
    };
    return cli_external_main(&bench, cli_bench, argc, argv);
}
