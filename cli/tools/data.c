/* bochner data: generates labeled lines of synthetic sequence tasks from a seed. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/output.h"
#include "../shared/generators.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct data_options {
    cli_given was_given;
    size_t count;
    const char *out, *distance;
    unsigned format; /* 0: bytes, 1: words */
    bo_listops_desc listops;
    size_t length; /* for match and recall */
    bo_match_desc match;
    bo_recall_desc recall;
} data_options;

typedef struct data_job {
    cli_session *session;
    data_options *options;
    cli_output output;
    bo_generated made;
} data_job;

static bool write_lines(void *user, const char *lines, size_t bytes)
{
    data_job *job = user;
    return cli_output_bytes(job->session, &job->output, bytes, lines);
}

/* ---- kinds ------------------------------------------------------------------------------------------------------- */

static bo_status listops(data_job *job)
{
    bo_listops_desc desc = job->options->listops;
    desc.words = job->options->format == 1;
    return bo_generate_listops(job->session->context, &desc, job->options->count, job->session->common.seed,
                               write_lines, job, &job->made);
}

static bo_status match(data_job *job)
{
    bo_match_desc desc = job->options->match;
    desc.length = job->options->length;
    return bo_generate_match(job->session->context, &desc, job->options->count, job->session->common.seed, write_lines,
                             job, &job->made);
}

static bo_status recall(data_job *job)
{
    bo_recall_desc desc = job->options->recall;
    desc.length = job->options->length;
    desc.words = job->options->format == 1;
    return bo_generate_recall(job->session->context, &desc, job->options->count, job->session->common.seed, write_lines,
                              job, &job->made);
}

typedef struct data_kind {
    const char *name;
    bo_status (*generate)(data_job *job);
} data_kind;

static const data_kind kinds[] = {{"listops", listops}, {"match", match}, {"recall", recall}};

static const char *kind_name(const void *items, size_t index)
{
    return ((const data_kind *)items)[index].name;
}

static const data_kind *find_kind(const cli_arguments *arguments)
{
    const char *word = arguments->count ? arguments->items[0] : NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(kinds) && word; i++)
        if (strcmp(kinds[i].name, word) == 0) return &kinds[i];
    const char *near = word ? cli_nearest(word, CLI_COUNT_OF(kinds), kind_name, kinds) : NULL;
    if (!word)
        cli_usage_error("data", "expected the kind of data: listops, match or recall");
    else if (near)
        cli_usage_error("data", "unknown kind of data '%s'; did you mean %s?", word, near);
    else
        cli_usage_error("data", "unknown kind of data '%s'; expected listops, match or recall", word);
    return NULL;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const char *format_name(unsigned index)
{
    static const char *const names[] = {"bytes", "words"};
    return index < CLI_COUNT_OF(names) ? names[index] : NULL;
}

/* The title of a section lists the kinds with its options. */
static const cli_option rows[] = {
    SECTION("Output"),
    COUNT("count", "N", data_options, count, "number of lines", .low = 1, .high = 1e12, .initial = "1000"),
    TEXT("out", "FILE", data_options, out, "output file", .default_text = "standard output"),
    SECTION("listops"),
    COUNT("min-tokens", "N", data_options, listops.min_tokens, "lower limit of the tokens per line, exclusive",
          .former_name = "least", .low = 1, .high = 1e12, .initial = "500"),
    COUNT("max-tokens", "N", data_options, listops.max_tokens, "upper limit of the tokens per line, exclusive",
          .former_name = "most", .low = 2, .high = 1e12, .initial = "2000"),
    COUNT("depth", "N", data_options, listops.depth, "maximum nesting depth", .low = 2, .high = 64,
          .default_text = "10"),
    COUNT("arguments", "N", data_options, listops.arguments, "maximum arguments per operation", .low = 2, .high = 64,
          .default_text = "10"),
    SECTION("listops, recall"),
    CHOICE_OF("format", "NAME", data_options, format, format_name,
              "format of the tokens; bytes: one byte per token, such as m4M23]1], words: separated by spaces, such as "
              "[MIN 4 [MAX 2 3 ] 1 ]",
              .initial = "bytes"),
    SECTION("match, recall"),
    COUNT("length", "N", data_options, length, "for match: bytes per document; for recall: tokens per line", .low = 1,
          .high = 1 << 30, .default_text = "1000; for recall 256"),
    SECTION("match"),
    COUNT("words", "N", data_options, match.words, "words in the vocabulary", .low = 2, .high = 5040,
          .default_text = "500"),
    COUNT("topic", "N", data_options, match.topic, "number of different words in a source", .low = 2, .high = 1024,
          .default_text = "30"),
    FLAG("same-words", data_options, match.same_words,
         "harder negatives: the second source is a permutation of the words of the first"),
    REAL("drop", "P", data_options, match.drop, "fraction of dropped words", .high = 0.9, .initial = "0.1"),
    REAL("replace", "P", data_options, match.replace, "fraction of replaced words", .high = 0.9, .initial = "0.1"),
    COUNT("shuffle", "N", data_options, match.shuffle, "shuffle words within spans of N words; 1: no shuffling",
          .low = 1, .high = 1 << 20, .initial = "3"),
    REAL("shift", "X", data_options, match.shift,
         "relative excess length of a source over a document; documents start at random positions in it", .high = 4,
         .initial = "0.25"),
    SECTION("recall"),
    COUNT("pairs", "N", data_options, recall.pairs, "pairs of key and value per line", .low = 1, .high = 17576,
          .default_text = "8"),
    COUNT("keys", "N", data_options, recall.keys, "number of different keys", .low = 1, .high = 17576,
          .default_text = "26, or the number of pairs if larger"),
    COUNT("values", "N", data_options, recall.values, "number of different values", .low = 2,
          .high = BO_GENERATED_CLASSES, .default_text = "10"),
    TEXT("distance", "K|A-B", data_options, distance,
         "distance in tokens from the requested value to the last token: K, or a range",
         .default_text = "a random pair"),
    END_OF_OPTIONS,
};

/* Refuses options of other kinds. */
static int check_kind_options(const data_options *o, const char *kind)
{
    const char *section = "";
    for (const cli_option *row = rows; row->type != CLI_END; row++) {
        if (row->type == CLI_SECTION)
            section = row->name;
        else if (strcmp(section, "Output") != 0 && !strstr(section, kind) && cli_given_at(&o->was_given, row->at))
            return cli_usage_error("data", "--%s is an option of %s; leave it out with %s", row->name, section, kind);
    }
    return CLI_DONE;
}

/* "100" or "100-2000". */
static int read_distance(const char *text, bo_recall_desc *recall)
{
    char *end;
    const bool digit = *text >= '0' && *text <= '9';
    errno = 0;
    recall->nearest = recall->farthest = (size_t)strtoull(text, &end, 10);
    if (digit && *end == '-' && end[1] >= '0' && end[1] <= '9') recall->farthest = (size_t)strtoull(end + 1, &end, 10);
    if (digit && !*end && errno == 0 && recall->nearest > 0 && recall->nearest <= recall->farthest) return CLI_DONE;
    return cli_usage_error("data", "--distance: expected a number of tokens, or a range such as 100-2000, found '%s'",
                           text);
}

static int check(data_options *o, const cli_common *common, const cli_arguments *arguments, const char *kind)
{
    if (arguments->count > 1)
        return cli_usage_error("data", "unexpected argument '%s' (--out sets the output file)", arguments->items[1]);
    if (common->json && !o->out)
        return cli_usage_error("data",
                               "--json needs --out FILE: both the report and the lines would go to standard output");
    int status = check_kind_options(o, kind);
    if (status == CLI_DONE && o->distance) status = read_distance(o->distance, &o->recall);
    return status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static size_t commonest(const bo_generated *made)
{
    size_t largest = 0;
    for (size_t i = 1; i < BO_GENERATED_CLASSES; i++)
        if (made->labels[i] > made->labels[largest]) largest = i;
    return largest;
}

static size_t classes_of(const bo_generated *made)
{
    size_t classes = 0;
    for (size_t i = 0; i < BO_GENERATED_CLASSES; i++) classes += made->labels[i] > 0;
    return classes;
}

static void report(const data_job *job, const char *kind, double seconds)
{
    const bo_generated *made = &job->made;
    const double lines = (double)made->lines, share = (double)made->labels[commonest(made)] / lines;
    if (job->session->common.json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "data", kind);
        cli_json_add_text(&json, "file", job->options->out);
        cli_json_add_count(&json, "lines", (size_t)made->lines);
        cli_json_add_count(&json, "bytes", (size_t)made->bytes);
        cli_json_add_number(&json, "mean_tokens", (double)made->tokens / lines);
        cli_json_add_count(&json, "classes", classes_of(made));
        cli_json_add_number(&json, "largest_class", share);
        cli_json_add_count(&json, "tried", (size_t)made->tried);
        cli_json_add_number(&json, "seconds", seconds);
        cli_json_end(&json);
        return;
    }
    printf("Lines    %s, %s\n", cli_count((size_t)made->lines).s, cli_bytes((double)made->bytes).s);
    printf("Tokens   %s per line\n", cli_count((size_t)((double)made->tokens / lines + 0.5)).s);
    printf("Classes  %zu; the most frequent class has %s%% of the lines\n", classes_of(made),
           cli_significant(100 * share, 3).s);
    printf("File     %s\n", job->options->out);
}

static int generate(data_job *job, const data_kind *kind)
{
    const char *out = job->options->out;
    if (out && !cli_can_write(job->session, out)) return CLI_FAILED;
    if (!cli_output_text(job->session, &job->output, out)) return CLI_FAILED;
    const double start = cli_now();
    bo_status status = kind->generate(job);
    if (status == BO_IO) return CLI_FAILED; /* the writer reported the error */
    if (status != BO_OK) return cli_fail_status(job->session, status);
    if (!cli_output_commit(job->session, &job->output)) return CLI_FAILED;
    cli_progress_clear(&job->session->progress);
    if (out) report(job, kind->name, cli_now() - start);
    return CLI_DONE;
}

static int data(void *options, const cli_common *common, const cli_arguments *arguments)
{
    data_options *o = options;
    const data_kind *kind = find_kind(arguments);
    if (!kind) return CLI_USAGE_ERROR;
    int status = check(o, common, arguments, kind->name);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "data", common, false)) return CLI_FAILED;
    data_job job = {.session = &session, .options = o};
    status = generate(&job, kind);
    cli_output_abandon(&job.output);
    cli_session_close(&session);
    return status;
}

const cli_usage cli_data_usage = {
    .command = "data",
    .synopsis = "listops|match|recall [--count N] [--seed S] [--out FILE]",
    .about =
        "Generates synthetic data for bochner train --task classify and match: tab-separated lines with a label and "
        "one or two texts. listops: nested operations on digits, by the rules of the Long Range Arena; the label "
        "is the value. match: two documents; the label is 1 if both are noisy copies of one source, otherwise 0. "
        "recall: pairs of key and value among filler tokens, then a key; the label is the value of that key. "
        "The same seed gives the same lines; use different seeds for training and test data.",
    .groups = {{rows, 0}},
    .examples = "  bochner data listops --count 200 --min-tokens 100 --max-tokens 500 --out train.tsv\n"
                "  bochner data listops --count 3 --min-tokens 10 --max-tokens 40 --format words\n"
                "  bochner data match --count 100 --length 400 --seed 2 --out test.tsv\n"
                "  bochner data recall --count 100 --length 1024 --pairs 16 --distance 512\n",
    .short_help = {"count", "out", "seed", "min-tokens", "max-tokens", "length", "pairs", "distance", "format"},
    .subcommands = {"listops", "match", "recall"},
};

int cli_data(int argc, char **argv)
{
    data_options o = {0};
    return cli_command(&cli_data_usage, argc, argv, &o, data);
}
