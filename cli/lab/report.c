/* bochner lab report: what lies in the folder of results, as a page and as Markdown. */
#include "lab.h"
#include "../common/output.h"
#include "../common/paths.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Pictures are drawn anew from the numbers; a folder that cannot be written, or no gnuplot, leaves those that are
 * there. */
static size_t draw_pictures(cli_lab_job *lab, const cli_lab_results *results)
{
    size_t failed = 0;
    if (access(lab->folder, W_OK) != 0) {
        cli_warn(&lab->session, "%s cannot be written: pictures are those that are there already", lab->folder);
        return 0;
    }
    for (size_t i = 0; i < bo_lab_count(); i++) {
        if (!results->items[i]) continue;
        if (!cli_lab_draw(lab, results->items[i], &failed)) {
            cli_warn(&lab->session,
                     "gnuplot is not installed: pictures that are not there yet are named on the page as missing");
            break;
        }
        cli_progress_report(&lab->session.progress, "drawing", (double)i, (double)bo_lab_count());
    }
    cli_progress_clear(&lab->session.progress);
    return failed;
}

static bool write_page(cli_lab_job *lab, const char *path, const cli_lab_results *results, size_t *missing)
{
    cli_output output;
    if (!cli_output_text(&lab->session, &output, path)) return false;
    *missing = cli_lab_page(output.file, lab, results);
    return cli_output_commit(&lab->session, &output);
}

static bool write_markdown(cli_lab_job *lab, const char *path, const cli_lab_results *results)
{
    cli_output output;
    if (!cli_output_text(&lab->session, &output, path)) return false;
    cli_lab_markdown(output.file, results);
    return cli_output_commit(&lab->session, &output);
}

static void say(const cli_lab_job *lab, const char *page, const cli_lab_results *results, size_t missing)
{
    if (lab->session.common.json) {
        cli_json json = {.out = stdout};
        cli_json_object(&json, NULL);
        cli_json_text(&json, "page", page);
        cli_json_text(&json, "markdown", lab->options->markdown);
        cli_json_count(&json, "experiments", results->count);
        cli_json_count(&json, "held", results->verdicts[BO_LAB_HELD]);
        cli_json_count(&json, "not_held", results->verdicts[BO_LAB_NOT_HELD]);
        cli_json_count(&json, "inconclusive", results->verdicts[BO_LAB_INCONCLUSIVE]);
        cli_json_count(&json, "unreadable", results->unreadable);
        cli_json_count(&json, "missing_pictures", missing);
        cli_json_end(&json);
        return;
    }
    printf("%zu experiment%s: %zu claims held, %zu did not, %zu inconclusive\n", results->count,
           results->count == 1 ? "" : "s", results->verdicts[BO_LAB_HELD], results->verdicts[BO_LAB_NOT_HELD],
           results->verdicts[BO_LAB_INCONCLUSIVE]);
    if (missing) printf("%zu picture%s missing; the page names them\n", missing, missing == 1 ? " is" : "s are");
    printf("Page: %s\n", page);
    if (lab->options->markdown) printf("Markdown: %s\n", lab->options->markdown);
}

static int report(cli_lab_job *lab, const char *page)
{
    const char *markdown = lab->options->markdown;
    cli_lab_results results;
    size_t missing = 0, failed = 0;
    struct stat info;
    errno = 0;
    if (stat(lab->folder, &info) != 0) return cli_fail(&lab->session, "%s: %s", lab->folder, strerror(errno));
    if (!S_ISDIR(info.st_mode)) return cli_fail(&lab->session, "%s: it is no folder", lab->folder);
    if (!cli_can_write(&lab->session, page) || (markdown && !cli_can_write(&lab->session, markdown))) return CLI_FAILED;
    cli_lab_read(lab, &results);
    bool done = results.count > 0;
    if (!done)
        cli_fail(&lab->session, "no results in %s to report; bochner lab run all --quick --out %s makes some",
                 lab->folder, lab->folder);
    if (done) failed = draw_pictures(lab, &results);
    if (done) done = write_page(lab, page, &results, &missing);
    if (done && markdown) done = write_markdown(lab, markdown, &results);
    if (done) say(lab, page, &results, missing);
    done = done && !failed && !results.unreadable;
    cli_lab_forget(&results);
    return done ? CLI_DONE : CLI_FAILED;
}

/* Neither page nor Markdown takes the place of a result or a picture. */
static int check_outputs(const cli_lab_job *lab, const char *page)
{
    const cli_path outputs[] = {{"page", page}, {"markdown", lab->options->markdown}};
    int status = cli_paths_apart("lab", outputs, CLI_COUNT_OF(outputs), NULL, 0);
    for (size_t i = 0; i < bo_lab_count() && status == CLI_DONE; i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        for (size_t t = 0; t <= e->table_count && status == CLI_DONE; t++) {
            char *path = cli_lab_file(lab, e, t < e->table_count ? &e->tables[t] : NULL);
            const cli_path input = {NULL, path};
            status = cli_paths_apart("lab", outputs, CLI_COUNT_OF(outputs), &input, 1);
            free(path);
        }
    }
    return status;
}

int cli_lab_report(cli_lab_job *lab)
{
    const cli_lab_options *o = lab->options;
    const size_t room = strlen(lab->folder) + 16;
    char *usual = cli_allocate(room, 1, "file name");
    snprintf(usual, room, "%s/report.html", lab->folder);
    const char *page = o->page ? o->page : usual;
    int status = check_outputs(lab, page);
    if (status == CLI_DONE) status = report(lab, page);
    free(usual);
    return status;
}
