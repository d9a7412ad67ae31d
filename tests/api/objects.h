/* One valid object of each public type, for calls of every exported function (test_nulls.c). */
#ifndef BO_TEST_API_OBJECTS_H
#define BO_TEST_API_OBJECTS_H

#include "testing.h"
#include <bochner/bochner.h>
#include "foreign.h"
#include <ftw.h>
#include <unistd.h>

enum { DIM = 2, ROWS = 16, BYTES = 1 << 16 };

/* Objects and valid descriptors. The pointers of descriptors belong to other members. */
typedef struct objects {
    char directory[512], path[600], foreign[600], converted[600], linear[600];
    float x[ROWS * DIM];
    double y[ROWS], predicted[3][ROWS];
    const char *paths[1];
    float *floats;
    FILE *file; /* discards the written bytes */
    bo_output *output;
    bo_context *context;
    bo_features_desc features_desc;
    bo_features *features;
    bo_attention_desc attention_desc;
    bo_attention_call call;
    bo_attention *attention, *calibrated;
    bo_calibration *calibration;
    void *state;
    bo_data_desc data_desc;
    bo_table_desc table_desc;
    bo_data *data;
    bo_schema *schema;
    bo_table *table;
    bo_reader *reader;
    bo_array array;
    bo_machine_desc machine_desc;
    bo_samples samples;
    bo_machine *machine;
    bo_fitting *fitting;
    bo_embedding_desc embedding_desc;
    bo_inputs rows;
    bo_prediction prediction;
    bo_embedding *embedding;
    bo_drift_desc drift_desc;
    bo_drift *drift;
    bo_metrics_desc metrics_desc;
    bo_metrics *metrics;
    bo_weight_desc weight_desc;
    bo_weights *weights;
    bo_graph *graph;
    bo_optimizer *optimizer;
    bo_tokenizer_desc tokenizer_desc;
    bo_tokenizer *tokenizer;
    bo_chat_template_desc chat_template_desc;
    bo_chat_template *chat_template;
    bo_corpus_desc corpus_desc;
    bo_corpus *corpus;
    bo_texts_desc texts_desc;
    bo_texts *texts;
    bo_model_desc model_desc;
    bo_model *model, *used_model; /* sessions and trainers use the second one, so that the first may change */
    bo_session *session;
    bo_inspect_desc inspect_desc;
    bo_inspection *inspection;
    bo_convert_desc convert_desc;
    bo_conversion *conversion;
    bo_sampler *sampler;
    bo_compose_desc compose_desc;
    bo_replacement_desc replacement_desc;
    bo_linearize_desc linearize_desc;
    bo_profile *profile;
    bo_examples_desc examples_desc;
    bo_examples *examples;
    bo_description network_desc;
    bo_model *network;
    bo_trainer_desc trainer_desc;
    bo_trainer *trainer;
    bo_plan_losses *losses;
    bo_plan_laws *laws;
    bo_widths_desc widths_desc;
    bo_widths *widths;
} objects;

#define TABLE_TEXT "a,b,y\n1,2,3\n2,1,4\n3,5,1\n4,4,2\n5,0,3\n6,1,5\n7,2,6\n8,4,1\n"
#define NETWORK_TEXT                                                                                                   \
    "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": 1}], \"loss\": \"mse\"}"
#define CORPUS_TEXT "one two three four five six seven eight nine ten"

static inline void objects_make_kernels(objects *o)
{
    bo_context *c = o->context;
    for (size_t i = 0; i < ROWS * DIM; i++) o->x[i] = (float)(i % 7) / 7;
    for (size_t i = 0; i < ROWS; i++) o->y[i] = (double)(i % 5);
    o->features_desc = (bo_features_desc){.dim = DIM, .features = 8};
    assert_ok(c, bo_features_create(c, &o->features_desc, &o->features));
    o->attention_desc = (bo_attention_desc){
        .kind = BO_ATTENTION_FAVOR, .heads = 1, .dim = DIM, .causal = true, .features = {.features = 8}};
    o->call = (bo_attention_call){.sequences = 1, .tokens = 1, .q = {o->x}, .k = {o->x}, .v = {o->x}};
    assert_ok(c, bo_attention_create(c, &o->attention_desc, &o->attention));
    bo_attention_desc fitted = o->attention_desc;
    fitted.proposal = BO_PROPOSAL_OPRF;
    assert_ok(c, bo_attention_create(c, &fitted, &o->calibrated));
    assert_ok(c, bo_calibration_create(c, o->calibrated, 0, &o->calibration));
    o->state = calloc(1, bo_attention_state_bytes(o->attention));
    assert_ok(c, bo_attention_state_init(c, o->attention, o->state));
    o->machine_desc = (bo_machine_desc){.task = BO_TASK_REGRESSION, .features = {.features = 8}, .lambda = 1};
    o->samples = (bo_samples){.rows = ROWS, .dim = DIM, .targets = 1, .x = o->x, .y = o->y};
    assert_ok(c, bo_machine_fit(c, &o->machine_desc, &o->samples, &o->machine));
    assert_ok(c, bo_fitting_create(c, &o->machine_desc, &o->samples, &o->fitting));
    o->embedding_desc = (bo_embedding_desc){.features = {.features = 8}};
    assert_ok(c, bo_embedding_fit(c, &o->embedding_desc, &o->samples, &o->embedding));
    o->rows = (bo_inputs){.rows = ROWS, .x = o->x};
    o->prediction = (bo_prediction){.mean = o->predicted[0], .low = o->predicted[1], .high = o->predicted[2]};
    o->drift_desc = (bo_drift_desc){.columns = 1, .rows_a = 8, .rows_b = 8, .permutations = 2};
    assert_ok(c, bo_drift_create(c, &o->drift_desc, ROWS, o->y, &o->drift));
    o->metrics_desc = (bo_metrics_desc){.targets = 1};
    assert_ok(c, bo_metrics_create(c, &o->metrics_desc, &o->metrics));
}

static inline void objects_make_tables(objects *o)
{
    static const size_t shape[] = {ROWS, DIM};
    bo_context *c = o->context;
    o->data_desc = (bo_data_desc){.bytes = TABLE_TEXT, .size = sizeof TABLE_TEXT - 1, .task = BO_TASK_REGRESSION};
    o->table_desc = (bo_table_desc){.data = o->data_desc};
    assert_ok(c, bo_data_load(c, &o->data_desc, NULL, &o->data));
    assert_ok(c, bo_schema_fit(c, &(bo_table_desc){.data = o->data_desc}, &o->schema));
    assert_ok(c, bo_table_open(c, &o->table_desc, o->schema, BO_SPLIT_ALL, &o->table));
    assert_ok(c, bo_reader_open(c, &(bo_source){.bytes = TABLE_TEXT, .size = sizeof TABLE_TEXT - 1}, BO_FORMAT_AUTO, 0,
                                &o->reader));
    assert_ok(c, bo_output_open(c, o->path, &o->output));
    o->array = (bo_array){.rank = 2, .shape = shape, .count = ROWS * DIM, .values = o->x};
}

static inline void objects_make_graph(objects *o)
{
    static const size_t shape[] = {1, DIM};
    bo_context *c = o->context;
    o->weight_desc = (bo_weight_desc){.name = "w", .rank = 2, .shape = shape};
    assert_ok(c, bo_weights_create(c, &o->weights));
    assert_ok(c, bo_graph_create(c, o->weights, &o->graph));
    bo_value x = bo_graph_input(o->graph, "x", BO_ELEMENT_FLOAT32, 1, DIM);
    bo_value w = bo_graph_weight(o->graph, &o->weight_desc);
    bo_value t = bo_graph_input(o->graph, "t", BO_ELEMENT_FLOAT32, 1, 1);
    bo_value loss = bo_graph_loss(o->graph, BO_LOSS_KIND_MSE, bo_graph_linear(o->graph, x, w, 0), t);
    assert_ok(c, bo_graph_compile(c, o->graph, &(bo_graph_compile_desc){.loss = loss, .gradients = true}));
    assert_ok(c, bo_weights_allocate(c, o->weights, true));
    assert_ok(c, bo_weights_init(c, o->weights, 1));
    assert_ok(c, bo_graph_allocate(c, o->graph));
    assert_ok(c, bo_graph_profile(c, o->graph, NULL, "a graph", 1, &o->profile));
    assert_ok(c, bo_optimizer_create(c, &(bo_optimizer_desc){0}, o->weights, &o->optimizer));
}

static inline void objects_make_texts(objects *o)
{
    bo_context *c = o->context;
    o->tokenizer_desc = (bo_tokenizer_desc){.vocab = 260};
    assert_ok(c, bo_tokenizer_create(c, &o->tokenizer));
    o->chat_template_desc = (bo_chat_template_desc){.text = "{{ messages }}"};
    assert_ok(c, bo_chat_template_create(c, &o->chat_template_desc, &o->chat_template));
    o->corpus_desc =
        (bo_corpus_desc){.tokenizer = o->tokenizer, .memory = CORPUS_TEXT, .memory_bytes = sizeof CORPUS_TEXT - 1};
    assert_ok(c, bo_corpus_open(c, &o->corpus_desc, &o->corpus));
    o->texts_desc = (bo_texts_desc){
        .kind = BO_TEXTS_LABELED, .tokenizer = o->tokenizer, .memory = "a\tb\nc\td\n", .memory_bytes = 8};
    assert_ok(c, bo_texts_open(c, &o->texts_desc, &o->texts));
}

static inline void objects_make_models(objects *o)
{
    static const size_t widths[] = {8, 16};
    bo_context *c = o->context;
    o->model_desc = (bo_model_desc){.layers = 1, .width = 8, .block.heads = 1, .context = 8};
    assert_ok(c, bo_model_create(c, &o->model_desc, o->tokenizer, &o->model));
    assert_ok(c, bo_model_create(c, &o->model_desc, o->tokenizer, &o->used_model));
    assert_ok(c, bo_session_create(c, o->used_model, NULL, &o->session));
    assert_ok(c, bo_sampler_create(c, NULL, &o->sampler));
    o->inspect_desc = (bo_inspect_desc){.parts = BO_INSPECT_PART_CIRCUITS};
    assert_ok(c, bo_inspect(c, o->used_model, NULL, 0, &o->inspect_desc, &o->inspection));
    o->compose_desc = (bo_compose_desc){.tokens = 4};
    o->replacement_desc =
        (bo_replacement_desc){.attention = {.kind = BO_ATTENTION_DARK, .features = {.features = 8}}, .kept_layers = ""};
    snprintf(o->linear, sizeof o->linear, "%s/linear", o->directory);
    o->linearize_desc = (bo_linearize_desc){.teacher = o->used_model,
                                            .train = o->corpus,
                                            .valid = o->corpus,
                                            .directory = o->linear,
                                            .attention = o->replacement_desc.attention,
                                            .kept_layers = "",
                                            .transfer_steps = 1,
                                            .finetune_steps = 1,
                                            .rank = 1,
                                            .targets = "q_proj"};
    o->examples_desc = (bo_examples_desc){.data = o->data_desc};
    assert_ok(c, bo_examples_load(c, &o->examples_desc, NULL, &o->examples));
    o->network_desc = (bo_description){.text = NETWORK_TEXT, .examples = o->examples};
    assert_ok(c, bo_model_create_described(c, &o->network_desc, &o->network));
    o->trainer_desc =
        (bo_trainer_desc){.model = o->used_model, .train.corpus = o->corpus, .valid.corpus = o->corpus, .steps = 2};
    assert_ok(c, bo_trainer_create(c, &o->trainer_desc, &o->trainer));
    assert_ok(c, bo_plan_losses_fit(c, NULL, 0, &o->losses));
    bo_plan_observation runs[4];
    for (size_t i = 0; i < 4; i++)
        runs[i] = (bo_plan_observation){.name = "run",
                                        .counts = {.parameters = 1e4, .layers = 1, .copies = 1e6, .operations = 1e8},
                                        .bytes = 1e5 * (double)(1 << i),
                                        .loss = 2 - 0.1 * (double)i,
                                        .seconds = 0.01};
    assert_ok(c, bo_plan_laws_fit(c, &(bo_plan_family){.config = "{}", .batch = 1}, runs, 4, &o->laws));
    o->widths_desc = (bo_widths_desc){.model = o->model_desc, .widths = widths, .width_count = 2, .steps = 1};
    assert_ok(c, bo_widths_measure(c, &o->widths_desc, &o->widths));
}

static inline void objects_make_conversion(objects *o)
{
    bo_context *c = o->context;
    foreign_bytes bytes = tiny_gguf();
    snprintf(o->foreign, sizeof o->foreign, "%s/model.gguf", o->directory);
    snprintf(o->converted, sizeof o->converted, "%s/converted", o->directory);
    assert_ok(c, bo_file_save(c, o->foreign, bytes.data, bytes.size));
    free(bytes.data);
    o->convert_desc = (bo_convert_desc){.from = o->foreign, .to = o->converted};
    assert_ok(c, bo_conversion_open(c, &o->convert_desc, NULL, &o->conversion));
}

static inline void objects_make(objects *o)
{
    const char *base = getenv("TMPDIR");
    o->context = test_context(1);
    o->floats = calloc(1, BYTES);
    o->file = fopen("/dev/null", "w");
    assert_non_null(o->file);
    snprintf(o->directory, sizeof o->directory, "%s/bochner-test-XXXXXX", base && *base ? base : "/tmp");
    assert_non_null(mkdtemp(o->directory));
    snprintf(o->path, sizeof o->path, "%s/file", o->directory);
    o->paths[0] = o->path;
    objects_make_kernels(o);
    objects_make_tables(o);
    objects_make_graph(o);
    objects_make_texts(o);
    objects_make_models(o);
    objects_make_conversion(o);
}

static inline int objects_remove(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about, (void)kind, (void)where;
    return remove(path);
}

static inline void objects_destroy(objects *o)
{
    nftw(o->directory, objects_remove, 8, FTW_DEPTH | FTW_PHYS);
    bo_widths_destroy(o->widths);
    bo_plan_laws_destroy(o->laws);
    bo_plan_losses_destroy(o->losses);
    bo_trainer_destroy(o->trainer);
    bo_model_destroy(o->network);
    bo_examples_destroy(o->examples);
    bo_conversion_close(o->conversion);
    bo_sampler_destroy(o->sampler);
    bo_session_destroy(o->session);
    bo_inspection_destroy(o->inspection);
    bo_model_destroy(o->model);
    bo_model_destroy(o->used_model);
    bo_texts_close(o->texts);
    bo_corpus_close(o->corpus);
    bo_tokenizer_destroy(o->tokenizer);
    bo_chat_template_destroy(o->chat_template);
    bo_optimizer_destroy(o->optimizer);
    bo_profile_destroy(o->profile);
    bo_graph_destroy(o->graph);
    bo_weights_destroy(o->weights);
    bo_output_abandon(o->output);
    bo_reader_close(o->reader);
    bo_table_close(o->table);
    bo_schema_destroy(o->schema);
    bo_data_destroy(o->data);
    bo_metrics_destroy(o->metrics);
    bo_drift_destroy(o->drift);
    bo_embedding_destroy(o->embedding);
    bo_fitting_destroy(o->fitting);
    bo_machine_destroy(o->machine);
    bo_calibration_destroy(o->calibration);
    bo_attention_destroy(o->calibrated);
    bo_attention_destroy(o->attention);
    bo_features_destroy(o->features);
    bo_context_destroy(o->context);
    free(o->state);
    free(o->floats);
    fclose(o->file);
}

#endif
