#include "sampling.h"
#include "../common/paths.h"

static const char *random_option(const cli_sampling_options *o)
{
    return o->temperature > 0 ? "temperature"
           : o->top_k         ? "top-k"
           : o->top_p > 0     ? "top-p"
           : o->min_p > 0     ? "min-p"
                              : NULL;
}

int cli_sampling_check(const char *command, const cli_sampling_options *o)
{
    const char *other = o->greedy ? random_option(o) : NULL;
    return other ? cli_usage_error(command, "--greedy chooses the most likely token; leave out --%s", other) : CLI_DONE;
}

const char *cli_sampling_given(const cli_sampling_options *o)
{
    const char *other = random_option(o);
    return other ? other : o->repetition_penalty > 0 ? "repetition-penalty" : NULL;
}

bo_sampler_desc cli_sampling_desc(const cli_sampling_options *o, uint64_t seed)
{
    return (bo_sampler_desc){.temperature = o->temperature,
                             .top_k = o->top_k,
                             .top_p = o->top_p,
                             .min_p = o->min_p,
                             .repetition_penalty = o->repetition_penalty,
                             .greedy = o->greedy,
                             .seed = seed};
}

int cli_outside_model(const char *command, const char *option, const char *output, const char *directory)
{
    static const char *const names[] = {"",
                                        "/config.json",
                                        "/model.safetensors",
                                        "/model.safetensors.index.json",
                                        "/tokenizer.json",
                                        "/tokenizer_config.json",
                                        "/generation_config.json",
                                        "/special_tokens_map.json",
                                        "/chat_template.jinja"};
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s", directory, names[i]);
        const int status = cli_paths_apart(command, &(cli_path){option, output}, 1, &(cli_path){NULL, path}, 1);
        if (status != CLI_DONE) return status;
    }
    return CLI_DONE;
}

const cli_option cli_sampling_rows[] = {
    SECTION("Sampling"),
    REAL_OR_AUTO("temperature", cli_sampling_options, temperature, "sampling temperature", .default_text = "1"),
    COUNT("top-k", "K", cli_sampling_options, top_k, "sample from the K most likely tokens", .low = 1,
          .default_text = "all"),
    REAL("top-p", "P", cli_sampling_options, top_p,
         "sample from the smallest set of most likely tokens with total probability P", .low = 0.0001, .high = 1,
         .default_text = "all"),
    REAL("min-p", "P", cli_sampling_options, min_p,
         "sample from tokens with at least P times the probability of the most likely token", .low = 0.0001, .high = 1,
         .default_text = "all"),
    REAL("repetition-penalty", "X", cli_sampling_options, repetition_penalty,
         "penalty for tokens that occur in the last 64 tokens", .low = 0.01, .high = 100,
         .default_text = "1: no penalty"),
    FLAG("greedy", cli_sampling_options, greedy, "always choose the most likely token"),
    END_OF_OPTIONS,
};
