/* bochner train --model: trains a network, described by a JSON file, on a table, images or a graph. */
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 128, EPOCHS = 10, GRAPH_EPOCHS = 200 };

static const char *readout_name(unsigned index)
{
    static const char *const names[] = {"gradient", "ridge"};
    return index < CLI_COUNT_OF(names) ? names[index] : NULL;
}

const cli_option cli_train_network_rows[] = {
    SECTION("Networks"),
    TEXT("model", "FILE", cli_train_network_options, model,
         "JSON description of a network to train on --data: a table, images or a graph"),
    REAL("width-multiplier", "X", cli_train_network_options, width_multiplier,
         "factor applied to all hidden widths of the description", .low = 1e-3, .high = 1e3, .default_text = "1"),
    REAL("epochs", "N", cli_train_network_options, epochs, "number of passes over the training examples", .low = 1e-3,
         .high = 1e9, .default_text = "10; for a graph 200; by --steps or --minutes if given"),
    TEXT("valid-labels", "FILE", cli_train_network_options, valid_labels,
         "for networks: separate file with the targets of --valid"),
    CHOICE_OF("readout", "HOW", cli_train_network_options, readout, readout_name,
              "for networks: training method; ridge solves for the last linear layer exactly and keeps all other "
              "layers fixed",
              .initial = "gradient"),
    REAL("lambda", "X", cli_train_network_options, lambda, "for --readout ridge: regularization", .high = 1e30,
         .initial = "1"),
    END_OF_OPTIONS,
};

static bool is_requested(const cli_train_options *o)
{
    return o->network.model != NULL;
}

static bool is_readout_requested(const cli_train_options *o)
{
    return is_requested(o) && o->network.readout;
}

/* The first given option that applies to text models only; NULL: none. */
static const char *text_option(const cli_train_options *o)
{
    static const char *const shared[] = {"data", "valid", "valid-fraction", "freeze", "mup", "unit-mup", NULL};
    const cli_option *row = cli_train_given(cli_train_text_rows, o, shared);
    if (!row) row = cli_next_given(cli_train_texts_rows, &o->texts, NULL);
    if (!row) row = cli_train_given(cli_train_shape_rows, o, shared);
    if (!row) row = cli_train_attention_given(o, shared);
    return row ? row->name : o->lora.rank ? "lora" : NULL;
}

/* Refuses options of networks without --model. */
static int check_absent(const cli_train_options *o)
{
    const cli_option *row = cli_next_given(cli_train_network_rows, &o->network, NULL);
    if (!row) row = cli_next_given(cli_network_column_rows, &o->network.data, NULL);
    if (!row) row = cli_next_given(cli_network_graph_rows, &o->network.data, NULL);
    if (!row) return CLI_DONE;
    return cli_usage_error("train", "--%s is an option of networks; it needs --model FILE", row->name);
}

static int check(const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    const cli_train_network_options *n = &o->network;
    if (text_option(o))
        return cli_usage_error("train", "--%s is an option of text models; leave it out with --model FILE",
                               text_option(o));
    if (o->data.count + args->files.count != 1)
        return cli_usage_error("train", "--model: expected one --data file, found %zu",
                               o->data.count + args->files.count);
    if (n->valid_labels && !o->valid) return cli_usage_error("train", "--valid-labels needs --valid FILE");
    if (!n->readout && CLI_GIVEN(n, lambda)) return cli_usage_error("train", "--lambda needs --readout ridge");
    if (n->data.graph && o->valid)
        return cli_usage_error(
            "train", "--valid: the validation nodes of a graph are in the same graph; select them with --split or "
                     "--valid-fraction");
    if (n->data.split && o->valid)
        return cli_usage_error("train", "--split selects the validation rows; leave out --valid");
    if (n->epochs > 0 && (o->steps || o->minutes > 0))
        return cli_usage_error("train", "give one of --epochs, --steps and --minutes");
    return cli_network_data_check("train", &n->data);
}

static int check_readout(const cli_train_args *args)
{
    const cli_train_options *o = &args->options;
    if (o->network.epochs > 0 || o->steps || o->minutes > 0 || o->resume)
        return cli_usage_error(
            "train", "--readout ridge solves without steps; leave out --epochs, --steps, --minutes and --resume");
    if (cli_is_network(o->out))
        return cli_usage_error("train", "%s already holds a network; give another directory", o->out);
    return check(args);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

char *cli_train_read_description(cli_session *session, const char *path)
{
    enum { MAX_FILE_BYTES = 1 << 24 };
    void *text;
    size_t size;
    const bo_status status = bo_file_load(session->context, path, MAX_FILE_BYTES, &text, &size);
    if (status == BO_OK && !memchr(text, 0, size)) return text;
    if (status != BO_OK)
        cli_fail_status(session, status);
    else
        cli_fail(session, "%s: not a description of a model (expected JSON)", path);
    bo_free(text);
    return NULL;
}

static bool open_examples(cli_train_job *job, const bo_description_needs *needs)
{
    const cli_train_options *o = job->options;
    const cli_train_network_options *n = &o->network;
    const char *path = o->data.count ? o->data.items[0] : job->args->files.items[0];
    const bool cut = !o->valid && !n->data.split;
    cli_network_source source = {.path = path, .data = &n->data, .needs = needs, .valid = cut ? o->valid_fraction : 0};
    if ((needs->input == BO_NETWORK_INPUT_GRAPH) != (n->data.graph != NULL)) {
        cli_fail(job->session, "%s takes %s as input: %s", n->model, bo_enum_name(BO_ENUM_NETWORK_INPUT, needs->input),
                 n->data.graph ? "leave out --graph" : "give its edges with --graph FILE");
        return false;
    }
    return cli_network_examples(job->session, &source, &job->examples);
}

/* Uses the columns and classes of the network, which come from the training file. */
static bool open_held_out(cli_train_job *job)
{
    const cli_train_options *o = job->options;
    if (!o->valid) {
        const size_t held_out = job->examples->parts[BO_SPLIT_VALID].count; /* all rows if the data has no parts */
        const bool parts = held_out > 0 && held_out < job->examples->parts[BO_SPLIT_ALL].count;
        job->held_out = parts ? job->examples : NULL;
        return true;
    }
    cli_network_data data = o->network.data;
    data.labels = o->network.valid_labels;
    if (data.labels) data.target = NULL;
    const cli_network_source source = {.path = o->valid, .data = &data, .network = job->model};
    return cli_network_examples(job->session, &source, &job->held_out);
}

/* A resumed run reads its weights and scalings from its directory. The trainer refuses another description. */
static bool open_network(cli_train_job *job, const char *text)
{
    bo_context *context = job->session->context;
    const cli_train_options *o = job->options;
    bo_description_needs needs;
    bo_status status = bo_description_inspect(context, text, o->network.model, &needs);
    if (status != BO_OK) return cli_fail_status(job->session, status), false;
    if (!open_examples(job, &needs)) return false;
    const bo_description desc = {.text = text,
                                 .where = o->network.model,
                                 .examples = job->examples,
                                 .width_multiplier = o->network.width_multiplier,
                                 .parametrization = o->unit_mup ? BO_PARAMETRIZATION_UNIT
                                                    : o->mup    ? BO_PARAMETRIZATION_MUP
                                                                : BO_PARAMETRIZATION_STANDARD,
                                 .seed = job->session->common.seed};
    status = bo_model_create_described(context, &desc, &job->model);
    if (status != BO_OK) cli_fail_status(job->session, status);
    return status == BO_OK;
}

/* Converts epochs to steps, if --epochs or no length was given. */
static void set_length(cli_train_job *job)
{
    bo_trainer_desc *desc = &job->desc;
    const cli_train_options *o = job->options;
    const bool graph = bo_model_report(job->model)->network->input == BO_NETWORK_INPUT_GRAPH;
    const double rows = graph ? 1 : (double)job->examples->parts[BO_SPLIT_TRAIN].count;
    double epochs = o->network.epochs;
    if (!desc->batch) desc->batch = graph ? 1 : BATCH;
    if (!(epochs > 0) && !o->steps && !(o->minutes > 0) && !job->resumed) epochs = graph ? GRAPH_EPOCHS : EPOCHS;
    if (!(epochs > 0)) return;
    desc->minutes = 0;
    desc->steps = (uint64_t)fmax(1, ceil(epochs * rows / (double)desc->batch));
}

static bool open_all(cli_train_job *job)
{
    char *text = cli_train_read_description(job->session, job->options->network.model);
    const bool opened = text && open_network(job, text) && open_held_out(job);
    bo_free(text);
    return opened;
}

static void describe(cli_train_job *job)
{
    job->desc.model = job->model;
    job->desc.train.examples = job->examples;
    job->desc.valid.examples = job->held_out;
    set_length(job);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static void report_plan(const cli_train_job *job)
{
    const bo_trainer_desc *r = &job->desc;
    const bo_network_info *info = bo_model_report(job->model)->network;
    const size_t rows = job->examples->parts[BO_SPLIT_TRAIN].count;
    char test[80] = "", edges[64] = "", classes[48] = "", length[96] = "the steps left in the run";
    if (job->held_out)
        snprintf(test, sizeof test, ", %s for validation", cli_count(job->held_out->parts[BO_SPLIT_VALID].count).s);
    if (job->examples->first) snprintf(edges, sizeof edges, "; %s edges", cli_count(job->examples->edges).s);
    if (info->classes) snprintf(classes, sizeof classes, "; %zu classes", info->classes);
    cli_note(job->session, "Examples    %s for training%s; %s inputs each%s%s%s", cli_count(rows).s, test,
             cli_count(info->dim).s, classes, edges, job->examples->first ? "; each step uses the whole graph" : "");
    cli_note(job->session, "Network     %s parameters, %zu layers; loss %s", cli_count((size_t)info->parameters).s,
             bo_model_report(job->model)->network->layers, info->loss);
    if (r->steps)
        snprintf(length, sizeof length, "%s steps", cli_count(r->steps).s);
    else if (r->minutes > 0)
        snprintf(length, sizeof length, "%s", cli_seconds(60 * r->minutes).s);
    cli_note(job->session, "Plan        %s; %zu example%s per step; %s", length, job->examples->first ? rows : r->batch,
             r->batch == 1 && !job->examples->first ? "" : "s",
             bo_enum_name(BO_ENUM_OPTIMIZER_KIND, r->optimizer.kind));
}

static bool has_classes(const cli_train_job *job)
{
    return bo_model_report(job->model)->network->classes > 0;
}

static void format_loss(const cli_train_job *job, const bo_training_report *r, char out[CLI_TRAIN_LOSS])
{
    const int length = snprintf(out, CLI_TRAIN_LOSS, "loss %.4g", r->loss);
    if (isnan(r->valid_loss)) return;
    if (has_classes(job))
        snprintf(out + length, CLI_TRAIN_LOSS - (size_t)length, "  valid %.4g (accuracy %.2f%%)", r->valid_loss,
                 100 * r->valid_metric);
    else
        snprintf(out + length, CLI_TRAIN_LOSS - (size_t)length, "  valid %.4g (RMSE %.4g)", r->valid_loss,
                 r->valid_metric);
}

static void print(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    const bool tested = !isnan(r->valid_loss);
    printf("Trained     %s steps, %s examples, in %s%s\n", cli_count(r->step).s, cli_count(r->tokens).s,
           cli_seconds(r->seconds).s,
           r->stopped_early ? "; stopped early: the validation loss no longer improved" : "");
    if (tested && has_classes(job))
        printf("Validation  accuracy %.2f%%, loss %.4g; best loss %.4g\n", 100 * r->valid_metric, r->valid_loss,
               r->best_valid_loss);
    else if (tested)
        printf("Validation  RMSE %.5g, loss %.4g; best loss %.4g\n", r->valid_metric, r->valid_loss,
               r->best_valid_loss);
    cli_train_print_directory(job, "Network");
}

static void suggest_next(const cli_train_job *job, const char *directory)
{
    const cli_train_options *o = job->options;
    const cli_network_data *d = &o->network.data;
    char *data = cli_shell_quoted(o->valid ? o->valid : o->data.count ? o->data.items[0] : job->args->files.items[0]);
    char *graph = d->graph ? cli_shell_quoted(d->graph) : NULL;
    cli_suggest_next(job->session, "bochner predict %s %s%s%s%s%s", directory, data, graph ? " --graph " : "",
                     graph ? graph : "", d->undirected ? " --undirected" : "", d->self_loops ? " --self-loops" : "");
    free(graph);
    free(data);
}

static void json(const cli_train_job *job)
{
    const bo_training_report *r = bo_trainer_report(job->trainer);
    cli_json to = {.out = stdout};
    cli_json_object(&to, NULL);
    cli_json_add_text(&to, "out", job->options->out);
    cli_json_add_count(&to, "parameters", (size_t)bo_model_report(job->model)->network->parameters);
    cli_json_add_count(&to, "steps", r->step);
    cli_json_add_count(&to, "examples", r->tokens);
    cli_json_add_number(&to, "loss", r->loss);
    cli_json_add_number(&to, "valid_loss", r->valid_loss);
    cli_json_add_number(&to, has_classes(job) ? "valid_accuracy" : "valid_rmse", r->valid_metric);
    cli_json_add_number(&to, "best_valid_loss", r->best_valid_loss);
    cli_json_add_number(&to, "seconds", r->seconds);
    cli_json_add_number(&to, "examples_per_second", r->tokens_per_second);
    cli_json_add_number(&to, "gflops", r->gflops);
    cli_json_add_count(&to, "memory_bytes", job->plan.all_bytes);
    cli_json_add_flag(&to, "stopped_early", r->stopped_early);
    cli_json_end(&to);
}

static const char *plot_labels(const cli_train_job *job, char title[CLI_TRAIN_TITLE])
{
    const bo_network_info *info = bo_model_report(job->model)->network;
    snprintf(title, CLI_TRAIN_TITLE, "%zu layers, %s parameters", bo_model_report(job->model)->network->layers,
             cli_count((size_t)info->parameters).s);
    return info->loss;
}

const cli_train_kind cli_train_network = {
    .unit = "examples",
    .test_tokens = 32768,
    .is_requested = is_requested,
    .check = check,
    .check_absent = check_absent,
    .open = open_all,
    .describe = describe,
    .report_plan = report_plan,
    .format_loss = format_loss,
    .print = print,
    .suggest_next = suggest_next,
    .json = json,
    .plot_labels = plot_labels,
};

/* ---- --readout ridge --------------------------------------------------------------------------------------------- */

static void json_readout(const cli_train_job *job, const bo_examples_evaluation *found, double seconds)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "out", job->options->out);
    cli_json_add_count(&json, "parameters", (size_t)bo_model_report(job->model)->network->parameters);
    cli_json_add_number(&json, "lambda", job->options->network.lambda);
    if (job->held_out) {
        cli_json_add_number(&json, "valid_loss", found->loss);
        if (!isnan(found->accuracy)) cli_json_add_number(&json, "valid_accuracy", found->accuracy);
        if (!isnan(found->rmse)) cli_json_add_number(&json, "valid_rmse", found->rmse);
    }
    cli_json_add_number(&json, "seconds", seconds);
    cli_json_end(&json);
}

static void print_readout(const cli_train_job *job, const bo_examples_evaluation *found, double seconds)
{
    printf("Solved      the last layer in %s\n", cli_seconds(seconds).s);
    if (job->held_out && !isnan(found->accuracy)) printf("Validation  accuracy %.2f%%\n", 100 * found->accuracy);
    if (job->held_out && !isnan(found->rmse)) printf("Validation  RMSE %.5g\n", found->rmse);
    printf("Network     %s\n", job->options->out);
}

static int solve(cli_train_job *job)
{
    bo_context *context = job->session->context;
    bo_examples_evaluation found = {0};
    const double start = cli_now();
    bo_status status = bo_model_solve(context, job->model, job->examples, job->options->network.lambda);
    const double seconds = cli_now() - start;
    if (status == BO_OK && job->held_out)
        status = bo_model_evaluate_examples(context, job->model, job->held_out, BO_SPLIT_VALID, &found);
    if (status == BO_OK)
        status = cli_record_output(job->session, job->options->out,
                                   bo_model_save(context, job->model, &(bo_sink){.path = job->options->out}));
    cli_progress_clear(&job->session->progress);
    if (status != BO_OK) return cli_fail_status(job->session, status);
    (job->session->common.json ? json_readout : print_readout)(job, &found, seconds);
    cli_train_suggest_next(job);
    return CLI_DONE;
}

const cli_train_kind cli_train_readout = {.unit = "examples",
                                          .is_requested = is_readout_requested,
                                          .check = check_readout,
                                          .open = open_all,
                                          .solve = solve,
                                          .suggest_next = suggest_next};
