/* Attribution: contributions of heads add up to those of their layers, and those of layers to the logits, for every
 * family; subspaces; arrays; sizes. */
#include "collect.h"
#include <dirent.h>

enum { TOKENS = 16, WINDOWS = 2, ROWS = TOKENS * WINDOWS };

/* ---- plain directions -------------------------------------------------------------------------------------------- */

/* The output matrix, its mean row, and the final norm. */
typedef struct output {
    size_t width, vocab;
    double *matrix, *mean, *gain, *bias;
    double scale, epsilon;
    bool layer;
} output;

static output read_output(bo_context *context, const bo_model *model)
{
    const bo_model_desc *d = bo_model_describe(model);
    output o = {.width = d->width,
                .vocab = d->vocab,
                .scale = d->logit_scale ? d->logit_scale : 1,
                .epsilon = d->block.norm_epsilon,
                .layer = d->block.norm == BO_NORM_LAYER};
    o.matrix =
        read_weight(context, model, d->untied ? "lm_head.weight" : "model.embed_tokens.weight", 0, d->vocab * d->width);
    o.gain = read_weight(context, model, "model.norm.weight", 0, d->width);
    o.bias = o.layer ? read_weight(context, model, "model.norm.bias", 0, d->width) : calloc(d->width, sizeof *o.bias);
    o.mean = calloc(d->width, sizeof *o.mean);
    for (size_t i = 0; i < d->vocab * d->width; i++) o.mean[i % d->width] += o.matrix[i] / (double)d->vocab;
    return o;
}

static void output_free(output *o)
{
    free(o->matrix);
    free(o->mean);
    free(o->gain);
    free(o->bias);
}

/* (logit of `next` - mean logit) of a summand y of the stream x: the norm is linear with the scale of x. */
static double contribution(const output *o, const float *x, const double *y, int32_t next)
{
    double mean = 0, squares = 0, shift = 0, sum = 0;
    for (size_t j = 0; j < o->width && o->layer; j++)
        mean += (double)x[j] / (double)o->width, shift += y[j] / (double)o->width;
    for (size_t j = 0; j < o->width; j++) squares += ((double)x[j] - mean) * ((double)x[j] - mean);
    const double sigma = sqrt(squares / (double)o->width + o->epsilon);
    for (size_t j = 0; j < o->width; j++)
        sum += o->scale * (o->matrix[(size_t)next * o->width + j] - o->mean[j]) * o->gain[j] * (y[j] - shift) / sigma;
    return sum;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

/* The residual stream after attention minus the stream before it is the sum of the heads plus the bias. */
static double *bias_of(bo_context *context, const bo_model *model, size_t layer)
{
    const size_t width = bo_model_describe(model)->width;
    char name[96];
    float *values = malloc(width * sizeof *values);
    double *bias = calloc(width, sizeof *bias);
    snprintf(name, sizeof name, "model.layers.%zu.self_attn.o_proj.bias", layer);
    if (bo_weights_get(context, bo_model_weights(model), name, values, NULL) == BO_OK)
        for (size_t j = 0; j < width; j++) bias[j] = (double)values[j];
    free(values);
    return bias;
}

/* The bias as it is added to the stream at token t. With a norm of the summand (RMSNorm in all families that have one)
 * it has the gain and the scale of that norm. */
static void add_bias(bo_context *context, const bo_model *model, const collected *c, size_t layer, size_t t,
                     const double *bias, double *y)
{
    const bo_model_desc *d = bo_model_describe(model);
    const size_t width = d->width, columns = d->block.heads * d->block.head_dim;
    if (d->block.residual != BO_RESIDUAL_SANDWICH && d->block.residual != BO_RESIDUAL_AFTER) {
        for (size_t j = 0; j < width; j++) y[j] -= bias[j];
        return;
    }
    double *o = read_weight(context, model, "model.layers.%zu.self_attn.o_proj.weight", layer, width * columns);
    double *gain = read_weight(context, model, "model.layers.%zu.post_attention_layernorm.weight", layer, width),
           squares = 0;
    assert_int_equal(d->block.norm, BO_NORM_RMS);
    for (size_t j = 0; j < width; j++) {
        double sum = bias[j];
        for (size_t i = 0; i < columns; i++)
            sum += o[j * columns + i] * (double)collected_row(c, BO_INSPECT_ARRAY_OUT, layer, t / TOKENS,
                                                              i / d->block.head_dim, t % TOKENS)[i % d->block.head_dim];
        squares += sum * sum;
    }
    const double sigma = sqrt(squares / (double)width + d->block.norm_epsilon);
    for (size_t j = 0; j < width; j++) y[j] -= gain[j] * bias[j] / sigma;
    free(o);
    free(gain);
}

static void check_layers(bo_context *context, const bo_model *model, const collected *c)
{
    const bo_model_desc *d = bo_model_describe(model);
    const size_t width = d->width;
    output o = read_output(context, model);
    const float *final = c->arrays[BO_INSPECT_ARRAY_STREAM][2 * d->layers];
    double *y = malloc(width * sizeof *y);
    for (size_t l = 0; l < d->layers; l++) {
        const float *before = c->arrays[BO_INSPECT_ARRAY_STREAM][2 * l],
                    *after = c->arrays[BO_INSPECT_ARRAY_STREAM][2 * l + 1];
        double *bias = bias_of(context, model, l), expected = 0, size = 0, found = 0;
        for (size_t t = 0; t < ROWS; t++) {
            if (t % TOKENS == TOKENS - 1) continue;
            for (size_t j = 0; j < width; j++) y[j] = (double)after[t * width + j] - (double)before[t * width + j];
            add_bias(context, model, c, l, t, bias, y);
            const double part = contribution(&o, final + t * width, y, c->ids[t + 1]);
            expected += part / (ROWS - WINDOWS);
            size += fabs(part) / (ROWS - WINDOWS);
        }
        for (size_t h = 0; h < d->block.heads; h++) found += c->report->layers[l].heads[h].logit;
        /* float32: differences of streams of size 10, so 1e-5 of the size of the parts */
        assert_close(found, expected, 2e-4 * size + 1e-6);
        assert_close(c->report->layers[l].logit, found, 1e-9 * (1 + fabs(found)));
        free(bias);
    }
    free(y);
    output_free(&o);
}

/* The full stream contributes the logit of the next token minus the mean logit, up to the bias of the norm and of the
 * logits. */
static void check_logits(bo_context *context, const bo_model *model, const collected *c)
{
    const bo_model_desc *d = bo_model_describe(model);
    output o = read_output(context, model);
    const float *final = c->arrays[BO_INSPECT_ARRAY_STREAM][2 * d->layers];
    float *logits = malloc(TOKENS * d->vocab * sizeof *logits);
    double *x = malloc(d->width * sizeof *x);
    bo_session *session;
    assert_ok(context, bo_session_create(context, model, NULL, &session));
    assert_ok(context, bo_session_read(context, session,
                                       &(bo_session_reading){.ids = c->ids, .count = TOKENS, .logits = logits}));
    for (size_t t = 0; t + 1 < TOKENS && !d->head_bias; t++) {
        const float *row = logits + t * d->vocab;
        double mean = 0, constant = 0;
        for (size_t v = 0; v < d->vocab; v++) mean += (double)row[v] / (double)d->vocab;
        for (size_t j = 0; j < d->width; j++) {
            x[j] = (double) final[t * d->width + j];
            constant += o.scale * (o.matrix[(size_t)c->ids[t + 1] * d->width + j] - o.mean[j]) * o.bias[j];
        }
        const double found = contribution(&o, final + t * d->width, x, c->ids[t + 1]) + constant;
        assert_close(found, (double)row[c->ids[t + 1]] - mean, 1e-4 * (1 + fabs(found)));
    }
    bo_session_destroy(session);
    free(logits);
    free(x);
    output_free(&o);
}

/* ---- subspaces --------------------------------------------------------------------------------------------------- */

/* The basis is orthonormal, contains what the head writes (W_O of any vector in the range of W_V), and has the stated
 * share of the variance of the stream. */
static void check_subspace(const bo_model *model, const collected *c, size_t layer, size_t head)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bo_head_report *found = &c->report->layers[layer].heads[head];
    const size_t *s = c->shapes[BO_INSPECT_ARRAY_WRITES][layer], width = s[1], dim = s[2];
    const float *basis = c->arrays[BO_INSPECT_ARRAY_WRITES][layer] + head * width * dim;
    const float *stream = c->arrays[BO_INSPECT_ARRAY_STREAM][2 * layer + 1];
    double total = 0, part = 0, *mean = calloc(width, sizeof *mean);
    assert_int_equal(width, d->width);
    for (size_t a = 0; a < found->writes_dim; a++)
        for (size_t b = 0; b < found->writes_dim; b++) {
            double dot = 0;
            for (size_t j = 0; j < width; j++) dot += (double)basis[j * dim + a] * (double)basis[j * dim + b];
            assert_close(dot, a == b, 1e-5);
        }
    for (size_t i = 0; i < ROWS * width; i++) mean[i % width] += (double)stream[i] / ROWS;
    for (size_t t = 0; t < ROWS; t++) {
        for (size_t j = 0; j < width; j++) total += pow((double)stream[t * width + j] - mean[j], 2);
        for (size_t a = 0; a < found->writes_dim; a++) {
            double dot = 0;
            for (size_t j = 0; j < width; j++)
                dot += ((double)stream[t * width + j] - mean[j]) * (double)basis[j * dim + a];
            part += dot * dot;
        }
    }
    assert_close(found->subspace_share, part / total, 1e-4);
    free(mean);
}

/* ---- all families ------------------------------------------------------------------------------------------------ */

static void attribution_of_families(void **state)
{
    (void)state;
    char families[512], path[1024];
    const char *source = getenv("BOCHNER_SOURCE");
    bo_context *context = test_context(2);
    snprintf(families, sizeof families, "%s/tests/data/families", source ? source : ".");
    DIR *listing = opendir(families);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bo_model *model;
        if (entry->d_name[0] == '.') continue;
        print_message("%s\n", entry->d_name);
        snprintf(path, sizeof path, "%s/%s", families, entry->d_name);
        assert_ok(context, bo_model_load(context, &(bo_source){.path = path}, NULL, &model));
        const bo_inspect_desc desc = {.parts = BO_INSPECT_PART_ATTRIBUTION, .tokens = TOKENS, .windows = WINDOWS};
        collected c = collect(context, model, desc, ROWS, bo_model_describe(model)->vocab);
        check_layers(context, model, &c);
        check_logits(context, model, &c);
        check_subspace(model, &c, 0, 0);
        collected_free(&c);
        bo_model_destroy(model);
    }
    closedir(listing);
    bo_context_destroy(context);
}

/* A single head writes everything that attention adds. */
static void single_head(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const char *const kinds[] = {"softmax", "rfa-gate", "delta"}; /* the last one has a norm of its outputs */
    for (size_t k = 0; k < 3; k++) {
        bo_model_desc desc = test_desc(kinds[k]);
        desc.block.heads = 1;
        bo_model *model = test_model(context, &desc, NULL);
        const bo_inspect_desc how = {.parts = BO_INSPECT_PART_ATTRIBUTION, .tokens = TOKENS, .windows = WINDOWS};
        collected c = collect(context, model, how, ROWS, VOCAB);
        for (size_t l = 0; l < desc.layers; l++) {
            const float *before = c.arrays[BO_INSPECT_ARRAY_STREAM][2 * l],
                        *after = c.arrays[BO_INSPECT_ARRAY_STREAM][2 * l + 1];
            double added = 0, stream = 0;
            for (size_t i = 0; i < ROWS * desc.width; i++) {
                added += pow((double)after[i] - (double)before[i], 2);
                stream += pow((double)after[i], 2);
            }
            assert_close(c.report->layers[l].heads[0].written, sqrt(added / stream), 1e-4 * sqrt(added / stream));
            assert_close(c.report->layers[l].stream_norm, sqrt(stream / ROWS), 1e-5 * sqrt(stream / ROWS));
        }
        check_layers(context, model, &c);
        collected_free(&c);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

static void sizes(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model_desc desc = test_desc("softmax");
    bo_model *model = test_model(context, &desc, NULL);
    bo_model_sizes one, two;
    size_t state_bytes;
    assert_ok(context, bo_model_measure(context, model, 0, &one));
    assert_int_equal(one.context, CONTEXT);
    assert_int_equal(one.parameters, bo_model_report(model)->parameters);
    assert_int_equal(one.state_bytes, 0);
    assert_ok(context,
              bo_session_estimate(context, model, &(bo_session_desc){.capacity = CONTEXT}, &state_bytes, NULL));
    assert_close((double)one.cache_bytes, (double)state_bytes, 0.05 * (double)state_bytes); /* headers, padding */
    assert_ok(context, bo_model_measure(context, model, 2 * CONTEXT, &two));
    assert_close((double)two.cache_bytes, 2 * (double)one.cache_bytes, 0.05 * (double)two.cache_bytes);
    assert_true(two.operations > one.operations && two.attention_operations > 1.8 * one.attention_operations);
    /* two operations per weight of a matrix and token, and those of attention */
    const double matrices = 2 * (double)(desc.layers * (4 * 16 * 16 + 2 * 16 * 24) + VOCAB * 16);
    assert_close(one.operations - one.attention_operations, matrices, 0.1 * matrices);
    bo_model_destroy(model);
    static const char *const fixed[] = {"favor", "rfa-gate", "hybrid", "hedgehog", "delta", "lstm"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        desc = test_desc(fixed[i]);
        model = test_model(context, &desc, NULL);
        assert_ok(context, bo_model_measure(context, model, CONTEXT, &one));
        assert_ok(context, bo_model_measure(context, model, 10 * CONTEXT, &two));
        assert_int_equal(one.cache_bytes, 0);
        assert_int_equal(one.state_bytes, two.state_bytes);
        assert_true(one.state_bytes > 0);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(attribution_of_families), cmocka_unit_test(single_head),
                                       cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
