/* Folders and files of a run. What appears does so at once: written under another name, flushed, renamed. */
#include "train.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../io/bytes.h"
#include "../io/output.h"

static bo_status failed(bo_context *context, const char *path, const char *what)
{
    return bo_fail(context, BO_IO, "%s: %s: %s", path, what, strerror(errno));
}

bo_status bo_train_join(bo_context *context, const char *folder, const char *name, char out[BO_TRAIN_PATH])
{
    const int length = snprintf(out, BO_TRAIN_PATH, "%s/%s", folder, name);
    if (length >= 0 && length < BO_TRAIN_PATH - 32) return BO_OK; /* room for temporary names */
    return bo_fail(context, BO_INVALID, "the path %.80s… is too long", folder);
}

bo_status bo_train_make_folder(bo_context *context, const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0) return BO_OK;
    const int error = errno;
    if (error == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return BO_OK;
    errno = error == EEXIST ? ENOTDIR : error;
    return failed(context, path, "the folder cannot be made");
}

bo_status bo_train_make_folders(bo_context *context, const char *path)
{
    char part[BO_TRAIN_PATH];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        BO_TRY(bo_train_make_folder(context, part));
    }
    return bo_train_make_folder(context, path);
}

bo_status bo_train_remove_folder(bo_context *context, const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return errno == ENOENT ? BO_OK : failed(context, path, "cannot be removed");
    bo_status status = BO_OK;
    struct dirent *entry;
    while (status == BO_OK && (entry = readdir(folder))) {
        char file[BO_TRAIN_PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = bo_train_join(context, path, entry->d_name, file);
        if (status == BO_OK && unlink(file) != 0) status = failed(context, file, "cannot be removed");
    }
    closedir(folder);
    if (status == BO_OK && rmdir(path) != 0) status = failed(context, path, "cannot be removed");
    return status;
}

bo_status bo_train_flush_folder(bo_context *context, const char *path)
{
    const int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) return failed(context, path, "cannot be opened");
    const bool done = fsync(file) == 0 || errno == EINVAL || errno == ENOTSUP; /* some file systems refuse folders */
    const bo_status status = done ? BO_OK : failed(context, path, "cannot be brought to the disk");
    close(file);
    return status;
}

bo_status bo_train_rename(bo_context *context, const char *from, const char *to)
{
    return rename(from, to) == 0 ? BO_OK : failed(context, to, "cannot be put in its place");
}

/* Plainly: bo_bytes would undo gzip. */
static bo_status copy_to(bo_context *context, const char *path, int from, bo_output *to)
{
    enum { BLOCK = 1 << 16 };
    char block[BLOCK];
    for (;;) {
        const ssize_t got = read(from, block, sizeof block);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return failed(context, path, "cannot be read");
        if (got == 0) return BO_OK;
        BO_TRY(bo_output_write(context, to, block, (size_t)got));
    }
}

static bo_status copy(bo_context *context, const char *from, const char *to)
{
    bo_output *output;
    const int file = open(from, O_RDONLY | O_CLOEXEC);
    if (file < 0) return failed(context, from, "cannot be read");
    bo_status status = bo_output_open(context, to, &output);
    if (status == BO_OK) {
        status = copy_to(context, from, file, output);
        if (status == BO_OK)
            status = bo_output_commit(context, output);
        else
            bo_output_abandon(output);
    }
    close(file);
    return status;
}

bo_status bo_train_link(bo_context *context, const char *from, const char *to)
{
    char beside[BO_TRAIN_PATH + 8];
    snprintf(beside, sizeof beside, "%s.link", to);
    unlink(beside); /* of a run that was killed */
    if (link(from, beside) != 0) return errno == ENOENT ? failed(context, from, "is missing") : copy(context, from, to);
    const bo_status status = bo_train_rename(context, beside, to);
    unlink(beside); /* rename leaves both where they were one file already */
    return status;
}

bo_status bo_train_read_text(bo_context *context, const char *path, char **out, size_t *length)
{
    return bo_bytes_text(context, path, out, length);
}

bo_status bo_train_lock(bo_context *context, const char *folder, int *out)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, folder, ".lock", path));
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*out < 0) return failed(context, path, "cannot be written");
    if (flock(*out, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return BO_OK; /* some file systems have no locks */
    close(*out);
    *out = -1;
    return bo_fail(context, BO_INVALID, "%s: another process is training there", folder);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------------ */

/* "step-120": 120. What is being written is called otherwise. */
static bool parse_step(const char *name, uint64_t *step)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
    errno = 0;
    *step = strtoull(name + 5, &end, 10);
    return *end == 0 && errno == 0;
}

bo_status bo_train_sweep(bo_context *context, const char *checkpoints)
{
    DIR *folder = opendir(checkpoints);
    if (!folder) return failed(context, checkpoints, "cannot be read");
    bo_status status = BO_OK;
    struct dirent *entry;
    while (status == BO_OK && (entry = readdir(folder))) {
        char path[BO_TRAIN_PATH];
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".part") != 0) continue;
        status = bo_train_join(context, checkpoints, entry->d_name, path);
        if (status == BO_OK) status = bo_train_remove_folder(context, path);
    }
    closedir(folder);
    return status;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static bo_status collect(bo_context *context, DIR *folder, uint64_t **steps, size_t *count)
{
    size_t capacity = 0;
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        uint64_t step;
        if (!parse_step(entry->d_name, &step)) continue;
        if (*count == capacity) {
            capacity = 2 * capacity + 16;
            uint64_t *larger = bo_realloc(context, *steps, capacity, sizeof **steps, "a list of checkpoints");
            if (!larger) return BO_MEMORY;
            *steps = larger;
        }
        (*steps)[(*count)++] = step;
    }
    if (*count) qsort(*steps, *count, sizeof **steps, ascending);
    return BO_OK;
}

bo_status bo_train_list(bo_context *context, const char *folder, uint64_t **steps, size_t *count)
{
    char path[BO_TRAIN_PATH];
    *steps = NULL;
    *count = 0;
    BO_TRY(bo_train_join(context, folder, "checkpoints", path));
    DIR *checkpoints = opendir(path);
    if (!checkpoints) return errno == ENOENT || errno == ENOTDIR ? BO_OK : failed(context, path, "cannot be read");
    const bo_status status = collect(context, checkpoints, steps, count);
    closedir(checkpoints);
    if (status == BO_OK) return BO_OK;
    bo_free(*steps);
    *steps = NULL;
    *count = 0;
    return status;
}
