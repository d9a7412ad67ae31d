/* Twelve tables for kernel machines: the rows of a split, and saved results of other programs on the same splits. */
#ifndef BO_BENCH_TABLES_H
#define BO_BENCH_TABLES_H

#include "../bench.h"

enum { BENCH_TABLES = 12, BENCH_SPLITS = 5 };

/* ---- rows -------------------------------------------------------------------------------------------------------- */

typedef struct bench_table {
    const char *name;
    /* A file in DIRECTORY/tables, its target and its test file. Without a file: DIRECTORY/uci/NAME with files of row
     * numbers. Without a test file, a fifth of the rows is held out; the split number is the seed. */
    const char *file, *target, *test_file;
} bench_table;
extern const bench_table bench_tables[BENCH_TABLES];
const char *bench_table_name(const void *unused, size_t index);

/* The rows of a split. Initialize to zero. */
typedef struct bench_parts {
    bo_samples train, test;
    bo_data *data[2];
    float *x[2];
    double *y[2];
} bench_parts;

bool bench_table_present(const char *directory, const bench_table *table);
/* Prints a message and returns false on failure. The caller closes the parts in either case. */
bool bench_parts_load(bench_run *bench, const bench_table *table, size_t split, bench_parts *out);
void bench_parts_close(bench_parts *parts);

/* ---- peers ------------------------------------------------------------------------------------------------------- */

/* Peers of bench/peers/tables.py. Peers before BENCH_XRFM are boosting libraries. */
enum { BENCH_XRFM = 4, BENCH_PEERS = 5 };
typedef enum bench_mode { BENCH_DEFAULT, BENCH_TUNED, BENCH_MODES } bench_mode;

/* One fit, or the mean of several. */
typedef struct bench_peer_fit {
    const char *peer;      /* NULL: no result */
    double score, seconds; /* seconds: of the fit without the search; NAN if unknown for a CPU */
    size_t threads;
} bench_peer_fit;

typedef struct bench_peer_fits {
    bench_peer_fit fits[BENCH_TABLES][BENCH_PEERS][BENCH_MODES][BENCH_SPLITS];
    double search[BENCH_TABLES][BENCH_PEERS]; /* seconds of the trials of "tuned" on a CPU; 0: unknown */
} bench_peer_fits;

/* Reads lines of bench/peers/tables.py; `where` is their source in messages. Prints a message and returns false on
 * failure. */
bool bench_peers_read(bench_run *bench, const char *where, const char *text, bench_peer_fits *out);
/* The mean of a peer on a table: the score over splits 0 … splits - 1, NAN if one is missing; the time over the splits
 * with known times. */
bench_peer_fit bench_peer_mean(const bench_peer_fits *all, size_t table, size_t peer, bench_mode mode, size_t splits);

#endif
