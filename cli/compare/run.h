/* The files that bochner train writes into the directory of a run. */
#ifndef CLI_COMPARE_RUN_H
#define CLI_COMPARE_RUN_H

#include "../common/cli.h"
#include "../../src/io/json_tree.h"

/* A JSON file of at most 1 MiB. NULL if there is no such file, if it is not JSON, or, after a warning, if it cannot be
 * read or its checksum does not match. Freed with bo_json_delete. */
bo_json *cli_read_json(cli_session *session, const char *directory, const char *name);
double cli_json_number(const bo_json *json, const char *name); /* NAN: no such member */

/* training.json of the directory or of its latest checkpoint. Numbers are NAN if they are unknown. */
typedef struct cli_run_record {
    double step, steps, tokens, valid_loss, best_valid_loss;
    double waited;                                 /* evaluations without a better validation loss */
    char seed[24], train_data[24], valid_data[24]; /* fingerprints of the data; "" if unknown */
} cli_run_record;
/* False: no such file. Warns about unreadable files. */
bool cli_run_find(cli_session *session, const char *directory, cli_run_record *out);

/* metrics.jsonl: one point per report. */
typedef struct cli_run_point {
    double step, steps, count, seconds, rate; /* count: tokens or examples; rate: per second */
    double loss, valid_loss, valid_metric, best_valid_loss;
    double threads; /* NAN in files of earlier versions */
    char isa[16];   /* "" in files of earlier versions */
    bool evaluated; /* at this step */
} cli_run_point;

typedef struct cli_run_metrics {
    cli_run_point *points;
    size_t count;
    char unit[16];   /* "tokens" or "examples" */
    char metric[24]; /* "bits_per_byte", "accuracy", "perplexity" or "rmse" */
} cli_run_metrics;
/* False: the file cannot be read, and errno is set; EINVAL: not a regular file. An incomplete last line is
 * ignored. Freed with cli_run_metrics_free. */
bool cli_run_read(const char *directory, cli_run_metrics *out);
void cli_run_metrics_free(cli_run_metrics *metrics);

#endif
