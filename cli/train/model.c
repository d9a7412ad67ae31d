/* Text models for `bochner train`: the tokenizer, the model of --init, and the descriptor of a new model. */
#include "../common/spool.h"
#include "../model/blocks.h"
#include "../text/text_tasks.h"
#include "train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- tokenizer and text ------------------------------------------------------------------------------------------ */

static const char **data_paths(const cli_train_job *job, size_t *count)
{
    const cli_list *data = &job->options->data;
    const cli_arguments *more = &job->args->files;
    const char **paths = cli_allocate(data->count + more->count, sizeof *paths, "file names");
    *count = 0;
    for (size_t i = 0; i < data->count; i++) paths[(*count)++] = data->items[i];
    for (size_t i = 0; i < more->count; i++) paths[(*count)++] = more->items[i];
    return paths;
}

/* The tokenizer is trained on the data if --vocab is above 256. A resumed run loads the tokenizer of its directory;
 * with adapters that of their base, because their directory lacks the file of special tokens. */
static bool open_tokenizer(cli_train_job *job, const char *const *paths, size_t count)
{
    const cli_train_options *o = job->options;
    bo_context *context = job->session->context;
    char base[CLI_TRAIN_FILES];
    if (job->resumed && o->lora.rank && o->init)
        return cli_train_ok(
            job, bo_tokenizer_load(context, &(bo_source){.path = cli_train_base(job, base)}, &job->tokenizer));
    if (job->resumed)
        return cli_train_ok(job, bo_tokenizer_load(context, &(bo_source){.path = o->out}, &job->tokenizer));
    if (o->tokenizer)
        return cli_train_ok(job, bo_tokenizer_load(context, &(bo_source){.path = o->tokenizer}, &job->tokenizer));
    if (o->init && !cli_is_no_network(job->session, o->init)) return false;
    if (o->init) {
        const bo_status status = bo_tokenizer_load(context, &(bo_source){.path = o->init}, &job->tokenizer);
        if (status != BO_OK) cli_fail_model(job->session, o->init, status);
        return status == BO_OK;
    }
    if (o->vocab <= 256) return cli_train_ok(job, bo_tokenizer_create(context, &job->tokenizer));
    const bo_tokenizer_desc desc = {.vocab = o->vocab};
    return job->kind->learn_tokenizer(job, paths, count, &desc);
}

/* A resumed run loads its weights from its checkpoint, so the directory of --init is not needed. */
static bool open_init(cli_train_job *job)
{
    const char *from = job->resumed ? job->options->out : job->options->init;
    if (!job->options->init) return true;
    return cli_train_ok(job, bo_model_load(job->session->context, &(bo_source){.path = from}, NULL, &job->init)) &&
           job->kind->accepts(job, job->init);
}

/* ---- the model --------------------------------------------------------------------------------------------------- */

bool cli_train_other_mixer(const cli_train_options *o)
{
    return o->mixer != BO_MIXER_ATTENTION;
}

cli_attention_options cli_train_attention(const cli_train_options *o, const cli_train_kind *kind)
{
    cli_attention_options attention = o->attention;
    if (CLI_GIVEN(&attention, kind)) return attention;
    CLI_SET_GIVEN(&attention, kind, true);
    while (strcmp(cli_attention_kind_choice(attention.kind), kind->attention(o)) != 0) attention.kind++;
    return attention;
}

static void set(size_t *field, size_t given)
{
    if (given) *field = given;
}

/* Derives the sizes of an attention from its block. */
static void clear_sizes(const bo_block *b, bo_attention_desc *a)
{
    if (a->heads) a->heads = b->heads;
    a->key_heads = a->dim = a->value_dim = a->features.dim = 0;
}

static void set_sizes(const cli_train_options *o, bo_block *b)
{
    const bool shaped = o->width || o->heads;
    set(&b->heads, o->heads);
    if (shaped) b->key_heads = b->head_dim = b->hidden = 0;
    set(&b->key_heads, o->key_heads);
    set(&b->hidden, o->hidden);
    if (!shaped && !o->key_heads) return;
    clear_sizes(b, &b->attention);
    clear_sizes(b, &b->cross_attention);
    clear_sizes(b, &b->replaced);
}

/* True if --mixer or --attention replaces the mixer of --init. */
static void set_mixer(const cli_train_options *o, bo_block *b)
{
    const bool named = CLI_GIVEN(o, mixer) || CLI_GIVEN(&o->attention, kind);
    if (named && o->mixer != b->mixer) {
        const bo_block none = {0};
        b->mixer = o->mixer;
        b->attention = none.attention;
        b->positions = none.positions;
        b->query_norm = b->output_norm = BO_CHOICE_AUTO;
        b->state_size = b->state_rank = b->kernel = 0;
    }
    if (CLI_GIVEN(o, ssm)) b->ssm = o->ssm;
    set(&b->state_size, o->state_size);
    set(&b->state_rank, o->state_rank);
    set(&b->kernel, o->kernel);
}

static void clear_if(const char **text, const char *gone)
{
    if (*text == gone) *text = NULL;
}

/* Clears all references to a string in the blocks of a descriptor, which contains a copy of the first block of its
 * list. */
static void clear_text(bo_model_desc *d, const char *gone)
{
    const cli_blocks lists[] = {{&d->block, 1}, cli_blocks_of(d), {&d->encoder, 1}, cli_encoder_blocks_of(d)};
    for (size_t k = 0; k < CLI_COUNT_OF(lists); k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            bo_block *b = &cli_mutable_blocks(lists[k])[i];
            clear_if(&b->layers, gone);
            clear_if(&b->custom_mlp.name, gone);
        }
}

static void release_text(cli_train_job *job, bo_model_desc *d, const char *text)
{
    if (!text) return;
    clear_text(&job->described, text);
    clear_text(d, text);
    bo_free((void *)(uintptr_t)text);
}

/* True if another MLP replaces the layers, or the custom layer, of --init. */
static void release_layers(cli_train_job *job, bo_model_desc *d, bo_block *b)
{
    const cli_train_options *o = job->options;
    if (!CLI_GIVEN(o, mlp) || o->mlp == b->mlp) return;
    release_text(job, d, b->layers);
    release_text(job, d, b->custom_mlp.name);
    b->custom_mlp = (bo_custom_layer){0};
}

/* True if no option changes the feature maps of --init. */
static void set_mlp(const cli_train_options *o, bo_block *b)
{
    bo_features_desc *f = &b->mlp_features;
    const bool other = CLI_GIVEN(o, mlp) && o->mlp != b->mlp;
    if (other) {
        b->mlp = o->mlp;
        b->hidden = o->hidden;
        b->degree_heads = 0;
        *f = (bo_features_desc){0};
    }
    if (other || o->width || CLI_GIVEN(o, mlp_kernel) || CLI_GIVEN(o, mlp_function)) {
        f->dim = 0;
        f->gamma = 0;
    }
    f->features = 0;
    if (CLI_GIVEN(o, mlp_kernel)) f->kernel = o->mlp_kernel, f->function = BO_FUNCTION_DEFAULT;
    if (CLI_GIVEN(o, mlp_function)) f->function = o->mlp_function;
    if (CLI_GIVEN(o, mlp_draw)) f->draw = o->mlp_draw;
    set(&b->degree_heads, o->degree_heads);
}

static void set_block(const cli_train_options *o, bo_block *b)
{
    set_sizes(o, b);
    set_mixer(o, b);
    set_mlp(o, b);
    if (CLI_GIVEN(o, norm)) b->norm = o->norm;
    if (CLI_GIVEN(o, positions)) b->positions = o->positions;
    if (CLI_GIVEN(o, query_norm)) b->query_norm = o->query_norm;
    if (CLI_GIVEN(o, output_norm)) b->output_norm = o->output_norm;
    b->bias |= o->bias;
    if (o->bias) b->attention_bias = b->output_bias = b->mlp_bias = BO_CHOICE_AUTO;
}

typedef bool block_test(const bo_block *b);

/* The first block that passes both tests; NULL: none. */
static const bo_block *find_block(const bo_model_desc *d, block_test *first, block_test *second)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++)
        if (first(&list.blocks[i]) && second(&list.blocks[i])) return &list.blocks[i];
    return NULL;
}

static bool any_block(const bo_block *b)
{
    (void)b;
    return true;
}

static bool has_no_window(const bo_block *b)
{
    return !b->attention.window;
}

static bool attends(const bo_block *b)
{
    return b->mixer == BO_MIXER_ATTENTION;
}

/* Layers with a window keep their RoPE base if it differs. */
static void set_rope(const cli_train_options *o, bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d), encoder = cli_encoder_blocks_of(d);
    const bo_block *main = find_block(d, has_no_window, cli_rotates);
    if (!main) main = find_block(d, any_block, cli_rotates);
    const double base = main ? main->rope_base : 0;
    if (!(o->rope_base > 0)) return;
    for (size_t i = 0; i < list.count; i++) {
        bo_block *b = &cli_mutable_blocks(list)[i];
        if (cli_rotates(b) && b->rope_base == base) b->rope_base = o->rope_base;
    }
    for (size_t i = 0; i < encoder.count; i++)
        if (cli_rotates(&encoder.blocks[i])) cli_mutable_blocks(encoder)[i].rope_base = o->rope_base;
}

static void set_model(const cli_train_options *o, bo_model_desc *d)
{
    set(&d->layers, o->layers);
    set(&d->width, o->width);
    set(&d->context, o->context);
    set(&d->base_width, o->base_width);
    d->untied |= o->untied;
    if (o->mup) d->parametrization = BO_PARAMETRIZATION_MUP;
    if (o->unit_mup) d->parametrization = BO_PARAMETRIZATION_UNIT;
    if (o->float8) d->storage = BO_STORAGE_FLOAT8;
    if (CLI_GIVEN(o, dropout)) d->dropout = o->dropout;
}

/* The seed of the frequencies stays 0: the model derives it from its own seed. */
void cli_train_set_attention(const cli_train_job *job, const bo_model_desc *d, bo_block *b)
{
    const cli_train_options *o = job->options;
    const cli_attention_options attention = cli_train_attention(o, job->kind);
    b->attention = cli_attention_numbered(&attention, 0);
    if (CLI_GIVEN(o, gate)) b->attention.gate = o->gate;
    if (attention.whiten && !b->attention.rank) /* hybrid has an M only with a rank */
        b->attention.rank = b->head_dim ? b->head_dim : d->width / (b->heads ? b->heads : 1);
    b->sigma = o->sigma;
    b->gate_first = o->gate_first;
    b->gate_last = o->gate_last;
}

/* --attention and --mixer set the mixer of all layers, which then share a block: the first block without a window, if
 * possible with attention. */
static void merge_blocks(bo_model_desc *d)
{
    const bo_block *main = find_block(d, has_no_window, attends);
    if (!main) main = find_block(d, has_no_window, any_block);
    d->block = *(main ? main : bo_model_block(d, 0));
    d->blocks = NULL;
    d->block_count = 0;
    d->encoder = (bo_block){0};
    d->encoder_blocks = NULL;
    d->encoder_block_count = 0;
}

/* A new attention, and models of other tasks, do not record an original attention. */
static void set_attention(const cli_train_job *job, bo_model_desc *d)
{
    const bool named = CLI_GIVEN(&job->options->attention, kind);
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++) {
        bo_block *b = &cli_mutable_blocks(list)[i];
        if (named || b->mixer != BO_MIXER_ATTENTION || job->kind != &cli_train_language)
            b->replaced = (bo_attention_desc){0};
        if (b->mixer == BO_MIXER_ATTENTION && (named || !b->attention.heads)) cli_train_set_attention(job, d, b);
    }
}

static bool same_tokenizer(const cli_train_job *job)
{
    const bo_tokenizer *init_tokenizer = bo_model_tokenizer(job->init);
    return !init_tokenizer ||
           bo_tokenizer_describe(init_tokenizer)->fingerprint == bo_tokenizer_describe(job->tokenizer)->fingerprint;
}

/* The model of a resumed run whose file of blocks was removed. */
static bool read_resumed(cli_train_job *job, bo_model_desc *out)
{
    bo_context *context = job->session->context;
    bo_model *model = NULL;
    bo_status status = bo_model_load(context, &(bo_source){.path = job->options->out}, NULL, &model);
    if (status == BO_OK) status = bo_model_desc_copy(context, bo_model_describe(model), &job->described);
    bo_model_destroy(model);
    if (status == BO_OK) *out = job->described;
    return cli_train_ok(job, status);
}

/* Reads the blocks of a file. Without a number of layers, the list is not repeated. */
static bool read_blocks(cli_train_job *job, bo_model_desc *out)
{
    const char *path = job->options->blocks;
    if (job->resumed && strcmp(path, "-") != 0 && access(path, F_OK) != 0) return read_resumed(job, out);
    bo_model_desc sizes = {0}, *d = &job->described;
    size_t listed = 0;
    char *text = cli_train_read_description(job->session, path);
    const bool read = text && cli_train_ok(job, bo_description_read(job->session->context, text, path, d));
    bo_free(text);
    if (!read) return false;
    if (d->task != BO_MODEL_TASK_LANGUAGE && d->task != job->options->texts.task) {
        cli_fail(job->session, "%s describes %s; give --task %s", path, cli_task_phrase(d->task),
                 bo_enum_name(BO_ENUM_MODEL_TASK, d->task));
        return false;
    }
    bo_model_preset("tiny", &sizes);
    for (size_t i = 0; !d->layers && i < d->block_count; i++) listed += d->blocks[i].repeat ? d->blocks[i].repeat : 1;
    if (!d->layers) d->layers = listed;
    if (!d->width) d->width = sizes.width;
    if (!d->context) d->context = sizes.context;
    *out = *d;
    return true;
}

/* The descriptor before changes by options. */
static bool start_description(cli_train_job *job, bo_model_desc *out)
{
    const cli_train_options *o = job->options;
    bo_model_desc_release(&job->described);
    *out = (bo_model_desc){0};
    if (o->blocks) return read_blocks(job, out);
    if (!job->init) return bo_model_preset(CLI_GIVEN(o, preset) ? bo_model_preset_name(o->preset) : "tiny", out);
    if (!cli_train_ok(job, bo_model_desc_copy(job->session->context, bo_model_describe(job->init), &job->described)))
        return false;
    *out = job->described;
    return true;
}

/* Applies the options to every block. With --blocks, no other options describe layers. */
static void set_blocks(cli_train_job *job, bo_model_desc *d)
{
    const cli_train_options *o = job->options;
    if (o->blocks) return;
    if (CLI_GIVEN(o, mixer) || CLI_GIVEN(&o->attention, kind)) merge_blocks(d);
    const cli_blocks lists[] = {cli_blocks_of(d), cli_encoder_blocks_of(d)};
    for (size_t k = 0; k < CLI_COUNT_OF(lists); k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            bo_block *b = &cli_mutable_blocks(lists[k])[i];
            release_layers(job, d, b);
            set_block(o, b);
        }
    set_rope(o, d);
    set_attention(job, d);
}

bool cli_train_describe_model(cli_train_job *job, bo_model_desc *out)
{
    const cli_train_options *o = job->options;
    bo_model_desc desc;
    if (!start_description(job, &desc)) return false;
    const size_t vocab = bo_tokenizer_describe(job->tokenizer)->vocab;
    if (!job->init || vocab > desc.vocab || !same_tokenizer(job)) desc.vocab = vocab;
    set_model(o, &desc);
    set_blocks(job, &desc);
    desc.seed = job->session->common.seed;
    if (job->kind->describe_model && !job->kind->describe_model(job, &desc)) return false;
    *out = desc;
    return true;
}

/* Checks before any allocation whether weights, gradients and two moments exceed the memory limit of the process. */
static bool too_large(cli_train_job *job, const bo_model_desc *d)
{
    const double width = (double)d->width;
    double numbers = (double)d->vocab * width;
    bo_memory_bound limit;
    for (size_t i = 0; i < d->layers; i++) {
        const bo_block *b = bo_model_block(d, i);
        const double hidden = b->mlp == BO_MLP_NONE ? 0 : b->hidden ? (double)b->hidden : 4 * width;
        numbers += width * (4 * width + 2 * hidden);
    }
    bo_context_memory(job->session->context, &limit);
    if (4 * sizeof(float) * numbers <= (double)limit.bytes) return false;
    cli_fail(job->session,
             "training %s parameters needs %s of memory, but the limit is %s (%s); choose a smaller model",
             cli_count((size_t)numbers).s, cli_bytes(4 * sizeof(float) * numbers).s, cli_bytes((double)limit.bytes).s,
             limit.source);
    return true;
}

static bool open_model(cli_train_job *job)
{
    bo_context *context = job->session->context;
    const char *from = job->options->init;
    size_t taken = 0;
    bo_model_desc desc;
    if (!cli_train_describe_model(job, &desc) || too_large(job, &desc)) return false;
    if (!cli_train_ok(job, bo_model_create(context, &desc, job->tokenizer, &job->model))) return false;
    if (!job->init || job->resumed) return true;
    if (!cli_train_ok(job, bo_model_adopt(context, job->model, job->init, &taken))) return false;
    cli_note(job->session, "Weights     %s of %s tensors loaded from %s", cli_count(taken).s,
             cli_count(bo_weights_describe(bo_model_weights(job->model))->count).s, from);
    if (taken) return true;
    cli_fail(job->session, "%s: no tensor has a shape of this model; give the same --width, or leave out --init", from);
    return false;
}

const cli_train_weights cli_train_new_model = {
    .file = "model.safetensors", .open_init = open_init, .open_model = open_model};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* True if files are read more than once: for training, for validation on their end, or to train a tokenizer. */
static bool reads_twice(const cli_train_job *job)
{
    const cli_train_options *o = job->options;
    const bool learns = !job->resumed && !o->tokenizer && !o->init && o->vocab > 256;
    return learns || (!o->valid && o->valid_fraction > 0) || job->kind->reads_twice;
}

bool cli_train_open_text(cli_train_job *job)
{
    size_t count;
    const char **paths = data_paths(job, &count);
    cli_spools spools = {.count = 0};
    const bool opened = (!reads_twice(job) || cli_spool_all(job->session, &spools, paths, count) == CLI_DONE) &&
                        open_tokenizer(job, paths, count) && job->weights->open_init(job) &&
                        job->kind->open_files(job, paths, count);
    cli_spools_close(&spools); /* a corpus, or texts, keep copies of their data */
    free(paths);
    return opened;
}

bool cli_train_open_model(cli_train_job *job)
{
    return cli_train_open_text(job) && job->weights->open_model(job);
}
