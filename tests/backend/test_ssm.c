/* State-space systems with long sequences: the forms agree, kernels by doubling equal the recurrence, nothing
 * diverges. */
#include "nn/enums.h"
#include "cases_ssm.h"
#include "calls.h"
#include "backend/shapes.h"

/* A call on the operands of a case. */
typedef struct subject {
    plain_op plain;
    float *in[BO_OP_INPUTS];
    test_call t;
} subject;

static subject subject_make(const op_case *c)
{
    subject s = {.plain = op_make(c), .t = test_begin(BO_OPERATION_SSM, c->attributes)};
    for (size_t k = 0; k < c->inputs; k++) {
        size_t count = plain_count(&s.plain.in[k]);
        s.in[k] = test_floats(count, 0);
        for (size_t i = 0; i < count; i++) s.in[k][i] = (float)s.plain.in[k].x[i];
        test_input(&s.t, s.in[k], BO_ELEMENT_FLOAT32, c->in[k].rows, c->in[k].columns);
    }
    return s;
}

static void subject_drop(subject *s)
{
    test_end(&s->t);
    for (size_t k = 0; k < s->plain.inputs; k++) free(s->in[k]);
    op_drop(&s->plain);
}

/* x is 1, 0, 0, …: the output is the kernel. */
static void strike(subject *s)
{
    plain_tensor *x = &s->plain.in[0];
    for (size_t i = 0; i < plain_count(x); i++) s->in[0][i] = (float)(x->x[i] = i < x->columns);
}

static double largest(const float *x, size_t count)
{
    double max_size = 0;
    for (size_t i = 0; i < count; i++) max_size = fmax(max_size, fabs((double)x[i]));
    return max_size;
}

/* ---- forms ------------------------------------------------------------------------------------------------------- */

/* Both round sums of `rows` terms, whose error grows like the square root, and the twelve or so layers of a
 * transform. */
static void compare(const char *what, const float *a, const float *b, size_t count, size_t rows)
{
    double tolerance = 0x1p-23 * (16 + 4 * sqrt((double)rows)) * largest(a, count);
    for (size_t i = 0; i < count; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= tolerance))
            fail_msg("%s: number %zu is %.9g token by token and %.9g by convolution, expected within %.3g", what, i,
                     (double)a[i], (double)b[i], tolerance);
}

static void forms_agree(void **state)
{
    (void)state;
    static const size_t tokens[] = {1, 2, 63, 300, 1025};
    bo_context *context = test_context(2);
    for (size_t kind = 0; kind < BO_SSM_COUNT; kind++)
        for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
            bo_ssm_attributes a[2] = {{.kind = (bo_ssm)kind, .size = 8, .rank = 2, .form = BO_SSM_FORM_RECURRENT}};
            a[0].sequences.tokens = tokens[i];
            a[1] = a[0], a[1].form = BO_SSM_FORM_CONVOLUTION;
            size_t rows = 3 * tokens[i];
            op_case c[2] = {case_ssm(&a[0], rows, 18), case_ssm(&a[1], rows, 18)};
            subject s[2] = {subject_make(&c[0]), subject_make(&c[1])};
            float *dout = test_normals(rows * 18, 5);
            for (size_t f = 0; f < 2; f++) {
                test_forward(context, &s[f].t, true);
                test_backward(context, &s[f].t, dout, false);
            }
            compare("output", test_out(&s[0].t), test_out(&s[1].t), rows * 18, rows);
            for (size_t k = 0; k < c[0].inputs; k++)
                compare("gradient", s[0].t.call.din[k], s[1].t.call.din[k], plain_count(&s[0].plain.in[k]), rows);
            free(dout);
            subject_drop(&s[0]), subject_drop(&s[1]);
        }
    bo_context_destroy(context);
}

/* ---- long sequences ---------------------------------------------------------------------------------------------- */

/* The reference kernel, by its recurrence in double, compared with doubling and with steps: after t tokens a mode has
 * been multiplied by t factors with an error of 2^-24 of A - 1 each, and rounded t times. */
static void kernels_are_true(void **state)
{
    (void)state;
    enum { TOKENS = 5000, WIDE = 3 };
    bo_context *context = test_context(1);
    for (size_t kind = 0; kind < BO_SSM_COUNT; kind++)
        for (size_t form = 1; form < BO_SSM_FORM_COUNT; form++) {
            bo_ssm_attributes a = {.kind = (bo_ssm)kind, .form = (bo_ssm_form)form, .size = 4, .rank = 2};
            op_case c = case_ssm(&a, TOKENS, WIDE);
            c.in[1].a = -7, c.in[1].b = -3;
            subject s = subject_make(&c);
            strike(&s);
            test_forward(context, &s.t, false);
            plain_ssm(&s.plain);
            double max_size = largest(test_out(&s.t), TOKENS * WIDE),
                   tolerance = 0x1p-23 * (16 + 4 * sqrt(TOKENS)) * max_size;
            for (size_t i = 0; i < TOKENS * WIDE; i++)
                if (!(fabs((double)test_out(&s.t)[i] - s.plain.out[0].x[i]) <= tolerance))
                    fail_msg("%s, form %zu: kernel %zu of channel %zu is %.9g, expected %.9g within %.3g",
                             bo_ssm_name(a.kind), form, i / WIDE, i % WIDE, (double)test_out(&s.t)[i],
                             s.plain.out[0].x[i], tolerance);
            subject_drop(&s);
        }
    bo_context_destroy(context);
}

/* Nothing grows for any parameters: |A| <= 1, so |C A^k B| <= |C| |B| up to rounding. */
static void nothing_grows(void **state)
{
    (void)state;
    enum { TOKENS = 16384, WIDE = 3, SIZE = 3 };
    static const double sizes[] = {0, 1, 1e3, 1e18}; /* sizes of P and Q */
    static const double rates[] = {-60, 0, 60};      /* values of a: almost no decay, and immediate decay */
    bo_context *context = test_context(2);
    for (size_t i = 0; i < 4 * 3 * BO_SSM_COUNT * 2; i++) {
        if ((i / 6 + i / 24) % 2) continue; /* half of them are enough */
        bo_ssm_attributes a = {.kind = (bo_ssm)(i % BO_SSM_COUNT), .size = SIZE, .sequences.tokens = TOKENS};
        a.form = i / BO_SSM_COUNT % 2 ? BO_SSM_FORM_CONVOLUTION : BO_SSM_FORM_RECURRENT;
        op_case c = case_ssm(&a, TOKENS, WIDE);
        size_t p = a.kind == BO_SSM_CLOSED ? 2 : 4;
        if (a.kind != BO_SSM_DIAGONAL) c.in[p].a = sizes[i / 6 % 4] > 0 ? sizes[i / 6 % 4] : 1e-30;
        if (a.kind != BO_SSM_CLOSED) c.in[2] = (op_input){.rows = WIDE, .columns = SIZE, .b = rates[i / 24]};
        c.in[1].a = -9, c.in[1].b = 3, c.seed = i;
        subject s = subject_make(&c);
        strike(&s);
        test_forward(context, &s.t, false);
        for (size_t channel = 0; channel < WIDE; channel++) {
            plain_system system = plain_system_of(&s.plain, channel);
            double b = 0, w = 0, max_size = 0;
            for (size_t n = 0; n < SIZE; n++) {
                if (isfinite(cabs(system.b[n]))) b += pow(cabs(system.b[n]), 2);
                w += pow(cabs(system.c[n]), 2);
            }
            for (size_t t = 1; t < TOKENS; t++)
                max_size = fmax(max_size, fabs((double)test_out(&s.t)[t * WIDE + channel]));
            if (!(max_size <= 1.001 * sqrt(b * w) + 1e-4))
                fail_msg("case %zu, %s, channel %zu: the kernel reaches %.6g, expected at most %.6g", i,
                         bo_ssm_name(a.kind), channel, max_size, sqrt(b * w));
            plain_system_drop(&system);
        }
        for (size_t k = 0; k < TOKENS * WIDE; k++) assert_true(isfinite(test_out(&s.t)[k]));
        subject_drop(&s);
    }
    bo_context_destroy(context);
}

/* ---- the generating function ------------------------------------------------------------------------------------- */

/* C (1 - zA)⁻¹ B of Λ + p qᵀ by Woodbury's identity (S4, 2111.00396): with R = (1 - zΛ)⁻¹ and <x, y> = xᵀ R y, <C, B> +
 * z <C, p> <q, B> / (1 - z <q, p>). */
static double complex generating(const plain_op *op, size_t channel, double complex z)
{
    plain_system s = plain_system_of(op, channel);
    double factor = plain_shrinking(&op->in[4], channel) * plain_shrinking(&op->in[5], channel);
    double complex cb = 0, cp = 0, qb = 0, qp = 0, step = exp(plain_at(&op->in[1], channel, 0));
    for (size_t n = 0; n < s.size; n++) {
        double complex lambda =
            plain_complex(-plain_softplus(plain_at(&op->in[2], channel, n)), plain_at(&op->in[3], channel, n));
        double complex r = 1 / (1 - z * cexp(step * lambda));
        double e = sqrt(1 - exp(creal(step * lambda)));
        double complex p = e * plain_pair(&op->in[4], channel, n), q = e * plain_pair(&op->in[5], channel, n);
        cb += s.c[n] * r * s.b[n], cp += s.c[n] * r * p, qb += q * r * s.b[n], qp += q * r * p;
    }
    plain_system_drop(&s);
    return cb + z * factor * cp * qb / (1 - z * factor * qp);
}

/* Σ K_k z^k = D + (F(z) + conj(F(conj(z)))) / 2 at roots of unity, after the kernel has decayed. */
static void kernels_generate(void **state)
{
    (void)state;
    enum { TOKENS = 512, WIDE = 2 };
    bo_context *context = test_context(1);
    bo_ssm_attributes a = {.kind = BO_SSM_LOW_RANK, .form = BO_SSM_FORM_CONVOLUTION, .size = 5};
    op_case c = case_ssm(&a, TOKENS, WIDE);
    c.in[1].a = -1, c.in[1].b = 0;
    subject s = subject_make(&c);
    strike(&s);
    test_forward(context, &s.t, false);
    for (size_t channel = 0; channel < WIDE; channel++)
        for (size_t k = 0; k < 16; k++) {
            double complex z = cexp(plain_complex(0, 0.4 * (double)k)), sum = 0, power = 1;
            double size = 0, d = plain_at(&s.plain.in[7], channel, 0);
            for (size_t t = 0; t < TOKENS; t++, power *= z) {
                sum += (double)test_out(&s.t)[t * WIDE + channel] * power;
                size += fabs((double)test_out(&s.t)[t * WIDE + channel]);
            }
            double complex f = generating(&s.plain, channel, z), mirrored = generating(&s.plain, channel, conj(z));
            assert_close(cabs(sum - d - (f + conj(mirrored)) / 2), 0, 1e-5 * (size + 1));
        }
    subject_drop(&s);
    bo_context_destroy(context);
}

/* ---- refusals and traces ----------------------------------------------------------------------------------------- */

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    enum { PLANNED = 40, LONGER = 79 }; /* so long that a scan with gradients would keep intermediate states */
    bo_ssm_attributes a = {
        .form = BO_SSM_FORM_CONVOLUTION, .size = 2, .sequences = {.tokens = PLANNED, .max_sequences = 2}};
    op_case c = case_ssm(&a, LONGER + 1, 3);
    subject s = subject_make(&c);
    size_t lengths[2] = {LONGER, 1};
    bo_graph_pass pass = {.sequences = 2, .lengths = lengths};
    s.t.call.pass = &pass;
    test_forward(context, &s.t, true); /* longer than planned: token by token */
    s.t.call.dout[0] = s.in[0], s.t.call.din[0] = s.t.call.out[0].data;
    assert_fails(context, BO_INVALID, "has 79 tokens, but the convolution with gradients was planned for 40",
                 s.t.op->backward(context, &s.t.call));
    void *states[2] = {s.in[0], s.in[0]};
    pass.states = states;
    assert_fails(context, BO_INVALID, "continues from states has no gradients", s.t.op->backward(context, &s.t.call));
    s.t.call.din[0] = NULL;
    lengths[0] = LONGER + 2;
    assert_fails(context, BO_INVALID, "ssm: sequence 0 of the pass has 81 tokens", s.t.op->forward(context, &s.t.call));
    subject_drop(&s);
    bo_context_destroy(context);
}

/* A recomputed forward pass does not change the state. */
static void again_leaves_no_trace(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_ssm_attributes a = {.size = 2};
    op_case c = case_ssm(&a, 5, 3);
    size_t bytes = bo_ssm_state_bytes(&a, 3);
    float *memory = bo_alloc(context, bytes, 1, "a state"), *before = bo_alloc(context, bytes, 1, "a state");
    void *states[1] = {memory};
    bo_graph_pass pass = {.sequences = 1, .states = states};
    for (size_t i = 0; i < bytes / sizeof *memory; i++) memory[i] = before[i] = (float)i;
    for (size_t again = 0; again < 2; again++) {
        subject s = subject_make(&c);
        s.t.call.pass = &pass, s.t.call.again = !again;
        test_forward(context, &s.t, false);
        assert_int_equal(memcmp(memory, before, bytes) == 0, !again);
        subject_drop(&s);
    }
    bo_free(memory), bo_free(before);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_agree),      cmocka_unit_test(kernels_are_true), cmocka_unit_test(nothing_grows),
        cmocka_unit_test(kernels_generate), cmocka_unit_test(refusals),         cmocka_unit_test(again_leaves_no_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
