/* The options of `bochner train`: what they are where nothing is given, and one table of all. Tables of the model and of learning
 * are in train_model_options.c and train_learning_options.c, what contradicts itself in train_check.c. */
#include "../common/rows.h"
#include "train.h"
#include <math.h>
#include <string.h>

cli_train_options cli_train_defaults(void)
{
    cli_train_options o = {.valid_fraction = 0.1,
                           .preset = -1,
                           .mixer = -1,
                           .ssm = -1,
                           .mlp = -1,
                           .mlp_kernel = -1,
                           .mlp_function = -1,
                           .mlp_draw = -1,
                           .norm = -1,
                           .positions = -1,
                           .query_norm = -1,
                           .output_norm = -1,
                           .dropout = NAN,
                           .gate = -1,
                           .attention = cli_attention_none_given("train"),
                           .texts = {.pooling = -1, .cross = -1, .cross_attention = -1, .smoothing = NAN},
                           .lora = {.init = -1},
                           .warmup = CLI_NOT_GIVEN,
                           .clip = 1,
                           .eval_tokens = CLI_NOT_GIVEN,
                           .network = {.lambda = 1}};
    o.attention.causal = true;
    return o;
}

size_t cli_train_text_table(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Text"),
        LIST("data", "FILE...",
             "text, or JSON lines (.jsonl), or the lines of a --task; also gzipped; more files may follow", &o->data),
        TEXT("valid", "FILE", "text to test with while training", &o->valid),
        REAL("valid-fraction", "F",
             "or this part of the data, its end (of a --task: drawn by the seed); 0.1 unless given, 0: none",
             &o->valid_fraction, 0, 0.9),
        TEXT("tokenizer", "FILE|DIR", "a tokenizer.json; bytes unless given", &o->tokenizer),
        COUNT("vocab", "N", "tokens: a tokenizer is learned from the data first, where none is given", &o->vocab, 256,
              1 << 24),
        TEXT("field", "NAME", "of JSON lines: the text's name; text unless given", &o->field),
        TEXT("separator", "WORD", "of text files: ends a document; a file is a document unless given", &o->separator),
        FLAG("documents", "states and positions begin anew where documents do", &o->documents),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

static size_t table_of_results(cli_train_options *o, cli_option *out)
{
    const cli_option options[] = {
        SECTION("Results"),
        TEXT("out", "DIR", "folder of the run: the model, checkpoints, metrics.jsonl", &o->out),
        FLAG("resume", "continue the run in that folder, with the options it was started with", &o->resume),
        COUNT("eval-every", "N", "steps between tests; a tenth of all unless given", &o->eval_every, 1, 0),
        COUNT("eval-tokens", "N", "most tokens of a test; 32768, of --task 500000, unless given; 0: all",
              &o->eval_tokens, 0, 0),
        COUNT("checkpoint-every", "N", "steps between checkpoints; as tests unless given", &o->checkpoint_every, 1, 0),
        COUNT("keep", "N", "checkpoints kept, beside the best model; 2 unless given", &o->keep, 1, 1 << 20),
        TEXT("config", "FILE", "a JSON object of options, by their names; the command line wins", &o->config),
        TEXT("plot", "FILE", "picture of the losses; .svg, .png, .pdf", &o->plot),
    };
    memcpy(out, options, sizeof options);
    return CLI_COUNT_OF(options);
}

size_t cli_train_table(cli_train_options *o, cli_option out[CLI_TRAIN_OPTIONS])
{
    size_t count = cli_train_text_table(o, out);
    count += cli_train_texts_table(&o->texts, out + count);
    count += cli_train_shape_table(o, out + count);
    count += cli_train_attention_table(o, out + count);
    count += cli_train_network_table(&o->network, out + count);
    count += cli_train_lora_table(&o->lora, out + count);
    count += cli_train_learning_table(o, out + count);
    return count + table_of_results(o, out + count);
}

size_t cli_train_model_table(cli_train_options *o, cli_option *out)
{
    size_t count = cli_train_shape_table(o, out);
    count += cli_train_attention_table(o, out + count);
    return count + cli_train_learning_table(o, out + count);
}
