/* Profiles of graphs: the recorded operations, times that add up, and graphs that Graphviz can read for any names. */
#include "toy.h"
#include "../base/counting.h"
#include <unistd.h>

enum { ROWS = 4, COLUMNS = 3 };
static const char hostile[] = "a\"b<c>&d\\e\nf]]>{|}\xff'%s";

typedef struct fixture {
    bo_context *context;
    bo_weights *weights;
    bo_graph *graph;
} fixture;

static bo_value one(fixture *f, int op, size_t count, const bo_value *inputs)
{
    return bo_graph_one(f->graph, op, NULL, count, inputs);
}

/* Σ sin(x w) + w, with names that the DOT output must quote. */
static fixture begin(bo_context *context, bool checkpoint)
{
    fixture f = {.context = context};
    assert_ok(context, bo_weights_create_on(context, toy_device(), &f.weights));
    assert_ok(context, bo_graph_create(context, f.weights, &f.graph));
    bo_graph_scope(f.graph, "<layer & \"0\">");
    bo_value x = bo_graph_input(f.graph, hostile, BO_ELEMENT_FLOAT32, ROWS, COLUMNS);
    bo_value w = bo_graph_weight(f.graph, &(bo_weight_desc){.name = hostile,
                                                            .rank = 2,
                                                            .shape = (size_t[]){ROWS, COLUMNS},
                                                            .init = {.kind = BO_WEIGHT_INIT_KIND_NORMAL, .b = 0.5}});
    if (checkpoint) bo_graph_segment(f.graph, true);
    bo_value product = one(&f, TOY_PRODUCT, 2, (bo_value[]){x, w});
    bo_value sine = one(&f, TOY_SINE, 1, &product);
    if (checkpoint) bo_graph_segment(f.graph, false);
    bo_graph_scope(f.graph, "end");
    if (checkpoint) bo_graph_segment(f.graph, true); /* the last segment is not recomputed */
    bo_value sum = one(&f, TOY_ADD, 2, (bo_value[]){sine, w});
    bo_value loss = one(&f, TOY_SUM, 1, &sum);
    if (checkpoint) bo_graph_segment(f.graph, false);
    bo_graph_compile_desc desc = {.loss = loss, .gradients = true, .checkpoint = checkpoint};
    assert_ok(context, bo_graph_compile(context, f.graph, &desc));
    assert_ok(context, bo_weights_allocate(context, f.weights, true));
    assert_ok(context, bo_weights_init(context, f.weights, 1));
    assert_ok(context, bo_graph_allocate(context, f.graph));
    const float ones[ROWS * COLUMNS] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    assert_ok(context, bo_graph_write(context, f.graph, x, ones));
    return f;
}

static void end(fixture *f)
{
    watch_begin(NULL);
    bo_graph_destroy(f->graph);
    bo_weights_destroy(f->weights);
}

static void recorded(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    fixture f = begin(context, false);
    bo_profile *p;
    assert_ok(context, bo_graph_profile(context, f.graph, NULL, "a test", 0, &p)); /* no timed run */
    end(&f);                                                                       /* the profile outlives the graph */
    assert_int_equal(p->operation_count, 4);
    assert_int_equal(p->value_count, 6);
    const bo_value_info *x = &p->values[0], *w = &p->values[1], *made = &p->values[2];
    assert_int_equal(x->origin, BO_VALUE_ORIGIN_INPUT);
    assert_string_equal(x->name, hostile);
    assert_false(x->trained);
    assert_int_equal(w->origin, BO_VALUE_ORIGIN_WEIGHT);
    assert_true(w->trained);
    assert_string_equal(w->type, "float32");
    assert_int_equal(w->bytes, ROWS * COLUMNS * 4);
    assert_int_equal(made->origin, BO_VALUE_ORIGIN_OPERATION);
    assert_null(made->name);
    assert_int_equal(made->operation, 0);
    const bo_operation_info *product = &p->operations[0], *sine = &p->operations[1];
    assert_string_equal(product->scope, "<layer & \"0\">");
    assert_int_equal(product->inputs, 2);
    assert_int_equal(product->input[0], 0);
    assert_int_equal(product->input[1], 1);
    assert_int_equal(product->output[0], 2);
    assert_int_equal(sine->input[0], 2);
    assert_true(sine->bytes > product->bytes); /* it saves a value for backward */
    assert_string_equal(p->operations[3].scope, "end");
    const bo_profile_totals *t = &p->totals;
    assert_string_equal(t->subject, "a test");
    assert_int_equal(t->repeats, 0);
    assert_true(t->seconds == 0 && t->forward == 0 && t->bytes > 0);
    assert_int_equal(t->weight_bytes, ROWS * COLUMNS * 4);
    bo_profile_destroy(p);
    bo_profile_destroy(NULL);
    bo_context_destroy(context);
}

static void times(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (int checkpoint = 0; checkpoint < 2; checkpoint++) {
        fixture f = begin(context, checkpoint);
        bo_profile *p;
        for (size_t repeats = 1; repeats <= 4; repeats++) {
            double forward = 0, backward = 0, again = 0;
            assert_ok(context, bo_graph_profile(context, f.graph, NULL, "a test", repeats, &p));
            const bo_profile_totals *t = &p->totals;
            for (size_t i = 0; i < 4; i++) {
                const bo_operation_info *operation = &p->operations[i];
                assert_true((operation->forward > 0) == (i < 3)); /* the sum is computed in backward */
                assert_true(operation->backward > 0);
                assert_true((operation->again > 0) == (checkpoint && i < 2)); /* the first segment */
                forward += operation->forward, backward += operation->backward, again += operation->again;
            }
            assert_close(t->forward, forward, 1e-12);
            assert_close(t->backward, backward, 1e-12);
            assert_close(t->again, again, 1e-12);
            assert_true(t->seconds > 0 && t->seconds < 60);
            if (repeats == 1) assert_true(forward + backward + again <= t->seconds); /* the steps of that run */
            assert_int_equal(t->repeats, repeats);
            assert_null(f.graph->seconds);
            bo_profile_destroy(p);
        }
        end(&f);
    }
    bo_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    fixture f = begin(context, false);
    bo_profile *p = (bo_profile *)1;
    assert_fails(context, BO_INVALID, "at most 1000", bo_graph_profile(context, f.graph, NULL, "", 1001, &p));
    assert_null(p);
    bo_graph *bare;
    assert_ok(context, bo_graph_create(context, f.weights, &bare));
    assert_fails(context, BO_INVALID, "not compiled yet", bo_graph_profile(context, bare, NULL, "", 1, &p));
    bo_graph_destroy(bare);
    end(&f);
    bo_context_destroy(context);
}

static void starved(void **state)
{
    (void)state;
    counting memory = {0};
    bo_context *context = counting_context(&memory, 1);
    fixture f = begin(context, false);
    for (size_t at = 1;; at++) {
        bo_profile *p = NULL;
        const size_t before = atomic_load(&memory.live);
        memory.fail_at = atomic_load(&memory.calls) + at;
        const bo_status status = bo_graph_profile(context, f.graph, NULL, "a test", 2, &p);
        const bool reached = atomic_load(&memory.calls) >= memory.fail_at;
        memory.fail_at = 0;
        assert_int_equal(status, reached ? BO_MEMORY : BO_OK);
        bo_profile_destroy(p);
        assert_int_equal(atomic_load(&memory.live), before);
        if (!reached) break;
    }
    end(&f);
    bo_context_destroy(context);
}

/* Returns the DOT output; the caller frees it. */
static char *drawn(bo_context *context, const bo_profile *p)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    assert_ok(context, bo_profile_draw(context, p, out));
    fclose(out);
    return text;
}

static void draws_a_graph(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    fixture f = begin(context, true);
    bo_profile *p;
    assert_ok(context, bo_graph_profile(context, f.graph, NULL, hostile, 3, &p));
    char *text = drawn(context, p);
    for (const char *c = text; *c; c++) assert_true((unsigned char)*c >= 0x20 || *c == '\n');
    assert_null(strstr(text, hostile));
    assert_non_null(strstr(text, "&#60;layer &#38; &#34;0&#34;&#62;"));
    assert_non_null(strstr(text, "operation0 -> operation1"));
    assert_non_null(strstr(text, "value0 -> operation0"));
    assert_null(strstr(text, "value1")); /* a weight is a line in the box of its operation */
    free(text);
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        setvbuf(full, NULL, _IONBF, 0);
        assert_fails(context, BO_IO, "could not be written", bo_profile_draw(context, p, full));
        fclose(full);
    }
    bo_profile_destroy(p);
    end(&f);
    bo_context_destroy(context);
}

static void graphviz_reads_it(void **state)
{
    (void)state;
    if (system("command -v dot >/dev/null 2>&1") != 0) skip(); /* Graphviz is not installed */
    bo_context *context = test_context(1);
    for (size_t repeats = 0; repeats < 2; repeats++) {
        fixture f = begin(context, false);
        bo_profile *p;
        assert_ok(context, bo_graph_profile(context, f.graph, NULL, hostile, repeats, &p));
        char *text = drawn(context, p), line[512];
        char path[] = "/tmp/bochner-profile-XXXXXX";
        const int file = mkstemp(path);
        assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
        close(file);
        snprintf(line, sizeof line, "dot -Tplain '%s' 2>&1", path);
        FILE *out = popen(line, "r");
        size_t nodes = 0, edges = 0;
        while (fgets(line, sizeof line, out)) {
            if (strstr(line, "rror") || strstr(line, "arning")) fail_msg("dot: %s", line);
            nodes += strncmp(line, "node ", 5) == 0;
            edges += strncmp(line, "edge ", 5) == 0;
        }
        assert_int_equal(pclose(out), 0);
        assert_int_equal(nodes, 5); /* four operations and the input */
        assert_int_equal(edges, 4);
        unlink(path);
        free(text);
        bo_profile_destroy(p);
        end(&f);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recorded),      cmocka_unit_test(times),
                                       cmocka_unit_test(refusals),      cmocka_unit_test(starved),
                                       cmocka_unit_test(draws_a_graph), cmocka_unit_test(graphviz_reads_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
