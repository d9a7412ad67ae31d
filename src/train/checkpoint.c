/* Checkpoints, and the directories and files of a run. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "../base/trace.h"
#include "../io/companions.h"
#include "../io/output.h"
#include "../io/tensors.h"
#include "../device/cpu/kernels.h"
#include "train.h"

/* ====================================================================================================================
 * Directories and files of a run. A file appears atomically: it is written under a temporary name, flushed and renamed.
 */

static const char RENAMING[] = "cannot be renamed from its temporary name";

static bo_status failed(bo_context *context, const char *path, const char *what)
{
    return bo_fail(context, BO_IO, "%s: %s: %s", path, what, strerror(errno));
}

bo_status bo_train_join(bo_context *context, const char *directory, const char *name, char out[BO_TRAIN_PATH])
{
    const int length = snprintf(out, BO_TRAIN_PATH, "%s/%s", directory, name);
    if (length >= 0 && length < BO_TRAIN_PATH - 32) return BO_OK; /* space for temporary names */
    return bo_fail(context, BO_INVALID, "the path %.80s… is too long", directory);
}

/* Creates a directory and its parents. */
static bo_status make_directories(bo_context *context, const char *path)
{
    char part[BO_TRAIN_PATH];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        BO_TRY(bo_output_directory(context, part));
    }
    return bo_output_directory(context, path);
}

/* Removes a directory with its files. A missing directory is not an error. */
static bo_status remove_directory(bo_context *context, const char *path)
{
    DIR *directory = opendir(path);
    if (!directory) return errno == ENOENT ? BO_OK : failed(context, path, "cannot be removed");
    bo_status status = BO_OK;
    struct dirent *entry;
    while (status == BO_OK && (entry = readdir(directory))) {
        char file[BO_TRAIN_PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        status = bo_train_join(context, path, entry->d_name, file);
        if (status == BO_OK && unlink(file) != 0) status = failed(context, file, "cannot be removed");
    }
    closedir(directory);
    if (status == BO_OK && rmdir(path) != 0) status = failed(context, path, "cannot be removed");
    return status;
}

/* Renames a directory and flushes its parent. */
static bo_status rename_directory(bo_context *context, const char *from, const char *to)
{
    if (rename(from, to) != 0) return failed(context, to, RENAMING);
    return bo_output_flush_name(context, to);
}

/* Copies the raw bytes. bo_bytes would decompress gzip. */
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
    if (status == BO_OK) status = bo_output_finish(context, output, copy_to(context, from, file, output));
    close(file);
    return status;
}

/* Replaces `to` atomically by a hard link to `from`, or by a copy if links are not supported. */
static bo_status link_file(bo_context *context, const char *from, const char *to)
{
    char beside[BO_TRAIN_PATH + 8];
    snprintf(beside, sizeof beside, "%s.link", to);
    unlink(beside); /* left over from a killed run */
    if (link(from, beside) != 0) return errno == ENOENT ? failed(context, from, "is missing") : copy(context, from, to);
    const bo_status status = rename(beside, to) == 0 ? BO_OK : failed(context, to, RENAMING);
    unlink(beside); /* rename keeps both names if they are already the same file */
    return status;
}

static bo_status lock_directory(bo_context *context, const char *directory, int *out)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, directory, ".lock", path));
    *out = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*out < 0) return failed(context, path, "cannot be written");
    /* some file systems do not support locks */
    if (flock(*out, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return BO_OK;
    close(*out);
    *out = -1;
    return bo_fail(context, BO_INVALID, "%s: another process is training in this directory", directory);
}

/* ---- checkpoints ------------------------------------------------------------------------------------------------- */

/* Parses "step-120" as 120. Temporary directories have other names. */
static bool parse_step(const char *name, uint64_t *step)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9' || (name[5] == '0' && name[6])) return false;
    errno = 0;
    *step = strtoull(name + 5, &end, 10);
    return *end == 0 && errno == 0;
}

/* Removes incomplete checkpoints of killed runs. */
static bo_status sweep(bo_context *context, const char *checkpoints)
{
    DIR *directory = opendir(checkpoints);
    if (!directory) return failed(context, checkpoints, "cannot be read");
    bo_status status = BO_OK;
    struct dirent *entry;
    while (status == BO_OK && (entry = readdir(directory))) {
        char path[BO_TRAIN_PATH];
        const size_t length = strlen(entry->d_name);
        if (length < 5 || strcmp(entry->d_name + length - 5, ".part") != 0) continue;
        status = bo_train_join(context, checkpoints, entry->d_name, path);
        if (status == BO_OK) status = remove_directory(context, path);
    }
    closedir(directory);
    return status;
}

static int ascending(const void *a, const void *b)
{
    const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static bo_status collect(bo_context *context, DIR *directory, uint64_t **steps, size_t *count)
{
    size_t capacity = 0;
    struct dirent *entry;
    while ((entry = readdir(directory))) {
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

/* Lists the steps of the checkpoints in directory/checkpoints, in ascending order. *steps is freed with bo_free. A
 * missing directory has no checkpoints. */
static bo_status list_checkpoints(bo_context *context, const char *directory, uint64_t **steps, size_t *count)
{
    char path[BO_TRAIN_PATH];
    *steps = NULL;
    *count = 0;
    BO_TRY(bo_train_join(context, directory, "checkpoints", path));
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

/* ====================================================================================================================
 * Checkpoints: the directories checkpoints/step-N of the run. A checkpoint is written under a temporary name, every
 * file is flushed, and then the directory is renamed, so a directory with that name is complete. The newest checkpoint
 * is the current one. The files of the run directory (config.json, model.safetensors, …) and of best/ are hard links to
 * files of a checkpoint. */

static bo_status place_of(bo_context *context, const bo_trainer *trainer, uint64_t step, const char *ending,
                          char out[BO_TRAIN_PATH])
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/step-%llu%s", (unsigned long long)step, ending);
    return bo_train_join(context, trainer->directory, name, out);
}

const char *bo_train_last_checkpoint(const bo_trainer *trainer, char out[BO_TRAIN_PATH])
{
    if (!trainer->directory || trainer->saved == UINT64_MAX)
        snprintf(out, BO_TRAIN_PATH, "; there is no checkpoint yet");
    else
        snprintf(out, BO_TRAIN_PATH, "; the last good checkpoint is %.3900s/checkpoints/step-%llu", trainer->directory,
                 (unsigned long long)trainer->saved);
    return out;
}

/* ---- the optimizer ----------------------------------------------------------------------------------------------- */

static bo_status write_optimizer(bo_context *context, const bo_trainer *trainer, const char *directory)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, directory, "optimizer.safetensors", path));
    return bo_optimizer_save(context, trainer->optimizer, &(bo_sink){.path = path});
}

static bo_status take_optimizer(bo_context *context, bo_trainer *trainer, const char *path)
{
    BO_TRY(bo_optimizer_load(context, trainer->optimizer, &(bo_source){.path = path}));
    const uint64_t done = bo_optimizer_describe(trainer->optimizer)->steps;
    if (done == trainer->now.step) return BO_OK;
    return bo_fail(context, BO_FORMAT, "%s: 'steps': expected %llu, found %llu", path,
                   (unsigned long long)trainer->now.step, (unsigned long long)done);
}

/* Returns the last file of a task, which contains the weights. */
static const char *weights_of(const bo_train_task *task)
{
    const char *const *last = task->files;
    while (last[1]) last++;
    return *last;
}

/* The weights file contains the checksums of the other files. */
static bo_status check_companions(bo_context *context, const bo_train_task *task, const char *directory)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, directory, weights_of(task), path));
    return bo_companions_check(context, path);
}

/* Called after the model was read, because states depend on its frequencies. */
static bo_status read_state(bo_context *context, bo_train_task *task, const char *directory)
{
    char path[BO_TRAIN_PATH];
    if (!task->state_file) return BO_OK;
    BO_TRY(bo_train_join(context, directory, task->state_file, path));
    return task->methods->read_state(context, task, path);
}

/* Reads the files of write_files. With averaging, the model file has the average and the optimizer file has the
 * weights. */
static bo_status read_files(bo_context *context, bo_trainer *trainer, const char *directory)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, directory, "optimizer.safetensors", path));
    bo_optimizer_set_steps(trainer->optimizer, trainer->now.step);
    BO_TRY(bo_optimizer_swap_average(context, trainer->optimizer));
    bo_status status = bo_model_read(context, trainer->desc.model, directory);
    if (status == BO_OK) status = read_state(context, trainer->task, directory);
    if (status == BO_OK) status = take_optimizer(context, trainer, path);
    const bo_status back = bo_optimizer_swap_average(context, trainer->optimizer);
    return status == BO_OK ? back : status;
}

/* ---- visible files of a run -------------------------------------------------------------------------------------- */

/* Links the weights last. The other files do not change within a run. Files may be missing: a byte-level model has no
 * tokenizer.json. */
static bo_status show(bo_context *context, const bo_train_task *task, const char *from, const char *to)
{
    for (const char *const *file = task->files; *file; file++) {
        char source[BO_TRAIN_PATH], target[BO_TRAIN_PATH];
        BO_TRY(bo_train_join(context, from, *file, source));
        BO_TRY(bo_train_join(context, to, *file, target));
        if (access(source, F_OK) == 0) BO_TRY(link_file(context, source, target));
    }
    return bo_output_flush(context, to);
}

static bo_status show_newest(bo_context *context, const bo_trainer *trainer)
{
    char newest[BO_TRAIN_PATH], best[BO_TRAIN_PATH];
    BO_TRY(place_of(context, trainer, trainer->saved, "", newest));
    BO_TRY(show(context, trainer->task, newest, trainer->directory));
    if (isnan(trainer->now.best_loss) || trainer->now.best_step != trainer->saved) return BO_OK;
    BO_TRY(bo_train_join(context, trainer->directory, "best", best));
    BO_TRY(bo_output_directory(context, best));
    return show(context, trainer->task, newest, best);
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Weights with a NaN or infinity are not saved. The earlier checkpoints are more useful. */
static bo_status check_weights(bo_context *context, const bo_trainer *trainer)
{
    bo_weights *weights = trainer->task->desc->model->weights;
    bool finite = false;
    char last_checkpoint[BO_TRAIN_PATH];
    BO_TRY(bo_backend_of(bo_weights_device(weights))
               ->finite(context, BO_ELEMENT_FLOAT32, bo_weights_data(weights), bo_weights_floats(weights), &finite));
    if (finite) return BO_OK;
    return bo_fail(context, BO_NUMERIC, "step %llu: the weights contain a NaN or infinity%s",
                   (unsigned long long)trainer->now.step, bo_train_last_checkpoint(trainer, last_checkpoint));
}

static bo_status write_state(bo_context *context, bo_train_task *task, const char *directory)
{
    char path[BO_TRAIN_PATH];
    if (!task->state_file) return BO_OK;
    BO_TRY(bo_train_join(context, directory, task->state_file, path));
    return task->methods->write_state(context, task, path);
}

/* With averaging, the model file has the average and the optimizer file has the weights. */
static bo_status write_files(bo_context *context, bo_trainer *trainer, const char *directory)
{
    BO_TRY(bo_optimizer_swap_average(context, trainer->optimizer));
    bo_status status = bo_model_write(context, trainer->desc.model, directory);
    if (status == BO_OK) status = write_optimizer(context, trainer, directory);
    if (status == BO_OK) status = write_state(context, trainer->task, directory);
    const bo_status back = bo_optimizer_swap_average(context, trainer->optimizer);
    if (status == BO_OK) status = back;
    if (status == BO_OK) status = bo_train_record_write(context, trainer, directory);
    return status == BO_OK ? bo_output_flush(context, directory) : status;
}

/* Once the checkpoint exists, the lines up to this step must be on disk, because the step is not repeated. */
static bo_status flush_metrics(bo_context *context, const bo_trainer *trainer)
{
    char path[BO_TRAIN_PATH];
    BO_TRY(bo_train_join(context, trainer->directory, "metrics.jsonl", path));
    if (access(path, F_OK) != 0) return BO_OK;
    BO_TRY(bo_output_flush(context, path));
    return bo_output_flush_name(context, path);
}

/* Flushes the name of a complete checkpoint to disk. */
static bo_status flush_checkpoint(bo_context *context, const char *place, uint64_t step)
{
    const bo_status status = bo_output_flush_name(context, place);
    if (status == BO_OK) return BO_OK;
    return bo_fail(context, status, "the checkpoint of step %llu was written, but its name may not be on disk: %s",
                   (unsigned long long)step, bo_context_error(context));
}

static bo_status write_checkpoint(bo_context *context, bo_trainer *trainer)
{
    char beside[BO_TRAIN_PATH], place[BO_TRAIN_PATH];
    const uint64_t step = trainer->now.step;
    BO_TRY(place_of(context, trainer, step, ".part", beside));
    BO_TRY(place_of(context, trainer, step, "", place));
    BO_TRY(remove_directory(context, beside));
    bo_status status = bo_output_directory(context, beside);
    if (status == BO_OK) status = write_files(context, trainer, beside);
    if (status == BO_OK) status = flush_metrics(context, trainer);
    if (status == BO_OK && rename(beside, place) != 0) status = failed(context, place, RENAMING);
    if (status == BO_OK) return flush_checkpoint(context, place, step);
    char message[1024], last[BO_TRAIN_PATH];
    snprintf(message, sizeof message, "%s",
             bo_context_error(context)); /* the removal may overwrite the error message */
    remove_directory(context, beside);
    return bo_fail(context, status, "the checkpoint of step %llu was not written: %s%s", (unsigned long long)step,
                   message, bo_train_last_checkpoint(trainer, last));
}

/* Removes all checkpoints except the newest `keep`. best/ keeps links to the files of the best one. */
static bo_status remove_old(bo_context *context, const bo_trainer *trainer)
{
    uint64_t *steps;
    size_t count;
    BO_TRY(list_checkpoints(context, trainer->directory, &steps, &count));
    bo_status status = BO_OK;
    for (size_t i = 0; status == BO_OK && i + trainer->desc.keep < count; i++) {
        char old[BO_TRAIN_PATH], away[BO_TRAIN_PATH];
        status = place_of(context, trainer, steps[i], "", old);
        if (status == BO_OK) status = place_of(context, trainer, steps[i], ".part", away);
        /* a directory with this name is always complete: it is renamed on disk before its files are removed */
        if (status == BO_OK) status = rename_directory(context, old, away);
        if (status == BO_OK) status = remove_directory(context, away);
    }
    bo_free(steps);
    return status;
}

bo_status bo_train_save(bo_context *context, bo_trainer *trainer)
{
    BO_SPAN(context, "train", "checkpoint");
    const bool new = trainer->saved != trainer->now.step;
    if (!trainer->directory) return BO_OK;
    if (new && trainer->task->state_file) BO_TRY(trainer->task->methods->gather_state(context, trainer->task));
    if (!bo_train_first(trainer)) {
        trainer->saved = trainer->now.step; /* set on all ranks, which all use it to find out what is due */
        return BO_OK;
    }
    BO_TRY(check_weights(context, trainer));
    if (new) {
        BO_TRY(write_checkpoint(context, trainer));
        trainer->saved = trainer->now.step;
        BO_TRY(remove_old(context, trainer));
    } else { /* same weights: only numbers of training.json may differ */
        char place[BO_TRAIN_PATH];
        BO_TRY(place_of(context, trainer, trainer->saved, "", place));
        BO_TRY(bo_train_record_write(context, trainer, place));
    }
    return show_newest(context, trainer);
}

/* ---- the directory before a run -------------------------------------------------------------------------------------
 */

/* Refuses a directory with another run, or with a model whose files the checkpoints would replace. */
static bo_status refuse_occupied(bo_context *context, const bo_trainer *trainer, size_t checkpoints)
{
    if (checkpoints && !trainer->desc.resume)
        return bo_fail(context, BO_INVALID,
                       "%s: this directory already contains a run, at step %llu; resume it (bochner train --resume) or "
                       "choose another directory",
                       trainer->directory, (unsigned long long)trainer->saved);
    for (const char *const *file = trainer->task->files; *file && !checkpoints; file++) {
        char path[BO_TRAIN_PATH];
        BO_TRY(bo_train_join(context, trainer->directory, *file, path));
        if (access(path, F_OK) == 0)
            return bo_fail(
                context, BO_INVALID,
                "%s: this path already exists and contains no run that can be resumed; choose another directory", path);
    }
    return BO_OK;
}

bo_status bo_train_prepare(bo_context *context, bo_trainer *trainer)
{
    char checkpoints[BO_TRAIN_PATH];
    uint64_t *steps;
    size_t count;
    trainer->directory = bo_strdup(context, trainer->desc.directory);
    if (!trainer->directory) return BO_MEMORY;
    if (!bo_train_first(trainer)) return BO_OK;
    if (strlen(trainer->directory) > BO_TRAIN_LONGEST_DIRECTORY)
        return bo_fail(context, BO_INVALID, "the path %.80s… is too long for a run: %zu bytes, expected at most %d",
                       trainer->directory, strlen(trainer->directory), BO_TRAIN_LONGEST_DIRECTORY);
    BO_TRY(list_checkpoints(context, trainer->directory, &steps, &count));
    if (count) trainer->saved = steps[count - 1];
    bo_free(steps);
    BO_TRY(refuse_occupied(context, trainer, count));
    BO_TRY(make_directories(context, trainer->directory));
    BO_TRY(lock_directory(context, trainer->directory, &trainer->lock));
    BO_TRY(bo_train_join(context, trainer->directory, "checkpoints", checkpoints));
    BO_TRY(bo_output_directory(context, checkpoints));
    return sweep(context, checkpoints);
}

/* ---- resuming ---------------------------------------------------------------------------------------------------- */

static bo_status restore_from(bo_context *context, bo_trainer *trainer, uint64_t step)
{
    char place[BO_TRAIN_PATH];
    BO_TRY(place_of(context, trainer, step, "", place));
    BO_TRY(bo_train_record_read(context, trainer, place));
    if (trainer->now.step != step)
        return bo_fail(context, BO_FORMAT, "%s/training.json: expected step %llu, found %llu", place,
                       (unsigned long long)step, (unsigned long long)trainer->now.step);
    BO_TRY(check_companions(context, trainer->task, place)); /* link them as the files of the run */
    return read_files(context, trainer, place);
}

/* True if a file has a read error of the medium, is not a regular file, or is missing although it is required. Other
 * errors (too many open files, no permission, a server without response) do not mean that the file is damaged. */
static bool is_lost(const char *path, bool required)
{
    char block[1 << 14];
    struct stat about;
    ssize_t got = 1;
    const int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) return errno == EIO || (required && (errno == ENOENT || errno == ENOTDIR));
    bool lost = fstat(file, &about) == 0 && !S_ISREG(about.st_mode);
    while (!lost && got > 0) {
        got = read(file, block, sizeof block);
        lost = got < 0 && errno == EIO;
    }
    close(file);
    return lost;
}

/* Returns whether a checkpoint is damaged, after reading it failed with BO_IO. */
static bool has_lost_files(bo_context *context, const bo_trainer *trainer, uint64_t step)
{
    const char *const files[] = {"training.json", "optimizer.safetensors", trainer->task->state_file};
    char place[BO_TRAIN_PATH], path[BO_TRAIN_PATH];
    bool lost = false;
    if (place_of(context, trainer, step, "", place) != BO_OK) return false;
    for (size_t i = 0; i < 3 && files[i] && !lost; i++)
        lost = bo_train_join(context, place, files[i], path) == BO_OK && is_lost(path, true);
    /* the weights are last; another file may be missing if it has no recorded checksum */
    for (const char *const *file = trainer->task->files; *file && !lost; file++)
        lost = bo_train_join(context, place, *file, path) == BO_OK && is_lost(path, !file[1]);
    return lost;
}

/* Restores the newest intact checkpoint. *left is the number of checkpoints up to and including it. If all are damaged,
 * nothing changes, and the error is that of the newest one. Other errors end the search, because the same checkpoint
 * may be readable at the next attempt. */
static bo_status restore_newest(bo_context *context, bo_trainer *trainer, const uint64_t *steps, size_t *left)
{
    char message[1024];
    bo_status first = BO_OK;
    const size_t count = *left;
    for (; *left; --*left) {
        const uint64_t step = steps[*left - 1];
        const bo_status status = restore_from(context, trainer, step);
        if (status != BO_FORMAT && !(status == BO_IO && has_lost_files(context, trainer, step))) return status;
        if (first == BO_OK) snprintf(message, sizeof message, "%s", bo_context_error(context));
        if (first == BO_OK) first = status;
        if (*left > 1)
            bo_log(context, BO_LOG_WARNING, "%s; trying the older checkpoint of step %llu", bo_context_error(context),
                   (unsigned long long)steps[*left - 2]);
    }
    return bo_fail(context, first, count > 1 ? "%s; none of the %zu checkpoints can be read" : "%s", message, count);
}

/* Renames a damaged checkpoint, because the run will write this step again. Its files may still be useful, as may those
 * of an earlier damaged checkpoint of the same step. */
static bo_status set_aside(bo_context *context, const bo_trainer *trainer, uint64_t step)
{
    char place[BO_TRAIN_PATH], away[BO_TRAIN_PATH], ending[32] = ".damaged";
    BO_TRY(place_of(context, trainer, step, "", place));
    BO_TRY(place_of(context, trainer, step, ending, away));
    for (unsigned i = 2; access(away, F_OK) == 0; i++) {
        snprintf(ending, sizeof ending, ".damaged-%u", i);
        BO_TRY(place_of(context, trainer, step, ending, away));
    }
    return rename_directory(context, place, away);
}

/* True if both directories have the same weights: hard links of one file, or a copy with the same checksum. */
static bool share_weights(bo_context *context, const bo_train_task *task, const char *a, const char *b)
{
    char left[BO_TRAIN_PATH], right[BO_TRAIN_PATH], start[2][64] = {{0}};
    struct stat one, other;
    if (bo_train_join(context, a, weights_of(task), left) != BO_OK ||
        bo_train_join(context, b, weights_of(task), right) != BO_OK || stat(left, &one) != 0 ||
        stat(right, &other) != 0)
        return false;
    if (one.st_ino == other.st_ino && one.st_dev == other.st_dev) return true;
    for (int i = 0; i < 2; i++) { /* the header starts with the checksum */
        const int file = open(i ? right : left, O_RDONLY | O_CLOEXEC);
        const ssize_t got = file < 0 ? -1 : read(file, start[i], sizeof start[i]);
        if (file >= 0) close(file);
        if (got != sizeof start[i]) return false;
    }
    return memcmp(start[0], start[1], sizeof start[0]) == 0;
}

/* The checkpoints from `left` on are damaged. If best/ has the files of one of them, these may be damaged too, and the
 * resumed run has not reached their step. They are replaced by the files of the best step so far, if its checkpoint
 * exists. */
static bo_status repair_best(bo_context *context, const bo_trainer *trainer, const uint64_t *steps, size_t left,
                             size_t count)
{
    char best[BO_TRAIN_PATH], place[BO_TRAIN_PATH];
    size_t stale = left;
    BO_TRY(bo_train_join(context, trainer->directory, "best", best));
    for (; stale < count; stale++) {
        BO_TRY(place_of(context, trainer, steps[stale], "", place));
        if (share_weights(context, trainer->task, best, place)) break;
    }
    if (stale == count) return BO_OK;
    for (size_t i = 0; i < left; i++) {
        if (isnan(trainer->now.best_loss) || steps[i] != trainer->now.best_step) continue;
        BO_TRY(place_of(context, trainer, steps[i], "", place));
        return show(context, trainer->task, place, best);
    }
    bo_log(
        context, BO_LOG_WARNING,
        "%s: this is the model of step %llu, whose checkpoint is damaged; it is kept until the run finds a better one",
        best, (unsigned long long)steps[stale]);
    return BO_OK;
}

static bo_status restore(bo_context *context, bo_trainer *trainer, const uint64_t *steps, size_t count)
{
    size_t left = count;
    if (count) BO_TRY(restore_newest(context, trainer, steps, &left));
    if (count) trainer->saved = steps[left - 1];
    if (!bo_train_first(trainer)) return BO_OK;
    BO_TRY(repair_best(context, trainer, steps, left, count));
    for (size_t i = left; i < count; i++) BO_TRY(set_aside(context, trainer, steps[i]));
    BO_TRY(bo_train_metrics_cut(context, trainer));
    return count ? show_newest(context, trainer) : BO_OK; /* the run was killed before this step */
}

bo_status bo_train_restore(bo_context *context, bo_trainer *trainer)
{
    uint64_t *steps;
    size_t count;
    BO_TRY(list_checkpoints(context, trainer->directory, &steps, &count));
    const bo_status status = restore(context, trainer, steps, count);
    bo_free(steps);
    return status;
}
