#include "spool.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *name_of(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

/* A file that does not exist is reported when it is opened. */
static bool comes_once(const char *path)
{
    struct stat info;
    if (strcmp(path, "-") == 0) return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* A device other than a terminal, such as /dev/zero. */
static bool is_endless(FILE *from)
{
    struct stat info;
    return from != stdin && fstat(fileno(from), &info) == 0 && S_ISCHR(info.st_mode) && !isatty(fileno(from));
}

static bool copy(cli_session *session, const char *path, FILE *from, FILE *to)
{
    char bytes[1 << 16];
    errno = 0;
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, from)) > 0;) {
        if (cli_interrupted()) {
            cli_fail(session, "%s: interrupted while reading", name_of(path));
            return false;
        }
        if (fwrite(bytes, 1, got, to) != got) break;
    }
    if (!ferror(from) && !ferror(to) && fflush(to) == 0) {
        if (ftell(to) > 0) return true;
        cli_fail(session, "%s: contains no text", name_of(path));
        return false;
    }
    cli_fail(session, "%s: could not be %s: %s", name_of(path), ferror(from) ? "read" : "copied into a temporary file",
             strerror(errno));
    return false;
}

const char *cli_spool(cli_session *session, cli_spools *spools, const char *path)
{
    if (!comes_once(path)) return path;
    if (spools->count == CLI_SPOOLS) {
        cli_fail(session, "%s: more than %d pipes; copy them to files first", path, CLI_SPOOLS);
        return NULL;
    }
    FILE *from = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb"), *to = from ? tmpfile() : NULL;
    if (!to) cli_fail(session, "%s: %s: %s", path, from ? "no temporary file" : "cannot be opened", strerror(errno));
    const bool endless = to && is_endless(from);
    if (endless) cli_fail(session, "%s: not a regular file or a pipe (it is a device)", path);
    const bool copied = to && !endless && copy(session, path, from, to);
    if (from && from != stdin) fclose(from);
    if (to && !copied) fclose(to);
    if (!copied) return NULL;
    char *name = spools->names[spools->count];
    snprintf(name, sizeof spools->names[0], "/dev/fd/%d", fileno(to));
    spools->files[spools->count++] = to;
    return name;
}

bool cli_spool_all(cli_session *session, cli_spools *spools, const char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(paths[i] = cli_spool(session, spools, paths[i]))) return false;
    return true;
}

void cli_spools_close(cli_spools *spools)
{
    for (size_t i = 0; i < spools->count; i++) fclose(spools->files[i]);
    spools->count = 0;
}
