/* bochner predict for networks: one row of predictions per row of a table. */
#include "../common/columns.h"
#include "../common/metrics.h"
#include "../network/network.h"
#include "../common/predictions.h"
#include <stdlib.h>

typedef struct predict_job {
    cli_session *session;
    const cli_network_use *use;
    const bo_model *network;
    const bo_network_info *info;
    bo_examples *examples;
    size_t rows;
    float *outputs; /* rows x outputs */
} predict_job;

static const char *class_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    cli_short_text number;
    snprintf(buffer, CLI_NAME, "%s", cli_class_label(job->info->schema, index, &number));
    return buffer;
}

static const char *number_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    const bo_schema *schema = job->info->schema;
    const char *name = NULL;
    if (job->info->outputs == 1) return "prediction";
    if (schema && job->info->reconstructs && job->info->outputs == bo_schema_describe(schema)->inputs)
        name = cli_input_name(schema, index);
    else if (schema && !job->info->reconstructs)
        name = cli_target_name(schema, index);
    if (name)
        snprintf(buffer, CLI_NAME, "%s", name);
    else
        snprintf(buffer, CLI_NAME, "prediction%zu", index);
    return buffer;
}

static size_t best_of(const predict_job *job, size_t row)
{
    const float *p = job->outputs + row * job->info->outputs;
    size_t best = 0;
    for (size_t i = 1; i < job->info->outputs; i++)
        if (p[i] > p[best]) best = i;
    return best;
}

static bool write_rows(const predict_job *job, cli_predictions *table)
{
    double *row = cli_allocate(job->info->outputs, sizeof *row, "a row of predictions");
    bool written = cli_predictions_open(table);
    for (size_t i = 0; i < job->rows && written; i++) {
        for (size_t c = 0; c < job->info->outputs; c++) row[c] = (double)job->outputs[i * job->info->outputs + c];
        written = cli_predictions_row(table, best_of(job, i), row);
    }
    free(row);
    return written && cli_predictions_end(table);
}

/* Writes classes (with --proba also probabilities), or all outputs. */
static bool write_all(const predict_job *job)
{
    const size_t classes = job->info->classes;
    cli_predictions table = {.session = job->session,
                             .out = job->use->out,
                             .classes = classes,
                             .label = class_name,
                             .numbers = classes && !job->use->proba ? 0 : job->info->outputs,
                             .name = classes ? class_name : number_name,
                             .user = job,
                             .item = sizeof(float)};
    const bool written = write_rows(job, &table);
    if (written && table.json.out) {
        cli_json *json = cli_predictions_json(&table);
        cli_json_add_count(json, "rows", job->rows);
        cli_json_end(json);
    }
    cli_predictions_close(&table);
    return written;
}

static bool predict(predict_job *job)
{
    const cli_network_source source = {.path = job->use->path, .data = &job->use->data, .network = job->network};
    const bo_split part = cli_network_part(&job->use->data);
    if (!cli_network_examples(job->session, &source, &job->examples)) return false;
    job->rows = job->examples->parts[part].count;
    job->outputs = cli_allocate(job->rows * job->info->outputs, sizeof(float), "answers");
    const bo_status status = bo_model_predict(job->session->context, job->network, job->examples, part, job->outputs);
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    return write_all(job);
}

int cli_predict_network(cli_session *session, const cli_network_use *use)
{
    bo_model *network;
    const bo_status status = bo_model_load(session->context, &(bo_source){.path = use->directory}, NULL, &network);
    if (status != BO_OK) return cli_fail_status(session, status);
    predict_job job = {.session = session, .use = use, .network = network, .info = bo_model_report(network)->network};
    bool done = !use->proba || job.info->classes > 0;
    if (!done) cli_fail(session, "--proba: %s predicts numbers, not classes", use->directory);
    done = done && (!use->out || cli_can_write(session, use->out)) && predict(&job);
    free(job.outputs);
    bo_examples_destroy(job.examples);
    bo_model_destroy(network);
    return done ? CLI_DONE : CLI_FAILED;
}
