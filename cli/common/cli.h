/* Declarations shared by all commands: exit codes, a session (context, messages, progress), the commands. */
#ifndef CLI_COMMON_CLI_H
#define CLI_COMMON_CLI_H

#include <bochner/bochner.h>
#include "options.h"
#include "signals.h"
#include "ranks.h"
#include "format.h"

/* CLI_INTERRUPTED: cli_interrupted() ended the work. main converts this status, and a failure after a signal, to the
 * exit status of the signal. */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE_ERROR = 2, CLI_INTERRUPTED = 130 };

/* Parses the command line into `options`, the zeroed options struct of the command (options.h), and runs the command.
 * Returns the exit status. */
typedef int (*cli_command_fn)(void *options, const cli_common *common, const cli_arguments *arguments);
int cli_command(const cli_usage *usage, int argc, char **argv, void *options, cli_command_fn run);

/* A command. argv[0] is the first argument after its name. */
int cli_fit(int argc, char **argv);
int cli_predict(int argc, char **argv);
int cli_embed(int argc, char **argv);
int cli_drift(int argc, char **argv);
int cli_explain(int argc, char **argv);
int cli_features(int argc, char **argv);
int cli_attention(int argc, char **argv);
int cli_train(int argc, char **argv);
int cli_eval(int argc, char **argv);
int cli_compare(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_chat(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_tokenizer(int argc, char **argv);
int cli_data(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_lora(int argc, char **argv);
int cli_convert(int argc, char **argv);
int cli_linearize(int argc, char **argv);
int cli_mup(int argc, char **argv);
int cli_plan(int argc, char **argv);
extern const cli_usage cli_fit_usage, cli_predict_usage, cli_explain_usage, cli_embed_usage, cli_drift_usage,
    cli_features_usage, cli_attention_usage, cli_train_usage, cli_eval_usage, cli_compare_usage, cli_generate_usage,
    cli_chat_usage, cli_tokenizer_usage, cli_data_usage, cli_info_usage, cli_lora_usage, cli_convert_usage,
    cli_linearize_usage, cli_mup_usage, cli_plan_usage, cli_inspect_usage, cli_serve_usage;

/* ---- progress ---------------------------------------------------------------------------------------------------- */

typedef struct cli_progress {
    bool show;     /* a bar is drawn: standard error is a terminal */
    bool drawn;    /* a bar is on the current line */
    char what[48]; /* the name of the work */
    double start;  /* when the work started … */
    double first;  /* … and the amount done by then: more than 0 in a resumed run */
    double last;   /* when the bar was drawn */
    /* If not NULL, only this work is shown. A note that is not empty replaces the rate; its fields are separated by two
     * spaces, the most important first. */
    const char *only;
    char note[160];
} cli_progress;

void cli_progress_report(cli_progress *progress, const char *what, double done, double total);
void cli_progress_clear(cli_progress *progress); /* removes the bar before other text */

/* ---- session ----------------------------------------------------------------------------------------------------- */

typedef struct cli_session {
    const char *command;
    cli_common common;
    cli_ranks ranks;
    bo_context *context;
    cli_progress progress;
    bool terse;           /* suppresses notes of the library */
    size_t printed_lines; /* lines and rows written to standard output */
    size_t generated;     /* tokens whose text was written to standard output */
    size_t files;         /* files and directories written … */
    char names[1024];     /* … and their names, separated by commas */
} cli_session;

/* Returns false after a message. Signals request long work to stop (signals.h). */
bool cli_session_open(cli_session *session, const char *command, const cli_common *common, bool parallel);
/* Device and precision of computations with models: the options DEVICE and PRECISION. */
typedef struct cli_compute {
    const char *device; /* NULL: cpu */
    bo_precision precision;
    bool precision_given; /* false: the default of the device */
} cli_compute;
#define CLI_COMPUTE(options) ((cli_compute){(options)->device, (options)->precision, CLI_GIVEN(options, precision)})

/* The same with a device and a precision of matrix products. */
bool cli_session_open_in(cli_session *session, const char *command, const cli_common *common, bool parallel,
                         cli_compute compute);
void cli_session_close(cli_session *session);

void cli_note(cli_session *session, const char *format, ...)
    BO_PRINTF(2, 3); /* prints a note on stderr; nothing with --quiet */
/* Prints one line on stderr at the end of a command: "Next: " and a command that can be pasted; nothing with --quiet or
 * --json. Must be the last output. */
void cli_suggest_next(const cli_session *session, const char *format, ...) BO_PRINTF(2, 3);
void cli_warn(cli_session *session, const char *format, ...) BO_PRINTF(2, 3); /* prints even with --quiet */
/* Print an error and return the exit status; cli_fail_status prints the message of the context. In a parallel job they
 * end all ranks and do not return. */
int cli_fail(cli_session *session, const char *format, ...) BO_PRINTF(2, 3);
int cli_fail_status(cli_session *session, bo_status status);
int cli_usage_error(const char *command, const char *format, ...) BO_PRINTF(2, 3);

/* Records a written file or directory for the message of a later stop, if `status` is BO_OK. Returns `status`. */
bo_status cli_record_output(cli_session *session, const char *path, bo_status status);

/* Checks before the work that the file can be written. Returns false after a message. */
bool cli_can_write(cli_session *session, const char *path);

#endif
