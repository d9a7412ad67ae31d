/* bochner predict of a network: a row of answers for each row of a table. */
#include "json.h"
#include "metrics.h"
#include "network.h"
#include "output.h"
#include <stdlib.h>
#include <string.h>

typedef struct predict_job {
    cli_session *session;
    const cli_network_use *use;
    const bo_network *network;
    bo_network_info info;
    bo_examples *examples;
    size_t rows;
    float *answers; /* rows x outputs */
} predict_job;

static size_t columns_of(const predict_job *job)
{
    return job->info.classes ? 1 + (job->use->proba ? job->info.classes : 0) : job->info.outputs;
}

static const char *column_name(const predict_job *job, size_t index, char out[64])
{
    const bo_schema *schema = job->info.schema;
    cli_word number;
    const char *name = NULL;
    if (job->info.classes && index > 0) {
        snprintf(out, 64, "%.60s", cli_class_label(schema, index - 1, &number));
        return out;
    }
    if (job->info.classes || job->info.outputs == 1) return "prediction";
    if (schema && job->info.reconstructs && job->info.outputs == bo_schema_dim(schema))
        name = bo_schema_input(schema, index);
    else if (schema && !job->info.reconstructs)
        name = bo_schema_target(schema, index);
    if (name)
        snprintf(out, 64, "%.60s", name);
    else
        snprintf(out, 64, "prediction%zu", index);
    return out;
}

static size_t best_of(const predict_job *job, size_t row)
{
    const float *p = job->answers + row * job->info.outputs;
    size_t best = 0;
    for (size_t i = 1; i < job->info.outputs; i++)
        if (p[i] > p[best]) best = i;
    return best;
}

/* Numbers of a row: probabilities where they are wanted, or everything that comes out. */
static const float *numbers_of(const predict_job *job, size_t row, size_t *count)
{
    *count = job->info.classes && !job->use->proba ? 0 : job->info.outputs;
    return job->answers + row * job->info.outputs;
}

static void write_csv(const predict_job *job, FILE *file)
{
    char name[64];
    cli_word number;
    size_t count;
    for (size_t i = 0; i < columns_of(job); i++) {
        if (i) fputc(',', file);
        cli_csv_field(file, column_name(job, i, name));
    }
    fputc('\n', file);
    for (size_t i = 0; i < job->rows; i++) {
        const float *values = numbers_of(job, i, &count);
        if (job->info.classes) cli_csv_field(file, cli_class_label(job->info.schema, best_of(job, i), &number));
        for (size_t c = 0; c < count; c++)
            fprintf(file, "%s%.9g", c || job->info.classes ? "," : "", (double)values[c]);
        fputc('\n', file);
    }
}

static void write_json(const predict_job *job)
{
    cli_json json = {.out = stdout};
    char name[64];
    cli_word number;
    size_t count;
    cli_json_object(&json, NULL);
    cli_json_array(&json, "columns");
    for (size_t i = 0; i < columns_of(job); i++) cli_json_text(&json, NULL, column_name(job, i, name));
    cli_json_end(&json);
    cli_json_array(&json, "predictions");
    for (size_t i = 0; i < job->rows; i++) {
        const float *values = numbers_of(job, i, &count);
        if (columns_of(job) > 1) cli_json_array(&json, NULL);
        if (job->info.classes) cli_json_text(&json, NULL, cli_class_label(job->info.schema, best_of(job, i), &number));
        for (size_t c = 0; c < count; c++) cli_json_number(&json, NULL, (double)values[c]);
        if (columns_of(job) > 1) cli_json_end(&json);
    }
    cli_json_end(&json);
    cli_json_count(&json, "rows", job->rows);
    cli_json_end(&json);
}

/* A .npy has float32; a class is its number. */
static bool write_npy(const predict_job *job, cli_output *output)
{
    const size_t columns = columns_of(job);
    float *row = cli_allocate(columns, sizeof *row, "a row of answers");
    bool written = true;
    size_t count;
    for (size_t i = 0; i < job->rows && written; i++) {
        const float *values = numbers_of(job, i, &count);
        if (job->info.classes) row[0] = (float)best_of(job, i);
        memcpy(row + columns - count, values, count * sizeof *row);
        written = cli_output_rows(job->session, output, 1, row);
    }
    free(row);
    return written;
}

static bool write_all(const predict_job *job)
{
    const char *out = job->use->out;
    const bool npy = out && cli_ends_with(out, ".npy");
    cli_output output;
    if (job->session->common.json && !out) return write_json(job), true;
    if (npy ? !cli_output_npy(job->session, &output, out, columns_of(job), sizeof(float))
            : !cli_output_text(job->session, &output, out))
        return false;
    bool written = true;
    if (npy)
        written = write_npy(job, &output);
    else
        write_csv(job, output.file);
    written = written && cli_output_check(job->session, &output) && (!out || cli_output_commit(job->session, &output));
    if (!written) cli_output_abandon(&output);
    return written;
}

static bool predict(predict_job *job)
{
    const cli_network_source source = {.path = job->use->path, .data = &job->use->data, .network = job->network};
    const bo_part part = job->use->part < 0 ? BO_PART_ALL : (bo_part)job->use->part;
    if (!cli_network_examples(job->session, &source, &job->examples)) return false;
    job->rows = bo_examples_count(job->examples, part);
    job->answers = cli_allocate(job->rows * job->info.outputs, sizeof(float), "answers");
    const bo_status status = bo_network_predict(job->session->context, job->network, job->examples, part, job->answers);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    return write_all(job);
}

int cli_predict_network(cli_session *session, const cli_network_use *use)
{
    bo_network *network;
    const bo_status status = bo_network_load(session->context, use->folder, &network);
    if (status != BO_OK) return cli_fail_status(session, status);
    predict_job job = {.session = session, .use = use, .network = network, .info = bo_network_describe(network)};
    bool done = !use->proba || job.info.classes > 0;
    if (!done) cli_fail(session, "--proba: %s gives numbers, not classes", use->folder);
    done = done && (!use->out || cli_can_write(session, use->out)) && predict(&job);
    free(job.answers);
    bo_examples_destroy(job.examples);
    bo_network_destroy(network);
    return done ? CLI_DONE : cli_interrupted() ? CLI_INTERRUPTED : CLI_FAILED;
}
