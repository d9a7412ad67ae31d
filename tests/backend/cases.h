/* Test cases of every operation except attention: every attribute, odd sizes, optional inputs, extremes. */
#ifndef BO_TEST_BACKEND_CASES_H
#define BO_TEST_BACKEND_CASES_H

#include "case.h"

#define CASE_NAME(...) (snprintf(name, sizeof name, __VA_ARGS__), name)

/* Sizes that are not a multiple of a vector, one that is, and single rows and columns. */
static const size_t case_sizes[][2] = {{1, 1}, {1, 17}, {9, 1}, {5, 7}, {3, 33}, {8, 16}};
enum { CASE_SIZES = sizeof case_sizes / sizeof *case_sizes };

/* ---- rows -------------------------------------------------------------------------------------------------------- */

static inline void cases_embed(op_visitor visit, void *user)
{
    static const op_law laws[] = {LAW_BELOW, LAW_FEW, LAW_PLACES};
    char name[128];
    for (size_t n = 0; n < CASE_SIZES; n++)
        for (size_t law = 0; law < 3; law++) {
            size_t rows = case_sizes[n][0], width = case_sizes[n][1], table = law == 2 ? rows : 1 + n;
            op_case c = {.name = CASE_NAME("embed %zu of %zu rows of %zu, law %zu", rows, table, width, law),
                         .op = BO_OPERATION_EMBED,
                         .inputs = 2,
                         .in = {{.law = laws[law], .rows = rows, .columns = 1, .a = law == 2 ? 0 : (double)table},
                                {.rows = table, .columns = width}},
                         .exact = true,
                         .seed = n};
            visit(user, &c);
        }
    for (size_t law = 0; law < 2; law++) { /* a row that many tokens use, and more tokens than one block has */
        op_case c = {.name = CASE_NAME("embed, large, law %zu", law),
                     .op = BO_OPERATION_EMBED,
                     .inputs = 2,
                     .in = {{.law = laws[law], .rows = 333, .columns = 1, .a = 40}, {.rows = 40, .columns = 71}},
                     .exact = true,
                     .large = true};
        visit(user, &c);
    }
}

static inline void cases_position(op_visitor visit, void *user)
{
    static const double firsts[] = {0, 3, 511, 4095, 999983, 16777217, 2147483000};
    char name[128];
    for (size_t n = 0; n < CASE_SIZES; n++)
        for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
            bo_position_attributes attributes = {BO_POSITION_KIND_SINUSOIDAL};
            size_t rows = case_sizes[n][0], width = case_sizes[n][1];
            op_case c = {.name = CASE_NAME("sinusoids of %zu x %zu from %.0f", rows, width, firsts[f]),
                         .op = BO_OPERATION_POSITION,
                         .attributes = &attributes,
                         .inputs = 2,
                         .in = {{.rows = rows, .columns = width, .a = 0.3},
                                {.law = LAW_PLACES, .rows = rows, .columns = 1, .a = firsts[f], .b = f % 2 ? 4 : 0}},
                         .large = f > 1,
                         .seed = n};
            visit(user, &c);
            if (f > 1) continue;
            attributes.kind = BO_POSITION_KIND_LEARNED;
            c.name = CASE_NAME("learned positions of %zu x %zu from %.0f", rows, width, firsts[f]);
            c.inputs = 3;
            c.in[2] = (op_input){.rows = rows + 4, .columns = width};
            visit(user, &c);
        }
    for (int kind = 0; kind < 2; kind++) {
        bo_position_attributes attributes = {kind ? BO_POSITION_KIND_SINUSOIDAL : BO_POSITION_KIND_LEARNED};
        op_case c = {.name = CASE_NAME("positions, large, kind %d", kind),
                     .op = BO_OPERATION_POSITION,
                     .attributes = &attributes,
                     .inputs = kind ? 2 : 3,
                     .in = {{.rows = 701, .columns = 24},
                            {.law = LAW_PLACES, .rows = 701, .columns = 1, .b = 150},
                            {.rows = 200, .columns = 24}},
                     .large = true};
        visit(user, &c);
        c.name = CASE_NAME("wide positions, kind %d", kind);
        c.in[0].rows = c.in[1].rows = 3, c.in[0].columns = c.in[2].columns = 603;
        visit(user, &c);
    }
}

static inline void cases_rope(op_visitor visit, void *user)
{
    static const size_t shapes[][4] = {/* rows, heads, dim, rotated */
                                       {1, 1, 2, 0},  {5, 3, 6, 0},  {4, 2, 7, 4},   {3, 1, 34, 0},
                                       {3, 2, 16, 2}, {2, 1, 32, 8}, {4, 1, 10, 10}, {2, 2, 64, 0}};
    static const double firsts[] = {0, 1000, 1000003, 2147480000};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (size_t f = 0; f < 8; f++) {
            const size_t *s = shapes[n];
            bo_rope_attributes attributes = {.dim = s[2], .rotated = s[3], .base = n % 3 == 1 ? 500000 : 0};
            attributes.layout = f % 2 ? BO_ROPE_LAYOUT_NEIGHBORS : BO_ROPE_LAYOUT_HALVES;
            op_case c = {
                .name = CASE_NAME("rope layout %zu of %zu x %zu heads of %zu, %zu turn, from %.0f", f % 2, s[0], s[1],
                                  s[2], s[3], firsts[f / 2]),
                .op = BO_OPERATION_ROPE,
                .attributes = &attributes,
                .inputs = 2,
                .in = {{.rows = s[0], .columns = s[1] * s[2]},
                       {.law = LAW_PLACES, .rows = s[0], .columns = 1, .a = firsts[f / 2], .b = n % 2 ? 2 : 0}},
                .seed = n};
            visit(user, &c);
            static const bo_rope_scaling scalings[] = {
                {.kind = BO_ROPE_SCALING_KIND_LINEAR, .factor = 2.5},
                {.kind = BO_ROPE_SCALING_KIND_LLAMA3, .factor = 8, .low = 1, .high = 4, .original = 128}};
            attributes.scaling = scalings[n % 2];
            c.name =
                CASE_NAME("scaled rope, layout %zu, %zu heads of %zu, from %.0f", f % 2, s[1], s[2], firsts[f / 2]);
            visit(user, &c);
        }
    for (int layout = 0; layout < 2; layout++) {
        bo_rope_attributes attributes = {.dim = 22, .rotated = 20, .layout = (bo_rope_layout)layout};
        op_case c = {.name = CASE_NAME("rope, large, layout %d", layout),
                     .op = BO_OPERATION_ROPE,
                     .attributes = &attributes,
                     .inputs = 2,
                     .in = {{.rows = 515, .columns = 66}, {.law = LAW_BELOW, .rows = 515, .columns = 1, .a = 70000}},
                     .large = true};
        visit(user, &c);
        attributes = (bo_rope_attributes){.dim = 602, .layout = (bo_rope_layout)layout};
        c.name = CASE_NAME("rope of a wide head, layout %d", layout);
        c.in[0].rows = c.in[1].rows = 3, c.in[0].columns = 602;
        visit(user, &c);
    }
}

/* Inputs of a norm: x, then the inputs required by the attributes. */
static inline void case_norm(op_visitor visit, void *user, op_case c, bo_norm_attributes a)
{
    c.op = BO_OPERATION_NORM, c.attributes = &a, c.inputs = 1;
    if (a.gain) c.in[c.inputs++] = (op_input){.rows = 1, .columns = a.width, .a = 0.5, .b = 1};
    if (a.bias) c.in[c.inputs++] = (op_input){.rows = 1, .columns = a.width, .a = 0.7};
    visit(user, &c);
}

static inline void cases_norm(op_visitor visit, void *user)
{
    static const size_t shapes[][3] = {/* rows, groups, width */
                                       {1, 1, 2}, {7, 1, 5}, {3, 4, 8}, {5, 3, 17}, {2, 1, 64}, {1, 2, 33}};
    char name[128];
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++)
        for (unsigned bits = 0; bits < 8; bits++) {
            const size_t *s = shapes[n];
            bo_norm_attributes a = {.kind = bits & 4 ? BO_NORM_LAYER : BO_NORM_RMS, .width = s[2]};
            a.epsilon = n % 2 ? 1e-5 : 1e-6, a.gain = bits & 1, a.bias = bits & 2;
            op_case c = {.name = CASE_NAME("norm %u of %zu x %zu groups of %zu", bits, s[0], s[1], s[2]),
                         .in = {{.rows = s[0], .columns = s[1] * s[2], .b = n == 3 ? 2 : 0}},
                         .canceling = s[2] < 3 ? 10 : 0,
                         .seed = n};
            case_norm(visit, user, c, a);
        }
    for (unsigned kind = 0; kind < 2; kind++) {
        bo_norm_attributes a = {.kind = (bo_norm)kind, .width = 12, .epsilon = 1e-2, .gain = true, .bias = true};
        op_case c = {.name = CASE_NAME("norm %u, epsilon counts", kind), .in = {{.rows = 6, .columns = 24, .a = 0.1}}};
        c.step = 1e-4;
        case_norm(visit, user, c, a);
        a.epsilon = 1e-6;
        c.name = CASE_NAME("norm %u of tiny numbers", kind), c.in[0].a = 1e-6, c.step = 1e-7;
        case_norm(visit, user, c, a);
        c.name = CASE_NAME("norm %u of large numbers", kind), c.in[0].a = 1e4, c.step = 1;
        case_norm(visit, user, c, a);
        c.name = CASE_NAME("norm %u far from 0", kind), c.in[0].a = 1, c.in[0].b = 300, c.step = 1e-3;
        case_norm(visit, user, c, a);
        a.width = 1;
        c.name = CASE_NAME("norm %u of single numbers", kind), c.in[0].b = 0, c.in[0].columns = 3;
        c.in[0].law = LAW_AWAY, c.canceling = 100;
        case_norm(visit, user, c, a);
        a.width = 48;
        c = (op_case){.name = CASE_NAME("norm %u, large", kind), .in = {{.rows = 389, .columns = 96}}, .large = true};
        case_norm(visit, user, c, a);
    }
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static inline void cases_unary(op_visitor visit, void *user)
{
    char name[128];
    for (size_t f = 0; f < BO_UNARY_COUNT; f++) {
        bo_unary_attributes plain = {.function = (bo_unary)f};
        bo_unary_attributes scaled = {.function = (bo_unary)f, .factor = -0.75, .offset = 0.4};
        bo_unary_attributes larger = {.function = (bo_unary)f, .factor = 1.5};
        bo_unary_attributes moved = {.function = (bo_unary)f, .factor = 1, .offset = -2.5};
        const bo_unary_attributes *all[] = {&plain, &scaled, &larger, &moved};
        op_case c = {.op = BO_OPERATION_UNARY, .inputs = 1, .seed = f};
        for (size_t n = 0; n < CASE_SIZES; n++) {
            c.name = CASE_NAME("function %zu of %zu x %zu", f, case_sizes[n][0], case_sizes[n][1]);
            c.attributes = all[n % 4];
            c.in[0] = (op_input){.law = LAW_AWAY, .rows = case_sizes[n][0], .columns = case_sizes[n][1], .a = 1.5};
            visit(user, &c);
        }
        c.attributes = &plain;
        c.name = CASE_NAME("function %zu from -8 to 8", f);
        c.in[0] = (op_input){.law = LAW_EVENLY, .rows = 40, .columns = 6, .a = -8.03, .b = 8};
        visit(user, &c);
        if (f == BO_UNARY_EXP) continue; /* overflows float32 at 88 */
        c.name = CASE_NAME("function %zu from -300 to 300", f);
        c.in[0] = (op_input){.law = LAW_EVENLY, .rows = 61, .columns = 1, .a = -301, .b = 300};
        visit(user, &c);
        if (f % 3) continue; /* all functions are divided among threads in the same way */
        c.name = CASE_NAME("function %zu, large", f), c.large = true, c.attributes = &scaled;
        c.in[0] = (op_input){.law = LAW_AWAY, .rows = 173, .columns = 129};
        visit(user, &c);
    }
}

static inline void cases_glu(op_visitor visit, void *user)
{
    char name[128];
    for (size_t f = 0; f < BO_UNARY_COUNT; f++) {
        bo_unary_attributes plain = {.function = (bo_unary)f};
        bo_unary_attributes scaled = {.function = (bo_unary)f, .factor = 1.7};
        op_case c = {.op = BO_OPERATION_GLU, .inputs = 2, .seed = f};
        for (size_t n = 0; n < CASE_SIZES; n++) {
            c.name = CASE_NAME("gate %zu of %zu x %zu", f, case_sizes[n][0], case_sizes[n][1]);
            c.attributes = n % 2 ? &scaled : &plain;
            c.in[0] = (op_input){.law = LAW_AWAY, .rows = case_sizes[n][0], .columns = case_sizes[n][1], .a = 1.5};
            c.in[1] = (op_input){.rows = case_sizes[n][0], .columns = case_sizes[n][1]};
            visit(user, &c);
        }
        c.attributes = &plain;
        c.name = CASE_NAME("gate %zu from -30 to 30", f);
        c.in[0] = (op_input){.law = LAW_EVENLY, .rows = 45, .columns = 1, .a = -30.3, .b = f == BO_UNARY_EXP ? 9 : 30};
        c.in[1] = (op_input){.rows = 45, .columns = 1, .a = 3};
        visit(user, &c);
        if (f % 3) continue;
        c.name = CASE_NAME("gate %zu, large", f), c.large = true;
        c.in[0] = (op_input){.law = LAW_AWAY, .rows = 149, .columns = 131};
        c.in[1] = (op_input){.rows = 149, .columns = 131};
        visit(user, &c);
    }
}

static inline void cases_add(op_visitor visit, void *user)
{
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++) {
        size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 211, columns = n < CASE_SIZES ? case_sizes[n][1] : 97;
        op_case c = {.name = CASE_NAME("add %zu x %zu", rows, columns),
                     .op = BO_OPERATION_ADD,
                     .inputs = 2,
                     .in = {{.rows = rows, .columns = columns}, {.rows = rows, .columns = columns, .a = 3}},
                     .exact = true,
                     .large = n == CASE_SIZES,
                     .seed = n};
        visit(user, &c);
    }
}

static inline void cases_dropout(op_visitor visit, void *user)
{
    static const double rates[] = {0, 0.1, 0.5, 0.9};
    char name[128];
    for (size_t n = 0; n <= CASE_SIZES; n++)
        for (size_t r = 0; r < 8; r++) {
            bo_dropout_attributes attributes = {.rate = rates[r / 2], .stream = 3 + n};
            size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 163, columns = n < CASE_SIZES ? case_sizes[n][1] : 109;
            op_case c = {.name = CASE_NAME("dropout %g of %zu x %zu%s", rates[r / 2], rows, columns,
                                           r % 2 ? "" : ", not training"),
                         .op = BO_OPERATION_DROPOUT,
                         .attributes = &attributes,
                         .inputs = 1,
                         .in = {{.law = LAW_AWAY, .rows = rows, .columns = columns}},
                         .pass = {.training = r % 2, .seed = 77 + r},
                         .exact = !(r % 2),
                         .large = n == CASE_SIZES,
                         .seed = n};
            visit(user, &c);
        }
}

/* ---- losses ------------------------------------------------------------------------------------------------------ */

static inline void cases_loss(op_visitor visit, void *user)
{
    static const struct {
        const char *name;
        op_law p, t;
        double a, b, t_a, t_b;
    } laws[BO_LOSS_KIND_COUNT][3] = {
        [BO_LOSS_KIND_MSE] = {{"mse", .a = 1}, {"mse of equals", .t = LAW_LIKE_FIRST}, {"mse far off", .t_b = 1000}},
        [BO_LOSS_KIND_L1] = {{"l1", .t_b = 9}, {"l1 of equals", .t = LAW_LIKE_FIRST}, {"l1 from above", .t_b = -9}},
        [BO_LOSS_KIND_BCE] = {{"bce", .t = LAW_UNIFORM, .t_b = 1},
                              {"bce of certainties", .a = 3, .t = LAW_CERTAIN},
                              {"bce far off", LAW_EVENLY, LAW_CERTAIN, -90, 90, 0, 0}},
        [BO_LOSS_KIND_KL] = {{"kl", .a = 1, .t_a = 2},
                             {"kl, sharp", .a = 9, .t_a = 9},
                             {"kl, shifted", .b = 80, .t_b = -70}},
        [BO_LOSS_KIND_RELATIVE] = {{"relative", .a = 1, .t_a = 2},
                                   {"relative of equals", .t = LAW_LIKE_FIRST},
                                   {"relative, far off", .t_b = 9}},
    };
    char name[128];
    for (size_t kind = 0; kind < BO_LOSS_KIND_COUNT; kind++)
        for (size_t law = 0; law < 3; law++)
            for (size_t n = 0; n <= CASE_SIZES; n++) {
                bo_loss_attributes attributes = {(bo_loss_kind)kind};
                size_t rows = n < CASE_SIZES ? case_sizes[n][0] : 151,
                       columns = n < CASE_SIZES ? case_sizes[n][1] : 113;
                op_case c = {.name = CASE_NAME("%s of %zu x %zu", laws[kind][law].name, rows, columns),
                             .op = BO_OPERATION_LOSS,
                             .attributes = &attributes,
                             .inputs = 2,
                             .in = {{laws[kind][law].p, rows, columns, laws[kind][law].a, laws[kind][law].b},
                                    {laws[kind][law].t, rows, columns, laws[kind][law].t_a, laws[kind][law].t_b}},
                             .large = n == CASE_SIZES,
                             .seed = 3 * n + law};
                visit(user, &c);
            }
}

#endif
