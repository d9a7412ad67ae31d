/* The nearest number of a small format by definition: an integer multiple of a quantum that depends on the exponent. */
#ifndef BO_TEST_BACKEND_ORACLE_ROUND_H
#define BO_TEST_BACKEND_ORACLE_ROUND_H

/* Number of fraction bits, exponent of the smallest normal value, largest value. */
typedef struct plain_format {
    int mantissa, min_exponent;
    double max;
} plain_format;

static inline plain_format plain_format_of(bo_small_float kind)
{
    static const plain_format all[BO_SMALL_FLOAT_COUNT] = {[BO_SMALL_FLOAT_E4M3] = {3, -6, 448},
                                                           [BO_SMALL_FLOAT_E5M2] = {2, -14, 57344},
                                                           [BO_SMALL_FLOAT_BF16] = {7, -126, 0x1.FEp127}};
    return all[kind];
}

/* nearbyint breaks ties to even. */
static inline double plain_rounded(bo_small_float kind, double x)
{
    if (kind == BO_SMALL_FLOAT_NONE || x == 0 || isnan(x)) return x;
    plain_format f = plain_format_of(kind);
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    int power = (exponent - 1 > f.min_exponent ? exponent - 1 : f.min_exponent) - f.mantissa;
    double y = isinf(x) ? x : ldexp(nearbyint(ldexp(x, -power)), power);
    return fabs(y) > f.max ? copysign(f.max, x) : y;
}

static inline void plain_round(plain_op *op)
{
    const bo_round_attributes *a = op->attributes;
    for (size_t i = 0; i < plain_count(&op->in[0]); i++)
        op->out[0].x[i] = op->smooth ? op->in[0].x[i] : plain_rounded(a->value, op->in[0].x[i]);
}

#endif
