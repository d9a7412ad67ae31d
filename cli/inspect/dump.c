/* The arrays of --dump. */
#include "inspect.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* layer-03-q.npy: shape (windows, heads, tokens, width), as bochner attention reads it; stream-00.npy is the
 * embedding. */
static char *name_of(const char *directory, const bo_inspect_array *array)
{
    static const char *const names[] = {"q", "k", "v", "out", "pattern", "", "writes"};
    const size_t size = strlen(directory) + 48;
    char *path = cli_allocate(size, 1, "a file name");
    if (array->kind == BO_INSPECT_ARRAY_STREAM)
        snprintf(path, size, "%s/stream-%02zu.npy", directory, array->layer);
    else
        snprintf(path, size, "%s/layer-%02zu-%s.npy", directory, array->layer, names[array->kind]);
    return path;
}

bool cli_inspect_dump(void *user, const bo_inspect_array *array)
{
    cli_inspect_job *job = user;
    const char *directory = job->options->dump;
    if (mkdir(directory, 0777) != 0 && errno != EEXIST) {
        cli_fail(job->session, "--dump %s: %s", directory, strerror(errno));
        return false;
    }
    char *path = name_of(directory, array);
    const bo_array file = {.rank = array->rank, .shape = array->shape, .values = (float *)array->values};
    const bo_status status =
        cli_record_output(job->session, path, bo_array_save(job->session->context, &file, &(bo_sink){.path = path}));
    free(path);
    if (status != BO_OK) cli_fail_status(job->session, status);
    job->arrays += status == BO_OK;
    return status == BO_OK;
}
