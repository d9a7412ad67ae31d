/* bochner info: the report on a text model as JSON. */
#include "info_model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
static void json_layers(cli_json *json, const cli_info_report *r)
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
    const bo_model_desc encoder = cli_info_encoder(d);
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

void cli_info_model_json(const cli_info_report *r)
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
