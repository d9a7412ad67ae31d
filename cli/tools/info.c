/* bochner info: describes a file or a directory. */
#include "../common/columns.h"
#include "../common/json.h"
#include "../model/mixer_text.h"
#include "../network/network.h"
#include "profile.h"
#include "../compare/run.h"
#include "../text/text_tasks.h"
#include "../tables/accuracy_statement.h"
#include "../tables/kernel_line.h"
#include "../tables/validation.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- a network --------------------------------------------------------------------------------------------------- */

/* `profile` may be NULL. */
static void network_json(const char *directory, const bo_model *network, const bo_profile *profile)
{
    const bo_network_facts *info = bo_model_report(network)->network;
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "directory", directory);
    cli_json_add_text(&json, "folder", directory); /* former key */
    cli_json_add_text(&json, "holds", "network");
    cli_json_add_text(&json, "input", bo_enum_name(BO_ENUM_NETWORK_INPUT, info->input));
    cli_json_add_count(&json, "dim", info->dim);
    cli_json_add_count(&json, "outputs", info->outputs);
    cli_json_add_count(&json, "classes", info->classes);
    cli_json_add_text(&json, "loss", info->loss);
    cli_json_add_flag(&json, "reconstructs", info->reconstructs);
    cli_json_add_count(&json, "parameters", (size_t)info->parameters);
    cli_json_add_number(&json, "width_multiplier", info->width_multiplier);
    cli_json_array(&json, "layers");
    for (size_t i = 0; i < bo_model_report(network)->network->layers; i++) {
        const bo_layer_info *layer = &bo_model_report(network)->network->layer[i];
        cli_json_object(&json, NULL);
        cli_json_add_text(&json, "name", layer->name);
        cli_json_add_text(&json, "type", layer->type);
        cli_json_add_text(&json, "shape", layer->shape);
        cli_json_add_count(&json, "weights", (size_t)layer->weights);
        cli_json_end(&json);
    }
    cli_json_end(&json);
    if (profile) cli_profile_json(&json, profile);
    cli_json_end(&json);
}

static void network_print(const char *directory, const bo_model *network, const bo_profile *profile)
{
    const bo_network_facts *info = bo_model_report(network)->network;
    printf("%s: a network with %zu layers and %s parameters\n", directory, bo_model_report(network)->network->layers,
           cli_count((size_t)info->parameters).s);
    printf("%-12s%s, %s numbers%s\n", "Input", bo_enum_name(BO_ENUM_NETWORK_INPUT, info->input), cli_count(info->dim).s,
           info->input == BO_NETWORK_INPUT_GRAPH ? " per node" : " per example");
    if (info->classes)
        printf("%-12s%zu classes, loss %s\n", "Output", info->classes, info->loss);
    else
        printf("%-12s%s numbers, loss %s%s\n", "Output", cli_count(info->outputs).s, info->loss,
               info->reconstructs ? "; the target is the input" : "");
    if (info->width_multiplier != 1)
        printf("%-12s%g times the widths of the description\n", "Widths", info->width_multiplier);
    printf("\n  %-24s %-16s %-20s %12s\n", "layer", "type", "output", "parameters");
    for (size_t i = 0; i < bo_model_report(network)->network->layers; i++) {
        const bo_layer_info *layer = &bo_model_report(network)->network->layer[i];
        printf("  %-24s %-16s %-20s %12s\n", layer->name, layer->type, layer->shape,
               layer->weights ? cli_count((size_t)layer->weights).s : "");
    }
    if (profile) cli_profile_print(profile);
}

static int describe_network(cli_session *session, const char *directory, const cli_profile_options *options)
{
    bo_model *network = NULL;
    bo_profile *profile = NULL;
    const bo_profile_desc desc = cli_profile_desc(options, &session->common);
    bo_status status = bo_model_load(session->context, &(bo_source){.path = directory}, NULL, &network);
    if (status == BO_OK && options->graph) status = bo_model_profile(session->context, network, &desc, &profile);
    int result = status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
    if (profile) result = cli_profile_draw(session, options, profile);
    if (result == CLI_DONE) (session->common.json ? network_json : network_print)(directory, network, profile);
    bo_profile_destroy(profile);
    bo_model_destroy(network);
    return result;
}

/* ---- a text model and its training ------------------------------------------------------------------------------- */

typedef struct adapter {
    double rank; /* NAN: no adapter */
    char base[4096];
} adapter;

typedef struct model_report {
    const char *directory;
    const bo_model_desc *desc;
    const bo_model *model;
    const bo_tokenizer *tokenizer; /* NULL: none */
    size_t state_bytes;            /* per sequence or hypothesis; 0: no state */
    cli_run_record run;
    adapter adapter;     /* merged into the model on loading */
    bo_profile *profile; /* NULL: none */
} model_report;

/* ---- its adapter ------------------------------------------------------------------------------------------------- */

/* The adapter in the directory, which bo_model_load has merged. */
static adapter find_adapter(cli_session *session, const char *directory)
{
    bo_json *json = cli_read_json(session, directory, "adapter_config.json");
    const char *base = bo_json_text_or_null(bo_json_member(json, "base_model_name_or_path"));
    adapter found = {.rank = cli_json_number(json, "r")};
    snprintf(found.base, sizeof found.base, "%s", base ? base : "");
    bo_json_delete(json);
    return found;
}

/* ---- text and JSON ----------------------------------------------------------------------------------------------- */

static void print_mixer(const bo_model *model)
{
    const bo_model_desc *d = bo_model_describe(model);
    char text[CLI_MIXER_TEXT];
    const bo_block *main = cli_main_block(d);
    char kept[CLI_LAYER_LIST];
    printf("%-12s%s", main->mixer == BO_MIXER_ATTENTION ? "Attention" : "Mixer", cli_mixer_text(model, text));
    if (main->replaced.heads && !*cli_kept_layers(d, kept))
        printf("; linearized from %s", bo_attention_name(&main->replaced));
}

/* State bytes of each kind of layer with attention, if there are several kinds. */
static void print_layers(const model_report *r)
{
    enum { SHOWN = 4 };
    if (r->desc->task != BO_MODEL_TASK_LANGUAGE) return;
    size_t count, sized = 0;
    cli_layer_kind *kinds = cli_layer_kinds(r->model, &count);
    for (size_t i = 0; count > 1 && i < count; i++) {
        const cli_layer_kind *k = &kinds[i];
        if (k->state_bytes == 0 || sized++ >= SHOWN) continue;
        if (sized == 1) printf("%-12s", "State");
        printf("%s%s: %s%s%s", sized > 1 ? "; " : "", k->layers, cli_bytes((double)k->state_bytes).s,
               k->count > 1 ? " each" : "", k->keeps_all ? ", grows with the text" : ", fixed size");
    }
    if (sized > SHOWN) printf("; and %s more kind%s", cli_count(sized - SHOWN).s, sized - SHOWN == 1 ? "" : "s");
    if (sized) putchar('\n');
    free(kinds);
}

static void print_mlp(const bo_block *b)
{
    const bo_features_desc *f = &b->mlp_features;
    printf("; MLP %s", bo_enum_name(BO_ENUM_MLP, b->mlp));
    if (b->hidden) printf(", hidden width %s", cli_count(b->hidden).s);
    if (b->degree_heads > 1) printf(", %s heads", cli_count(b->degree_heads).s);
    if (b->mlp == BO_MLP_RANDOM_FEATURES)
        printf(" (kernel %s, function %s, draw %s)", bo_enum_name(BO_ENUM_KERNEL, f->kernel),
               bo_enum_name(BO_ENUM_FUNCTION, f->function), bo_enum_name(BO_ENUM_DRAW, f->draw));
}

static bool same_mlps(const bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 1; i < list.count; i++)
        if (list.blocks[i].mlp != list.blocks->mlp || list.blocks[i].hidden != list.blocks->hidden) return false;
    return true;
}

/* Prints a list of blocks, or the block of all layers. */
static void print_list(const char *title, const bo_model_desc *d)
{
    char layers[CLI_LAYER_LIST], text[CLI_MIXER_TEXT];
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++) {
        const bo_block *b = &list.blocks[i];
        cli_block_layers(d, i, layers);
        printf("%-12sblock-%zu, layer%s %s: %s", i ? "" : title, i, strpbrk(layers, ",-") ? "s" : "", layers,
               cli_block_mixer(b, text));
        print_mlp(b);
        if (b->residual != BO_RESIDUAL_SEQUENTIAL) printf("; residual %s", bo_enum_name(BO_ENUM_RESIDUAL, b->residual));
        if (cli_rotates(b)) printf("; RoPE base %g", b->rope_base);
        putchar('\n');
    }
}

/* A descriptor with the layers of the encoder in place of those of the decoder. */
static bo_model_desc encoder_of(const bo_model_desc *d)
{
    return (bo_model_desc){.layers = d->encoder_layers,
                           .block = d->encoder,
                           .blocks = d->encoder_blocks,
                           .block_count = d->encoder_block_count};
}

/* Prints the lists of blocks, if layers differ. */
static void print_blocks(const bo_model_desc *d)
{
    const bo_model_desc encoder = encoder_of(d);
    if (!d->blocks && !encoder.blocks) return;
    print_list("Blocks", d);
    if (d->task == BO_MODEL_TASK_TRANSLATE) print_list("Encoder", &encoder);
}

/* "neg, pos": the first labels. */
static void print_labels(const bo_model_desc *d)
{
    enum { SHOWN = 12 };
    for (size_t i = 0; i < d->classes && i < SHOWN; i++) printf("%s%s", i ? ", " : "", d->labels[i]);
    if (d->classes > SHOWN) printf(", … %s", d->labels[d->classes - 1]);
}

/* Prints the task; nothing for a language model. */
static void print_task(const bo_model_desc *d)
{
    const bool reads_back = d->task == BO_MODEL_TASK_TRANSLATE ? d->cross != BO_CROSS_SUMMARY : !d->forward;
    char text[CLI_MIXER_TEXT];
    if (d->task == BO_MODEL_TASK_LANGUAGE) return;
    printf("%-12s%s", "Task", bo_enum_name(BO_ENUM_MODEL_TASK, d->task));
    if (d->task == BO_MODEL_TASK_TRANSLATE) {
        printf(": %zu encoder layer%s, %zu decoder layer%s; %s", d->encoder_layers, d->encoder_layers == 1 ? "" : "s",
               d->layers, d->layers == 1 ? "" : "s",
               d->cross == BO_CROSS_SUMMARY ? "summary of the source" : "cross-attention ");
        if (d->cross == BO_CROSS_ATTENTION) printf("%s", cli_attention_summary(&d->block.cross_attention, text));
        if (d->encoder.mixer == BO_MIXER_ATTENTION)
            printf("; encoder attention %s", cli_attention_summary(&d->encoder.attention, text));
    } else {
        printf(": %s classes (", cli_count(d->classes).s);
        print_labels(d);
        printf("), pooling %s", bo_enum_name(BO_ENUM_POOLING, d->pooling));
    }
    puts(reads_back ? "; bidirectional" : "; forward only");
}

static void print_context(const model_report *r)
{
    printf("%-12s%s tokens", "Context", cli_count(r->desc->context).s);
    if (r->state_bytes)
        printf("; state per %s %s",
               r->desc->task == BO_MODEL_TASK_TRANSLATE  ? "hypothesis"
               : r->desc->task == BO_MODEL_TASK_LANGUAGE ? "sequence of this length"
                                                         : "text",
               cli_bytes((double)r->state_bytes).s);
    putchar('\n');
}

static const char *loss_unit(const bo_model_desc *d)
{
    return d->task == BO_MODEL_TASK_CLASSIFY ? "text" : d->task == BO_MODEL_TASK_MATCH ? "pair" : "token";
}

static void model_print(const model_report *r)
{
    const bo_model_desc *d = r->desc;
    const bo_block *b = cli_main_block(d);
    const cli_run_record *run = &r->run;
    char heads[CLI_HEAD_TEXT];
    printf("%s: %s, %s parameters (%s)", r->directory, cli_task_phrase(d->task),
           cli_count((size_t)bo_model_report(r->model)->parameters).s,
           cli_bytes((double)bo_model_report(r->model)->bytes).s);
    if (bo_model_report(r->model)->frozen_parameters)
        printf(" and %s fixed frequencies", cli_count((size_t)bo_model_report(r->model)->frozen_parameters).s);
    putchar('\n');
    if (!isnan(r->adapter.rank)) printf("%-12srank %.0f, base %s\n", "Adapter", r->adapter.rank, r->adapter.base);
    print_task(d);
    printf("%-12s%zu layer%s, width %zu, %s", "Shape", d->layers, d->layers == 1 ? "" : "s", d->width,
           cli_head_text(d, ", ", heads));
    if (same_mlps(d))
        print_mlp(b);
    else
        printf("; various MLPs");
    printf("; norm %s, positions %s%s\n", bo_enum_name(BO_ENUM_NORM, b->norm),
           bo_enum_name(BO_ENUM_POSITIONS, cli_positions_of(d)), d->untied ? "; untied output projection" : "");
    print_mixer(r->model);
    putchar('\n');
    print_blocks(d);
    print_context(r);
    print_layers(r);
    if (!r->tokenizer)
        printf("%-12snone; %s token ids\n", "Tokenizer", cli_count(d->vocab).s);
    else if (bo_tokenizer_describe(r->tokenizer)->bytes)
        printf("%-12sone token per byte\n", "Tokenizer");
    else
        printf("%-12sbyte pairs, %s tokens\n", "Tokenizer", cli_count(bo_tokenizer_describe(r->tokenizer)->vocab).s);
    if (isnan(run->step)) return;
    printf("%-12sstep %s", "Training", cli_count((size_t)run->step).s);
    if (run->steps > 0) printf(" of %s", cli_count((size_t)run->steps).s);
    if (run->tokens > 0) printf(", %s tokens", cli_count((size_t)run->tokens).s);
    if (isfinite(run->valid_loss))
        printf("; validation loss %.4f nats per %s, best %.4f", run->valid_loss, loss_unit(d), run->best_valid_loss);
    putchar('\n');
}

static void json_mixer(cli_json *json, const bo_block *b)
{
    const bo_attention_desc *a = &b->attention;
    const bool attends = b->mixer == BO_MIXER_ATTENTION, ssm = b->mixer == BO_MIXER_SSM;
    cli_json_add_text(json, "mixer", bo_enum_name(BO_ENUM_MIXER, b->mixer));
    cli_json_add_text(json, "attention", attends ? bo_attention_name(a) : NULL);
    cli_json_add_text(json, "gate", attends ? bo_enum_name(BO_ENUM_GATE, a->gate) : NULL);
    cli_json_add_count(json, "features", a->features.features);
    cli_json_add_count(json, "window", a->window);
    cli_json_add_text(json, "ssm", ssm ? bo_enum_name(BO_ENUM_SSM, b->ssm) : NULL);
    cli_json_add_count(json, "state_size", b->state_size);
    cli_json_add_count(json, "state_rank", b->state_rank);
    cli_json_add_count(json, "kernel", b->kernel);
}

static bool has_attention(const bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d);
    size_t i = 0;
    while (i < list.count && list.blocks[i].mixer != BO_MIXER_ATTENTION) i++;
    return i < list.count;
}

/* The kinds of layers, of a language model with attention. */
static void json_layers(cli_json *json, const model_report *r)
{
    const bo_model_desc *d = r->desc;
    const bo_block *main = cli_main_block(d);
    char kept[CLI_LAYER_LIST];
    size_t count;
    if (d->task != BO_MODEL_TASK_LANGUAGE || !has_attention(d)) return;
    cli_layer_kind *kinds = cli_layer_kinds(r->model, &count);
    cli_json_add_text(json, "kept_attention", main->replaced.heads ? bo_attention_name(&main->replaced) : NULL);
    cli_json_add_text(json, "kept_layers", cli_kept_layers(d, kept));
    cli_json_array(json, "layer_kinds");
    for (size_t i = 0; i < count; i++) {
        const bo_block *b = kinds[i].block;
        const bo_attention_desc *a = &b->attention;
        const bool attends = b->mixer == BO_MIXER_ATTENTION;
        cli_json_object(json, NULL);
        cli_json_add_text(json, "layers", strchr(kinds[i].layers, ' ') + 1);
        cli_json_add_text(json, "mixer", bo_enum_name(BO_ENUM_MIXER, b->mixer));
        cli_json_add_text(json, "attention", attends ? bo_attention_name(a) : NULL);
        cli_json_add_text(json, "gate", attends ? bo_enum_name(BO_ENUM_GATE, a->gate) : NULL);
        cli_json_add_count(json, "features", a->features.features);
        cli_json_add_count(json, "window", a->window);
        cli_json_add_count(json, "heads", b->heads);
        cli_json_add_count(json, "key_heads", b->key_heads);
        cli_json_add_count(json, "head_dim", b->head_dim);
        cli_json_add_text(json, "positions", bo_enum_name(BO_ENUM_POSITIONS, b->positions));
        if (kinds[i].state_bytes)
            cli_json_add_count(json, "state_bytes", kinds[i].state_bytes);
        else
            cli_json_add_number(json, "state_bytes", NAN);
        cli_json_add_flag(json, "state_grows", kinds[i].keeps_all);
        cli_json_end(json);
    }
    cli_json_end(json);
    free(kinds);
}

static void json_mlp(cli_json *json, const bo_block *b)
{
    const bo_features_desc *f = &b->mlp_features;
    const bool map = b->mlp == BO_MLP_RANDOM_FEATURES;
    cli_json_add_count(json, "degree_heads", b->degree_heads);
    cli_json_add_text(json, "mlp_kernel", map ? bo_enum_name(BO_ENUM_KERNEL, f->kernel) : NULL);
    cli_json_add_text(json, "mlp_function", map ? bo_enum_name(BO_ENUM_FUNCTION, f->function) : NULL);
    cli_json_add_text(json, "mlp_draw", map ? bo_enum_name(BO_ENUM_DRAW, f->draw) : NULL);
}

/* The list of blocks; a single block if all layers are equal. */
static void json_list(cli_json *json, const char *name, const bo_model_desc *d)
{
    char layers[CLI_LAYER_LIST];
    cli_json_array(json, name);
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++) {
        const bo_block *b = &list.blocks[i];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "layers", cli_block_layers(d, i, layers));
        cli_json_add_text(json, "residual", bo_enum_name(BO_ENUM_RESIDUAL, b->residual));
        cli_json_add_text(json, "norm", bo_enum_name(BO_ENUM_NORM, b->norm));
        cli_json_add_count(json, "heads", b->heads);
        cli_json_add_count(json, "key_heads", b->key_heads);
        cli_json_add_count(json, "head_dim", b->head_dim);
        json_mixer(json, b);
        cli_json_add_text(json, "replaced", b->replaced.heads ? bo_attention_name(&b->replaced) : NULL);
        cli_json_add_text(json, "positions", bo_enum_name(BO_ENUM_POSITIONS, b->positions));
        cli_json_add_number(json, "rope_base", b->rope_base);
        cli_json_add_text(json, "mlp", bo_enum_name(BO_ENUM_MLP, b->mlp));
        cli_json_add_count(json, "hidden", b->hidden);
        cli_json_end(json);
    }
    cli_json_end(json);
}

static void json_blocks(cli_json *json, const bo_model_desc *d)
{
    const bo_model_desc encoder = encoder_of(d);
    json_list(json, "blocks", d);
    if (d->task == BO_MODEL_TASK_TRANSLATE) json_list(json, "encoder_blocks", &encoder);
}

static void json_task(cli_json *json, const bo_model_desc *d)
{
    const bool labels = d->task == BO_MODEL_TASK_CLASSIFY || d->task == BO_MODEL_TASK_MATCH;
    cli_json_add_text(json, "task", bo_enum_name(BO_ENUM_MODEL_TASK, d->task));
    if (labels) {
        cli_json_array(json, "classes");
        for (size_t i = 0; i < d->classes; i++) cli_json_add_text(json, NULL, d->labels[i]);
        cli_json_end(json);
        cli_json_add_text(json, "pooling", bo_enum_name(BO_ENUM_POOLING, d->pooling));
        cli_json_add_flag(json, "forward", d->forward);
    } else if (d->task == BO_MODEL_TASK_TRANSLATE) {
        const bool attends = d->cross == BO_CROSS_ATTENTION;
        cli_json_add_count(json, "encoder_layers", d->encoder_layers);
        cli_json_add_text(json, "cross", bo_enum_name(BO_ENUM_CROSS, d->cross));
        cli_json_add_text(json, "cross_attention", attends ? bo_attention_name(&d->block.cross_attention) : NULL);
        cli_json_add_count(json, "cross_features", attends ? d->block.cross_attention.features.features : 0);
        cli_json_add_text(json, "encoder_attention",
                          d->encoder.mixer == BO_MIXER_ATTENTION ? bo_attention_name(&d->encoder.attention) : NULL);
        cli_json_add_count(json, "encoder_features", d->encoder.attention.features.features);
    }
}

/* State bytes per sequence (for texts, only if all layers are causal), or per hypothesis with its share of the
 * source. */
static bo_status find_state(bo_context *context, const bo_model *model, size_t *bytes)
{
    const bo_model_task task = bo_model_describe(model)->task;
    *bytes = bo_model_report(model)->state_bytes;
    const bool session = task == BO_MODEL_TASK_LANGUAGE || task == BO_MODEL_TASK_TRANSLATE;
    return session ? bo_session_estimate(context, model, NULL, bytes, NULL) : BO_OK;
}

static void model_json(const model_report *r)
{
    const bo_model_desc *d = r->desc;
    const bo_block *b = cli_main_block(d);
    const char *text = !r->tokenizer ? NULL : bo_tokenizer_describe(r->tokenizer)->bytes ? "bytes" : "bpe";
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "directory", r->directory);
    cli_json_add_text(&json, "folder", r->directory); /* former key */
    cli_json_add_text(&json, "holds", "model");
    if (!isnan(r->adapter.rank)) {
        cli_json_add_number(&json, "adapter_rank", r->adapter.rank);
        cli_json_add_text(&json, "adapter_base", r->adapter.base);
    }
    json_task(&json, d);
    cli_json_add_count(&json, "parameters", (size_t)bo_model_report(r->model)->parameters);
    cli_json_add_count(&json, "frozen", (size_t)bo_model_report(r->model)->frozen_parameters);
    cli_json_add_count(&json, "bytes", bo_model_report(r->model)->bytes);
    cli_json_add_count(&json, "layers", d->layers);
    cli_json_add_count(&json, "width", d->width);
    cli_json_add_count(&json, "heads", b->heads);
    cli_json_add_count(&json, "key_heads", b->key_heads);
    cli_json_add_count(&json, "head_dim", b->head_dim);
    cli_json_add_text(&json, "mlp", bo_enum_name(BO_ENUM_MLP, b->mlp));
    cli_json_add_count(&json, "hidden", b->hidden);
    json_mlp(&json, b);
    cli_json_add_text(&json, "norm", bo_enum_name(BO_ENUM_NORM, b->norm));
    cli_json_add_text(&json, "positions", bo_enum_name(BO_ENUM_POSITIONS, cli_positions_of(d)));
    cli_json_add_flag(&json, "untied", d->untied);
    json_mixer(&json, b);
    cli_json_add_count(&json, "context", d->context);
    cli_json_add_count(&json, "state_bytes", r->state_bytes);
    json_layers(&json, r);
    json_blocks(&json, d);
    cli_json_add_text(&json, "tokenizer", text);
    cli_json_add_count(&json, "vocab", d->vocab);
    cli_json_add_number(&json, "step", r->run.step);
    cli_json_add_number(&json, "steps", r->run.steps);
    cli_json_add_number(&json, "tokens", r->run.tokens);
    cli_json_add_number(&json, "valid_loss", r->run.valid_loss);
    cli_json_add_number(&json, "best_valid_loss", r->run.best_valid_loss);
    if (r->profile) cli_profile_json(&json, r->profile);
    cli_json_end(&json);
}

static int describe_model(cli_session *session, const char *directory, const cli_profile_options *options)
{
    bo_model *model = NULL;
    model_report report = {.directory = directory};
    const bo_profile_desc desc = cli_profile_desc(options, &session->common);
    bo_status status = bo_model_load(session->context, &(bo_source){.path = directory}, NULL, &model);
    if (status == BO_OK) status = find_state(session->context, model, &report.state_bytes);
    if (status == BO_OK && options->graph) status = bo_model_profile(session->context, model, &desc, &report.profile);
    int result = status == BO_OK ? CLI_DONE
                 : model         ? cli_fail_status(session, status)
                                 : cli_fail_model(session, directory, status);
    if (report.profile) result = cli_profile_draw(session, options, report.profile);
    if (result == CLI_DONE) {
        report.model = model;
        report.desc = bo_model_describe(model);
        report.tokenizer = bo_model_tokenizer(model);
        cli_run_find(session, directory, &report.run);
        report.adapter = find_adapter(session, directory);
        (session->common.json ? model_json : model_print)(&report);
        if (report.profile && !session->common.json) cli_profile_print(report.profile);
    }
    bo_profile_destroy(report.profile);
    bo_model_destroy(model);
    return result;
}

/* ---- a kernel machine or a feature map --------------------------------------------------------------------------- */

static double file_size(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 ? (double)info.st_size : NAN;
}

/* ---- a kernel machine -------------------------------------------------------------------------------------------- */

/* The dual solver computes standard deviations from the training rows. */
static bool keeps_rows(const bo_fit_report *report)
{
    return (report->solver == BO_SOLVER_DUAL && report->has_std) || report->function == BO_FUNCTION_SECTIONS;
}

static void machine_json(const char *path, const bo_fit_report *report, const bo_schema *schema)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "file", path);
    cli_json_add_number(&json, "bytes", file_size(path));
    cli_json_add_text(&json, "holds", "machine");
    cli_json_add_text(&json, "task", bo_enum_name(BO_ENUM_TASK, report->task));
    cli_json_add_count(&json, "rows", report->rows);
    cli_json_add_count(&json, "dim", report->dim);
    cli_json_add_count(&json, "outputs", report->outputs);
    cli_json_add_count(&json, "features", report->features);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_text(&json, "function", bo_enum_name(BO_ENUM_FUNCTION, report->function));
    cli_json_add_text(&json, "draw", bo_enum_name(BO_ENUM_DRAW, report->draw));
    cli_json_add_number(&json, "gamma", report->gamma);
    cli_kernel_json(&json, report);
    cli_json_add_number(&json, "lambda", report->lambda);
    cli_json_add_text(&json, "loss", bo_enum_name(BO_ENUM_LOSS, report->loss));
    cli_json_add_text(&json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    cli_json_add_text(&json, "solver", bo_enum_name(BO_ENUM_SOLVER, report->solver));
    cli_json_add_flag(&json, "has_std", report->has_std);
    if (!report->classes)
        cli_json_add_text(&json, "target_scale", bo_enum_name(BO_ENUM_TARGET_SCALE, report->target_scale));
    cli_json_add_flag(&json, "keeps_rows", keeps_rows(report));
    cli_validation_json(&json, report);
    if (!report->classes) cli_json_add_number(&json, "noise_std", report->noise_std);
    if (schema) {
        cli_json_array(&json, "inputs");
        for (size_t i = 0; i < bo_schema_describe(schema)->inputs; i++)
            cli_json_add_text(&json, NULL, cli_input_name(schema, i));
        cli_json_end(&json);
        cli_json_array(&json, "targets");
        for (size_t i = 0; i < bo_schema_describe(schema)->targets; i++)
            cli_json_add_text(&json, NULL, cli_target_name(schema, i));
        cli_json_end(&json);
    }
    if (schema && report->classes) {
        cli_json_array(&json, "classes");
        for (size_t i = 0; i < report->classes; i++) cli_json_add_text(&json, NULL, cli_class_name(schema, i));
        cli_json_end(&json);
    }
    cli_statement_json(&json, &report->accuracy);
    cli_json_end(&json);
}

/* The first few names of a list. */
static void print_names(const char *title, size_t count, const char *const *names)
{
    enum { SHOWN = 12 };
    printf("%-12s%s: ", title, cli_count(count).s);
    for (size_t i = 0; i < count && i < SHOWN; i++) {
        const char *word = names[i];
        printf("%s%s", i ? ", " : "", word ? word : "(no name)");
    }
    printf("%s\n", count > SHOWN ? ", ..." : "");
}

static void machine_print(const char *path, const bo_fit_report *report, const bo_schema *schema)
{
    printf("%s: a kernel machine for %s (%s)\n", path, bo_enum_name(BO_ENUM_TASK, report->task),
           cli_bytes(file_size(path)).s);
    if (schema) {
        print_names("Inputs", bo_schema_describe(schema)->inputs, bo_schema_describe(schema)->input_names);
        if (report->classes)
            print_names("Classes", report->classes, bo_schema_describe(schema)->class_names);
        else
            print_names("Targets", bo_schema_describe(schema)->targets, bo_schema_describe(schema)->target_names);
    }
    printf("%-12s%s rows%s\n", "Fitted on", cli_count(report->rows).s,
           report->function == BO_FUNCTION_SECTIONS ? "; their inputs are stored in the file for the exact kernel"
           : keeps_rows(report) ? "; their inputs are stored in the file for the standard deviations"
                                : "");
    cli_kernel_print(stdout, report);
    const bool logarithms = report->target_scale == BO_TARGET_SCALE_LOG;
    printf("%-12sloss %s, lambda %s, solver %s, scaling %s%s\n", "Fit", bo_enum_name(BO_ENUM_LOSS, report->loss),
           cli_significant(report->lambda, 4).s, bo_enum_name(BO_ENUM_SOLVER, report->solver),
           bo_enum_name(BO_ENUM_SCALING, report->scaling), logarithms ? ", target scale log" : "");
    cli_validation_print(stdout, report);
    if (!report->classes)
        printf("%-12s%s (standard deviation%s); %s standard deviations and intervals\n", "Noise",
               cli_quantity(report->noise_std, 4).s, logarithms ? " of the logarithm" : "",
               report->has_std ? "predicts" : "does not predict");
    if (report->function == BO_FUNCTION_SECTIONS) return; /* the kernel is exact */
    printf("%-12s", "Features");
    cli_statement_print(stdout, &report->accuracy, report->features, report->function, report->draw, 12);
}

/* ---- a feature map ----------------------------------------------------------------------------------------------- */

static void features_json(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "file", path);
    cli_json_add_number(&json, "bytes", file_size(path));
    cli_json_add_text(&json, "holds", "features");
    cli_json_add_count(&json, "dim", desc->dim);
    cli_json_add_count(&json, "features", desc->features);
    cli_json_add_count(&json, "frequencies", frequencies);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, desc->kernel));
    cli_json_add_text(&json, "function", bo_enum_name(BO_ENUM_FUNCTION, desc->function));
    cli_json_add_text(&json, "draw", bo_enum_name(BO_ENUM_DRAW, desc->draw));
    cli_json_add_text(&json, "sampling", bo_enum_name(BO_ENUM_SAMPLING, desc->sampling));
    cli_json_add_number(&json, "gamma", desc->gamma);
    cli_json_add_count(&json, "seed", desc->seed);
    cli_json_end(&json);
}

static void features_print(const char *path, const bo_features_desc *desc, size_t frequencies)
{
    printf("%s: a feature map (%s)\n", path, cli_bytes(file_size(path)).s);
    printf("%-12s%s, gamma %s\n", "Kernel", bo_enum_name(BO_ENUM_KERNEL, desc->kernel),
           cli_significant(desc->gamma, 4).s);
    printf("%-12s%s features of %s columns, from %s frequencies\n", "Features", cli_count(desc->features).s,
           cli_count(desc->dim).s, cli_count(frequencies).s);
    printf("%-12sfunction %s, draw %s, sampling %s\n", "Map", bo_enum_name(BO_ENUM_FUNCTION, desc->function),
           bo_enum_name(BO_ENUM_DRAW, desc->draw), bo_enum_name(BO_ENUM_SAMPLING, desc->sampling));
}

/* ---- an embedding ------------------------------------------------------------------------------------------------ */

static void embedding_json(const char *path, const bo_embedding *embedding)
{
    const bo_embedding_report *report = bo_embedding_describe(embedding);
    cli_json json = {.out = stdout};
    cli_json_object(&json, NULL);
    cli_json_add_text(&json, "file", path);
    cli_json_add_number(&json, "bytes", file_size(path));
    cli_json_add_text(&json, "holds", "embedding");
    cli_json_add_count(&json, "rows", report->rows);
    cli_json_add_count(&json, "dim", report->dim);
    cli_json_add_count(&json, "components", report->components);
    cli_json_add_count(&json, "features", report->features);
    cli_json_add_text(&json, "kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel));
    cli_json_add_number(&json, "gamma", report->gamma);
    cli_json_add_text(&json, "scaling", bo_enum_name(BO_ENUM_SCALING, report->scaling));
    cli_json_add_number(&json, "feature_error", report->feature_error);
    cli_json_add_number(&json, "input_error", report->input_error);
    cli_json_end(&json);
}

static void embedding_print(const char *path, const bo_embedding *embedding, const bo_schema *schema)
{
    const bo_embedding_report *report = bo_embedding_describe(embedding);
    printf("%s: an embedding with %s components (%s)\n", path, cli_count(report->components).s,
           cli_bytes(file_size(path)).s);
    if (schema) print_names("Inputs", bo_schema_describe(schema)->inputs, bo_schema_describe(schema)->input_names);
    printf("%-12s%s rows\n", "Fitted on", cli_count(report->rows).s);
    printf("%-12s%s, gamma %s; %s features (%s, %s)\n", "Kernel", bo_enum_name(BO_ENUM_KERNEL, report->kernel),
           cli_significant(report->gamma, 4).s, cli_count(report->features).s,
           bo_enum_name(BO_ENUM_FUNCTION, report->function), bo_enum_name(BO_ENUM_DRAW, report->draw));
    printf("%-12s%.2f%% of the variance of the features is outside the components; %.2f%% of that of the inputs\n",
           "Error", 100 * report->feature_error, 100 * report->input_error);
}

/* False: the file is not an embedding; the context has the message. */
static bool describe_embedding(cli_session *session, const char *path)
{
    bo_embedding *embedding = NULL;
    bo_schema *schema = NULL;
    if (bo_embedding_load(session->context, &(bo_source){.path = path}, &embedding, &schema) != BO_OK) return false;
    if (session->common.json)
        embedding_json(path, embedding);
    else
        embedding_print(path, embedding, schema);
    bo_embedding_destroy(embedding);
    bo_schema_destroy(schema);
    return true;
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

static void device_json(cli_json *json, size_t index, const bo_device_info *device)
{
    char name[32], capability[32];
    snprintf(name, sizeof name, "cuda:%zu", index);
    snprintf(capability, sizeof capability, "%d.%d", device->major, device->minor);
    cli_json_object(json, NULL);
    cli_json_add_text(json, "device", name);
    cli_json_add_text(json, "name", device->name);
    cli_json_add_text(json, "compute_capability", capability);
    cli_json_add_count(json, "processors", (size_t)device->processors);
    cli_json_add_count(json, "memory", (size_t)device->bytes);
    cli_json_add_count(json, "free_memory", (size_t)device->free_bytes);
    cli_json_end(json);
}

static void device_print(size_t index, const bo_device_info *device)
{
    printf("cuda:%-6zu %s, compute capability %d.%d, %d multiprocessors, %s of memory, %s free\n", index, device->name,
           device->major, device->minor, device->processors, cli_bytes((double)device->bytes).s,
           cli_bytes((double)device->free_bytes).s);
}

/* `why` is the reason if there are no GPUs. */
static void devices_begin(const cli_session *session, cli_json *json, const char *plugin, const char *why)
{
    if (session->common.json) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "plugin", plugin);
        if (why) cli_json_add_text(json, "reason", why);
        cli_json_array(json, "devices");
        return;
    }
    printf("Plugin      %s\n", plugin ? plugin : "none");
    if (why) printf("GPUs        none: %s\n", why);
}

static int list_devices(cli_session *session)
{
    size_t count = 0;
    const char *plugin = NULL;
    cli_json json = {.out = stdout};
    bo_status status = bo_device_count(session->context, &count, &plugin);
    char *why = count ? NULL : strdup(bo_context_error(session->context));
    devices_begin(session, &json, plugin, why);
    free(why);
    for (size_t i = 0; status == BO_OK && i < count; i++) {
        bo_device_info device;
        status = bo_device_describe(session->context, i, &device);
        if (status != BO_OK) break;
        if (session->common.json)
            device_json(&json, i, &device);
        else
            device_print(i, &device);
    }
    if (session->common.json) {
        cli_json_end(&json);
        cli_json_end(&json);
    }
    return status == BO_OK ? CLI_DONE : cli_fail_status(session, status);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static bool is_directory(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int describe(cli_session *session, const char *path, const cli_profile_options *options)
{
    if (cli_is_network(path)) return describe_network(session, path, options);
    if (is_directory(path) || bo_model_exists(session->context, path)) return describe_model(session, path, options);
    if (options->graph)
        return cli_fail(session,
                        "--graph: %s is not a text model or a network; other files have no graph of operations", path);
    bo_machine *machine = NULL;
    bo_schema *schema = NULL;
    bo_features *map = NULL;
    bo_status status = bo_machine_load(session->context, &(bo_source){.path = path}, &machine, &schema);
    if (status == BO_OK) {
        (session->common.json ? machine_json : machine_print)(path, bo_machine_report(machine), schema);
    } else {
        char *text =
            strdup(bo_context_error(session->context)); /* the error message if it is not a feature map either */
        bool maybe = status == BO_FORMAT || status == BO_UNSUPPORTED || status == BO_INVALID;
        const bool embedding = maybe && describe_embedding(session, path);
        bo_status of_map = embedding ? BO_OK
                           : maybe   ? bo_features_load(session->context, &(bo_source){.path = path}, &map)
                                     : BO_FORMAT;
        if (embedding) {
            status = BO_OK;
        } else if (of_map == BO_OK) {
            (session->common.json ? features_json : features_print)(path, bo_features_describe(map),
                                                                    bo_features_frequencies(map));
            status = BO_OK;
        } else if (of_map != BO_FORMAT &&
                   of_map != BO_IO) { /* a feature map of a newer version, or larger than memory */
            cli_fail_status(session, of_map);
        } else if (!cli_fail_foreign(session, path)) {
            cli_fail(session, status == BO_FORMAT ? "%s; supported: %s" : "%s", text ? text : bo_status_string(status),
                     "kernel machines (bochner fit --out), embeddings (bochner embed --save), feature maps (bochner "
                     "features --save), and text models and networks (bochner train --out)");
        }
        free(text);
    }
    bo_machine_destroy(machine);
    bo_schema_destroy(schema);
    bo_features_destroy(map);
    return status == BO_OK ? CLI_DONE : CLI_FAILED;
}

static int info(void *options, const cli_common *common, const cli_arguments *arguments)
{
    const cli_profile_options *o = options;
    if (arguments->count != (o->devices ? 0 : 1))
        return cli_usage_error("info", "expected %s, found %zu", o->devices ? "--devices alone" : "one FILE or DIR",
                               arguments->count);
    cli_session session;
    if (!cli_session_open_in(&session, "info", common, false, CLI_COMPUTE(o))) return CLI_FAILED;
    int status;
    if (o->devices)
        status = list_devices(&session);
    else if (cli_profile_check(&session, options, &status))
        status = describe(&session, arguments->items[0], options);
    cli_session_close(&session);
    return status;
}

const cli_usage cli_info_usage = {
    .command = "info",
    .synopsis = "FILE|DIR [--graph FILE]   or   --devices",
    .about =
        "Describes a kernel machine, a feature map, a text model or a network: a file or directory written by bochner. "
        "With --graph, it also times one training step by operation and plots the graph of operations.",
    .examples = "  bochner info price.model\n"
                "  bochner info model\n"
                "  bochner info model --graph step.svg --tokens 128\n"
                "  bochner info --devices\n",
    .groups = {{cli_profile_rows, 0}},
    .short_help = {"devices", "graph", "batch", "tokens", "device", "json"},
};

int cli_info(int argc, char **argv)
{
    cli_profile_options options = {0};
    return cli_command(&cli_info_usage, argc, argv, &options, info);
}
