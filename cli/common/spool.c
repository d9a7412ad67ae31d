#include "spool.h"
#include <bochner/data.h>
#include <stdlib.h>
#include <unistd.h>

int cli_spool_all(cli_session *session, cli_spools *spools, const char **paths, size_t count)
{
    spools->items = cli_allocate(count, sizeof *spools->items, "a list of pipes");
    for (size_t i = 0; i < count; i++) {
        cli_spool *spool = &spools->items[spools->count];
        const bo_status status = bo_file_spool(session->context, paths[i], &spool->file);
        if (status != BO_OK) return cli_fail_status(session, status);
        if (spool->file < 0) continue;
        snprintf(spool->name, sizeof spool->name, "/dev/fd/%d", spool->file);
        paths[i] = spool->name;
        spools->count++;
    }
    return CLI_DONE;
}

void cli_spools_close(cli_spools *spools)
{
    for (size_t i = 0; i < spools->count; i++) close(spools->items[i].file);
    free(spools->items);
    *spools = (cli_spools){0};
}
