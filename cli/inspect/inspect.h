/* bochner inspect: the model and its text, and the report in several formats. */
#ifndef CLI_INSPECT_H
#define CLI_INSPECT_H

#include "../shared/separation.h"
#include "../common/cli.h"
#include <bochner/inspect.h>

/* A model, and the tokens of a text or of a file of ids. */
typedef struct cli_inspected {
    bo_model *model;
    int32_t *ids; /* NULL: there is no text */
    size_t count;
    bool more; /* the text has more tokens than these */
} cli_inspected;

/* The source of the model and the tokens. */
typedef struct cli_inspect_source {
    const char *directory;
    const cli_list *data; /* files of text; may be empty */
    const char *field, *separator;
    const char *ids; /* a .npy file; NULL: none */
    size_t length;   /* tokens per window, for the message about short texts; 0: default */
} cli_inspect_source;

/* Loads the model, and the text if there is one. False after a message. Closed by cli_inspected_close in any case. */
bool cli_inspected_open(cli_session *session, const cli_inspect_source *source, cli_inspected *out);
void cli_inspected_close(cli_inspected *inspected);

typedef struct cli_inspect_options {
    cli_given was_given;
    cli_list data;
    const char *field, *separator, *ids, *parts, *html, *dump;
    size_t length, windows, context;
    double target;
} cli_inspect_options;

typedef struct cli_inspect_job {
    cli_session *session;
    const cli_inspect_options *options;
    const char *directory;
    cli_inspected inspected;
    const bo_model_desc *desc;
    bo_model_sizes sizes;
    bo_inspection *report;
    bo_separation *separation; /* 1 + 2 layers; NULL: not requested */
    size_t arrays;             /* files written to --dump */
    double seconds;
} cli_inspect_job;

static inline bool cli_inspect_has(const cli_inspect_job *job, bo_inspect_part part)
{
    return (job->report->parts & (unsigned)part) != 0;
}
/* The maximum number of query heads of a layer. */
size_t cli_inspect_heads(const cli_inspect_job *job);
/* The recommended candidate for all layers; NULL: errors were not measured, or no layer has softmax weights. */
const bo_inspect_candidate *cli_inspect_choice(const cli_inspect_job *job);
/* The root mean square over heads of the predicted errors of a candidate; NAN: no prediction. */
double cli_inspect_predicted(const cli_inspect_job *job, size_t candidate);
/* One or two sentences on the recommendation. */
enum { CLI_INSPECT_TEXT = 512 };
const char *cli_inspect_advice(const cli_inspect_job *job, char out[CLI_INSPECT_TEXT]);
/* Candidates with the same map are one row, with numbers of features as columns. Returns the first candidate of the
 * next map after candidate `at` (the first of its map), or the number of candidates. */
size_t cli_inspect_next_map(const cli_inspect_job *job, size_t at);
/* The name of a row, without the number of features: "favor", "window 64 + gaussian", "window 32". */
const char *cli_inspect_map_name(const bo_inspect_candidate *candidate, char out[48]);

void cli_inspect_print(const cli_inspect_job *job);
void cli_inspect_json(const cli_inspect_job *job);
void cli_inspect_page(FILE *out, const cli_inspect_job *job);
/* bo_inspect_receive_fn of a job: writes an array to the directory of --dump. */
bool cli_inspect_dump(void *job, const bo_inspect_array *array);

#endif
