/* `bochner bench`: metrics, peers, and the parts of `bochner bench machines`. */
#ifndef BO_BENCH_H
#define BO_BENCH_H

#include "../cli/common/cli.h"
#include "../cli/common/counts.h"

/* One measured value. */
typedef struct bench_metric {
    char name[96];
    double value;
    char unit[24];
    double goal;      /* NAN: no goal */
    bool at_most;     /* the goal is an upper bound */
    char detail[256]; /* how it was measured */
} bench_metric;

typedef struct bench_run {
    cli_session *session;
    /* options of every benchmark: parts to measure, Python interpreter, directory of the peers' scripts */
    const char *only, *python, *peers;
    const struct bench_options *options; /* options of `bochner bench machines`; NULL for other subjects */
    size_t gemm;                         /* rows of the reference matrices; 0: default */
    const struct bench_library *missed;  /* a missing peer that was already reported; NULL if no peer is missing */
    bench_metric *metrics;
    size_t count, capacity;
    const char **argument; /* receives the positional argument; NULL: the command accepts options only */
    bool prints_json;      /* the measurement has no metrics and prints its JSON without bench_command */
} bench_run;

typedef struct bench_options {
    cli_given was_given;
    bench_run run;
    const char *mnist, *fashion, *tables, *tables_peers, *only_tables, *scratch;
    size_t rows, features, quality_features, stream_features, repeats, splits;
    bo_draw draw; /* draw of the frequencies in the speed measurement */
    const char *device;
    size_t columns; /* on a device */
} bench_options;

/* Adds a metric and prints it. The detail is a format string. */
void bench_add(bench_run *bench, const char *name, double value, const char *unit, double goal, bool at_most,
               const char *detail, ...) BO_PRINTF(7, 8);

bool bench_selected(const bench_run *bench, const char *part); /* whether --only includes the part */
bool bench_listed(const char *list,
                  const char *item); /* whether a comma-separated list contains the item; NULL contains all items */
/* Checks that every item of --only is a part or "none", which measures only the reference. Prints a message and returns
 * false otherwise. */
bool bench_parts_known(const char *command, const char *only, size_t count,
                       const char *(*name)(const void *unused, size_t index));
/* The same for another option; `what` describes its items. */
bool bench_names_known(const char *command, const char *option, const char *what, const char *list, size_t count,
                       const char *(*name)(const void *unused, size_t index));

/* Checks that a plot can be written to the path; NULL means that no plot is requested. Returns CLI_DONE, or the exit
 * status after a message. */
int bench_can_draw(bench_run *bench, const char *command, const char *option, const char *path);

double bench_median(double *values, size_t count); /* sorts the values */

/* Creates a context like that of the session, with bfloat16 products. Returns NULL after a message. */
bo_context *bench_narrow_context(bench_run *bench);
/* A goal for bfloat16 products relative to float32 products, which only CPUs with matrix tiles have; otherwise NAN. */
double bench_narrow_goal(const bench_run *bench, double goal);

/* Parses the options, opens a session, calls `measure`, which returns the exit status, and prints the JSON if
 * requested. `options` is the struct that the option table of the usage fills. */
int bench_command(const cli_usage *usage, int argc, char **argv, bench_run *bench,
                  int (*measure)(bench_run *bench, void *options), void *options);
int cli_bench(int argc, char **argv); /* the arguments after `bochner bench` */
/* Subjects of `bochner bench`; the arguments start after the name of the subject. */
int bench_machines(int argc, char **argv);
int bench_attention(int argc, char **argv);
int bench_train(int argc, char **argv);
int bench_layers(int argc, char **argv);
int bench_recall(int argc, char **argv);
int bench_tasks(int argc, char **argv);
int bench_decode(int argc, char **argv);
int bench_scale(int argc, char **argv);
int bench_serve(int argc, char **argv);
extern const cli_usage bench_machines_usage, bench_attention_usage, bench_train_usage, bench_layers_usage,
    bench_recall_usage, bench_tasks_usage, bench_decode_usage, bench_scale_usage, bench_serve_usage;

bool bench_gemm(bench_run *bench); /* adds the reference as a metric */
/* Adds the rate of bfloat16 products as a share of the peak of the CPU. */
bool bench_narrow_gemm(bench_run *bench);
/* Measures the reference rate now, in GFLOP/s. A metric is compared with the mean of the rates before and after
 * its measurement, because the load of the host changes. */
double bench_reference_rate(bench_run *bench);

/* Title of the rate of a fit: AUTO is the library's default; any other precision was requested. */
void bench_rate_name(char *name, size_t size, const char *what, bo_gram_precision requested);
/* Added to each of these rates, with the name of the precision that was used, because the reference is float32. */
#define BENCH_COUNTED "counts the operations of a float32 fit; its Gram products ran in %s"

/* Operations of a fit, each counted once: projection, upper triangle of the Gram matrix, Cholesky factorization. */
double bench_fit_operations(double rows, double dim, double features);

/* Each function prints a message and returns false on failure. A part without data is skipped with a note. */
bool bench_mnist(bench_run *bench);
bool bench_quality(bench_run *bench);
bool bench_on_tables(bench_run *bench);
bool bench_stream(bench_run *bench);

/* ---- peers --------------------------------------------------------------------------------------------------------
 */

typedef struct bench_library {
    const char *name, *module, *package; /* name in messages, Python module, Debian package */
} bench_library;
extern const bench_library bench_sklearn, bench_torch;

/* Runs the script of a peer with a Python that has its library. Returns the output, which the caller frees, or NULL
 * after a note. */
char *bench_peer(bench_run *bench, const bench_library *library, const char *script, const char *const *arguments);
/* The number under a key of a JSON text; NAN if the key is missing. */
double bench_json_number(const char *json, const char *key);
/* Writes the text under a key of a JSON text, "" if the key is missing. */
void bench_json_text(const char *json, const char *key, char *out, size_t size);

#endif
