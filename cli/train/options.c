/* The options of `bochner train`: text, model, attention, learning and results. Those of a kind are in its file. */
#include "train.h"

/* ---- data and results -------------------------------------------------------------------------------------------------------- */

const cli_option cli_train_text_rows[] = {
    SECTION("Text"),
    LIST("data", "FILE...", cli_train_options, data,
         "text, JSON lines (.jsonl) or the lines of a --task, also gzipped; more files may follow"),
    TEXT("valid", "FILE", cli_train_options, valid, "text to test with while training"),
    REAL("valid-fraction", "F", cli_train_options, valid_fraction,
         "without --valid, test with this part of the data: its end, or, with a --task, lines drawn by the "
         "seed; 0: none",
         .high = 0.9, .initial = "0.1"),
    TEXT("tokenizer", "FILE|DIR", cli_train_options, tokenizer, "a tokenizer.json", .otherwise = "bytes"),
    COUNT("vocab", "N", cli_train_options, vocab,
          "number of tokens; above 256 a tokenizer is learned from the data first", .low = 256, .high = 1 << 24,
          .otherwise = "256, bytes"),
    TEXT("field", "NAME", cli_train_options, field, "of JSON lines: name of the text", .otherwise = "text"),
    TEXT("separator", "WORD", cli_train_options, separator, "of text files: ends a document",
         .otherwise = "a file is a document"),
    FLAG("documents", cli_train_options, documents, "states and positions begin anew at the start of a document"),
    END_OF_OPTIONS,
};

static const cli_option result_rows[] = {
    SECTION("Results"),
    TEXT("out", "DIR", cli_train_options, out, "folder of the run: the model, checkpoints, metrics.jsonl"),
    FLAG("resume", cli_train_options, resume, "continue the run in that folder, with the options it was started with"),
    COUNT("eval-every", "N", cli_train_options, eval_every, "steps between tests", .low = 1,
          .otherwise = "a tenth of all steps"),
    COUNT("eval-tokens", "N", cli_train_options, eval_tokens, "greatest number of tokens of a test; 0: all",
          .otherwise = "32768; with a --task 500000"),
    COUNT("checkpoint-every", "N", cli_train_options, checkpoint_every, "steps between checkpoints", .low = 1,
          .otherwise = "as --eval-every"),
    COUNT("keep", "N", cli_train_options, keep, "number of checkpoints kept, beside the best model", .low = 1,
          .high = 1 << 20, .otherwise = "2"),
    TEXT("config", "FILE", cli_train_options, config,
         "a JSON object of options, by their names; the command line takes precedence"),
    TEXT("plot", "FILE", cli_train_options, plot, "picture of the losses: .svg, .png, .pdf"),
    END_OF_OPTIONS,
};

/* ---- the model --------------------------------------------------------------------------------------------------------------- */

static const char *preset_name(unsigned index)
{
    return bo_model_preset_name(index);
}

/* As bo_choice has them. */
static const char *choice_name(unsigned index)
{
    static const char *const names[] = {"auto", "no", "yes"};
    return index < CLI_COUNT_OF(names) ? names[index] : NULL;
}

const cli_option cli_train_shape_rows[] = {
    SECTION("Model"),
    CHOICE("preset", "NAME", cli_train_options, preset, preset_name, "layers, width, heads and context",
           .otherwise = "tiny"),
    COUNT("layers", "N", cli_train_options, layers, "number of layers", .low = 1, .high = 1 << 16,
          .otherwise = "the preset's"),
    COUNT("width", "N", cli_train_options, width, "width of the stream between layers", .low = 1, .high = 1 << 20,
          .otherwise = "the preset's"),
    COUNT("heads", "N", cli_train_options, heads, "heads of attention; they divide the width", .low = 1,
          .high = 1 << 16, .otherwise = "the preset's"),
    COUNT("key-heads", "N", cli_train_options, key_heads, "heads of keys and values; they divide the heads", .low = 1,
          .high = 1 << 16, .otherwise = "as --heads"),
    COUNT("context", "N", cli_train_options, context,
          "tokens of a sequence; with a --task the most tokens of a text: longer ones are cut before they "
          "are labeled, and refused where they are translated",
          .low = 1, .high = 1 << 30, .otherwise = "the preset's; with a --task by the longest text"),
    CHOICE("mixer", "KIND", cli_train_options, mixer, bo_mixer_name, "what lets tokens see each other",
           .otherwise = "attention"),
    CHOICE("ssm", "KIND", cli_train_options, ssm, bo_ssm_name, "of mixer ssm: how a state becomes the next",
           .otherwise = "diagonal"),
    COUNT("state-size", "N", cli_train_options, state_size, "of mixer ssm: numbers of a channel's state", .low = 1,
          .high = 1 << 16, .otherwise = "16"),
    COUNT("state-rank", "R", cli_train_options, state_rank, "of --ssm closed and low-rank: columns of P", .low = 1,
          .high = 1 << 16, .otherwise = "1"),
    COUNT("kernel", "K", cli_train_options, kernel, "of mixers conv and ssm: tokens of a convolution", .low = 1,
          .high = 1 << 20, .otherwise = "conv: 64, ssm: 4"),
    CHOICE("mlp", "KIND", cli_train_options, mlp, bo_mlp_name, "layer between the mixers", .otherwise = "relu2"),
    COUNT("hidden", "N", cli_train_options, hidden, "width within the MLP, or its features", .low = 1, .high = 1 << 24,
          .otherwise = "4 times the width, or what gives the same number of weights"),
    CHOICE("mlp-kernel", "K", cli_train_options, mlp_kernel, bo_kernel_name, "of --mlp random-features: the kernel",
           .without = ~0u << BO_KERNEL_CUSTOM, .otherwise = "rbf"),
    CHOICE("mlp-function", "F", cli_train_options, mlp_function, bo_function_name,
           "of --mlp random-features: the function of the projections", .without = ~0u << BO_FUNCTION_CUSTOM,
           .otherwise = "chosen by kernel"),
    CHOICE("mlp-draw", "D", cli_train_options, mlp_draw, bo_draw_name,
           "of --mlp random-features: how frequencies are coupled", .otherwise = "chosen by kernel"),
    COUNT("degree-heads", "H", cli_train_options, degree_heads,
          "of --mlp degree-D: number of groups of columns, each normalized", .low = 1, .high = 1 << 16,
          .otherwise = "1"),
    CHOICE("norm", "KIND", cli_train_options, norm, bo_norm_name, "normalization", .otherwise = "rms"),
    CHOICE("positions", "KIND", cli_train_options, positions, bo_positions_name, "how positions enter",
           .otherwise = "rope"),
    REAL_OR_AUTO("rope-base", cli_train_options, rope_base, "base of the wavelengths of rope", .otherwise = "10000"),
    CHOICE("query-norm", "WHEN", cli_train_options, query_norm, choice_name,
           "norm of queries and keys; auto: where the attention does not do so itself", .otherwise = "auto"),
    CHOICE("output-norm", "WHEN", cli_train_options, output_norm, choice_name,
           "norm of each head's output; auto: where it is not divided by a sum", .otherwise = "auto"),
    FLAG("untied", cli_train_options, untied, "an output projection apart from the embedding"),
    FLAG("bias", cli_train_options, bias, "linear layers have a bias"),
    FLAG("mup", cli_train_options, mup,
         "maximal-update parametrization: rates found at --base-width hold at any width"),
    FLAG("unit-mup", cli_train_options, unit_mup, "its unit-scaled form: numbers begin near 1; untied"),
    COUNT("base-width", "N", cli_train_options, base_width,
          "of --mup and --unit-mup: the width at which rates were found", .low = 1, .high = 1 << 20,
          .otherwise = "128"),
    FLAG("float8", cli_train_options, float8, "simulate products of 8-bit floats: values E4M3, gradients E5M2"),
    REAL("dropout", "P", cli_train_options, dropout, "probability of dropout", .high = 0.95, .otherwise = "0"),
    TEXT("init", "DIR", cli_train_options, init,
         "begin with the weights of this model, as far as they fit; new weights are named"),
    TEXT("freeze", "NAMES", cli_train_options, freeze,
         "weights that are not trained: beginnings of names, or patterns with *, separated by commas"),
    END_OF_OPTIONS,
};

/* ---- attention ---------------------------------------------------------------------------------------------------------------- */

/* Before cli_attention_layer_rows. */
const cli_option cli_train_kind_rows[] = {
    SECTION("Attention"),
    CHOICE("attention", "KIND", cli_attention_options, kind, cli_attention_kind_choice, "kind of attention",
           .find = bo_attention_preset_find, .otherwise = "rfa-gate; to label texts rfa"),
    END_OF_OPTIONS,
};

const cli_option cli_train_attention_rows[] = {
    CHOICE("gate", "KIND", cli_train_options, gate, bo_gate_name, "gate of the attention", .otherwise = "the kind's"),
    REAL("gate-first", "X", cli_train_options, gate_first, "the gate of the first head begins at sigmoid(X)",
         .low = -30, .high = 30, .otherwise = "1"),
    REAL("gate-last", "X", cli_train_options, gate_last,
         "the gate of the last head begins at sigmoid(X); others lie in between", .low = -30, .high = 30,
         .otherwise = "5"),
    REAL_OR_AUTO("sigma", cli_train_options, sigma, "initial scale of queries and keys before features",
                 .otherwise = "the kind's"),
    COUNT("calibrate-every", "N", cli_train_options, calibrate_every,
          "steps between new frequencies that are drawn for data", .low = 1, .otherwise = "only at the start"),
    END_OF_OPTIONS,
};

/* ---- learning ----------------------------------------------------------------------------------------------------------------- */

const cli_option cli_train_learning_rows[] = {
    SECTION("Learning"),
    CHOICE("optim", "KIND", cli_train_options, optim, bo_optimizer_kind_name,
           "optimizer; muon is for hidden matrices, and adamw takes the rest", .initial = "muon"),
    REAL_OR_AUTO("lr", cli_train_options, lr, "learning rate",
                 .otherwise = "muon: 0.02, adamw: 0.003, sgd: 0.1, sign: 0.001, linf: 1e-4"),
    REAL_OR_AUTO("other-lr", cli_train_options, other_lr, "muon: rate of what adamw takes", .otherwise = "0.003"),
    REAL("decay", "X", cli_train_options, decay, "decay of weights, times the rate", .high = 1e3, .initial = "0"),
    REAL("momentum", "X", cli_train_options, momentum, "momentum; a negative number turns it off", .low = -1,
         .high = 0.9999, .otherwise = "muon: 0.95, sgd and sign: 0.9"),
    CHOICE("schedule", "KIND", cli_train_options, schedule, bo_schedule_kind_name, "how the rate falls",
           .initial = "cosine"),
    COUNT("warmup", "N", cli_train_options, warmup, "steps in which the rate rises",
          .otherwise = "2% of all, at least 10"),
    REAL("floor", "X", cli_train_options, floor, "what the rate falls to, as a fraction of it", .high = 1,
         .initial = "0"),
    REAL("clip", "X", cli_train_options, clip, "greatest norm of a gradient; a negative number turns clipping off",
         .low = -1, .high = 1e30, .initial = "1"),
    REAL("average", "X", cli_train_options, average,
         "test and keep an exponential moving average of the weights, with decay X", .high = 0.999999,
         .otherwise = "none"),
    CHOICE("muon-factor", "KIND", cli_train_options, muon_factor, bo_muon_factor_name,
           "muon: factor by the shape of a matrix", .initial = "tall"),
    CHOICE("muon-iteration", "KIND", cli_train_options, muon_iteration, bo_muon_iteration_name,
           "muon: iteration of Newton and Schulz", .initial = "quintic"),
    COUNT("batch", "N", cli_train_options, batch, "sequences of a step, over all ranks; with a --task packs", .low = 1,
          .high = 1 << 24, .otherwise = "16; with a --task packs of 16384 tokens together, to translate 4096"),
    COUNT("micro-batch", "N", cli_train_options, micro_batch, "sequences or packs computed at a time", .low = 1,
          .high = 1 << 24, .otherwise = "by memory"),
    FLAG("checkpointing", cli_train_options, checkpointing,
         "keep the activations of one layer at a time and compute them again: less memory, more time"),
    CHOICE("activations", "HOW", cli_train_options, activations, bo_storage_name,
           "how activations wait for the backward pass; bfloat16 takes half the memory",
           .without = ~0u << (BO_STORAGE_BFLOAT16 + 1), .initial = "float32"),
    COUNT("steps", "N", cli_train_options, steps, "number of steps", .low = 1, .otherwise = "by --minutes"),
    REAL("minutes", "M", cli_train_options, minutes, "approximate time, turned into steps once", .low = 0.001,
         .high = 1e7, .otherwise = "5"),
    COUNT("patience", "N", cli_train_options, patience, "stop after this many tests without a better one", .low = 1,
          .otherwise = "never"),
    END_OF_OPTIONS,
};

/* ---- all of them --------------------------------------------------------------------------------------------------------------- */

const cli_usage cli_train_usage = {
    .command = "train",
    .synopsis = "--data FILE... --out DIR [options]   or   --resume --out DIR",
    .about = "Trains a language model with the attention of your choice on text. DIR becomes what Hugging Face "
             "stores: config.json, model.safetensors, tokenizer.json; bochner eval and generate take it. A run "
             "that was stopped or killed goes on with --resume to the same weights, bit for bit. With mpirun "
             "the batch is split over the ranks. With --task it labels texts, says whether two belong "
             "together, or translates: data are tab-separated lines. With --model FILE it trains a network of "
             "the layers that the file describes on a table, images or a graph.",
    .examples = "  bochner train --data text.txt --out model --minutes 2\n"
                "  bochner train --data text.txt --out exact --attention softmax --steps 400 --plot loss.svg\n"
                "  bochner train --resume --out model\n"
                "  bochner train --task classify --data reviews.tsv --out labels --steps 400\n"
                "  bochner train --task translate --data pairs.tsv --out translator --steps 400\n"
                "  bochner train --model net.json --data train.csv --target price --out net --steps 400\n",
    .groups = {{cli_train_text_rows, 0},
               {cli_train_texts_rows, offsetof(cli_train_options, texts)},
               {cli_train_shape_rows, 0},
               {cli_train_kind_rows, offsetof(cli_train_options, attention)},
               {cli_attention_layer_rows, offsetof(cli_train_options, attention)},
               {cli_train_attention_rows, 0},
               {cli_train_network_rows, offsetof(cli_train_options, network)},
               {cli_network_column_rows, offsetof(cli_train_options, network.data)},
               {cli_network_graph_rows, offsetof(cli_train_options, network.data)},
               {cli_train_lora_rows, offsetof(cli_train_options, lora)},
               {cli_train_learning_rows, 0},
               {result_rows, 0}},
    .defaults = {{"features", .otherwise = "128"}},
    .essential = {"data", "out", "minutes", "steps", "resume", "attention", "preset", "context", "valid", "lr", "batch",
                  "task", "tokenizer", "plot", "seed", "optim"},
};

void cli_train_clear(cli_train_options *o)
{
    *o = (cli_train_options){.attention = {.command = "train", .causal = true}};
    cli_set_initial(&cli_train_usage, o);
}
