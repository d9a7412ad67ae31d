/* bochner convert: writes a model of another program, or a model directory, as a Hugging Face model directory. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../text/text_tasks.h"
#include <bochner/convert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct convert_options {
    cli_given was_given;
    const char *out, *tokenizer;
    bo_convert_dtype dtype;
    size_t shard;
} convert_options;

static const char *dtype_name(unsigned value)
{
    return bo_enum_name(BO_ENUM_CONVERT_DTYPE, (bo_convert_dtype)value);
}

/* Files of an existing model, which may be the source, are not replaced. */
static int check_directory(const char *directory)
{
    static const char *const names[] = {"config.json",           "generation_config.json",      "tokenizer.json",
                                        "tokenizer_config.json", "special_tokens_map.json",     "chat_template.jinja",
                                        "model.safetensors",     "model.safetensors.index.json"};
    char path[4096];
    struct stat about;
    if (stat(directory, &about) == 0 && !S_ISDIR(about.st_mode))
        return cli_usage_error("convert", "--out %s: a file of this name exists; give another name", directory);
    for (size_t i = 0; i < CLI_COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        if (access(path, F_OK) == 0)
            return cli_usage_error("convert", "--out %s: the directory already holds a model (%s); give another name",
                                   directory, names[i]);
    }
    return CLI_DONE;
}

static bool is_directory(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static int check(const convert_options *o, const cli_arguments *arguments)
{
    if (arguments->count != 1)
        return cli_usage_error("convert", "expected one file or directory, found %zu", arguments->count);
    if (!o->out) return cli_usage_error("convert", "no output directory; give --out DIR");
    if (is_directory(arguments->items[0])) {
        const char *foreign = o->tokenizer ? "tokenizer" : o->shard ? "shard" : NULL;
        if (foreign) return cli_usage_error("convert", "--%s does not apply to a model directory", foreign);
        if (o->dtype == BO_CONVERT_DTYPE_FLOAT16)
            return cli_usage_error("convert", "--dtype: model directories are written as float32 or bfloat16");
    }
    return check_directory(o->out);
}

/* Prints the properties of the source before the conversion. */
static void describe(const bo_conversion_info *info, const char *from)
{
    printf("Source      %s: %s, %s, %zu layer%s of width %s, context %s\n", from, info->format, info->architecture,
           info->layers, info->layers == 1 ? "" : "s", cli_count(info->width).s, cli_count(info->context).s);
    printf("Parameters  %s, as", cli_count((size_t)info->parameters).s);
    for (size_t i = 0; i < info->types; i++)
        printf("%s %s (%s tensor%s)", i ? "," : "", info->type[i].name, cli_count(info->type[i].tensors).s,
               info->type[i].tensors == 1 ? "" : "s");
    printf("\nTokenizer   ");
    if (info->tokenizer)
        printf("%s, %s tokens\n", info->tokenizer, cli_count(info->tokens).s);
    else
        printf("none\n");
    fflush(stdout);
}

static void print_json(const bo_conversion_info *info, const char *from, const char *out)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "from", from);
    cli_json_add_text(&json, "out", out);
    cli_json_add_text(&json, "format", info->format);
    cli_json_add_text(&json, "architecture", info->architecture);
    cli_json_add_count(&json, "layers", info->layers);
    cli_json_add_count(&json, "width", info->width);
    cli_json_add_count(&json, "vocab", info->vocab);
    cli_json_add_count(&json, "context", info->context);
    cli_json_add_number(&json, "parameters", info->parameters);
    cli_json_add_number(&json, "bytes", info->bytes);
    cli_json_object(&json, "types");
    for (size_t i = 0; i < info->types; i++) cli_json_add_number(&json, info->type[i].name, info->type[i].parameters);
    cli_json_end(&json);
    cli_json_add_text(&json, "tokenizer", info->tokenizer);
    cli_json_add_count(&json, "tokens", info->tokens);
    cli_json_end(&json);
}

static void suggest_next(const cli_session *session, const char *directory)
{
    char *word = cli_shell_quoted(directory);
    cli_suggest_next(session, "bochner generate %s --prompt 'Once upon a time' --tokens 100", word);
    free(word);
}

static int run(cli_session *session, const convert_options *o, const char *from)
{
    const bo_convert_desc desc = {.from = from, .tokenizer = o->tokenizer, .dtype = o->dtype, .shard_bytes = o->shard};
    bo_conversion *conversion;
    bo_conversion_info info;
    bo_status status = bo_conversion_open(session->context, &desc, &info, &conversion);
    if (status != BO_OK) return cli_fail_status(session, status);
    const bool json = session->common.json;
    if (!json) describe(&info, from);
    status = cli_record_output(session, o->out, bo_conversion_write(session->context, conversion, o->out));
    if (status == BO_OK && json) print_json(&info, from, o->out);
    if (status == BO_OK && !json) printf("Model       %s: %s\n", o->out, cli_bytes(info.bytes).s);
    if (status == BO_OK && !info.tokenizer && strncmp(info.format, "llama2.c", 8) == 0)
        cli_warn(session, "the directory has no tokenizer; give --tokenizer tokenizer.bin");
    const bool text = status == BO_OK && info.tokenizer && info.runs;
    bo_conversion_close(conversion);
    if (status != BO_OK) return cli_fail_status(session, status);
    if (text) suggest_next(session, o->out);
    return CLI_DONE;
}

/* A model directory is loaded and saved: adapters are merged, shards joined, and the numbers converted. */
static int run_directory(cli_session *session, const convert_options *o, const char *from)
{
    bo_model *model = NULL;
    const bo_storage storage = o->dtype == BO_CONVERT_DTYPE_BFLOAT16 ? BO_STORAGE_BFLOAT16 : BO_STORAGE_FLOAT32;
    bo_status status =
        bo_model_load(session->context, &(bo_source){.path = from}, &(bo_model_load_desc){.storage = storage}, &model);
    if (status != BO_OK) return cli_fail_model(session, from, status);
    status = cli_record_output(session, o->out, bo_model_save(session->context, model, &(bo_sink){.path = o->out}));
    const double bytes = (double)bo_model_report(model)->bytes;
    const bool text = bo_model_tokenizer(model) && bo_model_describe(model)->task == BO_MODEL_TASK_LANGUAGE;
    bo_model_destroy(model);
    if (status != BO_OK) return cli_fail_status(session, status);
    if (session->common.json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "from", from);
        cli_json_add_text(&json, "out", o->out);
        cli_json_add_number(&json, "bytes", bytes);
        cli_json_end(&json);
    } else {
        printf("Model       %s: %s of weights\n", o->out, cli_bytes(bytes).s);
    }
    if (text) suggest_next(session, o->out);
    return CLI_DONE;
}

static int convert(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const convert_options *o = options;
    int ended = check(o, arguments);
    if (ended != CLI_DONE) return ended;
    cli_session session;
    if (!cli_session_open(&session, "convert", common, false)) return CLI_FAILED;
    ended = (is_directory(arguments->items[0]) ? run_directory : run)(&session, o, arguments->items[0]);
    cli_session_close(&session);
    return ended;
}

static const cli_option rows[] = {
    TEXT("out", "DIR", convert_options, out, "output directory; must not contain a model"),
    TEXT("tokenizer", "FILE", convert_options, tokenizer, "tokenizer.bin of a llama2.c model"),
    CHOICE_OF("dtype", "TYPE", convert_options, dtype, dtype_name,
              "data type of the result; source: the type of each tensor, and float32 for quantized tensors and model "
              "directories, which can only become float32 or bfloat16",
              .initial = "source"),
    BYTES("shard", "SIZE", convert_options, shard,
          "GGUF and llama2.c: maximum size of a file of tensors; larger models are written to several files",
          .default_text = "5 GB", .low = 1),
    END_OF_OPTIONS,
};

const cli_usage cli_convert_usage = {
    .command = "convert",
    .synopsis = "FILE|DIR --out DIR [--tokenizer tokenizer.bin]",
    .about = "Converts a model of another program to a Hugging Face model directory: config.json, model.safetensors, "
             "tokenizer.json and further files. FILE is a GGUF file (llama, mistral, qwen2, "
             "qwen3, gemma, gemma3, olmo2, granite, phi2, phi3, gpt2, gptneox, starcoder2, stablelm) or a llama2.c "
             "model; the format is found by content. Properties that the directory cannot express are refused with a "
             "message. A model "
             "directory "
             "or adapter directory is written as one directory of float32 or bfloat16 numbers, with its Hugging Face "
             "model type if its family is supported.",
    .examples = "  bochner convert model.gguf --out converted\n"
                "  bochner convert model.gguf --out narrow --dtype bfloat16\n"
                "  bochner convert stories15M.bin --tokenizer tokenizer.bin --out stories15M\n"
                "  bochner convert model --out half --dtype bfloat16\n",
    .groups = {{rows, 0}},
};

int cli_convert(int argc, char **argv)
{
    convert_options o = {0};
    return cli_command(&cli_convert_usage, argc, argv, &o, convert);
}
