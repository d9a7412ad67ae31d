/* References for recurrent cells and for products along tokens. Part of oracle.h. */
#ifndef BO_TEST_BACKEND_ORACLE_MIXERS_H
#define BO_TEST_BACKEND_ORACLE_MIXERS_H

/* Tokens of sequence s, starting at row `first`; returns false after the last sequence. */
static inline bool plain_sequence(const plain_op *op, const bo_sequences *sequences, size_t s, size_t first,
                                  size_t *tokens)
{
    size_t rows = op->in[0].rows;
    const size_t *lengths = plain_lengths(op, sequences->source);
    *tokens = sequences->tokens ? sequences->tokens : rows;
    if (!lengths) return first < rows;
    if (s >= op->pass->sequences) return false;
    *tokens = lengths[s];
    return true;
}

/* ---- RECURRENT --------------------------------------------------------------------------------------------------- */

static inline void plain_shape_recurrent(plain_op *op)
{
    op->out[0].columns = op->in[1].columns;
}

/* (U h + b)_i */
static inline double plain_recurrence(const plain_op *op, size_t i, const double *h)
{
    double sum = plain_at(&op->in[2], 0, i);
    for (size_t j = 0; j < op->in[1].columns; j++) sum += plain_at(&op->in[1], i, j) * h[j];
    return sum;
}

static inline double plain_logistic(double x)
{
    return 1 / (1 + exp(-x));
}

/* h and c of one token from the previous ones. */
static inline void plain_cell(const plain_op *op, size_t row, const double *h, double *new_h, double *c)
{
    const bo_recurrent_attributes *a = op->attributes;
    const size_t n = op->in[1].columns;
    for (size_t j = 0; j < n; j++) {
        double z[4] = {0}, u[4] = {0};
        for (size_t g = 0; g < op->in[1].rows / n; g++) {
            u[g] = plain_recurrence(op, g * n + j, h);
            z[g] = plain_at(&op->in[0], row, g * n + j) + u[g];
        }
        if (a->cell == BO_RECURRENCE_RNN) new_h[j] = tanh(z[0]);
        if (a->cell == BO_RECURRENCE_GRU) {
            double candidate = tanh(plain_at(&op->in[0], row, 2 * n + j) + plain_logistic(z[0]) * u[2]);
            new_h[j] = (1 - plain_logistic(z[1])) * candidate + plain_logistic(z[1]) * h[j];
        }
        if (a->cell == BO_RECURRENCE_LSTM) {
            c[j] = plain_logistic(z[1]) * c[j] + plain_logistic(z[0]) * tanh(z[2]);
            new_h[j] = plain_logistic(z[3]) * tanh(c[j]);
        }
    }
}

static inline void plain_recurrent(plain_op *op)
{
    const bo_recurrent_attributes *a = op->attributes;
    const size_t n = op->in[1].columns;
    double *h = plain_zeros(n), *c = plain_zeros(n);
    for (size_t s = 0, first = 0, tokens; plain_sequence(op, &a->sequences, s, first, &tokens); s++) {
        memset(h, 0, n * sizeof *h);
        memset(c, 0, n * sizeof *c);
        for (size_t row = first; row < first + tokens; row++) {
            plain_cell(op, row, h, op->out[0].x + row * n, c);
            memcpy(h, op->out[0].x + row * n, n * sizeof *h);
        }
        first += tokens;
    }
    free(h);
    free(c);
}

/* ---- MIX --------------------------------------------------------------------------------------------------------- */

static inline void plain_mix(plain_op *op)
{
    const bo_mix_attributes *a = op->attributes;
    const size_t columns = op->in[0].columns, max_tokens = op->in[1].columns, dim = columns / (a->heads ? a->heads : 1);
    for (size_t i = 0, first = 0, tokens; plain_sequence(op, &a->sequences, i, first, &tokens); i++) {
        for (size_t t = 0; t < tokens; t++)
            for (size_t c = 0; c < columns; c++) {
                double sum = 0;
                for (size_t s = 0; s < (a->causal ? t + 1 : tokens); s++)
                    sum += plain_at(&op->in[1], c / dim * max_tokens + t, s) * plain_at(&op->in[0], first + s, c);
                op->out[0].x[(first + t) * columns + c] = sum;
            }
        first += tokens;
    }
}

#endif
