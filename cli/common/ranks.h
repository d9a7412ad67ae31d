/* The ranks of a parallel job started with mpirun. The program does not link MPI. If a launcher announces several
 * ranks, the program loads a plugin, cli/mpi/plugin.c; without a launcher there is one rank. */
#ifndef CLI_COMMON_RANKS_H
#define CLI_COMMON_RANKS_H

#include <bochner/machines.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct cli_ranks {
    int rank, size;
    const struct cli_ranks_plugin *plugin; /* started; NULL: one rank */
    struct cli_ranks_buffers *buffers;     /* buffers for the sums of the plugin; allocated by the first sum */
} cli_ranks;

/* The symbol `bochner_ranks_plugin` of the plugin. The program refuses a plugin of another version, so members may
 * change; `version` stays the first member. */
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

/* True if a launcher started this process as one of several ranks. */
bool cli_ranks_announced(void);
int cli_ranks_announced_rank(void); /* the number of this rank; 0 without a launcher */
/* The number of this rank on this host, or among all ranks if the launcher does not announce it. */
size_t cli_ranks_local(void);
/* Returns false if this is one of several ranks but they cannot be connected. Then `why` contains the reason, and
 * `ranks` has no plugin. */
bool cli_ranks_open(cli_ranks *ranks, char *why, size_t size);
void cli_ranks_close(cli_ranks *ranks);
/* Ends every rank with this exit status. */
void cli_ranks_abort(const cli_ranks *ranks, int status);
/* Copies the bytes of rank 0 to all ranks; does nothing with one rank. */
bool cli_ranks_broadcast(const cli_ranks *ranks, void *bytes, size_t size);
/* Sums over the ranks, in their order. `ranks` must not be moved afterwards. */
bo_collective cli_ranks_collective(cli_ranks *ranks);
/* The number of threads for a rank: the cores of a host divided by the ranks on it; 0: the default. */
size_t cli_ranks_threads(const cli_ranks *ranks);

#endif
