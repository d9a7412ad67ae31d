/* bochner info: the report on a text model as text. */
#include "info_model.h"
#include "../text/text_tasks.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static void print_layers(const cli_info_report *r)
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

/* Prints the lists of blocks, if layers differ. */
static void print_blocks(const bo_model_desc *d)
{
    const bo_model_desc encoder = cli_info_encoder(d);
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

static void print_context(const cli_info_report *r)
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

void cli_info_model_print(const cli_info_report *r)
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
