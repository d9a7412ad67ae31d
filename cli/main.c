/* bochner COMMAND: the table of commands, help, and the nearest command to a mistyped one. */
#include "common/cli.h"
#include "common/json.h"
#include "manual.h"
#include "../bench/bench.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGES = 6 };
typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
    const cli_usage *usages[USAGES]; /* up to the first NULL */
} command;

static const cli_usage version_usage = {
    .command = "version",
    .synopsis = "",
    .about = "Prints the version of the program and of its library, and the kernels chosen for this CPU.",
    .examples = "  bochner version\n",
};

static const cli_usage help_usage = {
    .command = "help",
    .synopsis = "[COMMAND]",
    .about = "Prints the list of commands, or the help of one.",
    .examples = "  bochner help train\n",
};

static int version_command(int argc, char **argv);
static int help_command(int argc, char **argv);

static const command commands[] = {
    {"fit", cli_fit, "learn from a table: regression or classification, nothing to tune", {&cli_fit_usage}},
    {"predict", cli_predict, "apply a model to a table; standard deviations, probabilities", {&cli_predict_usage}},
    {"features",
     cli_features,
     "random features of a table, and how close they are to the kernel",
     {&cli_features_usage}},
    {"attention",
     cli_attention,
     "exact attention, or attention in linear time, and how far they are apart",
     {&cli_attention_usage}},
    {"train", cli_train, "a language model with any of these attentions, from text", {&cli_train_usage}},
    {"eval", cli_eval, "how well a language model predicts a text", {&cli_eval_usage}},
    {"generate", cli_generate, "text from a language model", {&cli_generate_usage}},
    {"lora", cli_lora, "adapters of language models: merge them into the weights, and back", {&cli_lora_usage}},
    {"tokenizer", cli_tokenizer, "text to numbers and back: learn, encode, decode", {&cli_tokenizer_usage}},
    {"data",
     cli_data,
     "made-up lines for sequence tasks: nested operations, pairs of documents, recall",
     {&cli_data_usage}},
    {"info", cli_info, "what a file written by bochner holds", {&cli_info_usage}},
    {"plan", cli_plan, "the model to train in a given time, with this many tokens or parameters", {&cli_plan_usage}},
    {"mup", cli_mup, "does a model follow its width: activations, norms, the best rate", {&cli_mup_usage}},
    {"lab", cli_lab, "the theory as experiments: claims, numbers, verdicts, a report", {&cli_lab_usage}},
    {"bench",
     cli_bench,
     "speed and quality, as ratios measured in one run",
     {&bench_machines_usage, &bench_attention_usage, &bench_train_usage, &bench_layers_usage, &bench_recall_usage,
      &bench_tasks_usage}},
    {"help", help_command, "this text, or the help of a command", {&help_usage}},
    {"version", version_command, "version of the program and the kernels it uses", {&version_usage}},
};

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static const char *command_name(const void *words, size_t index)
{
    return ((const command *)words)[index].name;
}

static int unknown_command(const char *name)
{
    const char *near = cli_nearest(name, CLI_COUNT_OF(commands), command_name, commands);
    fprintf(stderr, "bochner: there is no command '%s'", name);
    if (near) fprintf(stderr, "; did you mean %s?", near);
    fputs(" (bochner --help lists them)\n", stderr);
    return CLI_WRONG_USE;
}

static void overview(FILE *out)
{
    fputs("bochner COMMAND [options] [files]\n\n"
          "A kernel is an inner product of features. Learning with it is one linear system, in memory or in\n"
          "one pass over a stream; attention with it takes linear time and remembers in a state of fixed size.\n"
          "Fits machines to tables; trains language models, evaluates them, generates text.\n\n"
          "Commands\n",
          out);
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        fprintf(out, "  %-10s%s\n", commands[i].name, commands[i].summary);
    fputs("\nExample\n"
          "  bochner fit train.csv --target price --holdout 0.2 --out price.model\n"
          "  bochner predict price.model test.csv --std\n"
          "  bochner train --data text.txt --out story --minutes 2\n"
          "  bochner generate story --prompt 'In the beginning'\n\n"
          "bochner COMMAND --help says more. Exit status: 0 done, 1 failed, 2 wrong use, 130 stopped with Ctrl-C.\n"
          "BOCHNER_TRACE=file.json in the environment makes any command write a trace for https://ui.perfetto.dev.\n",
          out);
}

/* Hidden, for the build and for `make docs`: standard input copied, with the options in it. */
static int write_manual(bool page)
{
    const cli_usage *usages[CLI_COUNT_OF(commands) * USAGES];
    cli_manual manual = {usages, 0};
    for (size_t i = 0; i < CLI_COUNT_OF(commands); i++)
        for (size_t k = 0; k < USAGES && commands[i].usages[k]; k++) usages[manual.count++] = commands[i].usages[k];
    if (!page) return cli_manual_lists(&manual, stdin, stdout) ? CLI_DONE : CLI_FAILED;
    cli_manual_page(&manual, stdin, stdout);
    return CLI_DONE;
}

static int help_command(int argc, char **argv)
{
    if (argc == 1 && strcmp(argv[0], "--man") == 0) return write_manual(true);
    if (argc == 1 && strcmp(argv[0], "--markdown") == 0) return write_manual(false);
    const bool whole = argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0;
    if (!whole && argv[0][0] == '-')
        return cli_wrong_use("help", "there is no option %s; bochner help COMMAND shows the options of a command",
                             argv[0]);
    const command *found = whole ? find_command("help") : find_command(argv[0]);
    if (!found) return unknown_command(argv[0]);
    if (found->run == help_command) {
        overview(stdout);
        return CLI_DONE;
    }
    char flag[] = "--help", *words[] = {flag, NULL};
    return found->run(1, words);
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
        cli_json_add_text(&json, "isa", bo_context_isa(session.context));
        cli_json_add_count(&json, "threads", (size_t)bo_context_threads(session.context));
        cli_json_end(&json);
    } else {
        printf("bochner %s (%s kernels, %d threads)\n", bo_version(), bo_context_isa(session.context),
               bo_context_threads(session.context));
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
    if (argc < 2) {
        overview(stderr);
        return CLI_WRONG_USE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) word = "help";
    if (strcmp(word, "--version") == 0) word = "version";
    const command *found = find_command(word);
    int status = found ? found->run(argc - 2, argv + 2) : unknown_command(argv[1]);
    if (status == CLI_INTERRUPTED) status = cli_interrupted_status();
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        bool told = status != CLI_DONE || errno == EPIPE; /* or a reader that has seen enough */
        if (!told)
            fprintf(stderr, "bochner %s: standard output: %s\n", word,
                    errno ? strerror(errno) : "could not be written");
        if (status == CLI_DONE) status = CLI_FAILED;
    }
    return status;
}
