/* Shapes: the outputs of every operation for valid inputs, and the message for invalid ones. */
#include "testing.h"
#include "backend/shapes.h"

typedef bo_status (*shape_of)(bo_context *context, bo_op_call *call);

typedef struct shape_case {
    shape_of shape;
    const char *message; /* expected part of the message; NULL: valid */
    const void *attributes;
    bo_tensor in[8], out[BO_OP_OUTPUTS]; /* counts the operands with rows */
} shape_case;

#define LIST(...)                            {__VA_ARGS__}
#define FITS(of, with, inputs_, outputs_)    {.shape = (of), .attributes = (with), .in = inputs_, .out = outputs_}
#define REFUSED(sentence, of, with, inputs_) {.shape = (of), .message = (sentence), .attributes = (with), .in = inputs_}
#define FLOATS(r, c)                         {.element = BO_ELEMENT_FLOAT32, .rows = (r), .columns = (c)}
#define INTEGERS(r, c)                       {.element = BO_ELEMENT_INT32, .rows = (r), .columns = (c)}

static size_t how_many(size_t capacity, const bo_tensor *operands)
{
    size_t count = 0;
    while (count < capacity && operands[count].rows) count++;
    return count;
}

static void check(bo_context *context, size_t count, const shape_case *cases)
{
    for (size_t i = 0; i < count; i++) {
        const shape_case *c = &cases[i];
        bo_op_call call = {.attributes = c->attributes, .inputs = how_many(8, c->in)};
        memcpy(call.in, c->in, sizeof c->in);
        bo_status status = c->shape(context, &call);
        if (c->message) {
            if (status != BO_INVALID || !strstr(bo_context_error(context), c->message))
                fail_msg("case %zu: '%s' lacks '%s'", i, bo_context_error(context), c->message);
            continue;
        }
        if (status != BO_OK) fail_msg("case %zu: %s", i, bo_context_error(context));
        assert_int_equal(call.outputs, how_many(BO_OP_OUTPUTS, c->out));
        for (size_t o = 0; o < call.outputs; o++) {
            assert_int_equal(call.out[o].element, c->out[o].element);
            assert_int_equal(call.out[o].rows, c->out[o].rows);
            assert_int_equal(call.out[o].columns, c->out[o].columns);
        }
    }
}

#define CHECK(cases) check(context, sizeof(cases) / sizeof *(cases), cases)

static void tables_and_positions(void **state)
{
    (void)state;
    static const bo_position_attributes learned = {BO_POSITION_KIND_LEARNED}, waves = {BO_POSITION_KIND_SINUSOIDAL},
                                        odd = {7};
    static const bo_rope_attributes rope = {.dim = 4}, narrow = {.dim = 3}, uneven = {.dim = 6, .rotated = 3},
                                    wide = {.dim = 4, .rotated = 6}, below = {.dim = 4, .base = -1},
                                    tiny = {.dim = 4, .base = 1e-300}, other = {.dim = 4, .layout = 5};
    static const bo_rope_attributes llama3 = {.dim = 4, .scaling = {BO_ROPE_SCALING_KIND_LLAMA3, 8, 1, 4, 8192}},
                                    no_scaling = {.dim = 4, .scaling = {.kind = 7}},
                                    no_factor = {.dim = 4, .scaling = {.kind = BO_ROPE_SCALING_KIND_LINEAR}},
                                    crossed = {.dim = 4, .scaling = {BO_ROPE_SCALING_KIND_LLAMA3, 8, 4, 1, 8192}},
                                    unknown = {.dim = 4, .scaling = {BO_ROPE_SCALING_KIND_LLAMA3, 8, 1, 4, 0}};
    const shape_case cases[] = {
        FITS(bo_shape_embed, NULL, LIST(INTEGERS(5, 1), FLOATS(9, 3)), LIST(FLOATS(5, 3))),
        REFUSED("embed: the column of indices is 5 x 1 floats", bo_shape_embed, NULL, LIST(FLOATS(5, 1), FLOATS(9, 3))),
        REFUSED("is 5 x 2 integers, expected 5 x 1 integers", bo_shape_embed, NULL, LIST(INTEGERS(5, 2), FLOATS(9, 3))),
        REFUSED("embed: 1 inputs, expected 2", bo_shape_embed, NULL, LIST(INTEGERS(5, 1))),
        REFUSED("the table is 9 x 3 integers", bo_shape_embed, NULL, LIST(INTEGERS(5, 1), INTEGERS(9, 3))),
        FITS(bo_shape_position, &waves, LIST(FLOATS(5, 3), INTEGERS(5, 1)), LIST(FLOATS(5, 3))),
        FITS(bo_shape_position, &learned, LIST(FLOATS(5, 3), INTEGERS(5, 1), FLOATS(7, 3)), LIST(FLOATS(5, 3))),
        REFUSED("expected 3", bo_shape_position, &learned, LIST(FLOATS(5, 3), INTEGERS(5, 1))),
        REFUSED("expected 7 x 3", bo_shape_position, &learned, LIST(FLOATS(5, 3), INTEGERS(5, 1), FLOATS(7, 4))),
        REFUSED("expected 5 x 1", bo_shape_position, &waves, LIST(FLOATS(5, 3), INTEGERS(4, 1))),
        REFUSED("unknown kind 7", bo_shape_position, &odd, LIST(FLOATS(5, 3), INTEGERS(5, 1))),
        FITS(bo_shape_rope, &rope, LIST(FLOATS(5, 8), INTEGERS(5, 1)), LIST(FLOATS(5, 8))),
        REFUSED("heads of 4 do not divide 6", bo_shape_rope, &rope, LIST(FLOATS(5, 6), INTEGERS(5, 1))),
        REFUSED("3 rotated columns per head", bo_shape_rope, &narrow, LIST(FLOATS(5, 6), INTEGERS(5, 1))),
        REFUSED("3 rotated columns per head", bo_shape_rope, &uneven, LIST(FLOATS(5, 6), INTEGERS(5, 1))),
        REFUSED("6 rotated columns per head", bo_shape_rope, &wide, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("the base is -1", bo_shape_rope, &below, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("the base is 1e-300", bo_shape_rope, &tiny, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("unknown layout 5", bo_shape_rope, &other, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        FITS(bo_shape_rope, &llama3, LIST(FLOATS(5, 8), INTEGERS(5, 1)), LIST(FLOATS(5, 8))),
        REFUSED("unknown scaling 7", bo_shape_rope, &no_scaling, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("factor of the scaling is 0", bo_shape_rope, &no_factor, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("low = 4 and high = 1", bo_shape_rope, &crossed, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
        REFUSED("original = 0", bo_shape_rope, &unknown, LIST(FLOATS(5, 8), INTEGERS(5, 1))),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
}

static void matrices(void **state)
{
    (void)state;
    static const bo_linear_attributes one = {.weights = 1}, full = {.weights = 1, .bias = true, .residual = true},
                                      two = {.weights = 2, .bias = true}, five = {.weights = 5},
                                      both = {.weights = 2, .residual = true}, none = {0};
    static const bo_cross_entropy_attributes ce = {0}, scaled = {.scale = INFINITY}, biased = {.bias = true},
                                             taught = {.teacher = 0.5}, wild = {.teacher = 1.5},
                                             unknown = {.teacher = NAN}, smoothed = {.teacher = 1, .smoothing = 0.1},
                                             full_ce = {.teacher = 1, .bias = true};
    const shape_case cases[] = {
        FITS(bo_shape_linear, &one, LIST(FLOATS(5, 3), FLOATS(4, 3)), LIST(FLOATS(5, 4))),
        FITS(bo_shape_linear, &full, LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(1, 4), FLOATS(5, 4)), LIST(FLOATS(5, 4))),
        FITS(bo_shape_linear, &two, LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(2, 3), FLOATS(1, 4), FLOATS(1, 2)),
             LIST(FLOATS(5, 4), FLOATS(5, 2))),
        REFUSED("the weight is 4 x 2 floats, expected 4 x 3 floats", bo_shape_linear, &one,
                LIST(FLOATS(5, 3), FLOATS(4, 2))),
        REFUSED("expected 2", bo_shape_linear, &one, LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(1, 4))),
        REFUSED("expected 1 x 4", bo_shape_linear, &full, LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(1, 3), FLOATS(5, 4))),
        REFUSED("expected 5 x 4", bo_shape_linear, &full, LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(1, 4), FLOATS(5, 3))),
        REFUSED("5 weights, expected 1 to 4", bo_shape_linear, &five, LIST(FLOATS(5, 3))),
        REFUSED("0 weights", bo_shape_linear, &none, LIST(FLOATS(5, 3))),
        REFUSED("a residual and 2 weights", bo_shape_linear, &both,
                LIST(FLOATS(5, 3), FLOATS(4, 3), FLOATS(4, 3), FLOATS(5, 4))),
        REFUSED("integers", bo_shape_linear, &one, LIST(INTEGERS(5, 3), FLOATS(4, 3))),
        FITS(bo_shape_cross_entropy, &ce, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1)),
             LIST(FLOATS(1, 1), FLOATS(5, 1))),
        REFUSED("expected 9 x 3", bo_shape_cross_entropy, &ce, LIST(FLOATS(5, 3), FLOATS(9, 4), INTEGERS(5, 1))),
        REFUSED("targets is 4 x 1", bo_shape_cross_entropy, &ce, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(4, 1))),
        FITS(bo_shape_cross_entropy, &biased, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(1, 9)),
             LIST(FLOATS(1, 1), FLOATS(5, 1))),
        REFUSED("the bias is 1 x 8", bo_shape_cross_entropy, &biased,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(1, 8))),
        REFUSED("the scale is inf", bo_shape_cross_entropy, &scaled, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1))),
        FITS(bo_shape_cross_entropy, &taught, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(5, 3)),
             LIST(FLOATS(1, 1), FLOATS(5, 1))),
        FITS(bo_shape_cross_entropy, &full_ce,
             LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(1, 9), FLOATS(5, 3)),
             LIST(FLOATS(1, 1), FLOATS(5, 1))),
        REFUSED("expected 4", bo_shape_cross_entropy, &taught, LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1))),
        REFUSED("the teacher's x is 4 x 3 floats, expected 5 x 3", bo_shape_cross_entropy, &taught,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(4, 3))),
        REFUSED("the teacher's x is 5 x 2 floats, expected 5 x 3", bo_shape_cross_entropy, &full_ce,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(1, 9), FLOATS(5, 2))),
        REFUSED("the weight of the teacher is 1.5", bo_shape_cross_entropy, &wild,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(5, 3))),
        REFUSED("the weight of the teacher is nan", bo_shape_cross_entropy, &unknown,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(5, 3))),
        REFUSED("the smoothing is 0.1 and the weight of the teacher is 1", bo_shape_cross_entropy, &smoothed,
                LIST(FLOATS(5, 3), FLOATS(9, 3), INTEGERS(5, 1), FLOATS(5, 3))),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
}

static void element_by_element(void **state)
{
    (void)state;
    static const bo_norm_attributes norm = {.width = 3, .gain = true, .bias = true}, uneven = {.width = 4},
                                    none = {.width = 0}, below = {.width = 3, .epsilon = -1},
                                    odd = {.kind = 4, .width = 3};
    static const bo_dropout_attributes half = {.rate = 0.5}, all = {.rate = 1}, nan = {.rate = NAN};
    static const bo_unary_attributes gelu = {0}, odd_function = {.function = 99}, infinite = {.factor = INFINITY},
                                     shifted = {.offset = 1};
    static const bo_loss_attributes mse = {0}, odd_loss = {.kind = 9};
    const shape_case cases[] = {
        FITS(bo_shape_norm, &norm, LIST(FLOATS(5, 6), FLOATS(1, 3), FLOATS(1, 3)), LIST(FLOATS(5, 6))),
        REFUSED("the gain is 1 x 6 floats, expected 1 x 3", bo_shape_norm, &norm,
                LIST(FLOATS(5, 6), FLOATS(1, 6), FLOATS(1, 3))),
        REFUSED("the bias is 1 x 2", bo_shape_norm, &norm, LIST(FLOATS(5, 6), FLOATS(1, 3), FLOATS(1, 2))),
        REFUSED("groups of 4 do not divide 6", bo_shape_norm, &uneven, LIST(FLOATS(5, 6))),
        REFUSED("groups of 0", bo_shape_norm, &none, LIST(FLOATS(5, 6))),
        REFUSED("epsilon is -1", bo_shape_norm, &below, LIST(FLOATS(5, 6))),
        REFUSED("unknown kind 4", bo_shape_norm, &odd, LIST(FLOATS(5, 6))),
        FITS(bo_shape_dropout, &half, LIST(FLOATS(5, 6)), LIST(FLOATS(5, 6))),
        REFUSED("the rate is 1", bo_shape_dropout, &all, LIST(FLOATS(5, 6))),
        REFUSED("the rate is nan", bo_shape_dropout, &nan, LIST(FLOATS(5, 6))),
        FITS(bo_shape_unary, &gelu, LIST(FLOATS(5, 6)), LIST(FLOATS(5, 6))),
        REFUSED("unknown function 99", bo_shape_unary, &odd_function, LIST(FLOATS(5, 6))),
        REFUSED("factor inf", bo_shape_unary, &infinite, LIST(FLOATS(5, 6))),
        FITS(bo_shape_glu, &gelu, LIST(FLOATS(5, 6), FLOATS(5, 6)), LIST(FLOATS(5, 6))),
        REFUSED("expected 5 x 6", bo_shape_glu, &gelu, LIST(FLOATS(5, 6), FLOATS(6, 5))),
        REFUSED("the offset is 1", bo_shape_glu, &shifted, LIST(FLOATS(5, 6), FLOATS(5, 6))),
        FITS(bo_shape_add, NULL, LIST(FLOATS(5, 6), FLOATS(5, 6)), LIST(FLOATS(5, 6))),
        REFUSED("expected 5 x 6", bo_shape_add, NULL, LIST(FLOATS(5, 6), FLOATS(5, 1))),
        REFUSED("integers", bo_shape_add, NULL, LIST(FLOATS(5, 1), INTEGERS(5, 1))),
        FITS(bo_shape_loss, &mse, LIST(FLOATS(5, 6), FLOATS(5, 6)), LIST(FLOATS(1, 1))),
        REFUSED("unknown kind 9", bo_shape_loss, &odd_loss, LIST(FLOATS(5, 6), FLOATS(5, 6))),
        REFUSED("expected 2", bo_shape_loss, &mse, LIST(FLOATS(5, 6))),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
}

static void products_and_features(void **state)
{
    (void)state;
    static const bo_product_attributes plain = {0}, below = {.first = 1, .second = -1}, endless = {.first = INFINITY};
    bo_context *context = test_context(1);
    bo_features *map;
    assert_ok(context, bo_features_create(context, &(bo_features_desc){.dim = 3, .features = 8}, &map));
    bo_features_attributes features = {map}, none = {NULL};
    const shape_case cases[] = {
        FITS(bo_shape_scale, NULL, LIST(FLOATS(5, 3), FLOATS(1, 1)), LIST(FLOATS(5, 3))),
        FITS(bo_shape_scale, NULL, LIST(FLOATS(5, 3), FLOATS(1, 3)), LIST(FLOATS(5, 3))),
        FITS(bo_shape_scale, NULL, LIST(FLOATS(5, 3), FLOATS(5, 1)), LIST(FLOATS(5, 3))),
        REFUSED("the factor is 3 x 1 floats, expected 1 x 1, 1 x 3 or 5 x 1", bo_shape_scale, NULL,
                LIST(FLOATS(5, 3), FLOATS(3, 1))),
        FITS(bo_shape_product, &plain, LIST(FLOATS(5, 3)), LIST(FLOATS(5, 3))),
        FITS(bo_shape_product, &plain, LIST(FLOATS(5, 3), FLOATS(5, 3), FLOATS(5, 3), FLOATS(5, 3)),
             LIST(FLOATS(5, 3))),
        REFUSED("5 factors, expected 1 to 4", bo_shape_product, &plain,
                LIST(FLOATS(5, 3), FLOATS(5, 3), FLOATS(5, 3), FLOATS(5, 3), FLOATS(5, 3))),
        REFUSED("expected 5 x 3", bo_shape_product, &plain, LIST(FLOATS(5, 3), FLOATS(3, 5))),
        REFUSED("the power of factor 2 is -1", bo_shape_product, &below, LIST(FLOATS(5, 3), FLOATS(5, 3))),
        REFUSED("the power of factor 1 is inf", bo_shape_product, &endless, LIST(FLOATS(5, 3))),
        FITS(bo_shape_features, &features, LIST(FLOATS(5, 3)), LIST(FLOATS(5, 8))),
        REFUSED("the input is 5 x 4 floats, expected 5 x 3", bo_shape_features, &features, LIST(FLOATS(5, 4))),
        REFUSED("the map is NULL", bo_shape_features, &none, LIST(FLOATS(5, 3))),
        FITS(bo_shape_quadratic, NULL, LIST(FLOATS(5, 3), FLOATS(4, 9)), LIST(FLOATS(5, 4))),
        REFUSED("the weight is 4 x 3 floats, expected 4 x 9", bo_shape_quadratic, NULL,
                LIST(FLOATS(5, 3), FLOATS(4, 3))),
    };
    CHECK(cases);
    bo_features_destroy(map);
    bo_context_destroy(context);
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

static bo_attention *create(bo_context *context, const char *preset)
{
    bo_attention_desc desc = {
        .heads = 4, .key_heads = 2, .dim = 3, .value_dim = 5, .causal = true, .features = {.features = 6}};
    bo_attention *attention;
    assert_true(bo_attention_preset(preset, &desc));
    assert_ok(context, bo_attention_create(context, &desc, &attention));
    return attention;
}

static void sequences(void **state)
{
    (void)state;
    static const bo_recurrent_attributes lstm = {.cell = BO_RECURRENCE_LSTM}, other = {.cell = 7},
                                         threes = {.cell = BO_RECURRENCE_RNN, .sequences = {.tokens = 3}};
    static const bo_mix_attributes two = {.heads = 2}, long_ones = {.sequences = {.tokens = 6}};
    const shape_case cases[] = {
        FITS(bo_shape_recurrent, &lstm, LIST(FLOATS(5, 12), FLOATS(12, 3), FLOATS(1, 12)), LIST(FLOATS(5, 3))),
        REFUSED("U is 9 x 3 floats, expected 12 x 3", bo_shape_recurrent, &lstm,
                LIST(FLOATS(5, 12), FLOATS(9, 3), FLOATS(1, 12))),
        REFUSED("the input has 11 columns, expected 12", bo_shape_recurrent, &lstm,
                LIST(FLOATS(5, 11), FLOATS(12, 3), FLOATS(1, 11))),
        REFUSED("the bias is 1 x 3", bo_shape_recurrent, &lstm, LIST(FLOATS(5, 12), FLOATS(12, 3), FLOATS(1, 3))),
        REFUSED("unknown cell 7", bo_shape_recurrent, &other, LIST(FLOATS(5, 12), FLOATS(12, 3), FLOATS(1, 12))),
        REFUSED("sequences of 3 tokens do not divide 5 rows", bo_shape_recurrent, &threes,
                LIST(FLOATS(5, 4), FLOATS(4, 4), FLOATS(1, 4))),
        FITS(bo_shape_mix, &two, LIST(FLOATS(5, 4), FLOATS(12, 6)), LIST(FLOATS(5, 4))),
        REFUSED("2 heads do not divide 5 columns", bo_shape_mix, &two, LIST(FLOATS(5, 5), FLOATS(12, 6))),
        REFUSED("the matrix is 6 x 6 floats, expected 12 x 6", bo_shape_mix, &two, LIST(FLOATS(5, 4), FLOATS(6, 6))),
        REFUSED("sequences of 6 tokens, but the matrix supports 5", bo_shape_mix, &long_ones,
                LIST(FLOATS(6, 4), FLOATS(5, 5))),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
}

static void grids(void **state)
{
    (void)state;
    static const bo_convolution_attributes
        three = {.windows = {.height = {.size = 4, .kernel = 3, .stride = 2, .before = 1, .after = 1},
                             .width = {.size = 5, .kernel = 3, .before = 1, .after = 1}}},
        pair = {.windows = {.height = {.size = 1}, .width = {.size = 6}}, .groups = 2, .bias = true},
        tall = {.windows = {.height = {.size = 4, .kernel = 6, .before = 1}, .width = {.size = 5, .kernel = 3}}},
        vast = {.windows = {.height = {.size = 4}, .width = {.size = 5, .before = (size_t)1 << 40}}},
        wide = {.windows = {.height = {.size = 4, .before = 1 << 16}, .width = {.size = 5, .before = 1 << 16}}},
        endless_kernel = {.windows = {.height = {.kernel = 1},
                                      .width = {.kernel = (size_t)1 << 62, .before = ((size_t)1 << 62) - 1}}},
        flat = {.windows = {.width = {.size = 5}}},
        causal = {.windows = {.height = {.kernel = 1}, .width = {.kernel = 3, .before = 2}},
                  .sequences = {.tokens = 5}},
        ahead = {.windows = {.height = {.kernel = 1}, .width = {.kernel = 3, .before = 1, .after = 1}}},
        high = {.windows = {.height = {.kernel = 2}, .width = {.kernel = 3, .before = 2}}},
        leaps = {.windows = {.height = {.kernel = 1, .stride = 1}, .width = {.kernel = 3, .stride = 2, .before = 2}}},
        endless = {.scale = INFINITY, .windows = {.height = {.size = 1}, .width = {.size = 1}}};
    static const bo_pool_attributes halves = {.windows = {.height = {.size = 4, .kernel = 2, .stride = 2},
                                                          .width = {.size = 6, .kernel = 2, .stride = 2}}},
                                    empty = {.windows = {.height = {.size = 4, .kernel = 2, .before = 2},
                                                         .width = {.size = 6, .kernel = 2}}},
                                    other = {.kind = 5, .windows = {.height = {.size = 4}, .width = {.size = 6}}},
                                    large = {.windows = {.height = {.size = 4, .kernel = 2},
                                                         .width = {.size = 6, .kernel = 7}}};
    static const bo_batch_norm_attributes default_count = {0}, below = {.epsilon = -1}, fast = {.momentum = 1.5};
#define ROW FLOATS(1, 3)
    const shape_case cases[] = {
        FITS(bo_shape_convolution, &three, LIST(FLOATS(40, 2), FLOATS(7, 18)), LIST(FLOATS(20, 7))),
        FITS(bo_shape_convolution, &pair, LIST(FLOATS(12, 4), FLOATS(6, 2), FLOATS(1, 6)), LIST(FLOATS(12, 6))),
        FITS(bo_shape_convolution, &causal, LIST(FLOATS(10, 2), FLOATS(3, 6)), LIST(FLOATS(10, 3))),
        REFUSED("convolution: images of 4 x 5 pixels do not divide 41 rows", bo_shape_convolution, &three,
                LIST(FLOATS(41, 2), FLOATS(7, 18))),
        REFUSED("convolution: the weight is 7 x 17 floats, expected 7 x 18", bo_shape_convolution, &three,
                LIST(FLOATS(40, 2), FLOATS(7, 17))),
        REFUSED("convolution: 2 groups do not divide 5 input channels and 6 output channels", bo_shape_convolution,
                &pair, LIST(FLOATS(12, 5), FLOATS(6, 2), FLOATS(1, 6))),
        REFUSED("do not divide 4 input channels and 5 output channels", bo_shape_convolution, &pair,
                LIST(FLOATS(12, 4), FLOATS(5, 2), FLOATS(1, 5))),
        REFUSED("convolution: the bias is 1 x 5", bo_shape_convolution, &pair,
                LIST(FLOATS(12, 4), FLOATS(6, 2), FLOATS(1, 5))),
        REFUSED("the kernel's height is 6, expected at most 5, that of the padded image (1 + 4 + 0)",
                bo_shape_convolution, &tall, LIST(FLOATS(40, 2), FLOATS(7, 36))),
        REFUSED("a width or its padding is 2^31 or more", bo_shape_convolution, &vast,
                LIST(FLOATS(40, 2), FLOATS(7, 2))),
        REFUSED("65540 x 65541 pixels with padding, expected less than 2^31", bo_shape_convolution, &wide,
                LIST(FLOATS(40, 2), FLOATS(7, 2))),
        REFUSED("the kernel's width is 4611686018427387904, expected less than 2^31", bo_shape_convolution,
                &endless_kernel, LIST(FLOATS(40, 4), FLOATS(7, 2))),
        REFUSED("images have 0 x 5 pixels", bo_shape_convolution, &flat, LIST(FLOATS(40, 2), FLOATS(7, 2))),
        REFUSED("sequences of 5 tokens do not divide 12 rows", bo_shape_convolution, &causal,
                LIST(FLOATS(12, 2), FLOATS(3, 6))),
        REFUSED("a kernel of 3 needs a padding of 2 before and 0 after, found 1 and 1", bo_shape_convolution, &ahead,
                LIST(FLOATS(12, 2), FLOATS(3, 6))),
        REFUSED("the height of images and kernel must be 1, found 0 and 2", bo_shape_convolution, &high,
                LIST(FLOATS(12, 2), FLOATS(3, 12))),
        REFUSED("within sequences, the stride must be 1, found 2", bo_shape_convolution, &leaps,
                LIST(FLOATS(12, 2), FLOATS(3, 6))),
        REFUSED("convolution: the scale is inf", bo_shape_convolution, &endless, LIST(FLOATS(2, 2), FLOATS(3, 2))),
        REFUSED("convolution: 1 inputs, expected 2", bo_shape_convolution, &three, LIST(FLOATS(40, 2))),
        FITS(bo_shape_pool, &halves, LIST(FLOATS(48, 3)), LIST(FLOATS(12, 3))),
        REFUSED("pool: images of 4 x 6 pixels do not divide 47 rows", bo_shape_pool, &halves, LIST(FLOATS(47, 3))),
        REFUSED("pool: the padding is 2 before and 0 after, expected less than the window size 2", bo_shape_pool,
                &empty, LIST(FLOATS(48, 3))),
        REFUSED("pool: unknown kind 5", bo_shape_pool, &other, LIST(FLOATS(48, 3))),
        REFUSED("pool: the kernel's width is 7, expected at most 6", bo_shape_pool, &large, LIST(FLOATS(48, 3))),
        FITS(bo_shape_batch_norm, &default_count, LIST(FLOATS(9, 3), ROW, ROW, ROW, ROW), LIST(FLOATS(9, 3))),
        REFUSED("batch norm: the mean is 1 x 2 floats, expected 1 x 3", bo_shape_batch_norm, &default_count,
                LIST(FLOATS(9, 3), ROW, ROW, FLOATS(1, 2), ROW)),
        REFUSED("batch norm: epsilon is -1", bo_shape_batch_norm, &below, LIST(FLOATS(9, 3), ROW, ROW, ROW, ROW)),
        REFUSED("the momentum is 1.5, expected 0 to 1", bo_shape_batch_norm, &fast,
                LIST(FLOATS(9, 3), ROW, ROW, ROW, ROW)),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
    assert_int_equal(bo_convolution_state_bytes(&causal, 7), 2 * 7 * sizeof(float));
}

static void systems(void **state)
{
    (void)state;
    static const bo_ssm_attributes diagonal = {.size = 4}, none = {0}, high = {.size = 4, .rank = 17},
                                   closed = {.kind = BO_SSM_CLOSED, .size = 4, .rank = 2},
                                   other = {.kind = 7, .size = 4},
                                   low_rank = {.kind = BO_SSM_LOW_RANK, .size = 4, .rank = 2},
                                   formless = {.form = 9, .size = 4}, threes = {.size = 4, .sequences = {.tokens = 3}};
#define MODES FLOATS(5, 6), FLOATS(6, 1), FLOATS(6, 4), FLOATS(6, 4)
    const shape_case cases[] = {
        FITS(bo_shape_ssm, &diagonal, LIST(MODES, FLOATS(6, 8), FLOATS(6, 1)), LIST(FLOATS(5, 6))),
        FITS(bo_shape_ssm, &closed,
             LIST(FLOATS(5, 6), FLOATS(6, 1), FLOATS(6, 8), FLOATS(6, 4), FLOATS(6, 4), FLOATS(6, 1)),
             LIST(FLOATS(5, 6))),
        FITS(bo_shape_ssm, &low_rank, LIST(MODES, FLOATS(6, 16), FLOATS(6, 16), FLOATS(6, 8), FLOATS(6, 1)),
             LIST(FLOATS(5, 6))),
        REFUSED("C is 6 x 4 floats, expected 6 x 8", bo_shape_ssm, &diagonal, LIST(MODES, FLOATS(6, 4), FLOATS(6, 1))),
        REFUSED("log_step is 1 x 6 floats, expected 6 x 1", bo_shape_ssm, &diagonal,
                LIST(FLOATS(5, 6), FLOATS(1, 6), FLOATS(6, 4), FLOATS(6, 4), FLOATS(6, 8), FLOATS(6, 1))),
        REFUSED("6 inputs, expected 8", bo_shape_ssm, &low_rank, LIST(MODES, FLOATS(6, 8), FLOATS(6, 1))),
        REFUSED("0 states, expected 1 to 4096", bo_shape_ssm, &none, LIST(MODES)),
        REFUSED("rank 17, expected 1 to 16", bo_shape_ssm, &high, LIST(MODES)),
        REFUSED("unknown kind 7", bo_shape_ssm, &other, LIST(MODES)),
        REFUSED("unknown form 9", bo_shape_ssm, &formless, LIST(MODES)),
        REFUSED("sequences of 3 tokens do not divide 5 rows", bo_shape_ssm, &threes,
                LIST(MODES, FLOATS(6, 8), FLOATS(6, 1))),
    };
    bo_context *context = test_context(1);
    CHECK(cases);
    bo_context_destroy(context);
}

static void attentions(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_attention *exact = create(context, "softmax"), *gated = create(context, "rfa-gate"),
                 *gla = create(context, "gla"), *delta = create(context, "gated-delta");
    const bo_attention_attributes plain = {.attention = exact}, none = {0}, split = {.attention = exact, .tokens = 4},
                                  too_much = {.attention = exact, .given = BO_ATTENTION_GIVEN_SIGMA},
                                  unknown = {.attention = exact, .given = 1 << 10}, ungated = {.attention = gated},
                                  gate = {.attention = gated, .given = BO_ATTENTION_GIVEN_LOG_GATE},
                                  sigma = {.attention = gated,
                                           .given = BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_SIGMA},
                                  wide = {.attention = gla, .given = BO_ATTENTION_GIVEN_LOG_GATE},
                                  beta = {.attention = delta,
                                          .given = BO_ATTENTION_GIVEN_LOG_GATE | BO_ATTENTION_GIVEN_BETA};
#define QKV FLOATS(6, 12), FLOATS(6, 6), FLOATS(6, 10)
    const shape_case cases[] = {
        FITS(bo_shape_attention, &plain, LIST(QKV), LIST(FLOATS(6, 20))),
        FITS(bo_shape_attention, &gate, LIST(QKV, FLOATS(6, 2)), LIST(FLOATS(6, 20))),
        FITS(bo_shape_attention, &sigma, LIST(QKV, FLOATS(6, 2), FLOATS(1, 6)), LIST(FLOATS(6, 20))),
        FITS(bo_shape_attention, &sigma, LIST(QKV, FLOATS(6, 2), FLOATS(2, 3)), LIST(FLOATS(6, 20))),
        FITS(bo_shape_attention, &wide, LIST(QKV, FLOATS(6, 6)), LIST(FLOATS(6, 20))),
        FITS(bo_shape_attention, &beta, LIST(QKV, FLOATS(6, 2), FLOATS(6, 2)), LIST(FLOATS(6, 20))),
        REFUSED("the attention is NULL", bo_shape_attention, &none, LIST(QKV)),
        REFUSED("do not divide 6 rows", bo_shape_attention, &split, LIST(QKV)),
        REFUSED("does not use sigma", bo_shape_attention, &too_much, LIST(QKV, FLOATS(1, 6))),
        REFUSED("unknown inputs", bo_shape_attention, &unknown, LIST(QKV, FLOATS(1, 6))),
        REFUSED("needs log_gate", bo_shape_attention, &ungated, LIST(QKV)),
        REFUSED("4 inputs, expected 3", bo_shape_attention, &plain, LIST(QKV, FLOATS(6, 2))),
        REFUSED("log_gate is 5 x 2 floats, expected 6 x 2", bo_shape_attention, &gate, LIST(QKV, FLOATS(5, 2))),
        REFUSED("sigma is 1 x 7", bo_shape_attention, &sigma, LIST(QKV, FLOATS(6, 2), FLOATS(1, 7))),
        REFUSED("k is 6 x 12", bo_shape_attention, &plain, LIST(FLOATS(6, 12), FLOATS(6, 12), FLOATS(6, 10))),
        REFUSED("v is 5 x 10", bo_shape_attention, &plain, LIST(FLOATS(6, 12), FLOATS(6, 6), FLOATS(5, 10))),
    };
    CHECK(cases);
    bo_attention_destroy(exact);
    bo_attention_destroy(gated);
    bo_attention_destroy(gla);
    bo_attention_destroy(delta);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_features),
        cmocka_unit_test(tables_and_positions),
        cmocka_unit_test(matrices),
        cmocka_unit_test(element_by_element),
        cmocka_unit_test(sequences),
        cmocka_unit_test(grids),
        cmocka_unit_test(systems),
        cmocka_unit_test(attentions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
