/* The options of `bochner linearize`, and the file linearize.json that stores them for --resume. */
#include "linearize.h"
#include "args.h"
#include "../common/output.h"
#include "../common/streams.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *attention_name(unsigned index)
{
    return bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)index);
}

static const cli_option data_rows[] = {
    SECTION("Text"),
    TEXT("teacher", "DIR", cli_linearize_options, teacher,
         "the model to linearize; may be given as the first argument"),
    LIST("data", "FILE...", cli_linearize_options, data,
         "training text, similar to the text that the model was trained on: plain text or JSON lines (.jsonl), may be "
         "gzipped"),
    TEXT("valid", "FILE", cli_linearize_options, valid, "held-out text"),
    REAL("valid-fraction", "F", cli_linearize_options, valid_fraction,
         "without --valid, fraction of the text that is held out: its end; 0: none", .high = 0.9, .initial = "0.1"),
    TEXT("field", "NAME", cli_linearize_options, field, "for JSON lines: name of the field with the text",
         .default_text = "text"),
    TEXT("separator", "TEXT", cli_linearize_options, separator, "for text files: text that ends a document",
         .default_text = "one document per file"),
    COUNT("teacher-text", "N", cli_linearize_options, teacher_text,
          "let the model write N tokens of training text first, in addition to --data or instead of it", .low = 1,
          .default_text = "none"),
    REAL("temperature", "T", cli_linearize_options, temperature, "for --teacher-text: temperature of sampling",
         .low = 0.01, .high = 100, .initial = "1"),
    END_OF_OPTIONS,
};

static const cli_option attention_rows[] = {
    SECTION("Attention"),
    CHOICE_OF("attention", "KIND", cli_linearize_options, attention, attention_name,
              "the new attention; hybrid is dark with a window; softmax needs --window", .find = cli_attention_preset,
              .initial = "hybrid"),
    COUNT("features", "D", cli_linearize_options, features, "number of features per head", .low = 1, .high = 1 << 20,
          .default_text = "256; hedgehog and t2r: by the width of a head"),
    COUNT("window", "W", cli_linearize_options, window,
          "softmax attention to the latest W tokens, and the new attention to earlier tokens: dark, favor, hedgehog, "
          "t2r, hybrid; softmax: nothing before the window",
          .low = 1, .high = 1 << 24, .default_text = "none; hybrid: 64"),
    CHOICE("gate", "KIND", cli_linearize_options, gate, BO_ENUM_GATE, "gate of the state",
           .default_text = "decay for attention with features"),
    REAL("gate-bias", "B", cli_linearize_options, gate_bias, "gates start at sigmoid(B)", .low = 0.1, .high = 30,
         .initial = "5"),
    TEXT("keep-softmax", "LAYERS", cli_linearize_options, keep,
         "layers that keep their attention, numbers from 0, ranges and blocks such as 0,5-7,block-1; none: no layer",
         .default_text = "layers that have a window"),
    COUNT("calibrate-tokens", "N", cli_linearize_options, calibrate_tokens,
          "tokens for the choice of initial parameters", .low = 1, .default_text = "4096"),
    END_OF_OPTIONS,
};

static const cli_option training_rows[] = {
    SECTION("Training"),
    REAL("minutes", "M", cli_linearize_options, minutes, "approximate time of training", .low = 0.001, .high = 1e7,
         .default_text = "60"),
    REAL("transfer-share", "F", cli_linearize_options, transfer_share,
         "fraction of --minutes in which attention learns layer by layer", .low = 0.01, .high = 0.99, .initial = "0.2"),
    COUNT("transfer-steps", "N", cli_linearize_options, transfer_steps,
          "instead of --minutes: steps in which attention learns layer by layer", .low = 1, .default_text = "300"),
    COUNT("steps", "N", cli_linearize_options, steps, "instead of --minutes: steps of finetuning", .low = 1,
          .default_text = "600"),
    FLAG("no-transfer", cli_linearize_options, no_transfer, "do not train attention layer by layer"),
    FLAG("no-finetune", cli_linearize_options, no_finetune, "stop after attention was trained layer by layer"),
    COUNT("batch", "N", cli_linearize_options, batch, "sequences per step", .low = 1, .high = 1 << 24,
          .default_text = "16"),
    COUNT("context", "N", cli_linearize_options, context, "tokens per sequence, at most the context of the model",
          .low = 2, .high = 1 << 30, .default_text = "the context of the model, at most 1024"),
    REAL_OR_AUTO("transfer-lr", cli_linearize_options, transfer_lr, "learning rate of the transfer",
                 .default_text = "0.01"),
    REAL_OR_AUTO("lr", cli_linearize_options, lr, "learning rate of finetuning", .default_text = "0.001"),
    REAL("share", "A", cli_linearize_options, share,
         "share of the teacher's distribution in the loss of finetuning; the rest is the text", .low = 0.001, .high = 1,
         .initial = "0.9"),
    COUNT("sparsity", "N", cli_linearize_options, sparsity,
          "compute the loss of finetuning at every Nth token, which is faster if the vocabulary is large", .low = 1,
          .high = 1 << 16, .default_text = "4"),
    COUNT("lora", "R", cli_linearize_options, lora, "rank of the adapters", .low = 1, .high = 1 << 16,
          .default_text = "16"),
    REAL("lora-alpha", "A", cli_linearize_options, lora_alpha, "scale of the adapters: A / R", .low = 1e-6, .high = 1e6,
         .default_text = "twice the rank"),
    TEXT("lora-targets", "NAMES", cli_linearize_options, lora_targets,
         "layers with adapters: endings of layer names or patterns with *, separated by commas",
         .default_text = "q_proj,k_proj,v_proj,o_proj"),
    END_OF_OPTIONS,
};

static const cli_option result_rows[] = {
    SECTION("Results"),
    DEVICE(cli_linearize_options),
    PRECISION(cli_linearize_options, .traits = 0),
    TEXT("out", "DIR", cli_linearize_options, out, "output directory for the model and its training runs"),
    FLAG("resume", cli_linearize_options, resume, "continue the run in --out with its original options"),
    FLAG("merge", cli_linearize_options, merge,
         "keep only the merged weights; otherwise the directory adapter holds the adapters and the weights without "
         "them"),
    COUNT("eval-tokens", "N", cli_linearize_options, eval_tokens, "maximum held-out tokens per evaluation", .low = 2,
          .default_text = "16384; all in the report"),
    FLAG("no-timing", cli_linearize_options, no_timing, "do not measure the speed of decoding"),
    END_OF_OPTIONS,
};

const cli_usage cli_linearize_usage = {
    .command = "linearize",
    .synopsis = "DIR --data FILE... --out DIR [options]   or   --resume --out DIR",
    .about = "Turns a language model with softmax attention into one that decodes from a state of fixed size. It "
             "chooses initial parameters of the new attention from text, trains them layer by layer to imitate softmax "
             "attention, and then trains adapters so that the model imitates the predictions of the original model. "
             "The report compares both models. A run that was stopped continues with --resume.",
    .examples =
        "  bochner linearize stories15M --data stories.txt --separator '<|endoftext|>' --out linear\n"
        "  bochner linearize stories15M --data stories.txt --out gated --attention dark --gate decay\n"
        "  bochner linearize stories15M --teacher-text 1000000 --out written --attention hedgehog --minutes 30\n"
        "  bochner linearize --resume --out linear\n",
    .groups = {{data_rows, 0}, {attention_rows, 0}, {training_rows, 0}, {result_rows, 0}},
    .short_help = {"data", "out", "attention", "features", "window", "gate", "keep-softmax", "minutes", "lora",
                   "teacher-text", "separator", "resume", "merge", "valid", "device", "lr"},
};

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

static void begin(cli_linearize_args *args)
{
    args->options = (cli_linearize_options){0};
    args->common = (cli_common){0};
    cli_set_initial(&cli_linearize_usage, &args->options);
}

/* Parses one source over the earlier sources. Data files replace all earlier data files. */
static cli_parsed parse(int argc, char **argv, cli_linearize_args *args)
{
    cli_linearize_options *o = &args->options;
    const cli_list before = o->data;
    cli_arguments arguments = {0};
    bool named = false; /* the first argument of each source is the teacher */
    o->data.count = 0;
    cli_parsed parsed = cli_parse_over(&cli_linearize_usage, argc, argv, o, &args->common, &arguments);
    if (o->data.count == 0) o->data = before;
    for (size_t i = 0; i < arguments.count && parsed == CLI_PARSED; i++) {
        if (!named) {
            o->teacher = arguments.items[i];
            CLI_SET_GIVEN(o, teacher, true);
            named = true;
        } else if (o->data.count < CLI_LIST_CAPACITY) {
            o->data.items[o->data.count++] = arguments.items[i];
        } else {
            cli_usage_error("linearize", "expected at most %d data files", CLI_LIST_CAPACITY);
            parsed = CLI_PARSE_ERROR;
        }
    }
    CLI_SET_GIVEN(o, data, o->data.count > 0);
    free(arguments.items);
    return parsed;
}

static cli_parsed parse_saved(cli_linearize_args *args, const char *directory)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, CLI_LINEARIZE_OPTIONS_FILE);
    if (access(path, F_OK) != 0) return CLI_PARSED;
    cli_parsed parsed = cli_config_read("linearize", path, &args->stored_count, &args->stored);
    if (parsed == CLI_PARSED) parsed = parse(args->stored_count, args->stored, args);
    CLI_SET_GIVEN(&args->options, precision, true); /* keeps the precision on another device */
    return parsed == CLI_PARSE_ERROR ? CLI_UNREADABLE : parsed;
}

cli_parsed cli_linearize_parse(int argc, char **argv, cli_linearize_args *args)
{
    begin(args);
    cli_parsed parsed = parse(argc, argv, args);
    if (parsed != CLI_PARSED || !args->options.resume || !args->options.out) return parsed;
    const char *directory = args->options.out;
    begin(args);
    parsed = parse_saved(args, directory);
    return parsed == CLI_PARSED ? parse(argc, argv, args) : parsed;
}

void cli_linearize_args_free(cli_linearize_args *args)
{
    for (int i = 0; i < args->stored_count; i++) free(args->stored[i]);
    free(args->stored);
}

/* ---- linearize.json ---------------------------------------------------------------------------------------------- */

/* Makes a path absolute, so that a run can be resumed from any directory; freed by the caller. */
static void make_absolute(const char **path, char **names, size_t *count)
{
    char *whole = *path ? realpath(*path, NULL) : NULL;
    if (whole) *path = names[(*count)++] = whole;
}

bool cli_linearize_save_options(cli_session *session, const cli_linearize_args *args)
{
    cli_linearize_options now = args->options;
    char path[4096], *names[CLI_LIST_CAPACITY + 2];
    size_t count = 0;
    cli_output output;
    CLI_SET_GIVEN(&now, out, false);
    CLI_SET_GIVEN(&now, resume, false);
    now.precision = bo_context_describe(session->context)->precision; /* the default depends on the device */
    if (now.precision != BO_PRECISION_FLOAT32) CLI_SET_GIVEN(&now, precision, true);
    for (size_t i = 0; i < now.data.count; i++) make_absolute(&now.data.items[i], names, &count);
    make_absolute(&now.valid, names, &count);
    make_absolute(&now.teacher, names, &count);
    snprintf(path, sizeof path, "%s/%s", args->options.out, CLI_LINEARIZE_OPTIONS_FILE);
    bool kept = cli_output_text(session, &output, path);
    if (kept && !cli_config_print(output.file, &cli_linearize_usage, &now, &args->common)) {
        cli_streams_print("bochner linearize: %s: %s\n", path, strerror(errno));
        cli_output_abandon(&output);
        kept = false;
    }
    if (kept) kept = cli_output_commit(session, &output);
    for (size_t i = 0; i < count; i++) free(names[i]);
    return kept;
}
