/* bochner info of a folder: a model of text, and how far its training has come. */
#include "info.h"
#include "../common/json.h"
#include "text_tasks.h"
#include <cjson/cJSON.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* NAN: not known. */
typedef struct progress_of_run {
    double step, steps, tokens, loss, best;
} progress_of_run;

typedef struct adapter {
    double rank; /* NAN: there is none */
    char base[4096];
} adapter;

typedef struct model_report {
    const char *folder;
    const bo_model_desc *desc;
    const bo_model *model;
    const bo_tokenizer *tokenizer; /* NULL: none */
    size_t state_bytes;            /* of one sequence or hypothesis; 0: it reads without one */
    progress_of_run run;
    adapter adapter; /* merged into it as it was read */
} model_report;

/* ---- the run it comes from ------------------------------------------------------------------------------- */

static double number(const cJSON *json, const char *name)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, name);
    return cJSON_IsNumber(value) ? value->valuedouble : NAN;
}

/* NULL: there is none. */
static cJSON *read_json(const char *path)
{
    enum { MOST = 1 << 16 };
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = cli_allocate(MOST + 1, 1, "a JSON file");
    text[fread(text, 1, MOST, file)] = 0;
    fclose(file);
    cJSON *json = cJSON_Parse(text);
    free(text);
    return json;
}

static bool read_run(const char *path, progress_of_run *out)
{
    cJSON *json = read_json(path);
    *out = (progress_of_run){number(json, "step"), number(json, "steps"), number(json, "tokens"),
                             number(json, "valid_loss"), number(json, "best_valid_loss")};
    cJSON_Delete(json);
    return !isnan(out->step);
}

static progress_of_run find_run(const char *folder)
{
    progress_of_run latest = {NAN, NAN, NAN, NAN, NAN}, found;
    char path[4096];
    snprintf(path, sizeof path, "%s/training.json", folder);
    if (read_run(path, &found)) return found;
    snprintf(path, sizeof path, "%s/checkpoints", folder);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strncmp(entry->d_name, "step-", 5) != 0 || strstr(entry->d_name, ".part")) continue;
        snprintf(path, sizeof path, "%s/checkpoints/%s/training.json", folder, entry->d_name);
        if (read_run(path, &found) && !(found.step <= latest.step)) latest = found;
    }
    if (directory) closedir(directory);
    return latest;
}

/* What bo_model_load found in an adapter's folder and has merged. */
static adapter find_adapter(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/adapter_config.json", folder);
    cJSON *json = read_json(path);
    const char *base = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "base_model_name_or_path"));
    adapter found = {.rank = number(json, "r")};
    snprintf(found.base, sizeof found.base, "%s", base ? base : "");
    cJSON_Delete(json);
    return found;
}

/* ---- in words, and as JSON -------------------------------------------------------------------------------- */

static void print_mixer(const bo_model_desc *d)
{
    const bo_attention_desc *a = &d->attention;
    if (d->mixer != BO_MIXER_ATTENTION) {
        printf("%-12s%s", "Mixer", bo_mixer_name(d->mixer));
        if (d->mixer == BO_MIXER_SSM) printf(" %s, state %s", bo_ssm_name(d->ssm), cli_count(d->state_size).s);
        if (d->state_rank) printf(", rank %s", cli_count(d->state_rank).s);
        if (d->kernel) printf(", kernel %s", cli_count(d->kernel).s);
        return;
    }
    printf("%-12s%s", "Attention", bo_attention_name(a->kind));
    if (a->gate != BO_GATE_NONE) printf(", %s gate", bo_gate_name(a->gate));
    if (a->features.features) printf(", %s features", cli_count(a->features.features).s);
    if (a->window) printf(", window %s", cli_count(a->window).s);
}

static void print_mlp(const bo_model_desc *d)
{
    const bo_features_desc *f = &d->mlp_features;
    printf("; MLP %s", bo_mlp_name(d->mlp));
    if (d->mlp != BO_MLP_NONE) printf(" of %s", cli_count(d->hidden).s);
    if (d->degree_heads > 1) printf(" in %s heads", cli_count(d->degree_heads).s);
    if (d->mlp == BO_MLP_RANDOM_FEATURES)
        printf(" (%s of kernel %s, draw %s)", bo_function_name(f->function), bo_kernel_name(f->kernel),
               bo_draw_name(f->draw));
}

/* "neg, pos", as far as there is room. */
static void print_labels(const bo_model_desc *d)
{
    enum { SHOWN = 12 };
    for (size_t i = 0; i < d->classes && i < SHOWN; i++) printf("%s%s", i ? ", " : "", d->labels[i]);
    if (d->classes > SHOWN) printf(", … %s", d->labels[d->classes - 1]);
}

/* What a language model has not. */
static void print_task(const bo_model_desc *d)
{
    const bool reads_back = d->task == BO_MODEL_TRANSLATE ? d->cross != BO_CROSS_SUMMARY : !d->forward;
    if (d->task == BO_MODEL_LANGUAGE) return;
    printf("%-12s%s", "Task", bo_model_task_name(d->task));
    if (d->task == BO_MODEL_TRANSLATE) {
        printf(": layers of the encoder %zu, of the decoder %zu; %s", d->encoder_layers, d->layers,
               d->cross == BO_CROSS_SUMMARY ? "a summary of the source" : "cross attention");
        if (d->cross == BO_CROSS_ATTENTION) printf(" %s", bo_attention_name(d->cross_attention.kind));
        if (d->cross == BO_CROSS_ATTENTION && d->cross_attention.features.features)
            printf(", %s features", cli_count(d->cross_attention.features.features).s);
    } else {
        printf(": %s classes (", cli_count(d->classes).s);
        print_labels(d);
        printf("), pooling %s", bo_pooling_name(d->pooling));
    }
    puts(reads_back ? "; reads in both directions" : "; reads forwards");
}

static void print_context(const model_report *r)
{
    printf("\n%-12s%s tokens", "Context", cli_count(r->desc->context).s);
    if (r->state_bytes)
        printf("; state of a %s %s",
               r->desc->task == BO_MODEL_TRANSLATE  ? "hypothesis"
               : r->desc->task == BO_MODEL_LANGUAGE ? "sequence of that length"
                                                    : "text",
               cli_bytes((double)r->state_bytes).s);
    putchar('\n');
}

static const char *loss_unit(const bo_model_desc *d)
{
    return d->task == BO_MODEL_CLASSIFY ? "text" : d->task == BO_MODEL_MATCH ? "pair" : "token";
}

static void print(const model_report *r)
{
    const bo_model_desc *d = r->desc;
    const progress_of_run *run = &r->run;
    printf("%s: %s, %s parameters (%s)", r->folder, cli_task_words(d->task),
           cli_count((size_t)bo_model_parameters(r->model)).s, cli_bytes((double)bo_model_bytes(r->model)).s);
    if (bo_model_frozen(r->model)) printf(" and %s frozen frequencies", cli_count((size_t)bo_model_frozen(r->model)).s);
    putchar('\n');
    if (!isnan(r->adapter.rank)) printf("%-12srank %.0f, on %s\n", "Adapter", r->adapter.rank, r->adapter.base);
    print_task(d);
    printf("%-12s%zu layer%s, width %zu, %zu heads of %zu", "Shape", d->layers, d->layers == 1 ? "" : "s", d->width,
           d->heads, d->head_dim);
    if (d->key_heads != d->heads) printf(", %zu of keys and values", d->key_heads);
    print_mlp(d);
    printf("; norm %s, positions %s%s\n", bo_norm_name(d->norm), bo_positions_name(d->positions),
           d->untied ? "; output of its own" : "");
    print_mixer(d);
    print_context(r);
    if (!r->tokenizer)
        printf("%-12snone; ids below %s\n", "Tokenizer", cli_count(d->vocab).s);
    else if (bo_tokenizer_is_bytes(r->tokenizer))
        printf("%-12sbytes\n", "Tokenizer");
    else
        printf("%-12s%s tokens\n", "Tokenizer", cli_count(bo_tokenizer_vocab(r->tokenizer)).s);
    if (isnan(run->step)) return;
    printf("%-12sstep %s", "Training", cli_count((size_t)run->step).s);
    if (run->steps > 0) printf(" of %s", cli_count((size_t)run->steps).s);
    if (run->tokens > 0) printf(", %s tokens", cli_count((size_t)run->tokens).s);
    if (isfinite(run->loss)) printf("; test %.4f nats a %s, best %.4f", run->loss, loss_unit(d), run->best);
    putchar('\n');
}

static void json_mixer(cli_json *json, const bo_model_desc *d)
{
    const bo_attention_desc *a = &d->attention;
    const bool attends = d->mixer == BO_MIXER_ATTENTION, ssm = d->mixer == BO_MIXER_SSM;
    cli_json_text(json, "mixer", bo_mixer_name(d->mixer));
    cli_json_text(json, "attention", attends ? bo_attention_name(a->kind) : NULL);
    cli_json_text(json, "gate", attends ? bo_gate_name(a->gate) : NULL);
    cli_json_count(json, "features", a->features.features);
    cli_json_count(json, "window", a->window);
    cli_json_text(json, "ssm", ssm ? bo_ssm_name(d->ssm) : NULL);
    cli_json_count(json, "state_size", d->state_size);
    cli_json_count(json, "state_rank", d->state_rank);
    cli_json_count(json, "kernel", d->kernel);
}

static void json_mlp(cli_json *json, const bo_model_desc *d)
{
    const bo_features_desc *f = &d->mlp_features;
    const bool map = d->mlp == BO_MLP_RANDOM_FEATURES;
    cli_json_count(json, "degree_heads", d->degree_heads);
    cli_json_text(json, "mlp_kernel", map ? bo_kernel_name(f->kernel) : NULL);
    cli_json_text(json, "mlp_function", map ? bo_function_name(f->function) : NULL);
    cli_json_text(json, "mlp_draw", map ? bo_draw_name(f->draw) : NULL);
}

static void json_task(cli_json *json, const bo_model_desc *d)
{
    const bool labels = d->task == BO_MODEL_CLASSIFY || d->task == BO_MODEL_MATCH;
    cli_json_text(json, "task", bo_model_task_name(d->task));
    if (labels) {
        cli_json_array(json, "classes");
        for (size_t i = 0; i < d->classes; i++) cli_json_text(json, NULL, d->labels[i]);
        cli_json_end(json);
        cli_json_text(json, "pooling", bo_pooling_name(d->pooling));
        cli_json_flag(json, "forward", d->forward);
    } else if (d->task == BO_MODEL_TRANSLATE) {
        const bool attends = d->cross == BO_CROSS_ATTENTION;
        cli_json_count(json, "encoder_layers", d->encoder_layers);
        cli_json_text(json, "cross", bo_cross_name(d->cross));
        cli_json_text(json, "cross_attention", attends ? bo_attention_name(d->cross_attention.kind) : NULL);
        cli_json_count(json, "cross_features", attends ? d->cross_attention.features.features : 0);
    }
}

/* Of one sequence (of a text only where all layers read forwards), or of one hypothesis and its share of the source. */
static bo_status find_state(bo_context *context, const bo_model *model, size_t *bytes)
{
    const bo_model_desc *d = bo_model_describe(model);
    bo_lanes *lanes = NULL;
    *bytes = 0;
    if (d->task == BO_MODEL_LANGUAGE) return bo_session_memory(context, model, NULL, bytes, NULL);
    if (d->task != BO_MODEL_TRANSLATE) *bytes = bo_model_state_bytes(model);
    if (d->task != BO_MODEL_TRANSLATE) return BO_OK;
    const bo_status status = bo_lanes_create(context, model, &(bo_lanes_desc){.count = 1}, &lanes);
    if (status == BO_OK) *bytes = bo_lanes_state_bytes(lanes);
    bo_lanes_destroy(lanes);
    return status;
}

static void print_json(const model_report *r)
{
    const bo_model_desc *d = r->desc;
    const char *words = !r->tokenizer ? NULL : bo_tokenizer_is_bytes(r->tokenizer) ? "bytes" : "bpe";
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_text(&json, "folder", r->folder);
    cli_json_text(&json, "holds", "model");
    if (!isnan(r->adapter.rank)) {
        cli_json_number(&json, "adapter_rank", r->adapter.rank);
        cli_json_text(&json, "adapter_base", r->adapter.base);
    }
    json_task(&json, d);
    cli_json_count(&json, "parameters", (size_t)bo_model_parameters(r->model));
    cli_json_count(&json, "frozen", (size_t)bo_model_frozen(r->model));
    cli_json_count(&json, "bytes", bo_model_bytes(r->model));
    cli_json_count(&json, "layers", d->layers);
    cli_json_count(&json, "width", d->width);
    cli_json_count(&json, "heads", d->heads);
    cli_json_count(&json, "key_heads", d->key_heads);
    cli_json_count(&json, "head_dim", d->head_dim);
    cli_json_text(&json, "mlp", bo_mlp_name(d->mlp));
    cli_json_count(&json, "hidden", d->hidden);
    json_mlp(&json, d);
    cli_json_text(&json, "norm", bo_norm_name(d->norm));
    cli_json_text(&json, "positions", bo_positions_name(d->positions));
    cli_json_flag(&json, "untied", d->untied);
    json_mixer(&json, d);
    cli_json_count(&json, "context", d->context);
    cli_json_count(&json, "state_bytes", r->state_bytes);
    cli_json_text(&json, "tokenizer", words);
    cli_json_count(&json, "vocab", d->vocab);
    cli_json_number(&json, "step", r->run.step);
    cli_json_number(&json, "steps", r->run.steps);
    cli_json_number(&json, "tokens", r->run.tokens);
    cli_json_number(&json, "valid_loss", r->run.loss);
    cli_json_number(&json, "best_valid_loss", r->run.best);
    cli_json_end(&json);
}

int cli_info_model(cli_session *session, const char *folder)
{
    bo_model *model = NULL;
    model_report report = {.folder = folder};
    bo_status status = bo_model_load(session->context, folder, &model);
    if (status == BO_OK) status = find_state(session->context, model, &report.state_bytes);
    if (status == BO_OK) {
        report.model = model;
        report.desc = bo_model_describe(model);
        report.tokenizer = bo_model_tokenizer(model);
        report.run = find_run(folder);
        report.adapter = find_adapter(folder);
        (session->common.json ? print_json : print)(&report);
    }
    bo_model_destroy(model);
    return status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
}
