/* bochner tokenizer: trains a tokenizer, and converts text to token ids and back. */
#include "../common/cli.h"
#include "../common/json.h"
#include "../common/paths.h"
#include "../common/spool.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct tokenizer_options {
    cli_given was_given;
    size_t vocab, least;
    const char *out, *pattern;
    cli_list special;
    bool no_special, plain, frame;
} tokenizer_options;

typedef struct tokenizer_job {
    cli_session *session;
    const tokenizer_options *options;
    const cli_arguments *arguments; /* the first is the verb */
    bo_tokenizer *tokenizer;
    bo_corpus *corpus;
    char *input; /* standard input */
    size_t input_bytes;
    bo_ids ids;
    char *text;
} tokenizer_job;

static int failed(tokenizer_job *job, bo_status status)
{
    return status == BO_OK ? CLI_DONE : cli_fail_status(job->session, status);
}

/* ---- train ------------------------------------------------------------------------------------------------------- */

static size_t special_count(const tokenizer_options *o)
{
    return o->no_special ? 0 : o->special.count ? o->special.count : 1;
}

static void report_text(const tokenizer_job *job, size_t files, double seconds)
{
    const size_t vocab = bo_tokenizer_vocab(job->tokenizer), special = special_count(job->options);
    const double bytes = (double)bo_corpus_bytes(job->corpus), tokens = (double)bo_corpus_tokens(job->corpus);
    printf("Text        %s in %s file%s\n", cli_bytes(bytes).s, cli_count(files).s, files == 1 ? "" : "s");
    printf("Vocabulary  %s tokens: 256 bytes, %s merges, %s special\n", cli_count(vocab).s,
           cli_count(vocab - 256 - special).s, cli_count(special).s);
    printf("Tokens      %s, %s bytes per token\n", cli_count((size_t)tokens).s, cli_significant(bytes / tokens, 3).s);
    printf("Time        %s\n", cli_seconds(seconds).s);
    printf("Tokenizer   %s\n", job->options->out);
}

static void report_json(const tokenizer_job *job, double seconds)
{
    const size_t vocab = bo_tokenizer_vocab(job->tokenizer), special = special_count(job->options);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "tokenizer", job->options->out);
    cli_json_add_count(&json, "vocab", vocab);
    cli_json_add_count(&json, "merges", vocab - 256 - special);
    cli_json_add_count(&json, "special", special);
    cli_json_add_count(&json, "bytes", (size_t)bo_corpus_bytes(job->corpus));
    cli_json_add_count(&json, "tokens", (size_t)bo_corpus_tokens(job->corpus));
    cli_json_add_number(&json, "seconds", seconds);
    cli_json_end(&json);
}

static int check_train(const tokenizer_job *job)
{
    const tokenizer_options *o = job->options;
    const size_t files = job->arguments->count - 1;
    if (files == 0) return cli_wrong_use("tokenizer", "train: no text; give one or more files");
    if (!o->out) return cli_wrong_use("tokenizer", "train: no output file; give --out tokenizer.json");
    if (o->no_special && o->special.count)
        return cli_wrong_use("tokenizer", "give --no-special or --special, not both");
    const cli_path output = {"out", o->out};
    for (size_t i = 1; i <= files; i++) {
        const cli_path input = {NULL, job->arguments->items[i]};
        int status = cli_paths_apart("tokenizer", &output, 1, &input, 1);
        if (status != CLI_DONE) return status;
    }
    return CLI_DONE;
}

static int train_on_files(tokenizer_job *job)
{
    static const char *const none[1];
    const tokenizer_options *o = job->options;
    bo_context *context = job->session->context;
    const char *const *paths = job->arguments->items + 1;
    const size_t files = job->arguments->count - 1;
    const bo_tokenizer_desc desc = {.vocab = o->vocab,
                                    .special = o->no_special      ? none
                                               : o->special.count ? o->special.items
                                                                  : NULL,
                                    .special_count = o->special.count,
                                    .pattern = o->pattern,
                                    .least = o->least};
    const double start = cli_now();
    int status = failed(job, bo_tokenizer_train(context, &desc, paths, files, &job->tokenizer));
    if (status != CLI_DONE) return status;
    const double seconds = cli_now() - start;
    status = failed(job, cli_wrote(job->session, o->out, bo_tokenizer_save(context, job->tokenizer, o->out)));
    if (status != CLI_DONE) return status;
    const bo_corpus_desc corpus = {.paths = paths, .path_count = files, .tokenizer = job->tokenizer};
    if ((status = failed(job, bo_corpus_open(context, &corpus, &job->corpus))) != CLI_DONE) return status;
    cli_progress_clear(&job->session->progress);
    if (bo_tokenizer_vocab(job->tokenizer) < o->vocab)
        cli_warn(
            job->session,
            "the vocabulary has %zu tokens instead of %zu: no further pair occurs %zu times; train on more text, or lower "
            "--least",
            bo_tokenizer_vocab(job->tokenizer), o->vocab, o->least ? o->least : 2);
    if (job->session->common.json)
        report_json(job, seconds);
    else
        report_text(job, files, seconds);
    return CLI_DONE;
}

/* The text is read twice: to train, and to count its tokens. */
static int train(tokenizer_job *job)
{
    cli_spools spools = {.count = 0};
    int status = cli_can_write(job->session, job->options->out) ? CLI_DONE : CLI_FAILED;
    if (status == CLI_DONE)
        status = cli_spool_all(job->session, &spools, job->arguments->items + 1, job->arguments->count - 1);
    if (status == CLI_DONE) status = train_on_files(job);
    cli_spools_close(&spools);
    return status;
}

/* ---- encode, decode ---------------------------------------------------------------------------------------------- */

static int check_coding(const tokenizer_job *job)
{
    const char *verb = job->arguments->items[0];
    if (job->arguments->count == 1)
        return cli_wrong_use("tokenizer", "%s: no tokenizer; give a tokenizer.json or a model folder", verb);
    if (job->arguments->count > 2)
        return cli_wrong_use("tokenizer", "%s reads standard input; unexpected argument '%s'", verb,
                             job->arguments->items[2]);
    return CLI_DONE;
}

static int read_input(tokenizer_job *job)
{
    const size_t most = (size_t)1 << 30;
    void *input = NULL;
    const int status = failed(job, bo_file_load(job->session->context, "-", most, &input, &job->input_bytes));
    job->input = input;
    return status;
}

static int open_tokenizer(tokenizer_job *job)
{
    return failed(job, bo_tokenizer_load(job->session->context, job->arguments->items[1], &job->tokenizer));
}

static int encode(tokenizer_job *job)
{
    bo_context *context = job->session->context;
    int status = open_tokenizer(job);
    if (status == CLI_DONE) status = read_input(job);
    if (status == CLI_DONE)
        status = failed(job, bo_tokenizer_encode(context, job->tokenizer, job->input, job->input_bytes,
                                                 !job->options->plain, &job->ids));
    if (status == CLI_DONE && job->options->frame)
        status = failed(job, bo_tokenizer_add_specials(context, job->tokenizer, &job->ids));
    if (status != CLI_DONE) return status;
    if (job->session->common.json) {
        cli_json json = {.out = stdout};
        cli_json_array(&json, NULL);
        for (size_t i = 0; i < job->ids.count; i++) cli_json_add_count(&json, NULL, (size_t)job->ids.items[i]);
        cli_json_end(&json);
        return CLI_DONE;
    }
    for (size_t i = 0; i < job->ids.count; i++) printf(i ? " %d" : "%d", (int)job->ids.items[i]);
    putchar('\n');
    return CLI_DONE;
}

/* Integers separated by blanks; commas and brackets count as blanks, so that JSON lists are accepted. */
static int read_ids(tokenizer_job *job, int32_t *ids, size_t *count)
{
    const char *at = job->input, *end = at + job->input_bytes;
    const size_t vocab = bo_tokenizer_vocab(job->tokenizer);
    *count = 0;
    while (at < end) {
        if (isspace((unsigned char)*at) || strchr(",[]", *at ? *at : 'x')) {
            at++;
            continue;
        }
        const char *word = at;
        size_t id = 0;
        for (; at < end && isdigit((unsigned char)*at) && id < vocab; at++) id = 10 * id + (size_t)(*at - '0');
        while (at < end && !isspace((unsigned char)*at) && !strchr(",[]", *at ? *at : 'x')) {
            if (!isdigit((unsigned char)*at)) id = SIZE_MAX;
            at++;
        }
        if (id >= vocab)
            return cli_fail(job->session, "standard input, word %zu: expected a token id from 0 to %zu, found '%.*s'",
                            *count + 1, vocab - 1, (int)(at - word < 40 ? at - word : 40), word);
        ids[(*count)++] = (int32_t)id;
    }
    return CLI_DONE;
}

static int write_text(tokenizer_job *job, size_t bytes)
{
    if (!job->session->common.json) {
        fwrite(job->text, 1, bytes, stdout); /* main reports errors of standard output */
        return CLI_DONE;
    }
    if (memchr(job->text, 0, bytes))
        return cli_fail(job->session, "the text contains a NUL byte, which --json cannot represent; leave out --json");
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "text", job->text);
    cli_json_end(&json);
    return CLI_DONE;
}

static int decode(tokenizer_job *job)
{
    int status = open_tokenizer(job);
    if (status == CLI_DONE) status = read_input(job);
    if (status != CLI_DONE) return status;
    int32_t *ids = cli_allocate(job->input_bytes + 1, sizeof *ids, "ids");
    size_t count, bytes;
    status = read_ids(job, ids, &count);
    if (status == CLI_DONE)
        status =
            failed(job, bo_tokenizer_decode(job->session->context, job->tokenizer, ids, count, &job->text, &bytes));
    free(ids);
    return status == CLI_DONE ? write_text(job, bytes) : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

typedef struct verb {
    const char *name;
    int (*check)(const tokenizer_job *job);
    int (*run)(tokenizer_job *job);
} verb;

static const verb verbs[] = {
    {"train", check_train, train}, {"encode", check_coding, encode}, {"decode", check_coding, decode}};

static const char *verb_name(const void *words, size_t index)
{
    return ((const verb *)words)[index].name;
}

static int unknown_verb(const char *word)
{
    const char *near = word ? cli_nearest(word, CLI_COUNT_OF(verbs), verb_name, verbs) : NULL;
    if (!word) return cli_wrong_use("tokenizer", "expected train, encode or decode");
    if (near) return cli_wrong_use("tokenizer", "unknown action '%s'; did you mean %s?", word, near);
    return cli_wrong_use("tokenizer", "unknown action '%s'; expected train, encode or decode", word);
}

static int tokenizer(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const tokenizer_options *o = options;
    const char *word = arguments->count ? arguments->items[0] : NULL;
    const verb *chosen = NULL;
    for (size_t i = 0; i < CLI_COUNT_OF(verbs) && word; i++)
        if (strcmp(verbs[i].name, word) == 0) chosen = &verbs[i];
    if (!chosen) return unknown_verb(word);
    cli_session session;
    tokenizer_job job = {.session = &session, .options = o, .arguments = arguments};
    int status = chosen->check(&job);
    if (status != CLI_DONE) return status;
    if (!cli_session_open(&session, "tokenizer", common, false)) return CLI_FAILED;
    status = chosen->run(&job);
    bo_corpus_close(job.corpus);
    bo_tokenizer_destroy(job.tokenizer);
    bo_ids_free(&job.ids);
    bo_free(job.text);
    bo_free(job.input);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("train"),
    COUNT("vocab", "N", tokenizer_options, vocab, "vocabulary size: 256 bytes, the special tokens and the merges",
          .low = 256, .high = 1 << 24, .initial = "8192"),
    TEXT("out", "FILE", tokenizer_options, out, "output file: tokenizer.json"),
    LIST("special", "TEXT", tokenizer_options, special,
         "special token: a text that is always one token; may be given several times", .otherwise = "<|endoftext|>"),
    FLAG("no-special", tokenizer_options, no_special, "use no special tokens"),
    TEXT("pattern", "REGEX", tokenizer_options, pattern,
         "regular expression that splits the text into words; merges do not cross words",
         .otherwise = "the pattern of GPT-2"),
    COUNT("least", "N", tokenizer_options, least, "minimum count of a pair to be merged", .low = 1, .high = 1e9,
          .otherwise = "2"),
    SECTION("encode"),
    FLAG("plain", tokenizer_options, plain, "encode special tokens in the text as ordinary text"),
    FLAG("template", tokenizer_options, frame, "add the special tokens of the tokenizer's template"),
    END_OF_OPTIONS,
};

const cli_usage cli_tokenizer_usage = {
    .command = "tokenizer",
    .synopsis = "train FILE... --vocab N --out tokenizer.json   or   encode DIR|FILE <text   or   decode DIR|FILE "
                "<ids",
    .about = "Trains tokenizers, and converts text to token ids and back. train learns a byte-level byte-pair encoding "
             "from text files or JSON lines (.jsonl, field \"text\"), which may be gzipped, and writes a "
             "tokenizer.json in the format of Hugging Face. encode and decode use such a file or a model folder, and "
             "read standard input. Decoding restores the encoded text byte for byte.",
    .examples = "  bochner tokenizer train text.txt --vocab 4096 --out tokenizer.json\n"
                "  echo 'A tale of two cities' | bochner tokenizer encode tokenizer.json\n"
                "  bochner tokenizer encode tokenizer.json <text.txt | bochner tokenizer decode tokenizer.json\n",
    .groups = {{rows, 0}},
    .essential = {"vocab", "out", "special", "no-special", "pattern", "threads"},
    .verbs = {"train", "encode", "decode"},
};

int cli_tokenizer(int argc, char **argv)
{
    tokenizer_options o = {0};
    return cli_command(&cli_tokenizer_usage, argc, argv, &o, tokenizer);
}
