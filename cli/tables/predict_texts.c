/* bochner predict for models that classify or match texts: one label with probabilities per text. */
#include "../model/extrapolation.h"
#include "../common/metrics.h"
#include "../common/plot.h"
#include "../common/predictions.h"
#include "../text/text_tasks.h"
#include <stdlib.h>

enum { BLOCK = 256 }; /* texts per block */

typedef struct predict_job {
    cli_session *session;
    const cli_texts_use *use;
    bo_model *model;
    const bo_model_desc *desc;
    cli_predictions predictions;
    bo_metrics *metrics; /* with --labeled */
    size_t rows;
    float *found; /* BLOCK x classes */
    double *probabilities, *truth;
    int *best;
} predict_job;

static const char *class_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    (void)buffer;
    return job->desc->labels[index];
}

/* Without --proba, the only number is the probability of the predicted class. */
static const char *number_name(const void *user, size_t index, char buffer[CLI_NAME])
{
    const predict_job *job = user;
    return job->use->proba ? class_name(user, index, buffer) : "probability";
}

static int best_of(const float *probabilities, size_t classes)
{
    size_t best = 0;
    for (size_t i = 1; i < classes; i++)
        if (probabilities[i] > probabilities[best]) best = i;
    return (int)best;
}

/* Texts first … first + count - 1, at most BLOCK. */
static bool predict_block(predict_job *job, const bo_texts *texts, size_t first, size_t count)
{
    const size_t classes = job->desc->classes;
    bo_status status = bo_model_classify(job->session->context, job->model, texts, first, count, job->found);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    for (size_t i = 0; i < count * classes; i++) job->probabilities[i] = (double)job->found[i];
    for (size_t i = 0; i < count; i++) {
        double *row = job->probabilities + i * classes;
        job->best[i] = best_of(job->found + i * classes, classes);
        bo_text text;
        bo_texts_get(texts, first + i, 0, &text);
        job->truth[i] = (double)text.label;
        if (!cli_predictions_row(&job->predictions, (size_t)job->best[i], job->use->proba ? row : &row[job->best[i]]))
            return false;
    }
    if (job->use->labeled)
        status = bo_metrics_add(
            job->session->context, job->metrics,
            &(bo_metrics_rows){
                .rows = count, .y = job->truth, .predicted = job->best, .probabilities = job->probabilities});
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    return cli_predictions_flush(&job->predictions);
}

static bool predict_texts(void *user, const bo_texts *texts)
{
    predict_job *job = user;
    const size_t all = bo_texts_describe(texts)->count;
    for (size_t first = 0; first < all; first += BLOCK) {
        const size_t count = all - first < BLOCK ? all - first : BLOCK;
        if (cli_interrupted()) return cli_fail_status(job->session, BO_CANCELED), false;
        if (!predict_block(job, texts, first, count)) return false;
        job->rows += count;
        cli_progress_report(&job->session->progress, "predicting", (double)job->rows, 0);
    }
    return true;
}

static int report(predict_job *job)
{
    const cli_texts_use *use = job->use;
    if (job->session->common.json) {
        cli_json *json = cli_predictions_json(&job->predictions);
        cli_json_add_text(json, "model", use->directory);
        cli_json_add_text(json, "data", use->path);
        cli_json_add_count(json, "rows", job->rows);
        cli_json_add_text(json, "out", use->out);
        if (use->labeled) cli_metrics_json(job->session, job->metrics, NULL, json);
        cli_json_end(json);
    } else if (use->labeled && !job->session->common.quiet) {
        cli_metrics_print(job->session, job->metrics, NULL, stderr);
    }
    return use->plot ? cli_plot(job->session, job->metrics, NULL, use->plot_kind, use->plot) : CLI_DONE;
}

static int run(predict_job *job)
{
    const cli_texts_use *use = job->use;
    const size_t classes = job->desc->classes;
    const bo_texts_desc desc = cli_texts_desc(job->model, !use->labeled, use->context);
    const cli_texts_source source = {.path = use->path,
                                     .tabs = use->labeled ? NULL : "if lines start with a label, give --labeled",
                                     .model = job->model,
                                     .desc = &desc,
                                     .use = predict_texts,
                                     .user = job};
    job->predictions = (cli_predictions){.session = job->session,
                                         .out = use->out,
                                         .classes = classes,
                                         .label = class_name,
                                         .numbers = use->proba ? classes : 1,
                                         .name = number_name,
                                         .user = job,
                                         .item = sizeof(double)};
    job->found = cli_allocate(BLOCK * classes, sizeof(float), "probabilities");
    job->probabilities = cli_allocate(BLOCK * classes, sizeof(double), "probabilities");
    job->truth = cli_allocate(BLOCK, sizeof(double), "labels");
    job->best = cli_allocate(BLOCK, sizeof(int), "labels");
    const bo_metrics_desc metrics = {
        .classes = classes, .points = cli_metrics_points(classes), .labels = job->desc->labels};
    const bo_status status = bo_metrics_create(job->session->context, &metrics, &job->metrics);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    cli_report_extrapolation(job->session, job->model, use->context);
    const bool taken = cli_predictions_open(&job->predictions) && cli_texts_each(job->session, &source);
    cli_progress_clear(&job->session->progress);
    if (!taken) return CLI_FAILED;
    if (job->rows == 0) return cli_fail(job->session, "standard input: no text found");
    return cli_predictions_end(&job->predictions) ? report(job) : CLI_FAILED;
}

/* Checks the options against the task of the model. */
static int check(const predict_job *job)
{
    const cli_texts_use *use = job->use;
    const bo_model_task task = job->desc->task;
    if (task != BO_MODEL_TASK_CLASSIFY && task != BO_MODEL_TASK_MATCH)
        return cli_fail_task(job->session, use->directory, task);
    if (use->other) return cli_task_usage_error(job->session, use->other, use->directory, task);
    if (use->plot && !use->labeled)
        return cli_usage_error("predict", "--plot needs labels: give --labeled if %s has them", use->path);
    return cli_plot_suits(job->session, use->plot_kind, job->desc->classes) ? CLI_DONE : CLI_FAILED;
}

int cli_predict_texts(cli_session *session, const cli_texts_use *use)
{
    predict_job job = {.session = session, .use = use};
    const bo_status status = bo_model_load(session->context, &(bo_source){.path = use->directory},
                                           &(bo_model_load_desc){.storage = use->weights}, &job.model);
    if (status != BO_OK) return bo_model_destroy(job.model), cli_fail_status(session, status);
    job.desc = bo_model_describe(job.model);
    int ended = check(&job);
    if (ended == CLI_DONE) ended = !use->out || cli_can_write(session, use->out) ? run(&job) : CLI_FAILED;
    cli_predictions_close(&job.predictions);
    bo_metrics_destroy(job.metrics);
    free(job.found);
    free(job.probabilities);
    free(job.truth);
    free(job.best);
    bo_model_destroy(job.model);
    return ended;
}
