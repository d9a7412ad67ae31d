/* Calibrations as files: round trips, and invalid files are refused. */
#include "made_up.h"
#include <unistd.h>

static const char *const path = "plan_test_machine.json";

static void a_host_round_trips(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    static const char *const names[] = {"rfa-gate", "softmax", "taylor"};
    for (size_t i = 0; i < 3; i++) {
        bo_plan_timing timings[MADE_UP];
        bo_plan_host *host, *again;
        made_up_timings(context, names[i], timings);
        assert_ok(context, bo_plan_host_fit(context, timings, MADE_UP, 0, &host));
        assert_ok(context, bo_plan_host_save(context, host, path));
        assert_ok(context, bo_plan_host_load(context, path, &again));
        for (size_t t = 0; t < BO_PLAN_TERM_COUNT; t++) assert_close(again->costs[t] / host->costs[t], 1, 1e-9);
        assert_true(again->timing_count == host->timing_count && again->threads == host->threads);
        assert_string_equal(again->isa, host->isa);
        assert_string_equal(again->timings[3].shape.attention, names[i]);
        assert_true(again->timings[3].shape.features == host->timings[3].shape.features);
        bo_plan_host_destroy(host);
        bo_plan_host_destroy(again);
    }
    unlink(path);
    bo_context_destroy(context);
}

/* The text of a calibration with one word replaced. */
static void refused_with(bo_context *context, const char *message, const char *old, const char *new)
{
    bo_plan_host *host = made_up_host(context);
    assert_ok(context, bo_plan_host_save(context, host, path));
    bo_plan_host_destroy(host);
    FILE *file = fopen(path, "r");
    static char text[1 << 16], other[1 << 16];
    const size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *at = strstr(text, old);
    assert_non_null(at);
    snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, new, at + strlen(old));
    assert_fails(context, BO_FORMAT, message, bo_plan_host_parse(context, path, other, strlen(other), &host));
    assert_null(host);
    unlink(path);
}

static void broken_files_are_refused(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_plan_host *host = (bo_plan_host *)context;
    assert_fails(context, BO_IO, "nowhere.json", bo_plan_host_load(context, "nowhere.json", &host));
    assert_null(host);
    assert_fails(context, BO_FORMAT, "", bo_plan_host_parse(context, path, "{", 1, &host));
    assert_fails(context, BO_FORMAT, "format", bo_plan_host_parse(context, path, "{}", 2, &host));
    refused_with(context, "found 'other'", "bochner calibration 1", "other");
    refused_with(context, "unknown attention 'nothing'", "rfa-gate", "nothing");
    refused_with(context, "unknown optimizer 'hope'", "\"muon\"", "\"hope\"");
    refused_with(context, "threads", "\"threads\": 1", "\"threads\": 0");
    refused_with(context, "layers", "\"layers\": 1", "\"layers\": 1.5");
    refused_with(context, "width", "\"width\": 64", "\"breadth\": 64");
    refused_with(context, "seconds", "\"seconds\": ", "\"seconds\": -");
    refused_with(context, "at most", "\"width\": 64", "\"width\": 6400000");
    refused_with(context, "features", "\"features\": 128", "\"features\": 128000000");
    refused_with(context, "heads", "\"heads\": 2", "\"heads\": 3");
    refused_with(context, "timings", "\"timings\"", "\"timing\"");
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_host_round_trips),
                                       cmocka_unit_test(broken_files_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
