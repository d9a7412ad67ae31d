/* Seeds of the targets that load Bochner's own files, written by the current library, so that they are never of an
 * older format, and of models of other programs.
 *
 *     fuzz_seeds DIRECTORY
 *
 * writes DIRECTORY/features/…, machine/…, embedding/…, network_image/…, model/…, session/…, lab/…, record/…,
 * optimizer/…, weights/…, adapter_weights/…, gguf/… and llama2c/… */
#include <bochner/bochner.h>
#include "lab/lab.h"
#include "foreign_seeds.h"
#include "runs.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS = 24, DIM = 3, FEATURES = 16 };

typedef struct seeds {
    bo_context *context;
    const char *directory;
    float x[ROWS * DIM];
    double y[ROWS], classes[ROWS];
} seeds;

static void require(seeds *s, bo_status status)
{
    if (status == BO_OK) return;
    fprintf(stderr, "fuzz_seeds: %s\n", bo_context_error(s->context));
    exit(1);
}

static const char *place(const seeds *s, const char *kind, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", s->directory, kind);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", s->directory, kind, name);
    return path;
}

static void write_map(seeds *s, const char *name, bo_features_desc desc)
{
    bo_features *map;
    desc.dim = DIM;
    desc.seed = 1;
    desc.sample = s->x;
    desc.sample_rows = ROWS;
    require(s, bo_features_create(s->context, &desc, &map));
    require(s, bo_features_save(s->context, map, &(bo_sink){.path = place(s, "features", name)}));
    bo_features_destroy(map);
}

static void write_maps(seeds *s)
{
    const float scales[DIM] = {1, 2, 0.5f};
    write_map(s, "sincos", (bo_features_desc){.features = FEATURES, .length_scales = scales});
    write_map(s, "hadamard",
              (bo_features_desc){.features = FEATURES, .function = BO_FUNCTION_COSBIAS, .draw = BO_DRAW_HADAMARD});
    write_map(s, "mixture",
              (bo_features_desc){.features = FEATURES, .kernel = BO_KERNEL_RATIONAL_QUADRATIC, .alpha = 2});
    write_map(s, "oprf",
              (bo_features_desc){.features = FEATURES,
                                 .kernel = BO_KERNEL_SOFTMAX,
                                 .function = BO_FUNCTION_OPRF,
                                 .sampling = BO_SAMPLING_LEVERAGE});
    write_map(
        s, "sketch",
        (bo_features_desc){
            .features = FEATURES, .kernel = BO_KERNEL_POLYNOMIAL, .degree = 3, .function = BO_FUNCTION_TENSORSKETCH});
    write_map(s, "polynomial", (bo_features_desc){.kernel = BO_KERNEL_POLYNOMIAL});
    write_map(s, "taylor", (bo_features_desc){.kernel = BO_KERNEL_TAYLOR});
    write_map(s, "elu", (bo_features_desc){.kernel = BO_KERNEL_ELU});
    write_map(s, "hedgehog", (bo_features_desc){.kernel = BO_KERNEL_HEDGEHOG});
    write_map(s, "selftensor",
              (bo_features_desc){
                  .features = 6, .kernel = BO_KERNEL_POLYNOMIAL, .degree = 6, .function = BO_FUNCTION_SELFTENSOR});
    write_map(s, "network",
              (bo_features_desc){.features = 12, .kernel = BO_KERNEL_NTK, .depth = 2, .bias_variance = 0.1});
}

static void write_machine(seeds *s, const char *name, bo_machine_desc desc, size_t classes, const bo_schema *schema)
{
    bo_machine *machine;
    bo_samples samples = {
        .rows = ROWS, .dim = DIM, .targets = 1, .x = s->x, .y = classes ? s->classes : s->y, .classes = classes};
    double positive[ROWS];
    for (size_t i = 0; i < ROWS; i++) positive[i] = exp(s->y[i]);
    if (desc.target_scale == BO_TARGET_SCALE_LOG) samples.y = positive;
    desc.lambda = 0.1;
    desc.features.gamma = 0.5;
    desc.features.features = FEATURES;
    require(s, bo_machine_fit(s->context, &desc, &samples, &machine));
    require(s, bo_machine_save(s->context, machine, schema, &(bo_sink){.path = place(s, "machine", name)}));
    bo_machine_destroy(machine);
}

static bo_schema *create_schema(seeds *s)
{
    static const char table[] = "a,b,c,y\n1,2,3,0.5\n2,1,0,1.5\n0,1,1,2.5\n";
    bo_schema *schema;
    bo_data_desc desc = {.bytes = table, .size = sizeof table - 1, .target = "y", .task = BO_TASK_REGRESSION};
    require(s, bo_schema_fit(s->context, &(bo_table_desc){.data = desc}, &schema));
    return schema;
}

static void write_machines(seeds *s)
{
    bo_schema *schema = create_schema(s);
    write_machine(s, "primal", (bo_machine_desc){.solver = BO_SOLVER_PRIMAL}, 0, schema);
    write_machine(s, "log", (bo_machine_desc){.target_scale = BO_TARGET_SCALE_LOG}, 0, NULL);
    write_machine(s, "dual", (bo_machine_desc){.solver = BO_SOLVER_DUAL}, 0, NULL);
    write_machine(s, "exact",
                  (bo_machine_desc){.features = {.kernel = BO_KERNEL_NTK, .function = BO_FUNCTION_SECTIONS}}, 0, NULL);
    write_machine(s, "classes", (bo_machine_desc){.solver = BO_SOLVER_PRIMAL, .scaling = BO_SCALING_NONE}, 3, NULL);
    write_machine(s, "logistic", (bo_machine_desc){.loss = BO_LOSS_LOGISTIC}, 3, NULL);
    bo_schema_destroy(schema);
}

static void write_network(seeds *s, const char *name, const char *layers, const bo_examples_desc *data)
{
    char model[1024];
    bo_examples *examples;
    bo_model *network;
    void *bytes;
    size_t size;
    snprintf(model, sizeof model, "{\"input\": {\"kind\": \"%s\"", data ? "array" : "sequence");
    if (!data) strcat(model, ", \"length\": 3, \"channels\": 1");
    strcat(strcat(strcat(model, "}, \"layers\": ["), layers), "], \"loss\": \"mse\"}");
    const bo_examples_arrays arrays = {.rows = ROWS, .dim = DIM, .targets = 1, .x = s->x, .y = s->y};
    require(s, data ? bo_examples_load(s->context, data, NULL, &examples)
                    : bo_examples_create(s->context, &arrays, &examples));
    const bo_description desc = {.text = model, .where = name, .examples = examples, .seed = 1};
    require(s, bo_model_create_described(s->context, &desc, &network));
    require(s, bo_model_save(s->context, network, &(bo_sink){.bytes = &bytes, .size = &size}));
    require(s, bo_file_save(s->context, place(s, "network_image", name), bytes, size));
    bo_free(bytes);
    bo_model_destroy(network);
    bo_examples_destroy(examples);
}

static void write_networks(seeds *s)
{
    static const char table[] = "a,b,c,y\n1,2,3,0.5\n2,1,0,1.5\n0,1,1,2.5\n";
    const bo_examples_desc data = {
        .data = {.bytes = table, .size = sizeof table - 1, .target = "y", .task = BO_TASK_REGRESSION}};
    write_network(s, "linear",
                  "{\"type\": \"linear\", \"width\": 4}, {\"type\": \"tanh\"}, {\"type\": \"linear\", \"width\": "
                  "\"targets\"}",
                  &data);
    write_network(s, "random-features",
                  "{\"type\": \"random-features\", \"features\": 8}, {\"type\": \"linear\", \"width\": \"targets\"}",
                  &data);
    write_network(s, "attention",
                  "{\"type\": \"linear\", \"width\": 4}, {\"type\": \"attention\", \"heads\": 1, \"kind\": \"favor\", "
                  "\"features\": 4}, {\"type\": \"pool\", \"global\": true}, {\"type\": \"linear\", \"width\": "
                  "\"targets\"}",
                  NULL);
    write_network(
        s, "block",
        "{\"type\": \"linear\", \"width\": 4}, {\"type\": \"block\", \"heads\": 2, \"attention\": {\"preset\": "
        "\"favor\", \"features\": 4}, \"mlp\": \"random-features\", \"hidden\": 6, \"causal\": true}, {\"type\": "
        "\"last\"}, {\"type\": \"linear\", \"width\": \"targets\"}",
        NULL);
}

/* Small: the driver reads 64 KiB of a seed. */
static void write_model(seeds *s, const char *name, const char *attention, bo_model_desc desc)
{
    bo_model *model;
    bo_session *session;
    bo_tokenizer *bytes;
    void *image;
    size_t size;
    desc.layers = desc.block.heads = 1;
    desc.width = desc.context = 8;
    desc.block.hidden = 4;
    if (!bo_attention_preset(attention, &desc.block.attention)) exit(1);
    if (desc.block.attention.kind != BO_ATTENTION_SOFTMAX) desc.block.attention.features.features = 8;
    require(s, bo_tokenizer_create(s->context, &bytes));
    require(s, bo_model_create(s->context, &desc, bytes, &model));
    require(s, bo_model_save(s->context, model, &(bo_sink){.bytes = &image, .size = &size}));
    require(s, bo_file_save(s->context, place(s, "model", name), image, size));
    bo_free(image);
    if (desc.task == BO_MODEL_TASK_LANGUAGE) {
        require(s, bo_session_create(s->context, model, NULL, &session));
        require(s, bo_session_feed(s->context, session, (const int32_t[]){1, 2, 3}, 3, NULL));
        require(s, bo_session_save(s->context, session, &(bo_sink){.bytes = &image, .size = &size}));
        require(s, bo_file_save(s->context, place(s, "session", name), image, size));
        bo_free(image);
        bo_session_destroy(session);
    }
    bo_model_destroy(model);
    bo_tokenizer_destroy(bytes);
}

static void write_models(seeds *s)
{
    write_model(s, "rfa", "rfa-gate", (bo_model_desc){0});
    write_model(s, "softmax", "softmax",
                (bo_model_desc){.block.positions = BO_POSITIONS_LEARNED, .block.mlp = BO_MLP_SWIGLU});
    write_model(s, "layers", "softmax",
                (bo_model_desc){.block.layers =
                                    "[{\"type\": \"random-features\", \"features\": 6}, {\"type\": \"linear\", "
                                    "\"width\": 8}]"});
    write_model(s, "labels", "rfa", (bo_model_desc){.task = BO_MODEL_TASK_CLASSIFY, .classes = 2});
}

static void write_results(seeds *s)
{
    bo_lab_result *result;
    const bo_lab_options options = {.quick = true, .seeds = 2};
    require(s, bo_lab_run(s->context, bo_lab_find("scaled-dot"), &options, &result));
    require(s, bo_lab_result_write(s->context, result, place(s, "lab", "scaled-dot.json")));
    bo_lab_result_destroy(result);
}

/* The files of a checkpoint and of an adapter. */
static void write_run(seeds *s)
{
    static const struct {
        const char *from, *kind;
    } files[] = {{"run/checkpoints/step-2/training.json", "record"},
                 {"run/checkpoints/step-2/optimizer.safetensors", "optimizer"},
                 {"run/checkpoints/step-2/model.safetensors", "weights"},
                 {"adapter/adapter_model.safetensors", "adapter_weights"}};
    char directory[4096], from[4200], command[8300];
    fuzz_run run = {0};
    snprintf(command, sizeof command, "rm -rf '%s/run' '%s/adapter'", s->directory, s->directory);
    if (system(command) != 0) exit(1);
    snprintf(directory, sizeof directory, "%s", place(s, "run", ""));
    require(s, fuzz_run_open(s->context, directory, &run));
    require(s, bo_trainer_run(s->context, run.trainer));
    bo_trainer_destroy(run.trainer);
    run.trainer = NULL;
    require(s, fuzz_adapt(s->context, run.model, directory)); /* the run left its model there */
    require(s, bo_model_save(s->context, run.model, &(bo_sink){.path = place(s, "adapter", "")}));
    fuzz_run_close(&run);
    for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
        snprintf(from, sizeof from, "%s/%s", s->directory, files[i].from);
        if (rename(from, place(s, files[i].kind, "step-2")) != 0) exit(1);
    }
}

static void write_states(seeds *s)
{
    fuzz_run run = {0};
    bo_train_states *states;
    require(s, fuzz_run_states(s->context, &run, &states));
    require(s, bo_train_states_write(s->context, states, place(s, "states", "empty")));
    bo_train_states_destroy(states);
    fuzz_run_close(&run);
}

static void write_embedding(seeds *s, const char *name, bo_kernel kernel, const bo_schema *schema)
{
    bo_embedding *embedding;
    const bo_embedding_desc desc = {.features = {.kernel = kernel, .features = kernel ? 0 : FEATURES}};
    const bo_samples rows = {.rows = ROWS, .dim = DIM, .x = s->x};
    require(s, bo_embedding_fit(s->context, &desc, &rows, &embedding));
    require(s, bo_embedding_save(s->context, embedding, schema, &(bo_sink){.path = place(s, "embedding", name)}));
    bo_embedding_destroy(embedding);
}

static void write_embeddings(seeds *s)
{
    bo_schema *schema = create_schema(s);
    write_embedding(s, "rbf", BO_KERNEL_RBF, schema);
    write_embedding(s, "linear", BO_KERNEL_LINEAR, NULL);
    bo_schema_destroy(schema);
}

static void write_bytes(seeds *s, const char *kind, const char *name, foreign_bytes bytes)
{
    require(s, bo_file_save(s->context, place(s, kind, name), bytes.data, bytes.size));
    free(bytes.data);
}

static void write_foreign(seeds *s)
{
    write_bytes(s, "gguf", "pieces", tiny_gguf());
    write_bytes(s, "gguf", "bytes", seed_llama_bpe());
    write_bytes(s, "gguf", "gpt2", seed_gpt2());
    write_bytes(s, "gguf", "blocks", seed_blocks());
    write_bytes(s, "llama2c", "version-0", seed_llama2c(0));
    write_bytes(s, "llama2c", "version-1", seed_llama2c(1));
    write_bytes(s, "llama2c", "version-2", seed_llama2c(2));
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "use: %s DIRECTORY\n", argv[0]);
        return 2;
    }
    seeds s = {.directory = argv[1]};
    const bo_context_desc desc = {.threads = 1};
    if (bo_context_create(&desc, &s.context) != BO_OK) return 1;
    mkdir(s.directory, 0777);
    for (size_t i = 0; i < ROWS * DIM; ++i) s.x[i] = sinf((float)(i * i));
    for (size_t i = 0; i < ROWS; ++i) {
        s.y[i] = cos((double)i);
        s.classes[i] = (double)(i % 3);
    }
    write_maps(&s);
    write_machines(&s);
    write_embeddings(&s);
    write_networks(&s);
    write_models(&s);
    write_results(&s);
    write_run(&s);
    write_states(&s);
    write_foreign(&s);
    bo_context_destroy(s.context);
    return 0;
}
