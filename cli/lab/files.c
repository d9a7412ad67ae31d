/* Reads the directory of results. */
#include "lab.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *cli_lab_file(const cli_lab_job *lab, const bo_lab_experiment *experiment, const bo_lab_table *table)
{
    const size_t size = strlen(lab->directory) + strlen(experiment->name) + (table ? strlen(table->name) : 0) + 16;
    char *path = cli_allocate(size, 1, "file name");
    snprintf(path, size, "%s/%s%s%s%s", lab->directory, experiment->name, table ? "-" : "", table ? table->name : "",
             table ? ".svg" : ".json");
    return path;
}

bo_lab_result *cli_lab_result(const cli_lab_job *lab, const bo_lab_experiment *experiment, char why[CLI_LAB_WHY])
{
    bo_context *context = lab->session.context;
    bo_lab_result *result = NULL;
    char *path = cli_lab_file(lab, experiment, NULL);
    why[0] = 0;
    if (access(path, F_OK) == 0 && bo_lab_result_read(context, path, &result) != BO_OK) {
        result = NULL;
        snprintf(why, CLI_LAB_WHY, "%s", bo_context_error(context));
    }
    if (result && bo_lab_result_about(result).experiment != experiment) {
        snprintf(why, CLI_LAB_WHY, "%s: the result belongs to the experiment %s", path,
                 bo_lab_result_about(result).experiment->name);
        bo_lab_result_destroy(result);
        result = NULL;
    }
    free(path);
    return result;
}

static void read_one(cli_lab_job *lab, size_t index, cli_lab_results *out)
{
    char why[CLI_LAB_WHY];
    const bo_lab_result *result = out->items[index] = cli_lab_result(lab, bo_lab_at(index), why);
    if (why[0]) {
        out->unreadable++;
        cli_warn(&lab->session, "skipped: %s", why);
    }
    if (!result) return;
    out->count++;
    cli_lab_count(result, out->verdicts);
}

static bool is_experiment_file(const char *file)
{
    const size_t length = strlen(file);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const char *name = bo_lab_at(i)->name;
        if (length == strlen(name) + 5 && strncmp(file, name, strlen(name)) == 0) return true;
    }
    return false;
}

/* Reports .json files that are not named after an experiment. */
static void report_unknown_files(cli_lab_job *lab)
{
    DIR *directory = opendir(lab->directory);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0 && !is_experiment_file(entry->d_name))
            cli_note(&lab->session, "Skipped     %s/%s: no experiment has this name", lab->directory, entry->d_name);
    }
    if (directory) closedir(directory);
}

void cli_lab_read(cli_lab_job *lab, cli_lab_results *out)
{
    *out = (cli_lab_results){.items = cli_allocate(bo_lab_count(), sizeof *out->items, "results")};
    for (size_t i = 0; i < bo_lab_count(); i++) read_one(lab, i, out);
    report_unknown_files(lab);
}

void cli_lab_results_free(cli_lab_results *results)
{
    for (size_t i = 0; results->items && i < bo_lab_count(); i++) bo_lab_result_destroy(results->items[i]);
    free(results->items);
    *results = (cli_lab_results){0};
}
