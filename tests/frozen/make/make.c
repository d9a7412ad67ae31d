/* Makes the models of tests/frozen/d78e7484 that are not trained, and what they compute. Built against the library
 * and the tests of that commit by make.sh; later versions do not compile it. */
#include <sys/stat.h>
#include "io/output.h"
#include "model/models.h"
#include "network/networks.h"
#include "frozen.h"
#include "network.h"

static void write_file(const char *name, const char *ending, const void *bytes, size_t size)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s", name, ending);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The frequencies of these kinds are drawn from data: they read a text first. */
static void calibrate_on_ids(bo_context *context, bo_model *model, size_t vocab)
{
    int32_t ids[CONTEXT + 1];
    for (size_t i = 0; i <= CONTEXT; i++) ids[i] = (int32_t)((5 * i * i + i) % vocab);
    calibrate(context, model, ids);
}

/* ---- language models --------------------------------------------------------------------------------------------- */

static bo_model_desc small(const char *kind)
{
    bo_model_desc desc = test_desc(kind);
    desc.vocab = 13, desc.layers = 1, desc.width = 8, desc.hidden = 10;
    if (strncmp(kind, "rfa", 3) == 0 || strncmp(kind, "favor", 5) == 0 || strcmp(kind, "dark") == 0 ||
        strcmp(kind, "hybrid") == 0)
        desc.attention.features.features = 8;
    if (desc.attention.proposal != BO_PROPOSAL_NONE) desc.layers = LAYERS;
    return desc;
}

/* One file NAME.safetensors, or a directory NAME; the state after the first half, which models differing in their
 * layers only do not have; the results. The loaded model must compute the same with one thread and two. */
static void make_language(bo_context *context, const char *name, const bo_model_desc *desc, bool directory)
{
    char path[512], state[512];
    bo_model *model, *loaded;
    const bool stateful = strncmp(name, "kind", 4) == 0 || strncmp(name, "window", 6) == 0 || strstr(name, "kept") ||
                          strstr(name, "family") || strstr(name, "hybrid");
    print_message("%s\n", name);
    snprintf(path, sizeof path, "language/%s%s", name, directory ? "" : ".safetensors");
    snprintf(state, sizeof state, "language/%s.state", name);
    const bo_status status = bo_model_create(context, desc, NULL, &model);
    if (status != BO_OK) fail_msg("%s: %s", name, bo_context_error(context));
    shake(context, model);
    if (desc->layers == LAYERS) calibrate_on_ids(context, model, desc->vocab);
    assert_ok(context, bo_model_save(context, model, path));
    bo_model_destroy(model);
    frozen *first = calloc(1, sizeof *first), *again = calloc(1, sizeof *again);
    assert_ok(context, bo_model_load(context, path, &loaded));
    assert_ok(context, frozen_language(context, loaded, desc->vocab, state, first));
    bo_model_destroy(loaded);
    bo_context *two = frozen_context(2);
    assert_ok(two, bo_model_load(two, path, &loaded));
    assert_ok(two, frozen_language(two, loaded, desc->vocab, NULL, again));
    assert_int_equal(first->size, again->size);
    assert_memory_equal(first->bytes, again->bytes, first->size);
    assert_int_equal(frozen_vocab(first->size), desc->vocab);
    again->size = 0;
    assert_ok(two, frozen_continue(two, loaded, desc->vocab, state, again));
    assert_memory_equal(first->bytes + first->size - again->size, again->bytes, again->size);
    bo_model_destroy(loaded);
    bo_context_destroy(two);
    if (!stateful) remove(state);
    snprintf(path, sizeof path, "language/%s", name);
    write_file(path, ".expected", first->bytes, first->size);
    free(first);
    free(again);
}

#define LANGUAGE(name, kind, ...)                                                                                      \
    do {                                                                                                               \
        bo_model_desc d = small(kind);                                                                                 \
        __VA_ARGS__;                                                                                                   \
        make_language(context, name, &d, false);                                                                       \
    } while (0)

/* Written as a family of transformers; fails if it is not one. */
#define FAMILY(name, ...)                                                                                              \
    do {                                                                                                               \
        bo_model_desc d = small("softmax");                                                                            \
        d.query_norm = BO_CHOICE_NO;                                                                                   \
        __VA_ARGS__;                                                                                                   \
        make_language(context, name, &d, true);                                                                        \
    } while (0)

static void make_kinds(bo_context *context)
{
    for (size_t i = 0; test_kind(i); i++) {
        char name[64];
        snprintf(name, sizeof name, "kind-%s", strcmp(test_kind(i), "favor#") == 0 ? "favor-sharp" : test_kind(i));
        for (char *c = name; *c; c++)
            if (*c == ' ') *c = '-';
        LANGUAGE(name, test_kind(i), if (d.mixer == BO_MIXER_MLP) d.context = FROZEN_IDS);
    }
}

static void make_positions(bo_context *context)
{
    LANGUAGE("positions-rope-neighbors", "softmax", d.positions = BO_POSITIONS_ROPE_NEIGHBORS, d.rope_base = 100);
    LANGUAGE("positions-learned", "softmax", d.positions = BO_POSITIONS_LEARNED);
    LANGUAGE("positions-sinusoidal", "softmax", d.positions = BO_POSITIONS_SINUSOIDAL);
    LANGUAGE("positions-none", "softmax", d.positions = BO_POSITIONS_NONE);
    LANGUAGE("positions-rotated", "softmax", d.rotated = 2);
    LANGUAGE("positions-linear", "softmax", d.rope_scaling.kind = BO_ROPE_SCALING_KIND_LINEAR,
             d.rope_scaling.factor = 4);
    LANGUAGE("positions-llama3", "softmax",
             d.rope_scaling = (bo_rope_scaling){BO_ROPE_SCALING_KIND_LLAMA3, 8, 1, 4, 32});
    LANGUAGE("window", "softmax", d.attention.window = 5);
    LANGUAGE("window-first", "softmax", d.layers = 3, d.attention.window = 5, d.window_first = 1);
    LANGUAGE("window-period", "softmax", d.layers = 3, d.attention.window = 5, d.window_period = 2,
             d.local_rope_base = 50);
    LANGUAGE("window-period-power", "power", d.layers = 3, d.attention.window = 4, d.window_period = 3);
}

static void make_attentions(bo_context *context)
{
    LANGUAGE("softmax-grouped", "softmax", d.heads = 4, d.key_heads = 2);
    LANGUAGE("softmax-head-dim", "softmax", d.head_dim = 6);
    LANGUAGE("softmax-scale", "softmax", d.attention.scale = 0.3, d.output_norm = BO_CHOICE_YES);
    LANGUAGE("softmax-joint-norm", "softmax", d.query_norm = BO_CHOICE_YES, d.joint_norm = true);
    LANGUAGE("softmax-kept", "softmax", d.layers = 3, bo_attention_preset("favor", &d.attention),
             d.attention.features.features = 8, bo_attention_preset("softmax", &d.kept_attention),
             d.kept_layers = "0,2");
    LANGUAGE("kept-windows", "softmax", d.layers = 3, bo_attention_preset("gla", &d.attention),
             bo_attention_preset("softmax", &d.kept_attention), d.kept_attention.window = 5, d.window_period = 3,
             d.kept_layers = "0-1", d.local_rope_base = 50);
    LANGUAGE("rfa-temperature", "rfa", d.attention.temperature = 1.5, d.sigma = 0.7);
    LANGUAGE("rfa-arccos", "rfa", d.attention.features.kernel = BO_KERNEL_ARCCOS);
    LANGUAGE("rfa-gate-biases", "rfa-gate", d.gate_first = -1, d.gate_last = 2);
    LANGUAGE("favor-iid", "favor", d.attention.features.draw = BO_DRAW_IID, d.attention.one_draw = true);
    LANGUAGE("favor-hyperbolic", "favor", d.attention.features.function = BO_FUNCTION_HYPERBOLIC,
             d.attention.features.features = 16);
    LANGUAGE("favor-hadamard", "favor", d.attention.features.draw = BO_DRAW_HADAMARD);
    LANGUAGE("favor-sobol", "favor", d.attention.features.draw = BO_DRAW_SOBOL);
    LANGUAGE("favor-simplex", "favor", d.attention.features.draw = BO_DRAW_SIMPLEX);
    LANGUAGE("favor-optimal", "favor", d.layers = LAYERS, d.attention.features.sampling = BO_SAMPLING_OPTIMAL);
    LANGUAGE("favor-clamp", "favor", d.attention.clamp = 0.5, d.attention.chunk = 4);
    LANGUAGE("favor-decay", "favor", d.attention.gate = BO_GATE_DECAY);
    LANGUAGE("favor-fixed", "favor", d.attention.gate = BO_GATE_FIXED, d.query_norm = BO_CHOICE_YES);
    LANGUAGE("dark-rank", "dark", d.attention.rank = 2);
    LANGUAGE("dark-decay", "dark", d.attention.gate = BO_GATE_DECAY);
    LANGUAGE("hybrid-rank", "hybrid", d.attention.rank = 3, d.sigma = 2);
    LANGUAGE("hybrid-hedgehog", "hybrid", bo_attention_preset("hedgehog", &d.attention),
             d.attention.features.features = 0, d.attention.kind = BO_ATTENTION_HYBRID, d.attention.window = 5);
    LANGUAGE("linear-rbf", "linear", d.attention.features.kernel = BO_KERNEL_RBF,
             d.attention.features.function = BO_FUNCTION_SINCOS, d.attention.normalizer = BO_NORMALIZER_NONE,
             d.attention.features.features = 8);
    LANGUAGE("poly-sketch", "poly", d.attention.features.function = BO_FUNCTION_TENSORSKETCH,
             d.attention.features.degree = 3);
    LANGUAGE("power-three", "power", d.attention.power = 3);
    LANGUAGE("gla-unit", "gla", d.attention.unit = true);
    LANGUAGE("delta-not-unit", "delta", d.attention.unit = false);
    LANGUAGE("gated-ridge-direct", "gated-ridge", d.attention.iterations = 1, d.attention.tolerance = 1e-5);
}

static void make_layers(bo_context *context)
{
    for (bo_mlp mlp = BO_MLP_RELU2; bo_mlp_name(mlp); mlp++) {
        char name[64];
        snprintf(name, sizeof name, "mlp-%s", bo_mlp_name(mlp));
        LANGUAGE(name, "softmax", d.mlp = mlp, d.hidden = mlp == BO_MLP_QUADRATIC ? 8 : 10);
    }
    LANGUAGE("mlp-degree-heads", "softmax", d.mlp = BO_MLP_DEGREE_3, d.hidden = 12, d.degree_heads = 3);
    LANGUAGE("mlp-arccos", "softmax", d.mlp = BO_MLP_RANDOM_FEATURES, d.mlp_features.kernel = BO_KERNEL_ARCCOS,
             d.mlp_features.draw = BO_DRAW_IID);
    LANGUAGE("mlp-default", "softmax", d.mlp = BO_MLP_SWIGLU, d.hidden = 0);
    LANGUAGE("norm-layer", "softmax", d.norm = BO_NORM_LAYER, d.norm_epsilon = 1e-3, d.bias = true);
    LANGUAGE("untied", "rfa-gate", d.untied = true, d.dropout = 0.1);
    LANGUAGE("biases", "softmax", d.attention_bias = BO_CHOICE_YES, d.output_bias = BO_CHOICE_NO,
             d.mlp_bias = BO_CHOICE_YES, d.head_bias = true);
    LANGUAGE("scales", "softmax", d.embedding_scale = 3, d.residual_scale = 0.5, d.logit_scale = 0.25);
    LANGUAGE("block-parallel", "softmax", d.block = BO_BLOCK_PARALLEL);
    LANGUAGE("block-shared", "softmax", d.block = BO_BLOCK_SHARED);
    LANGUAGE("block-sandwich", "softmax", d.block = BO_BLOCK_SANDWICH);
    LANGUAGE("block-after", "softmax", d.block = BO_BLOCK_AFTER);
    LANGUAGE("window-sandwich", "softmax", d.mlp = BO_MLP_GEGLU_TANH, d.layers = 3, d.block = BO_BLOCK_SANDWICH,
             d.query_norm = BO_CHOICE_YES, d.attention.window = 6, d.window_period = 3, d.rope_base = 1e6,
             d.local_rope_base = 50, d.embedding_scale = 2.8125);
    LANGUAGE("mup", "softmax", d.layers = 2, d.parametrization = BO_PARAMETRIZATION_MUP, d.base_width = 4);
    LANGUAGE("mup-features", "rfa-gate", d.parametrization = BO_PARAMETRIZATION_MUP, d.mlp = BO_MLP_RANDOM_FEATURES);
    LANGUAGE("unit-mup", "softmax", d.parametrization = BO_PARAMETRIZATION_UNIT, d.base_width = 16);
    LANGUAGE("float8", "softmax", d.storage = BO_STORAGE_FLOAT8);
    LANGUAGE("ssm-wide", "ssm", d.kernel = 2, d.state_size = 4);
    LANGUAGE("ssm-rank", "ssm low-rank", d.state_rank = 2);
}

static void make_families(bo_context *context)
{
    FAMILY("family-llama", d.mlp = BO_MLP_SWIGLU, d.untied = true, d.heads = 4, d.key_heads = 2);
    FAMILY("family-gpt2", d.mlp = BO_MLP_GELU_TANH, d.norm = BO_NORM_LAYER, d.norm_epsilon = 1e-5, d.bias = true,
           d.positions = BO_POSITIONS_LEARNED);
    FAMILY("family-qwen3", d.mlp = BO_MLP_SWIGLU, d.query_norm = BO_CHOICE_YES, d.head_dim = 6);
    FAMILY("family-phi", d.mlp = BO_MLP_GELU_TANH, d.norm = BO_NORM_LAYER, d.norm_epsilon = 1e-5, d.bias = true,
           d.block = BO_BLOCK_SHARED, d.untied = true, d.head_bias = true, d.rotated = 2);
    FAMILY("family-olmo2", d.mlp = BO_MLP_SWIGLU, d.block = BO_BLOCK_AFTER, d.query_norm = BO_CHOICE_YES,
           d.joint_norm = true, d.untied = true);
}

/* The logits of the models that transformers made. */
static void make_reference(bo_context *context, const char *families)
{
    static const char *const names[] = {"gemma",
                                        "gemma3",
                                        "gemma3-plain",
                                        "gpt2",
                                        "gpt2-relu",
                                        "gpt_neox",
                                        "gpt_neox-sequential",
                                        "gptj",
                                        "granite",
                                        "llama",
                                        "llama-linear",
                                        "llama3",
                                        "mistral",
                                        "mistral-full",
                                        "olmo2",
                                        "phi",
                                        "phi3",
                                        "phi3-partial",
                                        "qwen2",
                                        "qwen2-window",
                                        "qwen3",
                                        "qwen3-window",
                                        "stablelm",
                                        "stablelm-parallel",
                                        "starcoder2",
                                        "starcoder2-plain"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        bo_model *model;
        frozen *out = calloc(1, sizeof *out);
        snprintf(path, sizeof path, "%s/%s", families, names[i]);
        assert_ok(context, bo_model_load(context, path, &model));
        assert_ok(context, frozen_language(context, model, 131, NULL, out));
        snprintf(path, sizeof path, "families/%s", names[i]);
        write_file(path, ".expected", out->bytes, out->size);
        bo_model_destroy(model);
        free(out);
    }
}

/* ---- labels and translations ------------------------------------------------------------------------------------- */

static bo_status task_results(bo_context *context, const bo_model *model, bo_model_task task, frozen *out)
{
    if (task == BO_MODEL_TASK_TRANSLATE) return frozen_translations(context, model, out);
    return frozen_labels(context, model, task == BO_MODEL_TASK_MATCH, out);
}

static void make_task(bo_context *context, const char *name, const bo_model_desc *desc, const bo_tokenizer *tokenizer)
{
    static const char *const directories[] = {"language", "classify", "match", "translate"};
    char path[512], results[256];
    bo_model *model;
    print_message("%s\n", name);
    snprintf(results, sizeof results, "%s/%s", directories[desc->task], name);
    snprintf(path, sizeof path, "%s.safetensors", results);
    const bo_status status = bo_model_create(context, desc, tokenizer, &model);
    if (status != BO_OK) fail_msg("%s: %s", name, bo_context_error(context));
    shake(context, model);
    assert_ok(context, bo_model_save(context, model, path));
    bo_model_destroy(model);
    frozen *first = calloc(1, sizeof *first), *again = calloc(1, sizeof *again);
    for (int threads = 1; threads <= 2; threads++) {
        bo_context *other = frozen_context(threads);
        assert_ok(other, bo_model_load(other, path, &model));
        assert_ok(other, task_results(other, model, desc->task, threads == 1 ? first : again));
        bo_model_destroy(model);
        bo_context_destroy(other);
    }
    assert_int_equal(first->size, again->size);
    assert_memory_equal(first->bytes, again->bytes, first->size);
    write_file(results, ".expected", first->bytes, first->size);
    free(first);
    free(again);
}

#define TASK(name, kind, ...)                                                                                          \
    do {                                                                                                               \
        bo_model_desc d = small(kind);                                                                                 \
        d.vocab = 0, d.layers = LAYERS, d.width = 4, d.hidden = 6;                                                     \
        __VA_ARGS__;                                                                                                   \
        make_task(context, name, &d, tokenizer);                                                                       \
    } while (0)

#define CLASSIFY(name, kind, ...)                                                                                      \
    TASK(name, kind, d.task = BO_MODEL_TASK_CLASSIFY, d.classes = 2, d.labels = labels, __VA_ARGS__)

static void make_tasks(bo_context *context, const char *characters)
{
    static const char *const labels[] = {"no", "yes"};
    bo_tokenizer *tokenizer;
    assert_ok(context, bo_tokenizer_create(context, &tokenizer));
    CLASSIFY("bytes", "softmax", d.pooling = BO_POOLING_MEAN);
    TASK("bytes", "softmax", d.task = BO_MODEL_TASK_TRANSLATE);
    bo_tokenizer_destroy(tokenizer);
    assert_ok(context, bo_tokenizer_load(context, characters, &tokenizer));
    CLASSIFY("rfa-mean", "rfa", d.pooling = BO_POOLING_MEAN);
    CLASSIFY("softmax-max", "softmax", d.pooling = BO_POOLING_MAX, d.positions = BO_POSITIONS_LEARNED);
    CLASSIFY("gla-first", "gla", d.pooling = BO_POOLING_FIRST);
    CLASSIFY("ssm-last", "ssm", d.pooling = BO_POOLING_LAST);
    CLASSIFY("lstm-forward", "lstm", d.forward = true);
    CLASSIFY("favor-forward", "favor", d.forward = true, d.pooling = BO_POOLING_LAST);
    CLASSIFY("match-linear", "linear", d.task = BO_MODEL_TASK_MATCH);
    CLASSIFY("match-conv", "conv", d.task = BO_MODEL_TASK_MATCH, d.pooling = BO_POOLING_MAX);
    TASK("softmax", "softmax", d.task = BO_MODEL_TASK_TRANSLATE);
    TASK("rfa-gate", "rfa-gate", d.task = BO_MODEL_TASK_TRANSLATE, d.encoder_layers = 1);
    TASK("summary", "gru", d.task = BO_MODEL_TASK_TRANSLATE, d.cross = BO_CROSS_SUMMARY);
    TASK("ssm-cross", "ssm", d.task = BO_MODEL_TASK_TRANSLATE);
    TASK("parts", "gla", d.task = BO_MODEL_TASK_TRANSLATE, bo_attention_preset("softmax", &d.encoder_attention),
         bo_attention_preset("favor", &d.cross_attention), d.cross_attention.features.features = 8);
    bo_tokenizer_destroy(tokenizer);
}

/* ---- networks ---------------------------------------------------------------------------------------------------- */

static void shake_network(bo_context *context, bo_network *network)
{
    for (size_t i = 0; i < bo_weights_count(network->weights); i++) {
        const bo_weight info = *bo_weights_at(network->weights, i);
        size_t count = 1;
        for (size_t r = 0; r < info.rank; r++) count *= info.shape[r];
        float *values = malloc(count * sizeof *values);
        bo_rng rng = bo_rng_make(5, i);
        assert_ok(context, bo_weights_get(context, network->weights, info.name, values, NULL));
        for (size_t j = 0; j < count; j++) values[j] += (float)(0.1 * bo_rng_normal(&rng));
        assert_ok(context, bo_weights_set(context, network->weights, info.name, values));
        free(values);
    }
}

static void make_memory(bo_context *context, const bo_network *network)
{
    void *bytes;
    size_t size;
    frozen *out = calloc(1, sizeof *out);
    assert_ok(context, bo_network_save_memory(context, network, &bytes, &size));
    write_file("networks/memory", ".safetensors", bytes, size);
    assert_ok(context, frozen_network(context, bytes, size, out));
    write_file("networks/memory", ".expected", out->bytes, out->size);
    bo_free(bytes);
    free(out);
}

/* A directory for bochner predict, and rows of this width for it. */
static void make_network(bo_context *context, const char *name, const char *text, size_t dim, bool graph,
                         const bo_network_desc *more)
{
    char path[512];
    made *m = made_new(context, dim, 2, graph);
    bo_network_desc desc = *more;
    bo_network *network;
    desc.model = text, desc.examples = m->examples, desc.seed = 7;
    assert_ok(context, bo_network_create(context, &desc, &network));
    shake_network(context, network);
    snprintf(path, sizeof path, "networks/%s", name);
    for (char *at = path; *at; at++)
        if (*at == ' ') *at = '-';
    assert_ok(context, bo_network_save(context, network, path));
    snprintf(path, sizeof path, "networks/%s%zu.npy", graph ? "nodes" : "rows", dim);
    assert_ok(context, bo_npy_save_f32(context, path, 8, dim, m->x));
    if (strcmp(name, "joins") == 0) make_memory(context, network);
    bo_network_destroy(network);
    made_free(m);
}

static void make_networks(bo_context *context)
{
    static const char wide[] = "{\"input\": {\"kind\": \"array\", \"standardize\": false}, \"layers\": [{\"type\": "
                               "\"linear\", \"width\": 4}, {\"type\": \"silu\"}, {\"type\": \"mlp\", \"hidden\": 4}, "
                               "{\"type\": \"linear\", \"width\": \"classes\"}], \"loss\": \"cross-entropy\"}";
    static const char coder[] = "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"name\": \"hidden\", \"type\": "
                                "\"noise\", \"kind\": \"mask\", \"amount\": 0.2}, {\"type\": \"linear\", \"width\": "
                                "3}, {\"type\": \"linear\", \"width\": \"input\"}], \"loss\": {\"type\": \"mse\", "
                                "\"target\": \"input\", \"masked\": \"hidden\"}}";
    for (size_t i = 0; i < LAYER_CASES; i++) {
        char *text = layer_case_text(&layer_cases[i]);
        make_network(context, layer_cases[i].name, text, layer_cases[i].dim, layer_cases[i].graph,
                     &(bo_network_desc){.model = NULL});
        free(text);
    }
    make_network(context, "wide", wide, 8, false, &(bo_network_desc){.width_multiplier = 2});
    make_network(context, "wide-mup", wide, 8, false,
                 &(bo_network_desc){.width_multiplier = 2, .parametrization = BO_PARAMETRIZATION_MUP});
    make_network(context, "wide-unit-mup", wide, 8, false,
                 &(bo_network_desc){.width_multiplier = 2, .parametrization = BO_PARAMETRIZATION_UNIT});
    make_network(context, "reconstructs", coder, 8, false, &(bo_network_desc){.model = NULL});
}

int main(int count, char **arguments)
{
    bo_context *context = frozen_context(1);
    if (count != 3) fail_msg("usage: make FAMILIES CHARACTERS");
    static const char *const directories[] = {"language", "families", "classify", "match", "translate", "networks"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) mkdir(directories[i], 0777);
    make_kinds(context);
    make_positions(context);
    make_attentions(context);
    make_layers(context);
    make_families(context);
    make_reference(context, arguments[1]);
    make_tasks(context, arguments[2]);
    make_networks(context);
    bo_context_destroy(context);
    return 0;
}
