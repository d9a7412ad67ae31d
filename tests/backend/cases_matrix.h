/* Test cases of matrix products: linear layers, and cross-entropy with its projection. */
#ifndef BO_TEST_BACKEND_CASES_MATRIX_H
#define BO_TEST_BACKEND_CASES_MATRIX_H

#include "cases.h"

/* x, the weights (with increasing widths), their biases, and the residual. */
static inline void case_linear(op_visitor visit, void *user, op_case c, bo_linear_attributes a, size_t rows, size_t in,
                               size_t out)
{
    c.op = BO_OPERATION_LINEAR, c.attributes = &a, c.inputs = 1;
    c.in[0] = (op_input){.rows = rows, .columns = in};
    for (size_t i = 0; i < a.weights; i++) c.in[c.inputs++] = (op_input){.rows = out + i * 3, .columns = in, .a = 0.5};
    for (size_t i = 0; a.bias && i < a.weights; i++)
        c.in[c.inputs++] = (op_input){.rows = 1, .columns = out + i * 3, .b = 0.3};
    if (a.residual) c.in[c.inputs++] = (op_input){.rows = rows, .columns = out};
    visit(user, &c);
}

static inline void cases_linear(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {1, 19, 5}, {7, 3, 9}, {6, 17, 4}, {16, 8, 16}, {2, 1, 33}};
    static const size_t large[][3] = {{1, 200, 300}, {70, 40, 65}, {40, 130, 48}, {300, 16, 16},
                                      {5, 300, 33},  {2501, 4, 3}, {7, 2100, 5},  {5, 4, 1100}};
    char name[128];
    for (size_t weights = 1; weights <= 4; weights++)
        for (unsigned bits = 0; bits < (weights == 1 ? 4U : 2U); bits++) {
            bo_linear_attributes a = {.weights = weights, .bias = bits & 1, .residual = bits & 2};
            op_case c = {.seed = weights};
            for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
                const size_t *s = shapes[n];
                c.name = CASE_NAME("linear, %zu weights, bits %u, %zu x %zu to %zu", weights, bits, s[0], s[1], s[2]);
                case_linear(visit, user, c, a, s[0], s[1], s[2]);
            }
            c.large = true;
            for (size_t n = 0; n < sizeof large / sizeof *large; n++) {
                const size_t *s = large[(n + 2 * weights) % 8];
                if (weights > 1 ? n > 1 : (n + bits) % 2) continue; /* some of the combinations are enough */
                c.name = CASE_NAME("linear, %zu weights, bits %u, %zu x %zu to %zu", weights, bits, s[0], s[1], s[2]);
                case_linear(visit, user, c, a, s[0], s[1], s[2]);
            }
            a.scale = 0.3, a.keep = bits & 2 ? 0.8 : 0, c.large = false;
            c.name = CASE_NAME("linear with factors, %zu weights, bits %u", weights, bits);
            case_linear(visit, user, c, a, 7, 5, 9);
        }
}

static inline op_case case_cross_entropy(const char *name, const bo_cross_entropy_attributes *a, size_t rows,
                                         size_t width, size_t vocab, op_law targets)
{
    return (op_case){.name = name,
                     .op = BO_OPERATION_CROSS_ENTROPY,
                     .attributes = a,
                     .inputs = 3,
                     .in = {{.rows = rows, .columns = width},
                            {.rows = vocab, .columns = width, .a = 0.7},
                            {.law = targets, .rows = rows, .columns = 1, .a = (double)vocab}},
                     .seed = rows};
}

/* With the vectors of a teacher as the last input. */
static inline op_case case_taught(op_case c, op_input teacher)
{
    teacher.rows = c.in[0].rows, teacher.columns = c.in[0].columns;
    c.constants = 1U << c.inputs;
    c.in[c.inputs++] = teacher;
    return c;
}

static inline void cases_teacher(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {{1, 1, 2}, {4, 5, 7}, {9, 3, 17}, {3, 16, 33}, {12, 8, 4}, {2, 4, 1}};
    static const size_t large[][3] = {{70, 24, 517}, {3, 33, 1501}, {2501, 3, 5}, {5, 7, 2053}};
    static const op_law laws[] = {LAW_BELOW, LAW_TARGETS, LAW_FEW, LAW_NOBODY};
    static const op_input teachers[] = {{.a = 1}, {.law = LAW_LIKE_FIRST}, {.law = LAW_NEAR_FIRST, .b = 0.3}};
    static const bo_cross_entropy_attributes all[] = {
        {.teacher = 0.3}, {.teacher = 1}, {.teacher = 0.3, .bias = true, .scale = 0.6}, {.teacher = 1, .bias = true}};
    char name[128];
    for (size_t a = 0; a < 4; a++)
        for (size_t n = 0; n < 10; n++) {
            const size_t *s = n < 6 ? shapes[n] : large[n - 6];
            op_case c = case_cross_entropy(CASE_NAME("teacher %zu, %zu x %zu of %zu", a, s[0], s[1], s[2]), &all[a],
                                           s[0], s[1], s[2], laws[(n + a) % 4]);
            if (all[a].bias) c.in[c.inputs++] = (op_input){.rows = 1, .columns = s[2], .a = 0.7};
            c.large = n >= 6;
            c.canceling = s[2] == 1 ? 1 : 0; /* p - p' of a single class */
            c = case_taught(c, teachers[(n + a) % 3]);
            visit(user, &c);
        }
    for (size_t a = 0; a < 2; a++) {
        op_case c = case_cross_entropy(CASE_NAME("the teacher is the student, %zu", a), &all[a], 6, 5, 37, LAW_TARGETS);
        c = case_taught(c, (op_input){.law = LAW_NEAR_FIRST});
        visit(user, &c);
        for (size_t n = 0; n < 2; n++) { /* logits of several hundred, of one sign or both */
            c = case_cross_entropy(CASE_NAME("teacher %zu of large logits, %zu", a, n), &all[a], 5, 6, 11, LAW_TARGETS);
            c.in[0].a = 9, c.in[1].a = 20, c.in[1].b = n ? 30 : 0, c.step = 1e-4;
            if (n) c.in[0].law = LAW_UNIFORM, c.in[0].a = 5, c.in[0].b = 9;
            c = case_taught(c, n ? (op_input){.law = LAW_LIKE_FIRST} : (op_input){.a = 9});
            visit(user, &c);
        }
    }
}

static inline void cases_cross_entropy(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {{1, 1, 2}, {4, 5, 7}, {9, 3, 17}, {3, 16, 33}, {12, 8, 4}, {2, 4, 1}};
    static const size_t large[][3] = {{70, 24, 517}, {3, 33, 1501}, {261, 16, 40}, {2501, 3, 5}};
    static const op_law laws[] = {LAW_BELOW, LAW_TARGETS, LAW_FEW, LAW_NOBODY};
    static const bo_cross_entropy_attributes plain = {0}, scaled = {.scale = 0.37}, smoothed = {.smoothing = 0.1},
                                             both = {.scale = 0.6, .smoothing = 0.9};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (size_t law = 0; law < 4; law++) {
            const size_t *s = shapes[n];
            op_case c = case_cross_entropy(CASE_NAME("cross-entropy, %zu x %zu of %zu, law %zu", s[0], s[1], s[2], law),
                                           (n + law) % 2 ? &scaled : &plain, s[0], s[1], s[2], laws[law]);
            visit(user, &c);
        }
    for (size_t n = 0; n < sizeof large / sizeof *large; n++) {
        const size_t *s = large[n];
        op_case c = case_cross_entropy(CASE_NAME("cross-entropy, %zu x %zu of %zu", s[0], s[1], s[2]),
                                       n % 2 ? &scaled : &plain, s[0], s[1], s[2], laws[n % 3]);
        c.large = true;
        visit(user, &c);
    }
    for (size_t n = 0; n < 6; n++) {
        const size_t *s = n < 4 ? shapes[n + 1] : large[n - 4];
        op_case c = case_cross_entropy(CASE_NAME("smoothed cross-entropy, %zu x %zu of %zu", s[0], s[1], s[2]),
                                       n % 2 ? &both : &smoothed, s[0], s[1], s[2], laws[n % 3]);
        c.large = n >= 4;
        visit(user, &c);
    }
    for (size_t n = 0; n < 6; n++) {
        const size_t *s = n < 4 ? shapes[n + 1] : large[n - 3];
        static const bo_cross_entropy_attributes biased = {.bias = true},
                                                 all = {.scale = 0.6, .smoothing = 0.2, .bias = true};
        op_case c = case_cross_entropy(CASE_NAME("cross-entropy with a bias, %zu x %zu of %zu", s[0], s[1], s[2]),
                                       n % 2 ? &all : &biased, s[0], s[1], s[2], laws[n % 4]);
        c.in[c.inputs++] = (op_input){.rows = 1, .columns = s[2], .a = 0.7};
        c.large = n >= 4;
        visit(user, &c);
    }
    for (size_t n = 0; n < 2; n++) { /* logits of several hundred, of one sign or both */
        op_case c =
            case_cross_entropy(CASE_NAME("cross-entropy of large logits, %zu", n), &plain, 5, 6, 11, LAW_TARGETS);
        c.in[0].a = 9, c.in[1].a = 20, c.in[1].b = n ? 30 : 0, c.step = 1e-4;
        if (n) c.in[0].law = LAW_UNIFORM, c.in[0].a = 5, c.in[0].b = 9;
        visit(user, &c);
    }
    cases_teacher(visit, user);
}

#endif
