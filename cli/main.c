/* bochner COMMAND: the table of commands, help, and suggestions for mistyped commands. */
#include "common/cli.h"
#include "common/completion.h"
#include "common/external.h"
#include "common/json.h"
#include "common/manual.h"
#include "common/streams.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage version_usage = {
    .command = "version",
    .synopsis = "",
    .about = "Prints the version of the program and of its library, and the instruction set chosen for this CPU.",
    .examples = "  bochner version\n",
};

static const cli_usage help_usage = {
    .command = "help",
    .synopsis = "[COMMAND] [--all]",
    .about =
        "Prints the list of commands, or the most common options of a command with examples; with --all, all of its "
        "options.",
    .examples = "  bochner help train\n"
                "  bochner help train --all\n",
};

static const cli_usage completion_usage = {
    .command = "completion",
    .synopsis = "bash|zsh|fish",
    .about =
        "Prints a completion script for commands, options and their values. An installation contains these scripts in "
        "the standard directories of the shells. To try one: source <(bochner completion bash), in zsh the same with "
        "zsh, in fish: bochner completion fish | source.",
    .examples = "  bochner completion bash >bochner.bash\n"
                "  bochner completion zsh >_bochner\n"
                "  bochner completion fish >bochner.fish\n",
    .subcommands = {"bash", "zsh", "fish"},
};

static int version_command(int argc, char **argv);
static int help_command(int argc, char **argv);
static int completion_command(int argc, char **argv);

static int run_lab(int argc, char **argv);
static int run_bench(int argc, char **argv);

typedef struct command {
    cli_listed listed;
    int (*run)(int argc, char **argv);
} command;

/* A title starts a group of the overview. */
#define COMMAND(title, name, run, summary, ...) {{title, name, summary, {__VA_ARGS__}, false}, run}
#define EXTERNAL(name, run, summary)            {{NULL, name, summary, {NULL}, true}, run}
static const command commands[] = {
    COMMAND("Tables", "fit", cli_fit, "Fit a kernel machine to a table", &cli_fit_usage),
    COMMAND(NULL, "predict", cli_predict, "Predict with a trained model", &cli_predict_usage),
    COMMAND(NULL, "explain", cli_explain, "Explain a model of a table, and one prediction", &cli_explain_usage),
    COMMAND(NULL, "embed", cli_embed, "Find the principal components of a table, by PCA or kernel PCA",
            &cli_embed_usage),
    COMMAND(NULL, "drift", cli_drift, "Test whether two tables have the same distribution", &cli_drift_usage),
    COMMAND("Language models", "train", cli_train, "Train a language model, a text classifier or a network",
            &cli_train_usage),
    COMMAND(NULL, "eval", cli_eval, "Evaluate a trained model on data", &cli_eval_usage),
    COMMAND(NULL, "inspect", cli_inspect, "Analyze a model: heads, circuits, replacements of softmax",
            &cli_inspect_usage),
    COMMAND(NULL, "compare", cli_compare, "Compare training runs", &cli_compare_usage),
    COMMAND(NULL, "generate", cli_generate, "Generate or translate text", &cli_generate_usage),
    COMMAND(NULL, "chat", cli_chat, "Talk with a chat model", &cli_chat_usage),
    COMMAND(NULL, "serve", cli_serve, "Serve a language model over HTTP, with a playground", &cli_serve_usage),
    COMMAND(NULL, "tokenizer", cli_tokenizer, "Train a tokenizer; encode and decode text", &cli_tokenizer_usage),
    COMMAND(NULL, "lora", cli_lora, "Merge an adapter into a model, or remove it again", &cli_lora_usage),
    COMMAND(NULL, "convert", cli_convert, "Convert a GGUF or llama2.c model to a Hugging Face directory",
            &cli_convert_usage),
    COMMAND(NULL, "linearize", cli_linearize, "Replace the softmax attention of a model by linear attention",
            &cli_linearize_usage),
    COMMAND(NULL, "plan", cli_plan, "Find the best model for a budget of time or tokens", &cli_plan_usage),
    COMMAND(NULL, "mup", cli_mup, "Check that learning rates transfer across widths", &cli_mup_usage),
    COMMAND("Tools", "attention", cli_attention, "Compute attention of arrays, linear-time or softmax",
            &cli_attention_usage),
    COMMAND(NULL, "features", cli_features, "Compute random features and their error", &cli_features_usage),
    COMMAND(NULL, "info", cli_info, "Describe a model", &cli_info_usage),
    COMMAND(NULL, "data", cli_data, "Generate synthetic data for sequence tasks", &cli_data_usage),
    EXTERNAL("lab", run_lab, "Run experiments that test the theory"),
    EXTERNAL("bench", run_bench, "Measure speed and quality"),
    COMMAND(NULL, "completion", completion_command, "Print a completion script for a shell", &completion_usage),
    COMMAND(NULL, "help", help_command, "Show this page, or examples and common options of a command", &help_usage),
    COMMAND(NULL, "version", version_command, "Show the version", &version_usage),
};

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        if (strcmp(commands[i].listed.name, name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(const void *items, size_t index)
{
    return ((const command *)items)[index].listed.name;
}

static int unknown_command(const char *name)
{
    const char *near = cli_nearest(name, CLI_COUNT_OF(commands), command_name, commands);
    cli_streams_print("bochner: unknown command '%s'", name);
    if (near) cli_streams_print("; did you mean %s?", near);
    cli_streams_print(" (bochner help lists all commands)\n");
    return CLI_USAGE_ERROR;
}

static void overview(FILE *out)
{
    fputs("Usage: bochner COMMAND [options] [files]\n\n", out);
    cli_print_wrapped(out, "Kernel machines for tables and linear-time transformers, from random features.", 0);
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) {
        const cli_listed *listed = &commands[i].listed;
        if (listed->title) fprintf(out, "\n%s\n", listed->title);
        fprintf(out, "  %-12s", listed->name);
        cli_print_wrapped(out, listed->summary, 14);
    }
    static const char *const examples[] = {
        "bochner fit train.csv --target price --holdout 0.2 --out price.model",
        "BOCHNER_TRACE=trace.json bochner train --data text.txt --out story --minutes 2",
    };
    fputs("\nExamples\n", out);
    for (size_t i = 0; i < CLI_COUNT_OF(examples); i++) {
        fputs("  ", out);
        cli_wrap_text(out, examples[i],
                      (cli_wrap){.width = cli_columns(out), .column = 2, .indent = 6, .command = true, .join = " \\"});
    }
}

/* Hidden, for the build and for `make docs`: copies standard input and inserts the options. */
static int write_manual(bool page)
{
    const cli_usage *usages[CLI_COUNT_OF(commands) * CLI_USAGES];
    const cli_listed *external[CLI_COUNT_OF(commands)];
    cli_manual manual = {usages, 0, external, 0};
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) {
        const cli_listed *listed = &commands[i].listed;
        if (listed->external) external[manual.external_count++] = listed;
        for (size_t k = 0; k < CLI_USAGES && listed->usages[k]; k++) usages[manual.count++] = listed->usages[k];
    }
    if (!page) return cli_manual_lists(&manual, stdin, stdout) ? CLI_DONE : CLI_FAILED;
    cli_manual_page(&manual, stdin, stdout);
    return CLI_DONE;
}

/* Finds the first argument that is not an option, and --all or --help-all. Returns false, after a message, for another
 * option. */
static bool read_help_arguments(int argc, char **argv, const char **name, bool *all)
{
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--all") == 0 || strcmp(word, "--help-all") == 0) {
            *all = true;
        } else if (word[0] == '-' && strcmp(word, "--help") != 0 && strcmp(word, "-h") != 0) {
            cli_usage_error("help", "unknown option %s; expected a command, or a command and --all", word);
            return false;
        } else if (word[0] != '-' && !*name) {
            *name = word;
        }
    }
    return true;
}

static int help_command(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "--man") == 0) return write_manual(true);
    if (argc == 1 && strcmp(argv[0], "--markdown") == 0) return write_manual(false);
    const char *name = NULL;
    bool all = false;
    if (!read_help_arguments(argc, argv, &name, &all)) return CLI_USAGE_ERROR;
    const command *found = find_command(name ? name : "help");
    if (!found) return unknown_command(name);
    if (found->run == help_command) {
        overview(stdout);
        return CLI_DONE;
    }
    /* bochner help bench attention: the command receives its arguments and the option, and prints its help */
    char flag[] = "--help", every[] = "--help-all", *args[] = {all ? every : flag, NULL, NULL};
    for (int i = 0; i < argc && found->listed.external; i++)
        if (argv[i][0] != '-' && argv[i] != name) {
            args[1] = args[0];
            args[0] = argv[i];
            break;
        }
    return found->run(args[1] ? 2 : 1, args);
}

static int run_lab(int argc, char **argv)
{
    return cli_external_run("lab", argc, argv);
}

static int run_bench(int argc, char **argv)
{
    return cli_external_run("bench", argc, argv);
}

static int completion(void *unused, const cli_common *common, const cli_arguments *arguments)
{
    (void)unused;
    (void)common;
    const cli_listed *listed[CLI_COUNT_OF(commands)];
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++) listed[i] = &commands[i].listed;
    const char *shell = arguments->count == 1 ? arguments->items[0] : "";
    if (cli_completion(shell, listed, CLI_COUNT_OF(commands), stdout)) return CLI_DONE;
    return cli_usage_error("completion", "expected one of bash, zsh, fish; found %s%s%s", *shell ? "'" : "",
                           *shell                 ? shell
                           : arguments->count > 1 ? "several words"
                                                  : "nothing",
                           *shell ? "'" : "");
}

static int completion_command(int argc, char **argv)
{
    return cli_command(&completion_usage, argc, argv, NULL, completion);
}

static int version(void *unused, const cli_common *common, const cli_arguments *arguments)
{
    (void)unused;
    (void)arguments;
    cli_session session;
    if (!cli_session_open(&session, "version", common, false)) return CLI_FAILED;
    if (common->json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "version", bo_version());
        cli_json_add_text(&json, "isa", bo_context_describe(session.context)->isa);
        cli_json_add_count(&json, "threads", (size_t)bo_context_describe(session.context)->threads);
        cli_json_end(&json);
    } else {
        printf("bochner %s (%s kernels, %d threads)\n", bo_version(), bo_context_describe(session.context)->isa,
               bo_context_describe(session.context)->threads);
    }
    cli_session_close(&session);
    return CLI_DONE;
}

static int version_command(int argc, char **argv)
{
    return cli_command(&version_usage, argc, argv, NULL, version);
}

int main(int argc, char **argv)
{
    cli_streams_open();
    if (argc < 2) {
        overview(stderr);
        return CLI_USAGE_ERROR;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0) word = "version";
    const command *found = find_command(word);
    return cli_streams_close(word, found ? found->run(argc - 2, argv + 2) : unknown_command(argv[1]));
}
