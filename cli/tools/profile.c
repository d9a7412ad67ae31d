#include "profile.h"
#include "../common/output.h"
#include "../common/plot.h"
#include <stdlib.h>
#include <string.h>

const cli_option cli_profile_rows[] = {
    SECTION("Devices"),
    FLAG("devices", cli_profile_options, devices, "list the supported GPUs of this host"),
    SECTION("Profile"),
    TEXT("graph", "FILE", cli_profile_options, graph,
         "time one training step of a text model or a network on random data, print the time per operation, and write "
         "the graph of operations to FILE: .dot, or .svg (needs Graphviz)"),
    COUNT("batch", "N", cli_profile_options, batch, "sequences, texts or rows per step", .low = 1, .high = 1 << 20,
          .default_text = "1; for networks 32"),
    COUNT("tokens", "N", cli_profile_options, tokens, "tokens per sequence or text", .low = 1, .high = 1 << 24,
          .default_text = "the model's context, at most 256"),
    DEVICE(cli_profile_options),
    PRECISION(cli_profile_options, .traits = 0),
    COUNT("repeats", "N", cli_profile_options, repeats, "number of runs; the median time is reported", .low = 1,
          .high = 1000, .initial = "5"),
    FLAG("forward", cli_profile_options, forward, "time the forward pass only"),
    FLAG("checkpointing", cli_profile_options, checkpointing, "use activation checkpointing, as in bochner train"),
    END_OF_OPTIONS,
};

static bool is_dot(const char *path)
{
    return cli_ends_with(path, ".dot") || cli_ends_with(path, ".gv");
}

bool cli_profile_check(cli_session *session, const cli_profile_options *options, int *status)
{
    *status = CLI_USAGE_ERROR;
    if (!options->graph) {
        const cli_option *other = cli_next_given(cli_profile_rows, options, NULL);
        if (other) cli_usage_error("info", "--%s needs --graph FILE", other->name);
        return !other;
    }
    if (!is_dot(options->graph) && !cli_ends_with(options->graph, ".svg")) {
        cli_usage_error("info", "--graph: expected a name ending in .dot or .svg, found '%s'", options->graph);
        return false;
    }
    if (options->forward && options->checkpointing) {
        cli_usage_error("info",
                        "--checkpointing changes the backward pass, which --forward leaves out; give one of them");
        return false;
    }
    *status = CLI_FAILED;
    return cli_can_write(session, options->graph);
}

bo_profile_desc cli_profile_desc(const cli_profile_options *options, const cli_common *common)
{
    return (bo_profile_desc){.batch = options->batch,
                             .tokens = options->tokens,
                             .repeats = options->repeats,
                             .forward = options->forward,
                             .checkpointing = options->checkpointing,
                             .seed = common->seed};
}

/* ---- the graph --------------------------------------------------------------------------------------------------- */

typedef struct drawing {
    bo_context *context;
    const bo_profile *profile;
} drawing;

static void draw(FILE *pipe, const char *path, const void *what)
{
    const drawing *d = what;
    (void)path;
    bo_profile_draw(d->context, d->profile, pipe); /* a broken pipe is detected by the output */
}

static int draw_svg(cli_session *session, const char *path, const drawing *what)
{
    switch (cli_plot_through("dot -Tsvg", path, draw, what)) {
    case CLI_NO_TOOL:
        return cli_fail(
            session,
            "cannot draw %s: Graphviz is not installed (Debian: apt install graphviz); .dot files do not need it",
            path);
    case CLI_NOT_DRAWN:
        return cli_fail(session, "cannot draw %s: the program dot of Graphviz failed", path);
    case CLI_NOT_WRITTEN:
        return cli_fail(session, "cannot draw %s: the file could not be written; check the free disk space", path);
    case CLI_DRAWN:
        break;
    }
    return CLI_DONE;
}

int cli_profile_draw(cli_session *session, const cli_profile_options *options, const bo_profile *profile)
{
    const drawing what = {session->context, profile};
    int status = CLI_DONE;
    if (is_dot(options->graph)) {
        cli_output output;
        if (!cli_output_text(session, &output, options->graph)) return CLI_FAILED;
        const bo_status drawn = bo_profile_draw(session->context, profile, output.file);
        if (drawn != BO_OK)
            status = cli_fail_status(session, drawn);
        else if (!cli_output_commit(session, &output))
            status = CLI_FAILED;
        cli_output_abandon(&output);
    } else {
        status = draw_svg(session, options->graph, &what);
    }
    if (status == CLI_DONE) cli_note(session, "Graph       %s", options->graph);
    return status;
}

/* ---- by kind of operation ---------------------------------------------------------------------------------------- */

typedef struct kind {
    const char *name;
    size_t count, bytes;
    double forward, backward, again, all;
} kind;

static int longest_first(const void *a, const void *b)
{
    const kind *x = a, *y = b;
    return x->all != y->all ? (x->all < y->all) - (x->all > y->all) : strcmp(x->name, y->name);
}

/* Freed by the caller; *count of them. */
static kind *kinds_of(const bo_profile *profile, size_t *count)
{
    kind *kinds = cli_allocate(profile->operation_count + 1, sizeof *kinds, "a profile");
    *count = 0;
    for (size_t i = 0; i < profile->operation_count; i++) {
        const bo_operation_info *operation = &profile->operations[i];
        kind *k = kinds;
        while (k < kinds + *count && strcmp(k->name, operation->name) != 0) k++;
        if (k == kinds + *count) *count += 1;
        k->name = operation->name;
        k->count++;
        k->bytes += operation->bytes;
        k->forward += operation->forward;
        k->backward += operation->backward;
        k->again += operation->again;
        k->all += operation->forward + operation->backward + operation->again;
    }
    qsort(kinds, *count, sizeof *kinds, longest_first);
    return kinds;
}

static void print_times(const bo_profile_totals *t, double forward, double again, double backward)
{
    const double all[] = {t->forward, t->again, t->backward}, times[] = {forward, again, backward};
    for (size_t i = 0; i < 3; i++) {
        if (all[i] > 0 && times[i] > 0)
            printf(" %12.3f", 1e3 * times[i]);
        else if (all[i] > 0) /* other rows have times */
            printf(" %12s", "");
    }
}

void cli_profile_print(const bo_profile *profile)
{
    size_t count;
    const bo_profile_totals *t = &profile->totals;
    kind *kinds = kinds_of(profile, &count);
    const double all = t->forward + t->backward + t->again + t->rounding;
    printf("\n%-12s%s: %.3g ms in operations (median of %zu run%s, %d thread%s)\n", "Profile", t->subject, 1e3 * all,
           t->repeats, t->repeats == 1 ? "" : "s", t->threads, t->threads == 1 ? "" : "s");
    printf("%-12sactivations and gradients %s, weights %s\n\n", "Memory", cli_bytes((double)t->bytes).s,
           cli_bytes((double)t->weight_bytes).s);
    printf("  %-16s %6s%s%s%s %8s %10s\n", "operation", "count", t->forward > 0 ? "   forward ms" : "",
           t->again > 0 ? " recompute ms" : "", t->backward > 0 ? "  backward ms" : "", "share", "bytes");
    for (size_t i = 0; i < count; i++) {
        const kind *k = &kinds[i];
        printf("  %-16s %6zu", k->name, k->count);
        print_times(t, k->forward, k->again, k->backward);
        printf(" %7.1f%% %10s\n", all > 0 ? 100 * k->all / all : 0, cli_bytes((double)k->bytes).s);
    }
    printf("  %-16s %6zu", "all", profile->operation_count);
    print_times(t, t->forward, t->again, t->backward);
    putchar('\n');
    free(kinds);
}

static void kinds_json(cli_json *json, const bo_profile *profile)
{
    size_t count;
    kind *kinds = kinds_of(profile, &count);
    cli_json_array(json, "kinds");
    for (size_t i = 0; i < count; i++) {
        cli_json_object(json, NULL);
        cli_json_add_text(json, "operation", kinds[i].name);
        cli_json_add_count(json, "count", kinds[i].count);
        cli_json_add_number(json, "forward_seconds", kinds[i].forward);
        cli_json_add_number(json, "again_seconds", kinds[i].again);
        cli_json_add_number(json, "backward_seconds", kinds[i].backward);
        cli_json_add_count(json, "bytes", kinds[i].bytes);
        cli_json_end(json);
    }
    cli_json_end(json);
    free(kinds);
}

static void operations_json(cli_json *json, const bo_profile *profile)
{
    cli_json_array(json, "operations");
    for (size_t i = 0; i < profile->operation_count; i++) {
        const bo_operation_info *operation = &profile->operations[i];
        const bo_value_info *first = &profile->values[operation->output[0]];
        cli_json_object(json, NULL);
        cli_json_add_text(json, "operation", operation->name);
        cli_json_add_text(json, "scope", operation->scope);
        cli_json_add_count(json, "rows", first->rows);
        cli_json_add_count(json, "columns", first->columns);
        cli_json_add_count(json, "bytes", operation->bytes);
        cli_json_add_number(json, "flops", operation->flops);
        cli_json_add_number(json, "forward_seconds", operation->forward);
        cli_json_add_number(json, "again_seconds", operation->again);
        cli_json_add_number(json, "backward_seconds", operation->backward);
        cli_json_end(json);
    }
    cli_json_end(json);
}

void cli_profile_json(cli_json *json, const bo_profile *profile)
{
    const bo_profile_totals *t = &profile->totals;
    cli_json_object(json, "profile");
    cli_json_add_text(json, "subject", t->subject);
    cli_json_add_count(json, "threads", (size_t)t->threads);
    cli_json_add_count(json, "repeats", t->repeats);
    cli_json_add_number(json, "seconds", t->seconds);
    cli_json_add_number(json, "forward_seconds", t->forward);
    cli_json_add_number(json, "again_seconds", t->again);
    cli_json_add_number(json, "backward_seconds", t->backward);
    cli_json_add_number(json, "flops", t->flops);
    cli_json_add_count(json, "bytes", t->bytes);
    cli_json_add_count(json, "weight_bytes", t->weight_bytes);
    kinds_json(json, profile);
    operations_json(json, profile);
    cli_json_end(json);
}
