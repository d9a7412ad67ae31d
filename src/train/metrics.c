/* metrics.jsonl: a line for each report, under the names of bo_training_report, metric and unit by their own. */
#include "train.h"
#include <bochner/data.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../io/json.h"

static const char FIRST[] = "{\"step\": "; /* of every line, by which lines are cut */

/* Names are plain words, some of two parts. */
static void add_named(bo_json_text *text, const char *first, const char *second, double value)
{
    bo_json_raw(text, ", \"");
    bo_json_raw(text, first);
    bo_json_raw(text, second);
    bo_json_raw(text, "\": ");
    bo_json_number(text, value);
}

static void add(bo_json_text *text, const char *name, double value)
{
    add_named(text, name, "", value);
}

static void line_of(bo_json_text *text, const bo_training_report *r)
{
    bo_json_raw(text, FIRST);
    bo_json_whole(text, r->step);
    add(text, "steps", (double)r->steps);
    add(text, "loss", r->loss);
    add(text, "valid_loss", r->valid_loss);
    add_named(text, "valid_", r->metric, r->valid_metric);
    add(text, "best_valid_loss", r->best_valid_loss);
    add(text, "gradient_norm", r->gradient_norm);
    add(text, "rate", r->rate);
    add(text, r->unit, (double)r->tokens);
    add(text, "seconds", r->seconds);
    add_named(text, r->unit, "_per_second", r->tokens_per_second);
    add(text, "gflops", r->gflops);
    add(text, "seconds_left", r->seconds_left);
    bo_json_raw(text, r->evaluated ? ", \"evaluated\": true}\n" : ", \"evaluated\": false}\n");
}

static bo_status append(bo_context *context, const char *path, const bo_json_text *text)
{
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) return bo_fail(context, BO_IO, "%s: cannot be written: %s", path, strerror(errno));
    errno = ENOSPC; /* of a line of which only a part was taken */
    const ssize_t written = write(file, text->bytes, text->length);
    const int error = errno;
    close(file);
    if (written == (ssize_t)text->length) return BO_OK;
    return bo_fail(context, BO_IO, "%s: writing failed: %s", path, strerror(error));
}

bo_status bo_train_metrics_add(bo_context *context, const bo_trainer *trainer)
{
    char path[BO_TRAIN_PATH];
    bo_json_text text = {.context = context};
    BO_TRY(bo_train_join(context, trainer->folder, "metrics.jsonl", path));
    line_of(&text, &trainer->report);
    const bo_status status = text.failed ? BO_MEMORY : append(context, path, &text);
    bo_free(text.bytes);
    return status;
}

/* Does the line belong to steps that are done? Half a line does not. */
static bool stays(const char *line, const char *end, uint64_t done)
{
    const size_t length = sizeof FIRST - 1;
    return *end == '\n' && strncmp(line, FIRST, length) == 0 && strtoull(line + length, NULL, 10) <= done;
}

bo_status bo_train_metrics_cut(bo_context *context, const bo_trainer *trainer)
{
    char path[BO_TRAIN_PATH], *text;
    size_t length, kept = 0;
    BO_TRY(bo_train_join(context, trainer->folder, "metrics.jsonl", path));
    if (access(path, F_OK) != 0) return BO_OK;
    BO_TRY(bo_train_read_text(context, path, &text, &length));
    for (char *line = text; line < text + length;) {
        const char *end = line + strcspn(line, "\n");
        if (end == text + length || !stays(line, end, trainer->now.step)) break;
        kept = (size_t)(end + 1 - text);
        line = text + kept;
    }
    const bo_status status = kept < length ? bo_file_write(context, path, text, kept) : BO_OK;
    bo_free(text);
    return status;
}
