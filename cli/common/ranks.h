/* The ranks of a parallel job started with mpirun. The program links no MPI: where a launcher announces several ranks it
 * loads a plugin, cli/mpi/plugin.c, and without a launcher it is one rank. */
#ifndef CLI_COMMON_RANKS_H
#define CLI_COMMON_RANKS_H

#include <bochner/machines.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cli_ranks {
    int rank, size;
    const struct cli_ranks_plugin *plugin; /* started; NULL alone */
    struct cli_ranks_room *room;           /* of the plugin's sums; made by the first */
} cli_ranks;

/* What the plugin exports, as `bochner_ranks_plugin`. Only a plugin of the program's own version is used, so that its
 * members may change; `version` stays the first. */
typedef struct cli_ranks_plugin {
    const char *version;
    bool (*start)(cli_ranks *ranks); /* fills in rank and size */
    void (*finish)(cli_ranks *ranks);
    void (*end_all)(int status);
    const char *(*implementation)(void); /* name and version of the MPI */
    bool (*broadcast)(void *bytes, size_t size);
    bo_status (*sum)(void *ranks, double *values, size_t count);
    bo_status (*sum_f32)(void *ranks, float *values, size_t count);
} cli_ranks_plugin;

/* Whether a launcher started this process as one of several. */
bool cli_ranks_announced(void);
int cli_ranks_announced_rank(void); /* this one's number; 0 outside */
/* False: one of several, but they cannot work together. `why` says what is missing, and `ranks` has no plugin. */
bool cli_ranks_open(cli_ranks *ranks, char *why, size_t size);
void cli_ranks_close(cli_ranks *ranks);
/* Ends every rank with this exit status. */
void cli_ranks_abort(const cli_ranks *ranks, int status);
/* Rank 0's bytes to all; does nothing alone. */
bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size);
/* Sums over the ranks, in their order; needs `ranks` to stay where it is. */
bo_collective cli_ranks_collective(cli_ranks *ranks);
/* Threads a rank should use: the cores of a machine divided by the ranks on it; 0: the default. */
size_t cli_ranks_threads(const cli_ranks *ranks);

#endif
