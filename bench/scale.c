/* bochner bench scale: speed by number of threads, of linear attention, a training step, a ridge fit and decoding.
 * Every number of threads uses a separate context. */
#include "attention/attention.h"
#include "train/train.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COUNTS = 16, READ_BEFORE = 64, HEAD_DIM = 64 };

typedef struct scale_options {
    cli_given was_given;
    bench_run run;
    size_t heads, dim, features, tokens;  /* linear attention */
    train_options model;                  /* training step and decoding */
    size_t rows, columns, ridge_features; /* ridge fit */
    attention_options timing;             /* only `repeats` is used */
    bool quick;
    bo_precision precision;
} scale_options;

/* One number of threads of one part. Members that the part does not use are zero. */
typedef struct scale_case {
    const scale_options *options;
    attention_bench *timing;
    bo_context *context;
    attention_case attention;
    train_bench train;
    bo_model *model;
    bo_trainer *trainer;
    bo_session *session;
    bo_sampler *sampler;
    float *x, *logits;
    double *y;
    int32_t id;
    char detail[192];
} scale_case;

static bool ok(scale_case *c, bo_status status)
{
    return train_ok(&c->train, status);
}

/* ---- linear attention -------------------------------------------------------------------------------------------- */

static bool open_pass(scale_case *c, bool gradients)
{
    const scale_options *o = c->options;
    bo_attention_desc desc = attention_favor(c->timing, o->features);
    desc.heads = o->heads;
    desc.dim = o->dim;
    snprintf(c->detail, sizeof c->detail, "FAVOR+, causal, %zu heads of %zu dimensions, %zu features, N = %zu",
             o->heads, o->dim, o->features, o->tokens);
    return attention_case_open(c->timing, c->context, &desc, o->tokens, gradients, &c->attention) &&
           (!gradients || ok(c, attention_case_both(&c->attention)));
}

static bool open_forward(scale_case *c)
{
    return open_pass(c, false);
}

static bool open_backward(scale_case *c)
{
    return open_pass(c, true);
}

static bo_status run_forward(void *what)
{
    return attention_case_forward(&((scale_case *)what)->attention);
}

static bo_status run_backward(void *what)
{
    return attention_case_backward(&((scale_case *)what)->attention);
}

/* ---- training step ----------------------------------------------------------------------------------------------- */

static bool open_step(scale_case *c)
{
    const train_options *o = c->train.options;
    if (!train_open(&c->train)) return false;
    const bo_model_desc desc = train_classic(&c->train, "softmax");
    snprintf(c->detail, sizeof c->detail,
             "softmax attention, %zu layers, width %zu, %zu heads, context %zu, vocabulary %zu, batch %zu", o->layers,
             o->width, o->heads, o->context, o->vocab, o->batch);
    if (!ok(c, bo_model_create(c->context, &desc, c->train.tokenizer, &c->model))) return false;
    const bo_trainer_desc trainer = train_trainer(&c->train, c->model, o->batch);
    return ok(c, bo_trainer_create(c->context, &trainer, &c->trainer));
}

static bo_status run_step(void *what)
{
    const scale_case *c = what;
    double loss;
    return bo_trainer_step(c->context, c->trainer, &loss);
}

/* ---- ridge fit --------------------------------------------------------------------------------------------------- */

static bool open_ridge(scale_case *c)
{
    const scale_options *o = c->options;
    c->x = attention_floats(o->rows * o->columns);
    c->y = cli_allocate(o->rows, sizeof *c->y, "targets");
    attention_fill(c->timing, 8, c->x, o->rows * o->columns);
    for (size_t i = 0; i < o->rows; i++) c->y[i] = sin((double)c->x[i * o->columns]);
    snprintf(c->detail, sizeof c->detail, "features, Gram matrix and solution: %zu rows, %zu columns, %zu features",
             o->rows, o->columns, o->ridge_features);
    return true;
}

static bo_status run_ridge(void *what)
{
    const scale_case *c = what;
    const scale_options *o = c->options;
    const bo_machine_desc desc = {.scaling = BO_SCALING_NONE,
                                  .loss = BO_LOSS_RIDGE,
                                  .solver = BO_SOLVER_PRIMAL,
                                  .features = {.features = o->ridge_features, .gamma = 0.5 / (double)o->columns},
                                  .lambda = 1,
                                  .precision = BO_GRAM_PRECISION_FLOAT32,
                                  .seed = o->run.session->common.seed};
    const bo_samples samples = {.rows = o->rows, .dim = o->columns, .targets = 1, .x = c->x, .y = c->y};
    bo_machine *machine = NULL;
    bo_status status = bo_machine_fit(c->context, &desc, &samples, &machine);
    bo_machine_destroy(machine);
    return status;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

static bool open_decode(scale_case *c)
{
    const train_options *o = c->train.options;
    bo_model_desc desc = train_model(&c->train, "rfa-gate");
    desc.layers = o->decode_layers;
    desc.width = o->decode_width / HEAD_DIM * HEAD_DIM;
    desc.block.heads = desc.width / HEAD_DIM;
    c->logits = attention_floats(desc.vocab);
    snprintf(c->detail, sizeof c->detail, "one token; rfa-gate, %zu layers, width %zu, vocabulary %zu, float32 weights",
             desc.layers, desc.width, desc.vocab);
    bool opened = ok(c, bo_tokenizer_create(c->context, &c->train.tokenizer)) &&
                  ok(c, bo_model_create(c->context, &desc, c->train.tokenizer, &c->model)) &&
                  ok(c, bo_session_create(c->context, c->model, NULL, &c->session)) &&
                  ok(c, bo_sampler_create(c->context, &(bo_sampler_desc){.greedy = true}, &c->sampler));
    for (int32_t i = 0; opened && i < READ_BEFORE; i++)
        opened = ok(c, bo_session_feed(c->context, c->session, &i, 1, NULL));
    return opened;
}

static bo_status run_decode(void *what)
{
    scale_case *c = what;
    bo_status status = bo_session_feed(c->context, c->session, &c->id, 1, c->logits);
    if (status == BO_OK) c->id = bo_sampler_next(c->sampler, c->logits, c->train.options->vocab);
    return status;
}

/* ---- all numbers of threads -------------------------------------------------------------------------------------- */

typedef struct scale_part {
    const char *name;
    bool (*open)(scale_case *c); /* false after a message */
    bo_status (*run)(void *what);
    size_t calls; /* per sample; 0: chosen to take 20 ms */
} scale_part;

static const scale_part parts[] = {
    {"forward", open_forward, run_forward, 0}, {"backward", open_backward, run_backward, 0},
    {"step", open_step, run_step, 1},          {"ridge", open_ridge, run_ridge, 1},
    {"decode", open_decode, run_decode, 0},
};

static const char *part_name(const void *unused, size_t index)
{
    (void)unused;
    return parts[index].name;
}

static void close_case(scale_case *c)
{
    attention_case_close(&c->attention);
    bo_sampler_destroy(c->sampler);
    bo_session_destroy(c->session);
    bo_trainer_destroy(c->trainer);
    bo_model_destroy(c->model);
    train_close(&c->train);
    bo_context_destroy(c->context);
    free(c->x);
    free(c->y);
    free(c->logits);
}

static bool time_part(attention_bench *timing, const scale_options *o, const scale_part *part, int threads,
                      double *seconds, scale_case *c)
{
    const bo_context_desc desc = {.threads = threads, .precision = o->precision};
    *c = (scale_case){.options = o, .timing = timing};
    if (bo_context_create(&desc, &c->context) != BO_OK) {
        cli_fail(timing->run->session, "a context of %d threads cannot be created", threads);
        return false;
    }
    c->train = (train_bench){.run = timing->run, .context = c->context, .options = &o->model};
    attention_work work = {c->context, part->run, c, part->calls};
    const bool done = part->open(c) && attention_time(timing, &work, 1, seconds, NULL);
    if (done && bo_context_describe(c->context)->threads < threads)
        cli_warn(timing->run->session, "only %d of %d threads could be started",
                 bo_context_describe(c->context)->threads, threads);
    return done;
}

static bool measure_part(attention_bench *timing, const scale_options *o, const scale_part *part)
{
    const int max_threads = bo_context_describe(timing->context)->threads;
    double first = NAN, seconds;
    for (int threads = 1, last = 0; threads != last;
         last = threads, threads = threads * 2 < max_threads ? threads * 2 : max_threads) {
        scale_case c;
        char name[96];
        const bool done = time_part(timing, o, part, threads, &seconds, &c);
        if (done) {
            if (threads == 1) first = seconds;
            int length = snprintf(name, sizeof name, "%s, %d thread%s", part->name, threads, threads > 1 ? "s" : "");
            bench_add(timing->run, name, 1e3 * seconds, "ms", NAN, true, "%s; %s products", c.detail,
                      bo_enum_name(BO_ENUM_PRECISION, o->precision));
            snprintf(name + length, sizeof name - (size_t)length, ", speedup");
            if (threads > 1) bench_add(timing->run, name, first / seconds, "x", NAN, false, "over one thread");
            snprintf(name + length, sizeof name - (size_t)length, ", efficiency");
            if (threads > 1)
                bench_add(timing->run, name, first / seconds / threads, "", NAN, false, "speedup / threads");
        }
        close_case(&c);
        if (!done) return false;
    }
    return true;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* Sizes for a quick functional test. */
static void shrink(scale_options *o)
{
    o->heads = 2, o->dim = 16, o->features = 16, o->tokens = 64;
    o->model.layers = 1, o->model.width = 32, o->model.heads = 2, o->model.context = 32, o->model.vocab = 256;
    o->model.batch = 1, o->model.decode_layers = 1, o->model.decode_width = HEAD_DIM;
    o->rows = 256, o->columns = 4, o->ridge_features = 32, o->timing.repeats = 1;
}

static int measure(bench_run *run, void *user)
{
    scale_options *o = user;
    if (!bench_parts_known("bench scale", run->only, CLI_COUNT_OF(parts), part_name)) return CLI_USAGE_ERROR;
    if (o->quick) shrink(o);
    attention_bench timing = {.run = run, .context = run->session->context, .options = &o->timing};
    bool done = true;
    for (size_t i = 0; done && i < CLI_COUNT_OF(parts); i++)
        if (bench_selected(run, parts[i].name)) done = measure_part(&timing, o, &parts[i]);
    free(timing.noise);
    return done ? CLI_DONE : CLI_FAILED;
}

static const cli_option rows[] = {
    SECTION("Measuring"),
    TEXT("only", "PARTS", scale_options, run.only, "parts to measure: forward, backward, step, ridge, decode",
         .default_text = "all"),
    COUNT("repeats", "N", scale_options, timing.repeats, "number of runs; medians are reported", .low = 1, .high = 99,
          .initial = "5"),
    FLAG("quick", scale_options, quick,
         "use tiny sizes, to check that the benchmark works; the times are not meaningful"),
    PRECISION(scale_options, .traits = 0),
    SECTION("Attention"),
    COUNT("heads", "N", scale_options, heads, "attention heads", .low = 1, .high = 1024, .initial = "8"),
    COUNT("dim", "N", scale_options, dim, "dimensions of a head", .low = 1, .high = 1024, .initial = "64"),
    COUNT("features", "N", scale_options, features, "number of features", .low = 2, .high = 1 << 16, .initial = "128"),
    COUNT("tokens", "N", scale_options, tokens, "tokens of the sequence", .low = 16, .high = 1 << 24,
          .initial = "16384"),
    SECTION("Model"),
    COUNT("layers", "N", scale_options, model.layers, "number of layers", .low = 1, .high = 1024, .initial = "6"),
    COUNT("width", "N", scale_options, model.width, "width of the model", .low = 8, .high = 1 << 16, .initial = "384"),
    COUNT("model-heads", "N", scale_options, model.heads, "attention heads of the model", .low = 1, .high = 1024,
          .initial = "6"),
    COUNT("context", "N", scale_options, model.context, "tokens per sequence", .low = 16, .high = 1 << 24,
          .initial = "1024"),
    COUNT("vocab", "N", scale_options, model.vocab, "vocabulary size", .low = 256, .high = 1 << 24, .initial = "8192"),
    COUNT("batch", "N", scale_options, model.batch, "sequences per step", .low = 1, .high = 1 << 16, .initial = "2"),
    COUNT("decode-layers", "N", scale_options, model.decode_layers, "layers of the model that decodes", .low = 1,
          .high = 1024, .initial = "5"),
    COUNT("decode-width", "N", scale_options, model.decode_width, "width of the model that decodes", .low = HEAD_DIM,
          .high = 1 << 16, .initial = "768"),
    SECTION("Ridge fit"),
    COUNT("rows", "N", scale_options, rows, "number of rows", .low = 16, .high = 1 << 28, .initial = "16384"),
    COUNT("columns", "N", scale_options, columns, "number of columns", .low = 1, .high = 1 << 16, .initial = "64"),
    COUNT("ridge-features", "R", scale_options, ridge_features, "number of features", .low = 2, .high = 1 << 16,
          .initial = "2048"),
    END_OF_OPTIONS,
};

const cli_usage bench_scale_usage = {
    .command = "bench scale",
    .synopsis = "[options]",
    .about =
        "Measures the speed with 1, 2, 4, ... threads, up to --threads: forward and backward pass of linear attention, "
        "a training step (the model of bench train), a ridge fit, and decoding of one token. Reports the "
        "time, the speedup over one thread, and the efficiency, which is the speedup divided by the "
        "number of threads.",
    .examples = "  bochner bench scale --only forward,step --threads 2 --repeats 3\n",
    .groups = {{rows, 0}},
    .short_help = {"only", "quick", "repeats", "precision", "heads", "tokens", "layers", "width", "rows",
                   "ridge-features", "threads", "json"},
};

int bench_scale(int argc, char **argv)
{
    scale_options o = {0};
    return bench_command(&bench_scale_usage, argc, argv, &o.run, measure, &o);
}
