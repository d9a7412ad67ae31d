/* bochner info: feature maps. */
#include "info.h"
#include <stdio.h>

static void features_json(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    cli_json json = {.out = stdout};
    cli_info_json_file(&json, path, "features");
    cli_json_add_count(&json, "dim", desc->dim);
    cli_json_add_count(&json, "features", desc->features);
    cli_json_add_count(&json, "frequencies", frequencies);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, desc->kernel));
    cli_json_add_text(&json, "function", bo_enum_name(BO_ENUM_FUNCTION, desc->function));
    cli_json_add_text(&json, "draw", bo_enum_name(BO_ENUM_DRAW, desc->draw));
    cli_json_add_text(&json, "sampling", bo_enum_name(BO_ENUM_SAMPLING, desc->sampling));
    cli_json_add_number(&json, "gamma", desc->gamma);
    cli_json_add_count(&json, "seed", desc->seed);
    cli_json_end(&json);
}

static void features_print(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    printf("%s: a feature map (%s)\n", path, cli_bytes(cli_info_file_size(path)).s);
    printf("%-12s%s, gamma %s\n", "Kernel", bo_enum_name(BO_ENUM_KERNEL, desc->kernel),
           cli_significant(desc->gamma, 4).s);
    printf("%-12s%s features of %s columns, from %s frequencies\n", "Features", cli_count(desc->features).s,
           cli_count(desc->dim).s, cli_count(frequencies).s);
    printf("%-12sfunction %s, draw %s, sampling %s\n", "Map", bo_enum_name(BO_ENUM_FUNCTION, desc->function),
           bo_enum_name(BO_ENUM_DRAW, desc->draw), bo_enum_name(BO_ENUM_SAMPLING, desc->sampling));
}

void cli_info_features(const cli_session *session, const char *path, const bo_features *map)
{
    (session->common.json ? features_json : features_print)(path, bo_features_describe(map),
                                                            bo_features_frequencies(map));
}
