/* Where the options of `bochner train` come from: the folder that is resumed, --config and the line; and how they are kept. */
#include "../common/output.h"
#include "train.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char KEPT[] = "train.json"; /* in the run's folder: how it was started */

/* One source over those before: what it says of the texts is all of them. */
static cli_parsed parse(int argc, char **argv, cli_train_words *words)
{
    cli_train_options *o = &words->options;
    const cli_list before = o->data;
    cli_option options[CLI_TRAIN_OPTIONS];
    const cli_usage usage = {
        "train",
        "--data FILE... --out DIR [options]   or   --resume --out DIR",
        "Trains a language model with the attention of your choice on text. DIR becomes what Hugging Face stores: "
        "config.json, model.safetensors, tokenizer.json; bochner eval and generate take it. A run that was stopped or "
        "killed goes on with --resume to the same weights, bit for bit. With mpirun the batch is split over the ranks. "
        "With "
        "--task it labels texts, says whether two belong together, or translates: data are tab-separated lines. With "
        "--model FILE it trains a network of the layers that the file describes on a table, images or a graph.",
        "  bochner train --data text.txt --out model --minutes 2\n"
        "  bochner train --data text.txt --out exact --attention exact --steps 400 --plot loss.svg\n"
        "  bochner train --resume --out model\n"
        "  bochner train --task classify --data reviews.tsv --out labels --steps 400\n"
        "  bochner train --task translate --data pairs.tsv --out translator --steps 400\n"
        "  bochner train --model net.json --data train.csv --target price --out net --steps 400\n",
        options,
        cli_train_table(o, options)};
    o->data.count = 0;
    free(words->files.items);
    words->files = (cli_arguments){0};
    const cli_parsed parsed = cli_parse(&usage, argc, argv, &words->common, &words->files);
    if (o->data.count == 0 && words->files.count == 0) o->data = before;
    return parsed;
}

static bool parse_file(cli_train_words *words, int which, const char *path)
{
    if (!cli_config_read("train", path, &words->stored_count[which], &words->stored[which])) return false;
    if (parse(words->stored_count[which], words->stored[which], words) == CLI_PARSED) return true;
    fprintf(stderr, "bochner train: the options are those of %s\n", path);
    return false;
}

static void begin(cli_train_words *words)
{
    words->options = cli_train_defaults();
    words->common = (cli_common){0};
}

/* How the run was started; a flag of the line is not among it. */
static bool parse_kept(cli_train_words *words, const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, KEPT);
    return access(path, R_OK) != 0 || parse_file(words, 0, path);
}

cli_parsed cli_train_parse(int argc, char **argv, cli_train_words *words)
{
    begin(words);
    cli_parsed parsed = parse(argc, argv, words);
    if (parsed != CLI_PARSED) return parsed;
    const char *config = words->options.config, *folder = words->options.resume ? words->options.out : NULL;
    if (!config && !folder) return CLI_PARSED;
    begin(words);
    if (folder && !parse_kept(words, folder)) return CLI_WRONG;
    if (config && !parse_file(words, 1, config)) return CLI_WRONG;
    const bool length = words->options.steps || words->options.minutes > 0;
    const size_t steps = words->options.steps;
    const double minutes = words->options.minutes;
    if (length) words->options.steps = 0, words->options.minutes = 0;
    parsed = parse(argc, argv, words);
    if (length && !words->options.steps && !(words->options.minutes > 0))
        words->options.steps = steps, words->options.minutes = minutes;
    return parsed;
}

void cli_train_forget(cli_train_words *words)
{
    for (int which = 0; which < 2; which++) {
        for (int i = 0; i < words->stored_count[which]; i++) free(words->stored[which][i]);
        free(words->stored[which]);
    }
    free(words->files.items);
}

/* ---- into the folder of the run ------------------------------------------------------------------------------------------------- */

/* More texts than the list has room for are not kept: --resume then asks for them. */
static void list_texts(const cli_arguments *files, cli_list *data)
{
    if (files->count > CLI_LIST_ROOM - data->count)
        data->count = 0;
    else
        for (size_t i = 0; i < files->count; i++) data->items[data->count++] = files->items[i];
}

/* From any folder a run may be resumed: the files it reads under their whole names, which are to be freed. */
typedef struct whole_names {
    char *items[CLI_LIST_ROOM + 8];
    size_t count;
} whole_names;

static void make_whole(const char **path, whole_names *names)
{
    char *whole = *path && strcmp(*path, "-") != 0 ? realpath(*path, NULL) : NULL;
    if (whole) *path = names->items[names->count++] = whole;
}

static bool write_kept(cli_session *session, cli_train_options *now, uint64_t seed)
{
    cli_train_options before = cli_train_defaults();
    uint64_t no_seed = 0;
    cli_option options[CLI_TRAIN_OPTIONS + 1], others[CLI_TRAIN_OPTIONS + 1];
    char path[4096];
    cli_output output;
    const size_t count = cli_train_table(now, options);
    cli_train_table(&before, others);
    options[count] = (cli_option){CLI_SEED, "seed", NULL, NULL, &seed, NULL, 0, 0};
    others[count] = (cli_option){CLI_SEED, "seed", NULL, NULL, &no_seed, NULL, 0, 0};
    snprintf(path, sizeof path, "%s/%s", now->out, KEPT);
    now->out = NULL;
    if (!cli_output_text(session, &output, path)) return false;
    cli_config_print(output.file, options, others, count + 1);
    return cli_output_commit(session, &output);
}

bool cli_train_keep(cli_session *session, const cli_train_words *words)
{
    cli_train_options now = words->options;
    whole_names names = {.count = 0};
    now.resume = false;
    now.config = NULL;
    list_texts(&words->files, &now.data);
    for (size_t i = 0; i < now.data.count; i++) make_whole(&now.data.items[i], &names);
    make_whole(&now.valid, &names);
    make_whole(&now.tokenizer, &names);
    make_whole(&now.init, &names);
    make_whole(&now.network.model, &names);
    make_whole(&now.network.valid_labels, &names);
    make_whole(&now.network.data.labels, &names);
    make_whole(&now.network.data.graph, &names);
    make_whole(&now.network.data.split, &names);
    const bool kept = write_kept(session, &now, words->common.seed);
    for (size_t i = 0; i < names.count; i++) free(names.items[i]);
    return kept;
}
