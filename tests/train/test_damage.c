/* Damaged files: a flipped bit or a truncation of any file that the library writes is reported, and a run continues
 * from an older checkpoint. */
#include "base/rng.h"
#include "runs.h"
#include "model/model.h"
#include "tape/graph.h"
#include "train/train.h"
#include <bochner/features.h>
#include <bochner/lora.h>
#include <bochner/machines.h>
#include <bochner/model.h>
#include <bochner/network.h>
#include <bochner/optim.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

/* Replaces the function of the C library: fails for the directory `unflushable` as soon as another path exists. */
static char unflushable[160], as_soon_as[160];
int fsync(int fd)
{
    struct stat about, directory;
    if (fstat(fd, &about) != 0 || stat(unflushable, &directory) != 0 || about.st_ino != directory.st_ino ||
        about.st_dev != directory.st_dev || access(as_soon_as, F_OK) != 0)
        return 0;
    errno = EIO;
    return -1;
}

/* A context that counts warnings and keeps the last one. */
typedef struct listener {
    bo_context *context;
    int warnings;
    char last[1024];
} listener;

static void hear(void *user, bo_log_level level, const char *message)
{
    listener *l = user;
    if (level != BO_LOG_WARNING) return;
    l->warnings++;
    snprintf(l->last, sizeof l->last, "%s", message);
}

static void listen(listener *l)
{
    *l = (listener){0};
    assert_int_equal(bo_context_create(&(bo_context_desc){.threads = 1, .log = hear, .user = l}, &l->context), BO_OK);
}

/* Runs to the end; later runs of the descriptor resume. */
static void complete(const listener *l, bo_trainer_desc *desc)
{
    bo_trainer *trainer;
    assert_ok(l->context, bo_trainer_create(l->context, desc, &trainer));
    assert_ok(l->context, bo_trainer_run(l->context, trainer));
    bo_trainer_destroy(trainer);
    desc->resume = true;
}

/* ---- files in memory --------------------------------------------------------------------------------------------- */

typedef bo_status load_fn(bo_context *context, void *what, const void *bytes, size_t size);

/* Loads the bytes with one flipped bit in every byte, and every 97th truncation. Takes ownership of the bytes. */
static void damage(bo_context *context, const char *kind, void *image, size_t size, load_fn *load, void *what)
{
    unsigned char *bytes = image;
    assert_ok(context, load(context, what, bytes, size));
    for (size_t i = 0; i < size; i++) {
        const unsigned char bit = (unsigned char)(1 << bo_hash(1, i) % 8);
        bytes[i] ^= bit;
        const bo_status status = load(context, what, bytes, size);
        if (status != BO_FORMAT || !strstr(bo_context_error(context), "the file is damaged"))
            fail_msg("%s, byte %zu of %zu: %s: %s", kind, i, size, bo_status_string(status), bo_context_error(context));
        bytes[i] ^= bit;
    }
    for (size_t less = 1; less <= size; less += 97)
        assert_fails(context, BO_FORMAT, "truncated", load(context, what, bytes, size - less));
    assert_ok(context, load(context, what, bytes, size));
    bo_free(bytes);
}

static bo_status load_map(bo_context *context, void *what, const void *bytes, size_t size)
{
    bo_features *map = NULL;
    const bo_status status = bo_features_load(context, &(bo_source){.bytes = bytes, .size = size}, &map);
    (void)what;
    bo_features_destroy(map);
    return status;
}

static bo_status load_machine(bo_context *context, void *what, const void *bytes, size_t size)
{
    bo_machine *machine = NULL;
    const bo_status status = bo_machine_load(context, &(bo_source){.bytes = bytes, .size = size}, &machine, NULL);
    (void)what;
    bo_machine_destroy(machine);
    return status;
}

static bo_status load_network(bo_context *context, void *what, const void *bytes, size_t size)
{
    bo_model *network = NULL;
    const bo_status status = bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &network);
    (void)what;
    bo_model_destroy(network);
    return status;
}

static bo_status load_model(bo_context *context, void *what, const void *bytes, size_t size)
{
    bo_model *model = NULL;
    const bo_status status = bo_model_load(context, &(bo_source){.bytes = bytes, .size = size}, NULL, &model);
    (void)what;
    bo_model_destroy(model);
    return status;
}

static bo_status load_session(bo_context *context, void *what, const void *bytes, size_t size)
{
    return bo_session_load(context, what, &(bo_source){.bytes = bytes, .size = size});
}

static bo_status load_weights(bo_context *context, void *what, const void *bytes, size_t size)
{
    return bo_weights_load(context, what, &(bo_source){.bytes = bytes, .size = size});
}

static bo_status load_optimizer(bo_context *context, void *what, const void *bytes, size_t size)
{
    return bo_optimizer_load(context, what, &(bo_source){.bytes = bytes, .size = size});
}

enum { ROWS = 6, DIM = 3 };
static const float inputs[ROWS * DIM] = {0.1f, 0.9f, 0.4f, 0.3f, 0.2f, 0.8f, 0.7f, 0.6f, 0.5f,
                                         0.2f, 0.1f, 0.3f, 0.9f, 0.5f, 0.4f, 0.8f, 0.6f, 0.7f};
static const double targets[ROWS] = {1, 2, 3, 1, 3, 2};

static void maps_and_machines(void **state)
{
    runs *r = *state;
    const bo_features_desc desc = {.dim = DIM, .features = 4, .gamma = 0.5, .seed = 1};
    const bo_samples samples = {.rows = ROWS, .dim = DIM, .targets = 1, .x = inputs, .y = targets};
    bo_features *map;
    bo_machine *machine;
    void *bytes;
    size_t size;
    assert_ok(r->context, bo_features_create(r->context, &desc, &map));
    assert_ok(r->context, bo_features_save(r->context, map, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "feature map", bytes, size, load_map, NULL);
    bo_features_destroy(map);
    const bo_machine_desc fit = {.lambda = 0.1, .features = {.gamma = 0.5, .features = 8}};
    assert_ok(r->context, bo_machine_fit(r->context, &fit, &samples, &machine));
    assert_ok(r->context, bo_machine_save(r->context, machine, NULL, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "machine", bytes, size, load_machine, NULL);
    bo_machine_destroy(machine);
}

static bo_model *make_network(runs *r)
{
    const bo_examples_arrays arrays = {.rows = ROWS, .dim = DIM, .targets = 1, .x = inputs, .y = targets};
    bo_examples *examples;
    bo_model *network;
    assert_ok(r->context, bo_examples_create(r->context, &arrays, &examples));
    const bo_description desc = {
        .text = "{\"input\": {\"kind\": \"array\"}, \"layers\": [{\"type\": \"linear\", \"width\": 2}, "
                "{\"type\": \"linear\", \"width\": \"targets\"}], \"loss\": \"mse\"}",
        .where = "net",
        .examples = examples,
        .seed = 1};
    assert_ok(r->context, bo_model_create_described(r->context, &desc, &network));
    bo_examples_destroy(examples);
    return network;
}

static bo_model *make_model(runs *r)
{
    bo_model_desc desc = {
        .layers = 1, .width = 8, .block.heads = 1, .context = 8, .block.hidden = 4, .vocab = 256, .seed = 3};
    test_set_kind("rfa-gate", &desc);
    desc.block.attention.features.features = 8;
    return runs_model_of(r, &desc);
}

static void models_and_states(void **state)
{
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_model *network = make_network(r);
    bo_session *session;
    bo_optimizer *optimizer;
    void *bytes;
    size_t size;
    assert_ok(r->context, bo_model_save(r->context, network, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "network", bytes, size, load_network, NULL);
    bo_model_destroy(network);
    assert_ok(r->context, bo_model_save(r->context, model, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "model", bytes, size, load_model, NULL);
    assert_ok(r->context, bo_session_create(r->context, model, NULL, &session));
    assert_ok(r->context, bo_session_feed(r->context, session, (const int32_t[]){1, 2, 3}, 3, NULL));
    assert_ok(r->context, bo_session_save(r->context, session, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "session", bytes, size, load_session, session);
    bo_session_destroy(session);
    assert_ok(r->context, bo_weights_save(r->context, model->weights, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "weights", bytes, size, load_weights, model->weights);
    const bo_optimizer_desc desc = {.kind = BO_OPTIMIZER_ADAMW, .average = 0.5};
    assert_ok(r->context, bo_weights_allocate(r->context, model->weights, true));
    assert_ok(r->context, bo_optimizer_create(r->context, &desc, model->weights, &optimizer));
    assert_ok(r->context, bo_optimizer_save(r->context, optimizer, &(bo_sink){.bytes = &bytes, .size = &size}));
    damage(r->context, "optimizer", bytes, size, load_optimizer, optimizer);
    bo_optimizer_destroy(optimizer);
    bo_model_destroy(model);
}

/* ---- files in directories ---------------------------------------------------------------------------------------- */

/* Flips a bit of a file, or flips it back. Returns false at the end of the file. */
static bool flip(const char *path, size_t byte)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, (long)byte, SEEK_SET);
    const int found = fgetc(file);
    if (found != EOF) {
        fseek(file, (long)byte, SEEK_SET);
        fputc(found ^ 1 << bo_hash(2, byte) % 8, file);
    }
    fclose(file);
    return found != EOF;
}

/* The text files next to the tensors may be edited. Every change causes an error or a warning that names the file. */
static void texts_beside_tensors(void **state)
{
    static const char *const files[] = {"model/config.json", "network/config.json"};
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_model *network = make_network(r);
    listener l;
    listen(&l);
    assert_ok(l.context, bo_model_save(l.context, model, &(bo_sink){.path = runs_path(r, "model")}));
    assert_ok(l.context, bo_model_save(l.context, network, &(bo_sink){.path = runs_path(r, "network")}));
    bo_model_destroy(model);
    bo_model_destroy(network);
    for (int which = 0; which < 2; which++) {
        char path[160], directory[160];
        strcpy(path, runs_path(r, files[which]));
        strcpy(directory, runs_path(r, which ? "network" : "model"));
        for (size_t i = 0; flip(path, i); i++) {
            model = NULL, network = NULL;
            l.warnings = 0;
            const bo_status status = which ? bo_model_load(l.context, &(bo_source){.path = directory}, NULL, &network)
                                           : bo_model_load(l.context, &(bo_source){.path = directory}, NULL, &model);
            if (status == BO_OK && !(l.warnings && strstr(l.last, "checksum") && strstr(l.last, path)))
                fail_msg("%s, byte %zu: loaded without a warning", files[which], i);
            bo_model_destroy(model);
            bo_model_destroy(network);
            flip(path, i);
        }
        l.warnings = 0;
        assert_ok(l.context, which ? bo_model_load(l.context, &(bo_source){.path = directory}, NULL, &network)
                                   : bo_model_load(l.context, &(bo_source){.path = directory}, NULL, &model));
        bo_model_destroy(which ? NULL : model);
        bo_model_destroy(which ? network : NULL);
        assert_int_equal(l.warnings, 0);
    }
    bo_context_destroy(l.context);
}

static size_t size_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (size_t)about.st_size;
}

/* A save that fails after the description was written leaves the old directory. */
static void directories_are_replaced_whole(void **state)
{
    runs *r = *state;
    bo_model *network = make_network(r), *found;
    char directory[160], description[160], before[4096] = "", after[4096] = "";
    struct rlimit limit, old;
    listener l;
    listen(&l);
    strcpy(directory, runs_path(r, "network"));
    snprintf(description, sizeof description, "%.100s/config.json", directory);
    assert_ok(l.context, bo_model_save(l.context, network, &(bo_sink){.path = directory}));
    FILE *file = fopen(description, "rb");
    assert_true(fread(before, 1, sizeof before - 1, file) > 0);
    fclose(file);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    limit = old;
    limit.rlim_cur = size_of(runs_path(r, "network/model.safetensors")) - 1;
    assert_true(limit.rlim_cur > size_of(description) + 10);
    network->network->seed += 1000; /* another description */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const bo_status status = bo_model_save(l.context, network, &(bo_sink){.path = directory});
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(status, BO_IO);
    file = fopen(description, "rb");
    assert_true(fread(after, 1, sizeof after - 1, file) > 0);
    fclose(file);
    assert_string_equal(before, after);
    assert_ok(l.context, bo_model_load(l.context, &(bo_source){.path = directory}, NULL, &found));
    assert_int_equal(l.warnings, 0);
    bo_model_destroy(found);
    bo_model_destroy(network);
    bo_context_destroy(l.context);
}

/* α of an adapter is in its configuration only. */
static void alpha_of_adapters(void **state)
{
    runs *r = *state;
    char base[160], directory[160], command[512];
    bo_model *model = make_model(r);
    listener l;
    listen(&l);
    strcpy(base, runs_path(r, "base"));
    strcpy(directory, runs_path(r, "adapter"));
    assert_ok(l.context, bo_model_save(l.context, model, &(bo_sink){.path = base}));
    assert_ok(l.context, bo_model_adapt(l.context, model, &(bo_lora_desc){.rank = 2, .alpha = 4, .base = base}));
    assert_ok(l.context, bo_model_save(l.context, model, &(bo_sink){.path = directory}));
    bo_model_destroy(model);
    assert_ok(l.context, bo_model_load(l.context, &(bo_source){.path = directory},
                                       &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &model));
    assert_int_equal(l.warnings, 0);
    bo_model_destroy(model);
    snprintf(command, sizeof command, "sed -i 's/\"lora_alpha\": 4/\"lora_alpha\": 5/' %s/adapter_config.json",
             directory);
    assert_int_equal(system(command), 0);
    assert_ok(l.context, bo_model_load(l.context, &(bo_source){.path = directory},
                                       &(bo_model_load_desc){.adapters = BO_ADAPTERS_KEEP}, &model));
    assert_int_equal(l.warnings, 1);
    assert_non_null(strstr(l.last, "lora_alpha 4, but adapter_config.json has 5"));
    bo_model_destroy(model);
    bo_context_destroy(l.context);
}

/* A damaged file is still a model: the message names the damage. */
static void damaged_bases(void **state)
{
    runs *r = *state;
    char base[160], directory[160];
    bo_model *model = make_model(r);
    strcpy(base, runs_path(r, "base.safetensors"));
    strcpy(directory, runs_path(r, "adapter"));
    assert_ok(r->context, bo_model_save(r->context, model, &(bo_sink){.path = base}));
    assert_ok(r->context, bo_model_adapt(r->context, model, &(bo_lora_desc){.rank = 2, .base = base}));
    assert_ok(r->context, bo_model_save(r->context, model, &(bo_sink){.path = directory}));
    bo_model_destroy(model);
    assert_ok(r->context, bo_model_load(r->context, &(bo_source){.path = directory}, NULL, &model));
    bo_model_destroy(model);
    flip(base, 5000);
    assert_true(bo_model_exists(r->context, base));
    assert_fails(r->context, BO_FORMAT, "base.safetensors: the file is damaged",
                 bo_model_load(r->context, &(bo_source){.path = directory}, NULL, &model));
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Restores a run whose newest checkpoint, of step 8, has a flipped bit. */
static void restore_damaged(runs *r, listener *l, const bo_trainer_desc *desc, const char *file, size_t byte)
{
    char path[160], away[160], place[160];
    bo_trainer *trainer;
    strcpy(place, runs_path(r, "run/checkpoints/step-8"));
    strcpy(away, runs_path(r, "run/checkpoints/step-8.damaged"));
    l->warnings = 0;
    assert_ok(l->context, bo_trainer_create(l->context, desc, &trainer));
    bo_trainer_destroy(trainer);
    if (l->warnings != 1 || !strstr(l->last, file) || !strstr(l->last, "damaged") || !strstr(l->last, "of step 4"))
        fail_msg("%s, byte %zu: %d warnings: %s", file, byte, l->warnings, l->last);
    assert_int_equal(rename(away, place), 0);
    snprintf(path, sizeof path, "%.100s/%s", place, file);
    flip(path, byte);
}

static void newest_checkpoint_is_verified(void **state)
{
    static const struct {
        const char *file;
        size_t every;
    } files[] = {{"training.json", 5}, {"model.safetensors", 997}, {"optimizer.safetensors", 997}, {"config.json", 11}};
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    char directory[160];
    listener l;
    listen(&l);
    strcpy(directory, desc.directory);
    desc.directory = directory;
    desc.steps = 8;
    bo_trainer *trainer;
    complete(&l, &desc);
    for (size_t f = 0; f < 4; f++) {
        char path[160];
        snprintf(path, sizeof path, "%.100s/checkpoints/step-8/%s", directory, files[f].file);
        for (size_t byte = 0; flip(path, byte); byte += files[f].every)
            restore_damaged(r, &l, &desc, files[f].file, byte);
    }
    /* A missing companion counts as damage. */
    strcpy(directory, runs_path(r, "run/checkpoints/step-8/config.json"));
    assert_int_equal(rename(directory, runs_path(r, "config.json")), 0);
    strcpy(directory, runs_path(r, "run"));
    l.warnings = 0;
    assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
    bo_trainer_destroy(trainer);
    assert_int_equal(l.warnings, 1);
    assert_non_null(strstr(l.last, "step-8/config.json: the file is missing"));
    strcpy(directory, runs_path(r, "run/checkpoints/step-8.damaged"));
    assert_int_equal(rename(directory, runs_path(r, "run/checkpoints/step-8")), 0);
    strcpy(directory, runs_path(r, "config.json"));
    assert_int_equal(rename(directory, runs_path(r, "run/checkpoints/step-8/config.json")), 0);
    strcpy(directory, runs_path(r, "run"));
    /* If no checkpoint is intact, the message states it, and no file is changed. */
    flip(runs_path(r, "run/checkpoints/step-8/model.safetensors"), 500);
    flip(runs_path(r, "run/checkpoints/step-4/optimizer.safetensors"), 500);
    assert_fails(l.context, BO_FORMAT, "none of the 2 checkpoints can be read",
                 bo_trainer_create(l.context, &desc, &trainer));
    assert_true(runs_exists(r, "run/checkpoints/step-8") && runs_exists(r, "run/checkpoints/step-4"));
    flip(runs_path(r, "run/checkpoints/step-8/model.safetensors"), 500);
    l.warnings = 0;
    assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
    assert_int_equal(l.warnings, 0);
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
    bo_context_destroy(l.context);
}

/* The checkpoint of step 4 is complete, but its name cannot be flushed: the message states that it was written. */
static void unflushed_checkpoint(void **state)
{
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    char directory[160];
    bo_trainer *trainer;
    strcpy(directory, desc.directory);
    desc.directory = directory;
    desc.steps = 4;
    snprintf(unflushable, sizeof unflushable, "%.100s/checkpoints", directory);
    snprintf(as_soon_as, sizeof as_soon_as, "%.100s/step-4", unflushable);
    assert_ok(r->context, bo_trainer_create(r->context, &desc, &trainer));
    assert_fails(r->context, BO_IO, "the checkpoint of step 4 was written, but its name may not be on disk",
                 bo_trainer_run(r->context, trainer));
    unflushable[0] = 0;
    assert_true(runs_exists(r, "run/checkpoints/step-4/training.json"));
    bo_trainer_destroy(trainer);
    bo_model_destroy(model);
}

/* Errors other than damage are returned, and the checkpoint is kept. Renamed directories are kept too. */
static void other_errors_are_no_damage(void **state)
{
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    char directory[160], record[160];
    bo_trainer *trainer;
    listener l;
    listen(&l);
    strcpy(directory, desc.directory);
    desc.directory = directory;
    desc.steps = 8;
    complete(&l, &desc);
    /* a loop of links: ELOOP, neither missing nor unreadable */
    strcpy(record, runs_path(r, "run/checkpoints/step-8/training.json"));
    assert_int_equal(rename(record, runs_path(r, "training.json")), 0);
    assert_int_equal(symlink("training.json", record), 0);
    assert_fails(l.context, BO_IO, "step-8/training.json", bo_trainer_create(l.context, &desc, &trainer));
    assert_int_equal(l.warnings, 0);
    assert_true(runs_exists(r, "run/checkpoints/step-8") && !runs_exists(r, "run/checkpoints/step-8.damaged"));
    /* a missing file is damage */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(unlink(record), 0);
        assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
        assert_int_equal(l.warnings, i + 1);
        assert_ok(l.context, bo_trainer_run(l.context, trainer));
        bo_trainer_destroy(trainer);
    }
    assert_true(runs_exists(r, "run/checkpoints/step-8.damaged") && runs_exists(r, "run/checkpoints/step-8.damaged-2"));
    assert_true(runs_exists(r, "run/checkpoints/step-8/training.json"));
    bo_model_destroy(model);
    bo_context_destroy(l.context);
}

/* best/ has the files of the newest, damaged checkpoint. They are replaced by those of the best step so far, or a
 * warning states that they do not match. */
static void best_follows_a_fallback(void **state)
{
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    char directory[160], best[160], place[160];
    struct stat one, other;
    bo_trainer *trainer;
    listener l;
    listen(&l);
    strcpy(directory, desc.directory);
    desc.directory = directory;
    desc.steps = 8;
    strcpy(best, runs_path(r, "run/best/model.safetensors"));
    strcpy(place, runs_path(r, "run/checkpoints/step-4/model.safetensors"));
    for (int evaluated = 1; evaluated >= 0; evaluated--) {
        desc.resume = false;
        desc.eval_every = evaluated ? 4 : 8;
        desc.checkpoint_every = 4;
        nftw(directory, runs_remove, 8, FTW_DEPTH | FTW_PHYS);
        assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
        assert_ok(l.context, bo_trainer_run(l.context, trainer));
        assert_int_equal(trainer->now.best_step, 8);
        bo_trainer_destroy(trainer);
        flip(runs_path(r, "run/checkpoints/step-8/model.safetensors"), 5000);
        desc.resume = true;
        l.warnings = 0;
        assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
        bo_trainer_destroy(trainer);
        assert_int_equal(l.warnings, evaluated ? 1 : 2);
        assert_true(evaluated || strstr(l.last, "run/best: this is the model of step 8"));
        assert_true(stat(best, &one) == 0 && stat(place, &other) == 0);
        assert_int_equal(one.st_ino == other.st_ino, evaluated);
    }
    bo_model_destroy(model);
    bo_context_destroy(l.context);
}

/* Damaged lines of metrics.jsonl do not affect other lines. */
static void damaged_metrics_stay(void **state)
{
    static const char lines[] = "{\"step\": 1, \"loss\": 3}\n[\"step\": 2, \"loss\": 2}\n{\"step\": 9, \"loss\": 1}\n"
                                "{\"step\": 3, \"loss\": 2}\n{\"step\": 4, \"loss\": 1}\n",
                      kept[] = "{\"step\": 1, \"loss\": 3}\n[\"step\": 2, \"loss\": 2}\n"
                               "{\"step\": 3, \"loss\": 2}\n{\"step\": 4, \"loss\": 1}\n";
    runs *r = *state;
    bo_model *model = make_model(r);
    bo_trainer_desc desc = runs_trainer(r, model, "run");
    char directory[160], found[1000];
    bo_trainer *trainer;
    listener l;
    listen(&l);
    strcpy(directory, desc.directory);
    desc.directory = directory;
    desc.steps = 4;
    complete(&l, &desc);
    FILE *file = fopen(runs_path(r, "run/metrics.jsonl"), "wb");
    fputs(lines, file);
    fwrite("{\"step\": 5\0\0\0\0{\"step\": 6}\n{\"st", 1, 31, file); /* torn by a power failure */
    fclose(file);
    assert_ok(l.context, bo_trainer_create(l.context, &desc, &trainer));
    bo_trainer_destroy(trainer);
    assert_int_equal(l.warnings, 1);
    assert_non_null(strstr(l.last, "run/metrics.jsonl: line 2 is damaged"));
    file = fopen(runs_path(r, "run/metrics.jsonl"), "rb");
    found[fread(found, 1, sizeof found - 1, file)] = 0;
    fclose(file);
    assert_string_equal(found, kept);
    bo_model_destroy(model);
    bo_context_destroy(l.context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(maps_and_machines, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(models_and_states, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(texts_beside_tensors, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(directories_are_replaced_whole, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(alpha_of_adapters, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(damaged_bases, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(newest_checkpoint_is_verified, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(unflushed_checkpoint, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(other_errors_are_no_damage, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(best_follows_a_fallback, runs_setup, runs_teardown),
        cmocka_unit_test_setup_teardown(damaged_metrics_stay, runs_setup, runs_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
