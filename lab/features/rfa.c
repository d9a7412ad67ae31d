/* rfa: random feature attention (2103.02143): its gate, unit norms, decoding cost, and exchange with softmax after
 * training. */
#include "../experiment.h"
#include <math.h>
#include <string.h>

static const bo_lab_claim claims[] = {
    {.name = "gate",
     .statement = "A forget gate lowers the held-out loss of random feature attention.",
     .number = "held-out loss without gate minus held-out loss with gate, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "parity",
     .statement = "With the gate, random feature attention reaches the held-out loss of softmax attention.",
     .number = "held-out loss with gate minus held-out loss of softmax attention, in nats per token",
     .rule = BO_LAB_AT_MOST,
     .bound = 0.02,
     .passage = LAB_REVIEW "line 82: \"Comparable / better performance to baseline transformer\""},
    {.name = "unit",
     .statement = "Normalizing queries and keys to unit length, where the RFA kernel is proportional to the softmax "
                  "kernel, lowers the held-out loss.",
     .number = "held-out loss with raw q and k minus held-out loss with unit q and k, in nats per token, mean of with "
               "and without gate",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.02},
    {.name = "swap-in",
     .statement = "A model trained with softmax attention does not work with 128 random features instead, without "
                  "further training.",
     .number = "held-out loss of a softmax model evaluated with random features minus its own loss, in nats per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "swap-out",
     .statement = "A model trained with random features does not work with softmax attention instead, without further "
                  "training.",
     .number = "held-out loss of a random feature model evaluated with softmax attention minus its own loss, in nats "
               "per token",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0.1},
    {.name = "memory",
     .statement = "At 2048 tokens, the state of random feature attention is less than a tenth of the KV cache of "
                  "softmax attention.",
     .number = "bytes of state divided by bytes of keys and values",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0.1},
    {.name = "speed",
     .statement = "After 2048 tokens, random feature attention decodes a token at least 4 times faster than softmax "
                  "attention.",
     .number = "time per token with softmax attention divided by time per token with random features",
     .rule = BO_LAB_AT_LEAST,
     .bound = 4,
     .source = LAB_REVIEW "line 83: \"2x speed up for autoregressive decoding\" of whole models; attention alone, the "
                          "length and the factor are our choice"},
};

static const bo_lab_table tables[] = {
    {.name = "loss",
     .title = "Held-out loss with and without gate and unit norm",
     .rows = "attention",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
    {.name = "swap",
     .title = "A softmax model evaluated with random features, by number of features",
     .rows = "features",
     .values = "held-out loss, nats per token",
     .log_x = true,
     .theory = "softmax"},
    {.name = "trained-and-tested",
     .title = "Trained with one attention (rows), tested with another (columns)",
     .rows = "trained with",
     .values = "held-out loss, nats per token",
     .plot = BO_LAB_BARS},
    {.name = "decoding",
     .title = "Time and memory to decode one token, by number of earlier tokens",
     .rows = "earlier tokens",
     .values = "µs per token; kB",
     .log_x = true,
     .log_y = true},
};

/* ---- models ------------------------------------------------------------------------------------------------------ */

enum { SOFTMAX, GATE, PLAIN, GATE_RAW, PLAIN_RAW, VARIANTS };
static const char *const names[VARIANTS] = {"softmax", "rfa-gate", "rfa", "rfa-gate, raw q and k", "rfa, raw q and k"};

enum { WIDTH = 64, HEADS = 4, DIM = WIDTH / HEADS, FEATURES = 128, LAYERS = 2 };

/* At initialization, raw queries and keys have |q|² near d. The kernel exp(-|q - k|² / 2d) then has the temperature of
 * RFA with σ = 1, and the variants differ only in whether the norms are fixed. */
static bo_model_desc model_of(size_t variant)
{
    bo_model_desc desc = {.layers = LAYERS, .width = WIDTH, .block.heads = HEADS, .context = 128};
    bo_attention_desc *a = &desc.block.attention;
    bo_attention_preset(variant == SOFTMAX                       ? "softmax"
                        : variant == GATE || variant == GATE_RAW ? "rfa-gate"
                                                                 : "rfa",
                        a);
    if (variant == SOFTMAX) {
        desc.block.query_norm = BO_CHOICE_YES;
        return desc;
    }
    a->features.features = FEATURES;
    if (variant == GATE_RAW || variant == PLAIN_RAW) {
        a->kind = BO_ATTENTION_LINEAR;
        a->features.kernel = BO_KERNEL_RBF;
        a->scale = 0.5 / DIM;
        desc.block.query_norm = BO_CHOICE_NO;
    }
    return desc;
}

typedef struct trained_models {
    bo_model *models[VARIANTS];
    double loss[VARIANTS];
} trained_models;

enum { SCORED = 16384 };

static bo_status train_all(lab_run *run, const lab_text *text, trained_models *t)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        lab_trained trained;
        const bo_model_desc desc = model_of(i);
        const lab_training training = {.batch = lab_size(run, 8, 4),
                                       .steps = lab_size(run, 600, 80),
                                       .eval_tokens = SCORED,
                                       .from = 0.9 * (double)i / VARIANTS,
                                       .to = 0.9 * (double)(i + 1) / VARIANTS};
        BO_TRY(lab_train_new(run, &desc, text, &training, &t->models[i], &trained));
        t->loss[i] = trained.loss;
        lab_cell(run, "loss", names[i], "loss", trained.loss);
    }
    lab_claim(run, "gate", t->loss[PLAIN] - t->loss[GATE]);
    lab_claim(run, "parity", t->loss[GATE] - t->loss[SOFTMAX]);
    lab_claim(run, "unit", (t->loss[GATE_RAW] - t->loss[GATE] + t->loss[PLAIN_RAW] - t->loss[PLAIN]) / 2);
    return BO_OK;
}

/* ---- exchange of attentions -------------------------------------------------------------------------------------- */

static lab_name weight_of(size_t layer, const char *suffix)
{
    lab_name name;
    snprintf(name.text, sizeof name.text, "model.layers.%zu.self_attn%s", layer, suffix);
    return name;
}

/* Returns the mean square of the entries of a weight (at most HEADS x DIM), or sets them all to one. */
static bo_status mean_square(lab_run *run, const bo_model *model, size_t layer, const char *suffix, size_t count,
                             double *out)
{
    float values[HEADS * DIM];
    double sum = 0;
    BO_TRY(bo_weights_get(lab_context(run), bo_model_weights(model), weight_of(layer, suffix).text, values, NULL));
    for (size_t i = 0; i < count; i++) sum += (double)values[i] * (double)values[i];
    *out = sum / (double)count;
    return BO_OK;
}

static bo_status set_all(lab_run *run, bo_model *model, size_t layer, const char *suffix, double value)
{
    float values[HEADS * DIM];
    for (size_t i = 0; i < HEADS * DIM; i++) values[i] = (float)value;
    return bo_weights_set(lab_context(run), bo_model_weights(model), weight_of(layer, suffix).text, values);
}

/* Sets σ² = |q||k| / √d, the temperature of softmax attention, whose q and k have √d times their gains as norms. */
static bo_status match_softmax(lab_run *run, const bo_model *softmax, bo_model *rfa)
{
    for (size_t layer = 0; layer < LAYERS; layer++) {
        double q, k;
        BO_TRY(mean_square(run, softmax, layer, ".q_norm.weight", DIM, &q));
        BO_TRY(mean_square(run, softmax, layer, ".k_norm.weight", DIM, &k));
        BO_TRY(set_all(run, rfa, layer, ".sigma", pow(q * k * DIM, 0.25)));
    }
    return BO_OK;
}

/* The reverse: sets the gains of the softmax model to the temperature of the RFA model. */
static bo_status match_rfa(lab_run *run, const bo_model *rfa, bo_model *softmax)
{
    for (size_t layer = 0; layer < LAYERS; layer++) {
        double square;
        BO_TRY(mean_square(run, rfa, layer, ".sigma", HEADS * DIM, &square));
        BO_TRY(set_all(run, softmax, layer, ".q_norm.weight", sqrt(square) * pow(DIM, -0.25)));
        BO_TRY(set_all(run, softmax, layer, ".k_norm.weight", sqrt(square) * pow(DIM, -0.25)));
    }
    return BO_OK;
}

static bo_status swap_in(lab_run *run, const lab_text *text, const bo_model *softmax, size_t features, double *loss)
{
    bo_model *swapped;
    bo_model_desc desc = model_of(PLAIN);
    desc.block.attention.features.features = features;
    desc.block.query_norm = BO_CHOICE_YES; /* with the learned gains, so that the directions are the same */
    BO_TRY(lab_swap(run, &desc, softmax, &swapped));
    bo_status status = match_softmax(run, softmax, swapped);
    if (status == BO_OK) status = lab_loss(run, swapped, text, SCORED, loss);
    bo_model_destroy(swapped);
    return status;
}

static bo_status swap_out(lab_run *run, const lab_text *text, const bo_model *rfa, double *loss)
{
    bo_model *swapped;
    const bo_model_desc desc = model_of(SOFTMAX);
    BO_TRY(lab_swap(run, &desc, rfa, &swapped));
    bo_status status = match_rfa(run, rfa, swapped);
    if (status == BO_OK) status = lab_loss(run, swapped, text, SCORED, loss);
    bo_model_destroy(swapped);
    return status;
}

/* Evaluates the same attention with other frequencies. */
static bo_status swap_draw(lab_run *run, const lab_text *text, bo_model *rfa, double *loss)
{
    BO_TRY(lab_model_redraw(lab_context(run), rfa, 1));
    return lab_loss(run, rfa, text, SCORED, loss);
}

static bo_status measure_swaps(lab_run *run, const lab_text *text, const trained_models *t)
{
    static const char table[] = "trained-and-tested";
    double in = NAN, out, draw;
    for (size_t features = 32; features <= lab_size(run, 8192, 512); features *= 4) {
        double loss;
        BO_TRY(swap_in(run, text, t->models[SOFTMAX], features, &loss));
        lab_point(run, "swap", "random features", (double)features, loss);
        lab_point(run, "swap", "softmax", (double)features, t->loss[SOFTMAX]);
        if (features == FEATURES) in = loss;
        BO_TRY(lab_progress(run, 0.92));
    }
    BO_TRY(swap_out(run, text, t->models[PLAIN], &out));
    BO_TRY(swap_draw(run, text, t->models[PLAIN], &draw));
    lab_cell(run, table, "softmax", "softmax", t->loss[SOFTMAX]);
    lab_cell(run, table, "softmax", "rfa", in);
    lab_cell(run, table, "rfa", "softmax", out);
    lab_cell(run, table, "rfa", "rfa", t->loss[PLAIN]);
    lab_cell(run, table, "rfa", "rfa, other frequencies", draw);
    lab_claim(run, "swap-in", in - t->loss[SOFTMAX]);
    lab_claim(run, "swap-out", out - t->loss[PLAIN]);
    return BO_OK;
}

static bo_status measure_models(lab_run *run, const lab_text *text)
{
    trained_models t = {0};
    bo_status status = train_all(run, text, &t);
    if (status == BO_OK) status = measure_swaps(run, text, &t);
    for (size_t i = 0; i < VARIANTS; i++) bo_model_destroy(t.models[i]);
    return status;
}

/* ---- decoding ---------------------------------------------------------------------------------------------------- */

enum { DECODE_HEADS = 8, DECODE_DIM = 64, ROW = DECODE_HEADS * DECODE_DIM, REPEATS = 9, STEPS = 4, CLAIMED = 2048 };

/* One attention that has read `tokens` tokens of a sequence. */
typedef struct decoder {
    bo_attention *attention;
    void *state;
    float *x; /* tokens x ROW */
} decoder;

static void decoder_free(decoder *d)
{
    bo_attention_destroy(d->attention);
    bo_free(d->state);
    bo_free(d->x);
}

static bo_status decoder_read(lab_run *run, decoder *d, size_t tokens)
{
    bo_rng rng = lab_rng(run, "lab.rfa.decoding");
    lab_fill_normal(&rng, 1, tokens * ROW, d->x);
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = tokens,
                                    .k = {d->x},
                                    .v = {d->x},
                                    .initial = &d->state,
                                    .final = &d->state,
                                    .layout = BO_LAYOUT_TOKENS_FIRST,
                                    .no_queries = true};
    BO_TRY(bo_attention_state_init(lab_context(run), d->attention, d->state));
    return bo_attention_forward(lab_context(run), d->attention, &call);
}

static bo_status decoder_make(lab_run *run, const char *preset, size_t tokens, decoder *d)
{
    bo_attention_desc desc = {
        .heads = DECODE_HEADS, .dim = DECODE_DIM, .causal = true, .features = {.features = FEATURES, .seed = 1}};
    bo_attention_preset(preset, &desc);
    if (bo_attention_has(&desc, BO_TRAIT_CAPACITY)) desc.capacity = tokens + REPEATS * STEPS;
    BO_TRY(bo_attention_create(lab_context(run), &desc, &d->attention));
    d->state = bo_alloc(lab_context(run), 1, bo_attention_state_bytes(d->attention), "a state");
    d->x = bo_alloc(lab_context(run), tokens * ROW, sizeof *d->x, "tokens");
    return d->state && d->x ? decoder_read(run, d, tokens) : BO_MEMORY;
}

static bo_status time_steps(lab_run *run, decoder *d, double *seconds)
{
    float out[ROW];
    const bo_attention_call call = {.sequences = 1,
                                    .tokens = 1,
                                    .q = {d->x},
                                    .k = {d->x},
                                    .v = {d->x},
                                    .out = {out},
                                    .initial = &d->state,
                                    .final = &d->state};
    const double start = lab_thread_seconds();
    for (size_t i = 0; i < STEPS; i++) BO_TRY(bo_attention_forward(lab_context(run), d->attention, &call));
    *seconds = (lab_thread_seconds() - start) / STEPS;
    return BO_OK;
}

/* Measures the two alternately, so that other load on the host affects both. */
static bo_status time_both(lab_run *run, decoder *exact, decoder *rfa, size_t tokens)
{
    double slow[REPEATS], fast[REPEATS];
    for (size_t i = 0; i < REPEATS; i++) {
        BO_TRY(time_steps(run, exact, &slow[i]));
        BO_TRY(time_steps(run, rfa, &fast[i]));
    }
    const double x = (double)tokens, a = lab_median(slow, REPEATS), b = lab_median(fast, REPEATS);
    const double kept = x * 2 * ROW * sizeof(float), state = (double)bo_attention_state_bytes(rfa->attention);
    lab_point(run, "decoding", "softmax, µs", x, 1e6 * a);
    lab_point(run, "decoding", "rfa, µs", x, 1e6 * b);
    lab_point(run, "decoding", "keys and values, kB", x, 1e-3 * kept);
    lab_point(run, "decoding", "state of rfa, kB", x, 1e-3 * state);
    if (tokens == CLAIMED) {
        lab_claim(run, "memory", state / kept);
        lab_claim(run, "speed", a / b);
    }
    return BO_OK;
}

static bo_status measure_decoding(lab_run *run)
{
    for (size_t tokens = 128; tokens <= lab_size(run, 8192, CLAIMED); tokens *= lab_size(run, 2, 4)) {
        decoder exact = {0}, rfa = {0};
        bo_status status = decoder_make(run, "softmax", tokens, &exact);
        if (status == BO_OK) status = decoder_make(run, "rfa", tokens, &rfa);
        if (status == BO_OK) status = time_both(run, &exact, &rfa, tokens);
        decoder_free(&exact);
        decoder_free(&rfa);
        if (status != BO_OK) return status;
        BO_TRY(lab_progress(run, 0.95));
    }
    return BO_OK;
}

static bo_status measure(lab_run *run)
{
    lab_text text;
    BO_TRY(lab_text_open(run, 0, &text));
    const bo_status status = measure_models(run, &text);
    lab_text_close(&text);
    return status == BO_OK ? measure_decoding(run) : status;
}

const lab_experiment lab_rfa = {
    {.name = "rfa",
     .group = LAB_FEATURES,
     .title = "Random feature attention",
     .claim =
         "Random feature attention maps unit queries and keys to sines and cosines of random projections. With a "
         "forget gate it learns language as well as softmax attention, and it decodes from a state of fixed size. "
         "With few enough features to be cheaper, it is a different function from softmax: neither can replace the "
         "other in a trained model without further training.",
     .source = "Random Feature Attention (arXiv 2103.02143), and notes on it",
     .method = "Byte-level language models with 2 layers, width 64, 4 heads and windows of 128 tokens are trained for "
               "600 steps of 8 windows. Compared are softmax attention (with normalized queries and keys) and 128 "
               "random features: with and without gate, and with unit queries and keys or raw ones, which are only "
               "divided by √d. Exchange: the softmax model is evaluated with random features without gate, with σ set "
               "to the softmax temperature; the random feature model is evaluated with softmax at the temperature of "
               "its σ, and also with other frequencies from the same distribution. Decoding: attention alone, 8 heads "
               "of dimension 64, 128 features, one thread; CPU time per token after a number of earlier tokens, "
               "medians of 9 alternating measurements.",
     LAB_CLAIMS(claims),
     LAB_TABLES(tables),
     .text = true},
    measure};
