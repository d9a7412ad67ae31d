/* bochner generate for models that translate: one output line per input line, as lines arrive. */
#include "../text/text_tasks.h"
#include "../common/json.h"
#include "../common/output.h"
#include <stdlib.h>
#include <string.h>

typedef struct translate_job {
    cli_session *session;
    const bo_model *model;
    bo_translate_desc desc;
    cli_output output;
    size_t lines, tokens; /* lines translated, and tokens generated */
    double seconds;
} translate_job;

/* The translation of one text. */
typedef struct made {
    const char *source;
    size_t source_bytes;
    const bo_ids *ids;
    double score;
} made;

/* Replaces line ends, which a byte-level model may generate, so that a text stays on one line. */
static void flatten(char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\n' || text[i] == '\r' || text[i] == 0) text[i] = ' ';
}

static void print_json(const translate_job *job, const made *one, const char *text)
{
    cli_json json = {.out = stdout, .line = true};
    char *source = cli_allocate(one->source_bytes + 1, 1, "a line");
    memcpy(source, one->source, one->source_bytes);
    cli_json_object(&json, NULL);
    cli_json_add_count(&json, "line", job->lines);
    cli_json_add_text(&json, "source", source);
    cli_json_add_text(&json, "text", text);
    cli_json_add_number(&json, "score", one->score);
    cli_json_add_count(&json, "tokens", one->ids->count);
    cli_json_end(&json);
    free(source);
}

/* The translation of an empty line is empty. */
static bo_status print(translate_job *job, const made *one)
{
    char *text = NULL;
    size_t bytes = 0;
    const bool empty = one->source_bytes == 0;
    bo_status status = BO_OK;
    job->lines++;
    job->session->printed_lines++;
    if (!empty)
        status = bo_tokenizer_decode(job->session->context, bo_model_tokenizer(job->model), one->ids->items,
                                     one->ids->count, &text, &bytes);
    if (status != BO_OK) return status;
    if (text) flatten(text, bytes);
    if (job->session->common.json)
        print_json(job, empty ? &(made){one->source, 0, &(bo_ids){0}, 0} : one, text ? text : "");
    else
        printf("%.*s\n", (int)bytes, text ? text : "");
    job->tokens += empty ? 0 : one->ids->count;
    bo_free(text);
    return BO_OK;
}

static bo_status translate(translate_job *job, const bo_texts *texts, bo_ids *ids, double *scores)
{
    const size_t count = bo_texts_describe(texts)->count;
    const double start = cli_now();
    bo_status status = bo_model_translate(job->session->context, job->model, texts, 0, count, &job->desc, ids, scores);
    job->seconds += cli_now() - start;
    cli_progress_clear(&job->session->progress);
    for (size_t i = 0; i < count && status == BO_OK; i++) {
        bo_text source;
        bo_texts_get(texts, i, 0, &source);
        const made one = {.ids = &ids[i], .score = scores[i], .source = source.text, .source_bytes = source.bytes};
        status = print(job, &one);
    }
    return status;
}

static bool translate_texts(void *user, const bo_texts *texts)
{
    translate_job *job = user;
    const size_t count = bo_texts_describe(texts)->count;
    bo_ids *ids = cli_allocate(count, sizeof *ids, "translations");
    double *scores = cli_allocate(count, sizeof *scores, "translations");
    const bo_status status = translate(job, texts, ids, scores);
    for (size_t i = 0; i < count; i++) bo_ids_free(&ids[i]);
    free(ids);
    free(scores);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    return cli_output_check(job->session, &job->output);
}

int cli_generate_translate(cli_session *session, const bo_model *model, const cli_generate_use *use)
{
    translate_job job = {.session = session, .model = model, .desc = cli_translate_desc(&use->translate)};
    bo_texts_desc desc = cli_texts_desc(model, true, 0);
    desc.empty = true;
    job.desc.max_tokens = use->tokens;
    const bool lines = !use->prompt || strcmp(use->prompt, "-") == 0;
    const cli_texts_source source = {.path = "-",
                                     .text = lines ? NULL : use->prompt,
                                     .tabs =
                                         "generate expects the source only; bochner eval expects source, tab, target",
                                     .model = model,
                                     .desc = &desc,
                                     .use = translate_texts,
                                     .user = &job};
    if (!cli_output_text(session, &job.output, NULL)) return CLI_FAILED;
    if (!cli_texts_each(session, &source)) return CLI_FAILED;
    cli_note(session, "%s line%s, %s tokens, %s tokens per second", cli_count(job.lines).s, job.lines == 1 ? "" : "s",
             cli_count(job.tokens).s, cli_count(job.seconds > 0 ? (size_t)((double)job.tokens / job.seconds) : 0).s);
    return CLI_DONE;
}
