/* Evaluation of polynomials, compiled once for residues and once for double: NUMBER with ADD and MULTIPLY; NAME(x)
 * gives the function names. It has no include guard, because polynomial.c includes it twice. */

static NUMBER NAME(dot)(const NUMBER *a, const NUMBER *b, size_t count)
{
    NUMBER sum = 0;
    for (size_t i = 0; i < count; i++) sum = ADD(sum, MULTIPLY(a[i], b[i]));
    return sum;
}

/* y (rows x out) = x (rows x in) Wᵀ */
static void NAME(linear)(size_t rows, size_t in, size_t out, const NUMBER *x, const NUMBER *w, NUMBER *y)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t o = 0; o < out; o++) y[r * out + o] = NAME(dot)(w + o * in, x + r * in, in);
}

static void NAME(multiply_all)(size_t count, NUMBER *y, const NUMBER *factor)
{
    for (size_t i = 0; i < count; i++) y[i] = MULTIPLY(y[i], factor[i]);
}

/* P_d(x) = Π_k (W_k x); returns the weights after those used. */
static const NUMBER *NAME(product_layer)(const lab_polynomial_desc *desc, size_t in, const NUMBER *w, NUMBER *x)
{
    NUMBER y[LAB_INPUTS], factor[LAB_INPUTS];
    for (size_t k = 0; k < desc->degree; k++, w += in * desc->width) {
        NAME(linear)(1, in, desc->width, x, w, k ? factor : y);
        if (k) NAME(multiply_all)(desc->width, y, factor);
    }
    memcpy(x, y, desc->width * sizeof *x);
    return w;
}

/* Replaces every row of y by the sum of all rows. */
static void NAME(sum_tokens)(const lab_polynomial_desc *desc, NUMBER *y)
{
    for (size_t c = 0; c < desc->width; c++) {
        NUMBER sum = 0;
        for (size_t t = 0; t < desc->tokens; t++) sum = ADD(sum, y[t * desc->width + c]);
        for (size_t t = 0; t < desc->tokens; t++) y[t * desc->width + c] = sum;
    }
}

/* y = q (kᵀ v) */
static void NAME(attend)(const lab_polynomial_desc *desc, const NUMBER *q, const NUMBER *k, const NUMBER *v, NUMBER *y)
{
    const size_t width = desc->width;
    NUMBER state[LAB_INPUTS * LAB_INPUTS]; /* transposed: (value, key) */
    for (size_t a = 0; a < width; a++)
        for (size_t b = 0; b < width; b++) {
            NUMBER sum = 0;
            for (size_t t = 0; t < desc->tokens; t++) sum = ADD(sum, MULTIPLY(v[t * width + a], k[t * width + b]));
            state[a * width + b] = sum;
        }
    NAME(linear)(desc->tokens, width, width, q, state, y);
}

static const NUMBER *NAME(token_layer)(const lab_polynomial_desc *desc, const NUMBER *w, NUMBER *x)
{
    const size_t width = desc->width, all = desc->tokens * width;
    NUMBER parts[4][LAB_INPUTS], y[LAB_INPUTS];
    for (size_t k = 0; k < desc->degree; k++, w += width * width)
        NAME(linear)(desc->tokens, width, width, x, w, parts[k]);
    if (desc->degree == 2) {
        NAME(sum_tokens)(desc, parts[1]);
        memcpy(y, parts[0], all * sizeof *y);
        NAME(multiply_all)(all, y, parts[1]);
    } else {
        NAME(attend)(desc, parts[0], parts[1], parts[2], y);
        if (desc->degree == 4) {
            NAME(sum_tokens)(desc, parts[3]);
            NAME(multiply_all)(all, y, parts[3]);
        }
    }
    memcpy(x, y, all * sizeof *y);
    return w;
}

static NUMBER NAME(evaluate)(const lab_polynomial_desc *desc, const NUMBER *w, const NUMBER *inputs)
{
    NUMBER x[LAB_INPUTS];
    memcpy(x, inputs, desc->inputs * sizeof *x);
    for (size_t l = 0; l < desc->layers; l++)
        w = desc->tokens ? NAME(token_layer)(desc, w, x)
                         : NAME(product_layer)(desc, l ? desc->width : desc->inputs, w, x);
    const size_t columns = desc->layers || desc->tokens ? desc->width : desc->inputs;
    return NAME(dot)(w, desc->tokens ? x + (desc->tokens - 1) * desc->width : x, columns);
}

static NUMBER NAME(known)(const lab_known_rank *known, const NUMBER *forms, const NUMBER *x)
{
    const size_t half = known->half;
    NUMBER sum = 0;
    for (size_t r = 0; r < known->rank; r++, forms += 2 * (half + 1)) {
        const NUMBER a = ADD(NAME(dot)(forms, x, half), forms[half]);
        const NUMBER b = ADD(NAME(dot)(forms + half + 1, x + half, half), forms[2 * half + 1]);
        NUMBER term = 1;
        for (size_t p = 0; p < known->power; p++) term = MULTIPLY(term, MULTIPLY(a, b));
        sum = ADD(sum, term);
    }
    return sum;
}
