/* `bochner bench`: figures, peers, and the parts of `bochner bench machines`. */
#ifndef BO_BENCH_H
#define BO_BENCH_H

#include "../cli/common/cli.h"

/* Of `bochner bench machines`. */
/* One measured figure. */
typedef struct bench_figure {
    char name[96];
    double value;
    char unit[24];
    double goal;      /* NAN: none */
    bool at_most;     /* the goal is an upper bound */
    char detail[256]; /* how it was measured */
} bench_figure;

typedef struct bench_run {
    cli_session *session;
    const char *only, *python, *peers;   /* options of every bench: parts, what runs the peers' scripts, their folder */
    const struct bench_options *options; /* of machines; NULL for the others */
    size_t gemm;                         /* rows of the yardstick's matrices; 0: as usual */
    const struct bench_library *missed;  /* a peer that is not there, as was said; NULL: none */
    bench_figure *figures;
    size_t count, room;
    bool own_json; /* the measurement has no figures and prints what it has itself */
} bench_run;

typedef struct bench_options {
    cli_given was_given;
    bench_run run;
    const char *mnist, *fashion, *uci, *uci_peer, *scratch;
    size_t rows, features, quality_features, uci_features, stream_features, repeats;
    bo_draw draw; /* of the speed measurement */
} bench_options;

/* Adds a figure and says it at once. The detail is a format. */
void bench_add(bench_run *bench, const char *name, double value, const char *unit, double goal, bool at_most,
               const char *detail, ...) BO_PRINTF(7, 8);

bool bench_wanted(const bench_run *bench, const char *part); /* by --only */
/* Every word of --only is a part, or "none", which measures the yardstick alone. False: after a message. */
bool bench_parts_known(const char *command, const char *only, size_t count,
                       const char *(*name)(const void *unused, size_t index));

enum { BENCH_LIST = 16 };
typedef struct bench_list {
    size_t items[BENCH_LIST], count; /* ascending */
} bench_list;
/* Whole numbers in ascending order, separated by commas. False: after a message. */
bool bench_read_list(const char *command, const char *option, const char *text, size_t least, size_t most,
                     bench_list *out);

/* A picture may be written there; NULL: none is asked for. CLI_DONE, or the exit status after a message. */
int bench_can_draw(bench_run *bench, const char *command, const char *option, const char *path);

double bench_median(double *values, size_t count); /* which are put in order */

/* Parses, opens a session, measures (which returns the exit status), prints the JSON where that is asked for. `options` are
 * those that the usage's table fills. */
int bench_command(const cli_usage *usage, int argc, char **argv, bench_run *bench,
                  int (*measure)(bench_run *bench, void *options), void *options);
/* `bochner bench attention` and so on, after its name. */
int bench_machines(int argc, char **argv);
int bench_attention(int argc, char **argv);
int bench_train(int argc, char **argv);
int bench_layers(int argc, char **argv);
int bench_recall(int argc, char **argv);
int bench_tasks(int argc, char **argv);
extern const cli_usage bench_machines_usage, bench_attention_usage, bench_train_usage, bench_layers_usage,
    bench_recall_usage, bench_tasks_usage;

bool bench_gemm(bench_run *bench); /* the yardstick as a figure */
/* GFLOP/s of the yardstick now: a figure is compared with the mean of before and after, as other work on the machine comes
 * and goes. */
double bench_yardstick(bench_run *bench);

/* Title of the rate of a fit: AUTO is what a user gets, anything else is asked for. */
void bench_rate_name(char *name, size_t room, const char *what, bo_precision asked);
/* What every such rate must say, with the name of the precision used: the yardstick is float32. */
#define BENCH_COUNTED "counts the operations of a float32 fit; its Gram products ran in %s"

/* Operations of a fit that counts them once: projection, upper triangle of the Gram matrix, Cholesky factor. */
double bench_fit_operations(double rows, double dim, double features);

/* Each returns false after saying why it could not go on; a part whose data is not there is skipped with a note. */
bool bench_mnist(bench_run *bench);
bool bench_quality(bench_run *bench);
bool bench_uci(bench_run *bench);
bool bench_stream(bench_run *bench);

/* ---- other programs ------------------------------------------------------------------------------------ */

typedef struct bench_library {
    const char *name, *module, *package; /* as people, Python and Debian call it */
} bench_library;
extern const bench_library bench_sklearn, bench_torch;

/* Runs a peer's script with a Python that has its library and returns what it printed (freed by the caller); NULL after a
 * note. */
char *bench_peer(bench_run *bench, const bench_library *library, const char *script, const char *const *arguments);
/* The number after "key": in JSON text; NAN if there is none. */
double bench_json_number(const char *json, const char *key);

#endif
