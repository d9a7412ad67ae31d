/* The options of `bochner train`: data, model, attention, optimization and results. Options of one kind of training are
 * in the file of that kind. */
#include "train.h"

/* ---- data and results -------------------------------------------------------------------------------------------- */

const cli_option cli_train_text_rows[] = {
    SECTION("Data"),
    LIST("data", "FILE...", cli_train_options, data,
         "training data: plain text, JSON lines (.jsonl) or, with --task, tab-separated lines; may be gzipped; several "
         "files may follow"),
    TEXT("valid", "FILE", cli_train_options, valid, "validation data"),
    REAL("valid-fraction", "F", cli_train_options, valid_fraction,
         "without --valid, fraction of the data that is used for validation: the end of the text or, with --task, "
         "random lines; 0 turns validation off",
         .high = 0.9, .initial = "0.1"),
    TEXT("tokenizer", "FILE|DIR", cli_train_options, tokenizer, "tokenizer.json, or a directory that contains it",
         .default_text = "one token per byte"),
    COUNT("vocab", "N", cli_train_options, vocab,
          "vocabulary size; above 256, a byte-pair tokenizer is trained on the data first", .low = 256, .high = 1 << 24,
          .default_text = "256: one token per byte"),
    TEXT("field", "NAME", cli_train_options, field, "for JSON lines: name of the field with the text",
         .default_text = "text"),
    TEXT("separator", "TEXT", cli_train_options, separator, "for text files: text that ends a document",
         .default_text = "one document per file"),
    FLAG("documents", cli_train_options, documents, "reset state and positions at the start of each document"),
    FLAG("stateful", cli_train_options, stateful,
         "continue each sequence in the next step from its final state: sequences are consecutive in the "
         "text"),
    COUNT("state-windows", "N", cli_train_options, state_windows,
          "for --stateful: consecutive windows of --context tokens per step and sequence, through whose states the "
          "gradient flows",
          .low = 1, .high = 1024, .default_text = "1: the gradient ends at the start of each window"),
    END_OF_OPTIONS,
};

static const cli_option result_rows[] = {
    SECTION("Results"),
    TEXT("out", "DIR", cli_train_options, out, "directory of the run: model, checkpoints and metrics.jsonl"),
    FLAG("resume", cli_train_options, resume, "resume the run in --out with its original options"),
    COUNT("eval-every", "N", cli_train_options, eval_every, "steps between evaluations on the validation data",
          .low = 1, .default_text = "a tenth of all steps"),
    COUNT("eval-tokens", "N", cli_train_options, eval_tokens, "maximum tokens per evaluation; 0: all",
          .default_text = "32768; with --task 500000"),
    COUNT("checkpoint-every", "N", cli_train_options, checkpoint_every, "steps between checkpoints", .low = 1,
          .default_text = "the value of --eval-every"),
    COUNT("keep", "N", cli_train_options, keep, "number of checkpoints to keep, in addition to the best model",
          .low = 1, .high = 1 << 20, .default_text = "2"),
    TEXT("config", "FILE", cli_train_options, config,
         "JSON file with options by name; the command line takes precedence"),
    TEXT("plot", "FILE", cli_train_options, plot, "draw the training and validation loss: .svg, .png or .pdf"),
    END_OF_OPTIONS,
};

/* ---- the model --------------------------------------------------------------------------------------------------- */

static const char *preset_name(unsigned index)
{
    return bo_model_preset_name(index);
}

/* In the order of bo_choice. */
static const char *choice_name(unsigned index)
{
    static const char *const names[] = {"auto", "no", "yes"};
    return index < CLI_COUNT_OF(names) ? names[index] : NULL;
}

const cli_option cli_train_shape_rows[] = {
    SECTION("Model"),
    CHOICE_OF("preset", "NAME", cli_train_options, preset, preset_name, "model size (layers, width, heads and context)",
              .default_text = "tiny"),
    TEXT("blocks", "FILE", cli_train_options, blocks,
         "description of the layers as a list of blocks (JSON: docs/reference/model.md), instead of the options below "
         "that describe a layer"),
    COUNT("layers", "N", cli_train_options, layers,
          "number of layers; with --blocks, the list is repeated to this number", .low = 1, .high = 1 << 16,
          .default_text = "by --preset or --blocks"),
    COUNT("width", "N", cli_train_options, width, "width of the residual stream", .low = 1, .high = 1 << 20,
          .default_text = "the preset's"),
    COUNT("heads", "N", cli_train_options, heads, "attention heads; must divide the width", .low = 1, .high = 1 << 16,
          .default_text = "the preset's"),
    COUNT("key-heads", "N", cli_train_options, key_heads, "heads of keys and values; must divide --heads", .low = 1,
          .high = 1 << 16, .default_text = "the value of --heads"),
    COUNT("context", "N", cli_train_options, context,
          "tokens per sequence. With --task, maximum tokens per text; longer texts are truncated, or refused for "
          "--task translate. With --lora, at most the context of --init, which stays as it is",
          .low = 1, .high = 1 << 30,
          .default_text =
              "the preset's; with --task, from the longest text; with --lora, that of --init, at most 1024"),
    CHOICE("mixer", "KIND", cli_train_options, mixer, BO_ENUM_MIXER, "token-mixing layer", .default_text = "attention"),
    CHOICE("ssm", "KIND", cli_train_options, ssm, BO_ENUM_SSM, "for --mixer ssm: structure of the state transition",
           .default_text = "diagonal"),
    COUNT("state-size", "N", cli_train_options, state_size, "for --mixer ssm: state size per channel", .low = 1,
          .high = 1 << 16, .default_text = "16"),
    COUNT("state-rank", "R", cli_train_options, state_rank,
          "for --ssm closed and low-rank: rank of the transition, the columns of P", .low = 1, .high = 1 << 16,
          .default_text = "1"),
    COUNT("kernel", "K", cli_train_options, kernel, "for --mixer conv and ssm: length of the convolution in tokens",
          .low = 1, .high = 1 << 20, .default_text = "conv: 64, ssm: 4"),
    CHOICE("mlp", "KIND", cli_train_options, mlp, BO_ENUM_MLP, "feed-forward layer after each mixer",
           .default_text = "relu2"),
    COUNT("hidden", "N", cli_train_options, hidden, "hidden width of the MLP, or its number of features", .low = 1,
          .high = 1 << 24, .default_text = "4 times the width, or the size with the same number of weights"),
    CHOICE("mlp-kernel", "K", cli_train_options, mlp_kernel, BO_ENUM_KERNEL, "for --mlp random-features: kernel",
           .without = ~0u << BO_KERNEL_CUSTOM, .default_text = "rbf"),
    CHOICE("mlp-function", "F", cli_train_options, mlp_function, BO_ENUM_FUNCTION,
           "for --mlp random-features: function applied to the projections", .without = ~0u << BO_FUNCTION_CUSTOM,
           .default_text = "chosen by kernel"),
    CHOICE("mlp-draw", "D", cli_train_options, mlp_draw, BO_ENUM_DRAW,
           "for --mlp random-features: sampling scheme of the frequencies", .default_text = "chosen by kernel"),
    COUNT("degree-heads", "H", cli_train_options, degree_heads,
          "for --mlp degree-D: number of column groups that are normalized separately", .low = 1, .high = 1 << 16,
          .default_text = "1"),
    CHOICE("norm", "KIND", cli_train_options, norm, BO_ENUM_NORM, "normalization", .default_text = "rms"),
    CHOICE("positions", "KIND", cli_train_options, positions, BO_ENUM_POSITIONS, "encoding of positions",
           .default_text = "rope"),
    REAL_OR_AUTO("rope-base", cli_train_options, rope_base, "base of the wavelengths of rotary embeddings",
                 .default_text = "10000"),
    CHOICE_OF("query-norm", "WHEN", cli_train_options, query_norm, choice_name,
              "normalize queries and keys; auto: unless the attention normalizes them", .default_text = "auto"),
    CHOICE_OF("output-norm", "WHEN", cli_train_options, output_norm, choice_name,
              "normalize the output of each head; auto: unless the attention divides it by a sum",
              .default_text = "auto"),
    FLAG("untied", cli_train_options, untied, "use separate weights for the output projection and the embedding"),
    FLAG("bias", cli_train_options, bias, "add a bias to linear layers"),
    FLAG("mup", cli_train_options, mup,
         "maximal-update parametrization: learning rates found at --base-width transfer to other widths"),
    FLAG("unit-mup", cli_train_options, unit_mup,
         "unit-scaled maximal-update parametrization: values have scale 1 at the start; implies --untied"),
    COUNT("base-width", "N", cli_train_options, base_width,
          "for --mup and --unit-mup: width at which the learning rates were found", .low = 1, .high = 1 << 20,
          .default_text = "128"),
    FLAG("float8", cli_train_options, float8,
         "simulate matrix products in 8-bit floating point: E4M3 for values, E5M2 for gradients"),
    REAL("dropout", "P", cli_train_options, dropout, "dropout probability", .high = 0.95, .default_text = "0"),
    TEXT("init", "DIR", cli_train_options, init,
         "start from the weights of this model where shapes match; newly initialized tensors are listed"),
    TEXT("freeze", "NAMES", cli_train_options, freeze,
         "weights of --init that are not trained: prefixes of tensor names, or patterns with *, separated by commas"),
    END_OF_OPTIONS,
};

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* Before cli_attention_layer_rows. */
const cli_option cli_train_kind_rows[] = {
    SECTION("Attention"),
    CHOICE_OF("attention", "KIND", cli_attention_options, kind, cli_attention_kind_choice, "attention in each layer",
              .find = cli_attention_preset, .default_text = "rfa-gate; for --task classify and match rfa"),
    END_OF_OPTIONS,
};

/* After cli_attention_layer_rows. */
const cli_option cli_train_whiten_rows[] = {
    FLAG("whiten", cli_attention_options, whiten,
         "start with the M that whitens the initial queries and keys on the training text; for language models",
         .traits = BO_TRAIT_MATRIX),
    END_OF_OPTIONS,
};

const cli_option cli_train_attention_rows[] = {
    CHOICE("gate", "KIND", cli_train_options, gate, BO_ENUM_GATE, "gate of the state",
           .default_text = "by --attention"),
    REAL("gate-first", "X", cli_train_options, gate_first, "initial gate of the first head: sigmoid(X)", .low = -30,
         .high = 30, .default_text = "1"),
    REAL("gate-last", "X", cli_train_options, gate_last,
         "initial gate of the last head: sigmoid(X); gates of the other heads are spaced between the two", .low = -30,
         .high = 30, .default_text = "5"),
    REAL_OR_AUTO("sigma", cli_train_options, sigma, "initial scale of queries and keys before the feature map",
                 .default_text = "by --attention"),
    COUNT("calibrate-every", "N", cli_train_options, calibrate_every,
          "steps between recalibrations of the frequencies to the data", .low = 1, .default_text = "only at the start"),
    COUNT("redraw", "STEPS", cli_train_options, redraw,
          "steps between redraws of the random frequencies from the same distribution", .low = 1,
          .default_text = "never"),
    END_OF_OPTIONS,
};

/* ---- optimization ------------------------------------------------------------------------------------------------ */

const cli_option cli_train_learning_rows[] = {
    SECTION("Optimization"),
    CHOICE("optim", "KIND", cli_train_options, optim, BO_ENUM_OPTIMIZER_KIND,
           "optimizer; muon updates hidden matrices, and adamw updates the other weights", .initial = "muon"),
    REAL_OR_AUTO("lr", cli_train_options, lr, "learning rate",
                 .default_text = "muon: 0.02, adamw: 0.003, sgd: 0.1, sign: 0.001, linf: 1e-4"),
    REAL_OR_AUTO("other-lr", cli_train_options, other_lr, "for muon: learning rate of the weights that adamw updates",
                 .default_text = "0.003"),
    REAL("decay", "X", cli_train_options, decay, "weight decay, multiplied by the learning rate", .high = 1e3,
         .initial = "0"),
    REAL("momentum", "X", cli_train_options, momentum, "momentum; a negative value turns it off", .low = -1,
         .high = 0.9999, .default_text = "muon: 0.95, sgd and sign: 0.9"),
    CHOICE("schedule", "KIND", cli_train_options, schedule, BO_ENUM_SCHEDULE_KIND,
           "schedule of the learning rate after warmup", .initial = "cosine"),
    COUNT("warmup", "N", cli_train_options, warmup, "steps over which the learning rate rises",
          .default_text = "2% of all steps, at least 10"),
    REAL("floor", "X", cli_train_options, floor, "final learning rate as a fraction of --lr", .high = 1,
         .initial = "0"),
    REAL("clip", "X", cli_train_options, clip, "maximum norm of the gradient; a negative value turns clipping off",
         .low = -1, .high = 1e30, .initial = "1"),
    REAL("average", "X", cli_train_options, average,
         "keep and evaluate an exponential moving average of the weights; X is the weight of the old average",
         .high = 0.999999, .default_text = "none"),
    CHOICE("muon-factor", "KIND", cli_train_options, muon_factor, BO_ENUM_MUON_FACTOR,
           "for muon: factor that depends on the shape of a matrix", .initial = "tall"),
    CHOICE("muon-iteration", "KIND", cli_train_options, muon_iteration, BO_ENUM_MUON_ITERATION,
           "for muon: Newton-Schulz iteration", .initial = "quintic"),
    COUNT("batch", "N", cli_train_options, batch, "sequences per step over all ranks; with --task, packs per step",
          .low = 1, .high = 1 << 24,
          .default_text = "16; with --task, packs with 16384 tokens in total, for translate 4096"),
    COUNT("micro-batch", "N", cli_train_options, micro_batch, "sequences or packs per forward and backward pass",
          .low = 1, .high = 1 << 24, .default_text = "by memory"),
    FLAG("checkpointing", cli_train_options, checkpointing,
         "activation checkpointing: keep the activations of one layer at a time and recompute the other layers; less "
         "memory, "
         "more time"),
    DEVICE(cli_train_options),
    PRECISION(cli_train_options, .traits = 0),
    CHOICE("activations", "HOW", cli_train_options, activations, BO_ENUM_STORAGE,
           "storage of activations for the backward pass; bfloat16 needs half the memory",
           .without = ~0u << (BO_STORAGE_BFLOAT16 + 1), .initial = "float32"),
    COUNT("steps", "N", cli_train_options, steps, "number of optimizer steps", .low = 1,
          .default_text = "by --minutes"),
    REAL("minutes", "M", cli_train_options, minutes,
         "approximate training time, converted to a number of steps at the start", .low = 0.001, .high = 1e7,
         .default_text = "5"),
    COUNT("patience", "N", cli_train_options, patience, "stop after N evaluations without a better validation loss",
          .low = 1, .default_text = "never"),
    END_OF_OPTIONS,
};

/* ---- all of them ------------------------------------------------------------------------------------------------- */

const cli_usage cli_train_usage = {
    .command = "train",
    .synopsis = "--data FILE... --out DIR [options]   or   --resume --out DIR",
    .about = "Trains a language model with any of the attention kinds on text. DIR becomes a Hugging Face model "
             "directory: config.json, model.safetensors and tokenizer.json. bochner eval and bochner generate read it. "
             "--resume continues a run that was stopped or killed; the final weights are the same, bit for bit. With "
             "mpirun, the batch is split over the ranks. With --task, it trains a model that classifies texts, matches "
             "pairs of texts or translates; the data are tab-separated lines. With --model FILE, it trains the network "
             "described by the file on a table, images or a graph.",
    .examples = "  bochner train --data text.txt --out model --minutes 2\n"
                "  bochner train --data text.txt --out softmax --attention softmax --steps 400 --plot loss.svg\n"
                "  bochner train --resume --out model\n"
                "  bochner train --task classify --data reviews.tsv --out labels --steps 400\n"
                "  bochner train --task translate --data german-english.tsv --out german --steps 400\n"
                "  bochner train --model net.json --data train.csv --target price --out net --steps 400\n",
    .groups = {{cli_train_text_rows, 0},
               {cli_train_texts_rows, offsetof(cli_train_options, texts)},
               {cli_train_shape_rows, 0},
               {cli_train_kind_rows, offsetof(cli_train_options, attention)},
               {cli_attention_layer_rows, offsetof(cli_train_options, attention)},
               {cli_train_whiten_rows, offsetof(cli_train_options, attention)},
               {cli_train_attention_rows, 0},
               {cli_train_network_rows, offsetof(cli_train_options, network)},
               {cli_network_column_rows, offsetof(cli_train_options, network.data)},
               {cli_network_graph_rows, offsetof(cli_train_options, network.data)},
               {cli_train_lora_rows, offsetof(cli_train_options, lora)},
               {cli_train_learning_rows, 0},
               {result_rows, 0}},
    .defaults = {{"features", .default_text = "128"}},
    .short_help = {"data", "out", "minutes", "steps", "resume", "attention", "preset", "context", "valid", "lr",
                   "batch", "task", "tokenizer", "plot", "seed", "device", "optim"},
};

void cli_train_clear(cli_train_options *o)
{
    *o = (cli_train_options){.attention = {.command = "train", .causal = true}};
    cli_set_initial(&cli_train_usage, o);
}
