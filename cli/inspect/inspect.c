/* bochner inspect: analyzes the heads of a language model and possible replacements of its softmax attention. */
#include "inspect.h"
#include "../common/output.h"
#include "../common/paths.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers of all report formats ------------------------------------------------------------------------------- */

size_t cli_inspect_heads(const cli_inspect_job *job)
{
    size_t max_heads = 0;
    for (size_t l = 0; l < job->report->layer_count; l++) {
        const size_t heads = job->report->layers[l].head_count;
        if (heads > max_heads) max_heads = heads;
    }
    return max_heads;
}

const bo_inspect_candidate *cli_inspect_choice(const cli_inspect_job *job)
{
    const bo_inspect_candidate *choice = &job->report->candidates[job->report->choice];
    return choice && !isnan(choice->error) ? choice : NULL;
}

double cli_inspect_predicted(const cli_inspect_job *job, size_t candidate)
{
    double squares = 0, count = 0;
    for (size_t l = 0; l < job->report->layer_count; l++)
        for (size_t h = 0; h < job->report->layers[l].head_count; h++) {
            const double *predicted = job->report->layers[l].heads[h].predicted;
            if (!predicted || isnan(predicted[candidate])) continue;
            squares += predicted[candidate] * predicted[candidate];
            count++;
        }
    return count > 0 ? sqrt(squares / count) : NAN;
}

const char *cli_inspect_map_name(const bo_inspect_candidate *candidate, char out[48])
{
    snprintf(out, 48, "%s", candidate->name);
    char *last = strrchr(out, ' ');
    if (candidate->features && last) *last = '\0';
    return out;
}

size_t cli_inspect_next_map(const cli_inspect_job *job, size_t at)
{
    char first[48], other[48];
    cli_inspect_map_name(&job->report->candidates[at], first);
    size_t next = at + 1;
    while (next < job->report->candidate_count &&
           strcmp(first, cli_inspect_map_name(&job->report->candidates[next], other)) == 0)
        next++;
    return next;
}

const char *cli_inspect_advice(const cli_inspect_job *job, char out[CLI_INSPECT_TEXT])
{
    const bo_inspect_candidate *c = cli_inspect_choice(job);
    size_t worst = 0, heads = 0, reached = 0;
    out[0] = '\0';
    if (!c) return out;
    for (size_t l = 0; l < job->report->layer_count; l++) {
        const bo_layer_report *layer = &job->report->layers[l];
        const double largest = job->report->layers[worst].error;
        if (isnan(layer->error)) continue; /* no softmax attention */
        if (isnan(largest) || layer->error > largest) worst = l;
        for (size_t h = 0; h < layer->head_count; h++) {
            const double *errors = job->report->layers[l].heads[h].errors;
            heads++;
            reached += errors && errors[job->report->choice] <= job->report->target;
        }
    }
    snprintf(out, CLI_INSPECT_TEXT,
             "%s: error %s%s, %zu of %zu heads reach %s. The error is largest in layer %zu (%s).", c->name,
             cli_significant(c->error, 3).s, job->report->reachable ? "" : ", the smallest found", reached, heads,
             cli_significant(job->report->target, 2).s, worst, cli_significant(job->report->layers[worst].error, 2).s);
    return out;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    unsigned part; /* bits of bo_inspect_part, or SEPARATION */
} parts[] = {
    {"statistics", BO_INSPECT_PART_STATISTICS},   {"errors", BO_INSPECT_PART_ERRORS},
    {"circuits", BO_INSPECT_PART_CIRCUITS},       {"behavior", BO_INSPECT_PART_BEHAVIOR},
    {"attribution", BO_INSPECT_PART_ATTRIBUTION}, {"separation", 1u << 16},
};
enum { SEPARATION = 1u << 16 };

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

/* Parses a list of names to bits; 0 after a message. */
static unsigned parse_parts(const char *list)
{
    unsigned found = 0;
    for (const char *at = list; *at;) {
        const size_t length = strcspn(at, ",");
        unsigned part = 0;
        for (size_t i = 0; i < CLI_COUNT_OF(parts); i++)
            if (strlen(parts[i].name) == length && strncmp(parts[i].name, at, length) == 0) part = parts[i].part;
        if (!part) {
            char word[48];
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            const char *near = cli_nearest(word, CLI_COUNT_OF(parts), part_name, NULL);
            cli_usage_error("inspect",
                            near ? "--parts: unknown part '%s'; did you mean %s?"
                                 : "--parts: unknown part '%s'; expected statistics, errors, circuits, behavior, "
                                   "attribution or separation",
                            word, near);
            return 0;
        }
        found |= part;
        at += length + (at[length] == ',');
    }
    if (!found) cli_usage_error("inspect", "--parts: expected at least one part");
    return found;
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static bo_status inspect_model(cli_inspect_job *job, unsigned requested)
{
    const cli_inspect_options *o = job->options;
    const bo_inspect_desc desc = {.parts = requested & ~(unsigned)SEPARATION,
                                  .tokens = o->length,
                                  .windows = o->windows,
                                  .target = o->target,
                                  .seed = job->session->common.seed,
                                  .no_report = requested == SEPARATION,
                                  .receive = o->dump ? cli_inspect_dump : NULL,
                                  .user = job};
    return bo_inspect(job->session->context, job->inspected.model, job->inspected.ids, job->inspected.count, &desc,
                      &job->report);
}

static bool write_page(cli_inspect_job *job)
{
    cli_output output;
    if (!job->options->html) return true;
    if (!cli_output_text(job->session, &output, job->options->html)) return false;
    cli_inspect_page(output.file, job);
    return cli_output_commit(job->session, &output);
}

static bo_status measure(cli_inspect_job *job, unsigned requested)
{
    bo_context *context = job->session->context;
    bo_status status = bo_model_measure(context, job->inspected.model, job->options->context, &job->sizes);
    if (status == BO_OK) status = inspect_model(job, requested);
    if (status == BO_OK && (!requested || requested & SEPARATION)) {
        const bo_separation_desc desc = {.seed = job->session->common.seed};
        status = bo_separation_measure(context, job->inspected.model, job->inspected.ids, job->inspected.count, &desc,
                                       &job->separation);
    }
    return status;
}

static int run(cli_inspect_job *job, unsigned requested)
{
    const cli_inspect_options *o = job->options;
    const cli_inspect_source source = {.directory = job->directory,
                                       .data = &o->data,
                                       .field = o->field,
                                       .separator = o->separator,
                                       .ids = o->ids,
                                       .length = o->length};
    const double start = cli_now();
    if (o->html && !cli_can_write(job->session, o->html)) return CLI_FAILED;
    if (!cli_inspected_open(job->session, &source, &job->inspected)) return CLI_FAILED;
    job->desc = bo_model_describe(job->inspected.model);
    if (job->inspected.more)
        cli_note(job->session, "Text        only its first %s tokens are read", cli_count(job->inspected.count).s);
    const bo_status status = measure(job, requested);
    cli_progress_clear(&job->session->progress);
    if (status == BO_CANCELED && o->dump && !cli_interrupted()) return CLI_FAILED; /* reported by the receiver */
    if (status != BO_OK) return cli_fail_status(job->session, status);
    job->seconds = cli_now() - start;
    if (!write_page(job)) return CLI_FAILED;
    (job->session->common.json ? cli_inspect_json : cli_inspect_print)(job);
    return CLI_DONE;
}

static int check(const cli_inspect_options *o, unsigned *requested)
{
    const unsigned of_text = BO_INSPECT_PART_STATISTICS | BO_INSPECT_PART_ERRORS | BO_INSPECT_PART_ATTRIBUTION;
    const bool text = o->data.count || o->ids;
    *requested = o->parts ? parse_parts(o->parts) : 0;
    if (o->parts && !*requested) return CLI_USAGE_ERROR;
    if (o->ids && o->data.count) return cli_usage_error("inspect", "give --data or --ids, not both");
    if (!text && *requested & of_text)
        return cli_usage_error("inspect", "statistics, errors and attribution need a text; give --data FILE");
    if (!text && o->dump) return cli_usage_error("inspect", "--dump needs a text; give --data FILE");
    if (o->html && !cli_ends_with(o->html, ".html"))
        return cli_usage_error("inspect", "--html: expected a name ending in .html, found '%s'", o->html);
    const cli_path output = {"html", o->html};
    int status = cli_paths_apart("inspect", &output, 1, &(cli_path){"ids", o->ids}, 1);
    for (size_t i = 0; i < o->data.count && status == CLI_DONE; i++)
        status = cli_paths_apart("inspect", &output, 1, &(cli_path){"data", o->data.items[i]}, 1);
    return status;
}

static int inspect(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_inspect_options *o = options;
    unsigned requested;
    if (arguments->count != 1)
        return cli_usage_error("inspect", "expected one model directory, found %zu arguments", arguments->count);
    int status = check(o, &requested);
    if (status != CLI_DONE) return status;
    cli_session session;
    if (!cli_session_open(&session, "inspect", common, false)) return CLI_FAILED;
    cli_inspect_job job = {.session = &session, .options = o, .directory = arguments->items[0]};
    status = run(&job, requested);
    if (status == CLI_FAILED && cli_interrupted()) status = CLI_INTERRUPTED;
    bo_inspection_destroy(job.report);
    bo_free(job.separation);
    cli_inspected_close(&job.inspected);
    cli_session_close(&session);
    return status;
}

static const cli_option rows[] = {
    SECTION("Data"),
    LIST("data", "FILE", cli_inspect_options, data,
         "text or JSON lines (.jsonl); may be gzipped, and given several times"),
    TEXT("field", "NAME", cli_inspect_options, field, "for JSON lines: name of the field with the text",
         .default_text = "text"),
    TEXT("separator", "TEXT", cli_inspect_options, separator, "for text files: text that ends a document",
         .default_text = "one document per file"),
    TEXT("ids", "IDS.npy", cli_inspect_options, ids, "token ids instead of --data"),
    COUNT("length", "N", cli_inspect_options, length, "tokens of a window of the text; windows are read separately",
          .low = 4, .high = 1 << 20, .default_text = "the context of the model, at most 256"),
    COUNT("windows", "N", cli_inspect_options, windows, "maximum number of windows, evenly spaced over the text",
          .low = 1, .high = 1 << 20, .default_text = "8"),
    SECTION("Report"),
    TEXT("parts", "LIST", cli_inspect_options, parts,
         "parts, separated by commas: statistics, errors, circuits, behavior, attribution, separation",
         .default_text = "all; without a text circuits, behavior and separation"),
    REAL("target", "X", cli_inspect_options, target, "target relative error of a replacement of softmax", .low = 0,
         .high = 100, .default_text = "0.2"),
    COUNT("context", "N", cli_inspect_options, context, "tokens at which memory and operations are counted", .low = 1,
          .high = 1 << 24, .default_text = "the context of the model"),
    TEXT("html", "FILE", cli_inspect_options, html, "write the report as one page with heat maps: .html"),
    TEXT("dump", "DIR", cli_inspect_options, dump,
         "write queries, keys, values, outputs, attention patterns, residual streams and the subspaces of heads as "
         ".npy"),
    END_OF_OPTIONS,
};

const cli_usage cli_inspect_usage = {
    .command = "inspect",
    .synopsis = "DIR [--data TEXT] [options]",
    .about = "Analyzes a language model: norms and spectra of queries and keys, attention patterns, circuits and "
             "contributions of every head, and the error of linear-time replacements of softmax attention, with a "
             "recommendation.",
    .examples = "  bochner inspect model --data text.txt\n"
                "  bochner inspect model --data text.txt --html report.html --dump arrays\n"
                "  bochner inspect model --parts circuits,behavior --json\n",
    .groups = {{rows, 0}},
    .short_help = {"data", "ids", "length", "windows", "parts", "target", "context", "html", "dump", "json"},
};

int cli_inspect(int argc, char **argv)
{
    cli_inspect_options o = {0};
    return cli_command(&cli_inspect_usage, argc, argv, &o, inspect);
}
