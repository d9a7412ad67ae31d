/* Commands for models that classify, match or translate texts, which are read from a file or line by line from standard
 * input. */
#ifndef CLI_TEXT_TEXT_TASKS_H
#define CLI_TEXT_TEXT_TASKS_H

#include "../common/plot.h"

const char *cli_task_phrase(bo_model_task task); /* "a model that classifies texts" */
/* Reports that the command does not accept models of this task, and names commands that do. Returns CLI_FAILED. */
int cli_fail_task(cli_session *session, const char *directory, bo_model_task task);
/* Reports that --option does not apply to models of this task. Returns CLI_USAGE_ERROR. */
int cli_task_usage_error(const cli_session *session, const char *option, const char *directory, bo_model_task task);

/* The options for opening texts for a model. Texts longer than `context` are truncated (0: as in training, or no limit
 * if the model can stream); if the model translates, they are refused. */
bo_texts_desc cli_texts_desc(const bo_model *model, bool alone, size_t context);
/* Reports the number of truncated texts, if not 0, and whether --context can avoid truncation. */
void cli_texts_report_truncated(cli_session *session, size_t cut, const bo_model *model, const bo_texts_desc *desc);

/* If bochner convert can read the file, prints that it must be converted and returns true. Call it after a failure: it
 * replaces the error message of the context. */
bool cli_fail_foreign(cli_session *session, const char *path);
/* Prints why a model could not be loaded from this path, and the supported files. Returns CLI_FAILED. */
int cli_fail_model(cli_session *session, const char *path, bo_status status);

/* Receives all texts of a file, or the available lines of standard input. Returns false after an error message, to
 * stop. */
typedef bool (*cli_texts_fn)(void *user, const bo_texts *texts);
typedef struct cli_texts_source {
    const char *path; /* "-": standard input */
    const char *text; /* a text instead of standard input; NULL: none */
    const char *tabs; /* hint for lines with a wrong number of tabs; NULL: none */
    const bo_model *model;
    const bo_texts_desc *desc;
    cli_texts_fn use;
    void *user;
} cli_texts_source;
/* False after an error message. On a terminal, an invalid line is reported and reading continues. */
bool cli_texts_each(cli_session *session, const cli_texts_source *source);

/* ---- commands for such models ------------------------------------------------------------------------------------ */

typedef struct cli_texts_use {
    const char *directory, *path;
    const char *out, *plot; /* NULL: standard output, and no plot */
    cli_plot_kind plot_kind;
    size_t context; /* 0: as in training */
    bo_storage weights;
    bool proba;
    bool labeled;      /* the file also has labels */
    const char *other; /* a given option that does not apply to such models; NULL: none */
} cli_texts_use;
int cli_predict_texts(cli_session *session, const cli_texts_use *use);

/* Options of translation. */
typedef struct cli_translate_options {
    cli_given was_given;
    size_t beam;
    double penalty;
} cli_translate_options;
extern const cli_option cli_translate_rows[];
const char *cli_translate_given(const cli_translate_options *options); /* the first given option; NULL: none */
bo_translate_desc cli_translate_desc(const cli_translate_options *options);

typedef struct cli_generate_use {
    const char *directory;
    const char *prompt; /* NULL or "-": the lines of standard input */
    size_t tokens;      /* maximum tokens per translation; 0: the library's default */
    cli_translate_options translate;
} cli_generate_use;
int cli_generate_translate(cli_session *session, const bo_model *model, const cli_generate_use *use);

#endif
