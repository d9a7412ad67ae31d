/* Description, examples and network of `bochner train --model`. */
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, EPOCHS = 10, GRAPH_EPOCHS = 200 };

static const char *readout_choice(int index)
{
    static const char *const names[] = {"gradient", "ridge"};
    return index < 2 ? names[index] : NULL;
}

size_t cli_train_network_table(cli_train_network *o, cli_option out[CLI_TRAIN_NETWORK])
{
    const cli_option before[] = {
        {CLI_SECTION, "Networks", NULL, NULL, NULL, NULL, 0, 0},
        {CLI_TEXT, "model", "FILE",
         "a network's description (JSON), to be trained on a table, images or a graph: --data", &o->model, NULL, 0, 0},
        {CLI_REAL, "width-multiplier", "X", "of every hidden width of the description; 1 unless given",
         &o->width_multiplier, NULL, 1e-3, 1e3},
        {CLI_REAL, "epochs", "N", "how often each example is seen; 10, of a graph 200, where no length is given",
         &o->epochs, NULL, 1e-3, 1e9},
        {CLI_TEXT, "valid-labels", "FILE", "of a network: targets of --valid in a file of their own", &o->valid_labels,
         NULL, 0, 0},
        {CLI_CHOICE, "readout", "HOW",
         "of a network: ridge solves the last linear layer exactly, and trains nothing else", &o->readout,
         readout_choice, 0, 0},
        {CLI_REAL, "lambda", "X", "of --readout ridge; 1 unless given", &o->lambda, NULL, 0, 1e30},
    };
    memcpy(out, before, sizeof before);
    return CLI_COUNT_OF(before) + cli_network_data_table(&o->data, out + CLI_COUNT_OF(before));
}

int cli_train_network_check(const cli_train_words *words)
{
    const cli_train_options *o = &words->options;
    const cli_train_network *n = &o->network;
    if (o->data.count + words->files.count != 1)
        return cli_wrong_use("train", "--model: expected one file of --data, found %zu",
                             o->data.count + words->files.count);
    if (n->valid_labels && !o->valid) return cli_wrong_use("train", "--valid-labels needs --valid FILE");
    if (!n->readout && n->lambda != cli_train_defaults().network.lambda)
        return cli_wrong_use("train", "--lambda is an option of --readout ridge");
    if (n->data.graph && o->valid)
        return cli_wrong_use("train", "--valid: nodes for validation are in the same graph; name them with --split, or "
                                      "give --valid-fraction");
    if (n->data.split && o->valid)
        return cli_wrong_use("train", "--split says which rows are for validation; leave out --valid");
    if (n->readout && (n->epochs > 0 || o->steps || o->minutes > 0 || o->resume))
        return cli_wrong_use("train",
                             "--readout ridge takes no steps: leave out --epochs, --steps, --minutes and --resume");
    if (n->readout && cli_is_network(o->out))
        return cli_wrong_use("train", "%s: holds a network already: name another folder", o->out);
    if (n->epochs > 0 && (o->steps || o->minutes > 0))
        return cli_wrong_use("train", "give one of --epochs, --steps and --minutes");
    return cli_network_data_check("train", &n->data);
}

/* ---- opening ---------------------------------------------------------------------------------------------------------------- */

/* A description as text; NULL after saying what is wrong. */
static char *read_description(cli_session *session, const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "r");
    char *text = file ? cli_allocate(MOST + 2, 1, "a description") : NULL;
    const size_t size = file ? fread(text, 1, MOST + 1, file) : 0;
    const bool failed = !file || ferror(file);
    if (file) fclose(file);
    if (!failed && size <= MOST && !memchr(text, 0, size)) return text;
    cli_fail(session, failed ? "%s: cannot be read" : "%s: is no description of a network", path);
    free(text);
    return NULL;
}

static bool open_examples(cli_train_job *job, const bo_network_needs *needs)
{
    const cli_train_options *o = job->options;
    const cli_train_network *n = &o->network;
    const char *path = o->data.count ? o->data.items[0] : job->words->files.items[0];
    const bool cut = !o->valid && !n->data.split;
    cli_network_source source = {.path = path, .data = &n->data, .needs = needs, .valid = cut ? o->valid_fraction : 0};
    if ((needs->input == BO_NETWORK_GRAPH) != (n->data.graph != NULL)) {
        cli_fail(job->session, "%s takes %s: %s", n->model, bo_network_input_name(needs->input),
                 n->data.graph ? "leave out --graph" : "give its edges with --graph FILE");
        return false;
    }
    return cli_network_examples(job->session, &source, &job->examples);
}

/* Under the columns and classes of the network, which are those of the training file. */
static bool open_held_out(cli_train_job *job)
{
    const cli_train_options *o = job->options;
    if (!o->valid) {
        const bool parts = job->examples->order && bo_examples_count(job->examples, BO_SPLIT_VALID) > 0;
        job->held_out = parts ? job->examples : NULL;
        return true;
    }
    cli_network_data data = o->network.data;
    data.labels = o->network.valid_labels;
    if (data.labels) data.target = NULL;
    const cli_network_source source = {.path = o->valid, .data = &data, .network = job->network};
    return cli_network_examples(job->session, &source, &job->held_out);
}

/* A run that goes on has its weights and scalings in its folder; the trainer refuses another description than it has. */
static bool open_network(cli_train_job *job, const char *text)
{
    bo_context *context = job->session->context;
    const cli_train_options *o = job->options;
    bo_network_needs needs;
    bo_status status = bo_network_needs_of(context, text, o->network.model, &needs);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    if (!open_examples(job, &needs)) return false;
    const bo_network_desc desc = {.model = text,
                                  .where = o->network.model,
                                  .examples = job->examples,
                                  .width_multiplier = o->network.width_multiplier,
                                  .parametrization = o->unit_mup ? BO_PARAMETRIZATION_UNIT
                                                     : o->mup    ? BO_PARAMETRIZATION_MUP
                                                                 : BO_PARAMETRIZATION_STANDARD,
                                  .seed = job->session->common.seed};
    status = bo_network_create(context, &desc, &job->network);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* Epochs as steps, where they are asked for or nothing is. */
static void set_length(cli_train_job *job)
{
    bo_trainer_desc *desc = &job->desc;
    const cli_train_options *o = job->options;
    const bool graph = bo_network_describe(job->network).input == BO_NETWORK_GRAPH;
    const double rows = graph ? 1 : (double)bo_examples_count(job->examples, BO_SPLIT_TRAIN);
    double epochs = o->network.epochs;
    if (!desc->batch) desc->batch = graph ? 1 : BATCH;
    if (!(epochs > 0) && !o->steps && !(o->minutes > 0) && !job->resumed) epochs = graph ? GRAPH_EPOCHS : EPOCHS;
    if (!(epochs > 0)) return;
    desc->minutes = 0;
    desc->steps = (uint64_t)fmax(1, ceil(epochs * rows / (double)desc->batch));
}

bool cli_train_network_open(cli_train_job *job)
{
    char *text = read_description(job->session, job->options->network.model);
    const bool opened = text && open_network(job, text) && open_held_out(job);
    free(text);
    if (!opened) return false;
    cli_train_describe_run(job);
    job->desc.network = job->network;
    job->desc.examples = job->examples;
    job->desc.held_out = job->held_out;
    set_length(job);
    return true;
}

/* ---- words ------------------------------------------------------------------------------------------------------------------- */

void cli_train_network_plan(const cli_train_job *job)
{
    const bo_trainer_desc *r = &job->desc;
    const bo_network_info info = bo_network_describe(job->network);
    const size_t rows = bo_examples_count(job->examples, BO_SPLIT_TRAIN);
    char test[64] = "", edges[64] = "", classes[48] = "", length[96] = "as many steps as it has";
    if (job->held_out)
        snprintf(test, sizeof test, ", %s to test with", cli_count(bo_examples_count(job->held_out, BO_SPLIT_VALID)).s);
    if (job->examples->first) snprintf(edges, sizeof edges, "; %s edges", cli_count(job->examples->edges).s);
    if (info.classes) snprintf(classes, sizeof classes, " of %zu classes", info.classes);
    cli_say(job->session, "Examples    %s%s of %s numbers%s%s%s", cli_count(rows).s, classes, cli_count(info.dim).s,
            test, edges, job->examples->first ? ", all of it a step" : "");
    cli_say(job->session, "Network     %s parameters, %zu layers; loss %s", cli_count((size_t)info.parameters).s,
            info.layers, info.loss);
    if (r->steps)
        snprintf(length, sizeof length, "%s steps", cli_count(r->steps).s);
    else if (r->minutes > 0)
        snprintf(length, sizeof length, "%s", cli_seconds(60 * r->minutes).s);
    cli_say(job->session, "Plan        %s; %zu example%s a step; %s", length, job->examples->first ? rows : r->batch,
            r->batch == 1 && !job->examples->first ? "" : "s", bo_optimizer_name(r->optimizer.kind));
}

static bool has_classes(const cli_train_job *job)
{
    return bo_network_describe(job->network).classes > 0;
}

void cli_train_network_loss(const cli_train_job *job, const bo_training_report *r, char out[160])
{
    const int length = snprintf(out, 160, "loss %.4g", r->loss);
    if (isnan(r->valid_loss)) return;
    if (has_classes(job))
        snprintf(out + length, 160 - (size_t)length, "  test %.4g (%.2f%% right)", r->valid_loss,
                 100 * r->valid_metric);
    else
        snprintf(out + length, 160 - (size_t)length, "  test %.4g (rmse %.4g)", r->valid_loss, r->valid_metric);
}

void cli_train_network_print(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    const bool tested = !isnan(r->valid_loss);
    printf("Trained     %s steps, %s examples, in %s%s\n", cli_count(r->step).s, cli_count(r->tokens).s,
           cli_seconds(r->seconds).s, r->stopped_early ? "; stopped early, the test got no better" : "");
    if (tested && has_classes(job))
        printf("Test        %.2f%% right, loss %.4g; least loss %.4g\n", 100 * r->valid_metric, r->valid_loss,
               r->best_valid_loss);
    else if (tested)
        printf("Test        rmse %.5g, loss %.4g; least loss %.4g\n", r->valid_metric, r->valid_loss,
               r->best_valid_loss);
    printf("Network     %s%s\n", job->options->out, tested ? "; the one of least loss is in best/ there" : "");
}

void cli_train_network_json(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "out", job->options->out);
    cli_json_count(&json, "parameters", (size_t)bo_network_describe(job->network).parameters);
    cli_json_count(&json, "steps", r->step);
    cli_json_count(&json, "examples", r->tokens);
    cli_json_number(&json, "loss", r->loss);
    cli_json_number(&json, "valid_loss", r->valid_loss);
    cli_json_number(&json, has_classes(job) ? "valid_accuracy" : "valid_rmse", r->valid_metric);
    cli_json_number(&json, "best_valid_loss", r->best_valid_loss);
    cli_json_number(&json, "seconds", r->seconds);
    cli_json_number(&json, "examples_per_second", r->tokens_per_second);
    cli_json_number(&json, "gflops", r->gflops);
    cli_json_count(&json, "memory_bytes", job->plan.all_bytes);
    cli_json_flag(&json, "stopped_early", r->stopped_early);
    cli_json_end(&json);
}
