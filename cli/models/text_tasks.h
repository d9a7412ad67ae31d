/* Models that label or translate texts (their task: model.h) on the command line: which command takes which model, and its
 * texts, from a file or as the lines of standard input come. */
#ifndef CLI_MODELS_TEXT_TASKS_H
#define CLI_MODELS_TEXT_TASKS_H

#include "../common/cli.h"

const char *cli_task_words(bo_model_task task); /* "a model that classifies texts" */
/* The folder holds a model of another kind than the command is for: says what takes it. CLI_FAILED. */
int cli_wrong_task(cli_session *session, const char *folder, bo_model_task task);
/* --option is no option of such a model. CLI_WRONG_USE. */
int cli_wrong_task_option(const cli_session *session, const char *option, const char *folder, bo_model_task task);

/* How texts are to be opened for a model: longer ones are cut where it labels them (`context` tokens are read, 0: as in
 * training, or all where they stream), refused where it translates. */
bo_texts_desc cli_texts_desc(const bo_model *model, bool alone, size_t context);
/* How many were, and whether it can be helped; 0: nothing is said. */
void cli_texts_say_cut(cli_session *session, size_t cut, const bo_model *model, const bo_texts_desc *desc);

/* Loads a model whose weights are kept in memory like this. *out is there even after an error, to be destroyed. */
bo_status cli_model_load(bo_context *context, const char *folder, bo_storage weights, bo_model **out);

/* Some of the texts at a time: all of a file, or as many lines of standard input as have come. False after an error that was
 * said: no more follow. */
typedef bool (*cli_texts_fn)(void *user, const bo_texts *texts);
typedef struct cli_texts_source {
    const char *path;  /* "-": standard input */
    const char *words; /* or this text, as if it came from there; NULL: none */
    const char *tabs;  /* what to do where a line has other tabs than it should; NULL: nothing is said */
    const bo_model *model;
    const bo_texts_desc *desc;
    cli_texts_fn take;
    void *user;
} cli_texts_source;
/* False after saying what is wrong: of lines that are typed at a terminal, that is said and others are asked for. */
bool cli_texts_each(cli_session *session, const cli_texts_source *source);

/* ---- what commands do with such models ------------------------------------------------------------------------------------ */

typedef struct cli_texts_use {
    const char *folder, *path;
    const char *out, *plot; /* NULL: standard output; none */
    size_t context;         /* 0: as in training */
    bo_storage weights;
    bool proba;
    bool labeled;      /* the file has labels too */
    const char *other; /* an option given that such models do not have; NULL: none */
} cli_texts_use;
int cli_predict_texts(cli_session *session, const cli_texts_use *use);

/* How a model translates, as options. */
typedef struct cli_translate_options {
    cli_given was_given;
    size_t beam;
    double penalty;
} cli_translate_options;
extern const cli_option cli_translate_rows[];
const char *cli_translate_given(const cli_translate_options *options); /* the first that is; NULL: none */
bo_translate_desc cli_translate_desc(const cli_translate_options *options);

typedef struct cli_generate_use {
    const char *folder;
    const char *prompt; /* NULL or "-": the lines of standard input */
    size_t tokens;      /* most of a translation; 0: the library's choice */
    cli_translate_options translate;
} cli_generate_use;
int cli_generate_translate(cli_session *session, const bo_model *model, const cli_generate_use *use);

#endif
