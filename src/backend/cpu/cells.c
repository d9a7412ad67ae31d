/* RNN, GRU and LSTM; formulas in operations.h. */
#include "cells.h"

/* Computes z = U h + x + b for the first `count` gates. */
static void join(const bo_cell_step *s, size_t count)
{
    float *restrict z = s->product;
    const float *restrict x = s->x, *restrict b = s->bias;
    for (size_t j = 0; j < count * s->size; j++) z[j] += x[j] + b[j];
}

/* ---- RNN --------------------------------------------------------------------------------------------------------- */

static void rnn_step(const bo_cell_step *s)
{
    join(s, 1);
    s->kernels->curve(BO_CURVE_TANH, s->size, s->product, s->hidden);
}

static void rnn_back(const bo_cell_back *s)
{
    const float *restrict h = s->hidden, *restrict dout = s->dout, *restrict back = s->back;
    float *restrict d = s->dproduct;
    for (size_t j = 0; j < s->size; j++) d[j] = (dout[j] + back[j]) * (1 - h[j] * h[j]);
}

/* ---- GRU: saves r, z, n and q = U_n h + b_n; carries z dh -------------------------------------------------------- */

static void gru_step(const bo_cell_step *s)
{
    const size_t h = s->size;
    float *restrict r = s->kept, *restrict z = r + h, *restrict n = z + h, *restrict q = n + h;
    float *restrict p = s->product + 2 * h, *restrict hidden = s->hidden;
    const float *restrict x = s->x + 2 * h, *restrict b = s->bias + 2 * h;
    join(s, 2);
    s->kernels->curve(BO_CURVE_SIGMOID, 2 * h, s->product, r);
    for (size_t j = 0; j < h; j++) {
        q[j] = p[j] + b[j];
        p[j] = x[j] + r[j] * q[j];
    }
    s->kernels->curve(BO_CURVE_TANH, h, p, n);
    for (size_t j = 0; j < h; j++) hidden[j] = n[j] + z[j] * (hidden[j] - n[j]);
}

static void gru_back(const bo_cell_back *s)
{
    const size_t h = s->size;
    const float *restrict r = s->kept, *restrict z = r + h, *restrict n = z + h, *restrict q = n + h;
    const float *restrict hidden_before = s->hidden_before, *restrict dout = s->dout, *restrict back = s->back;
    float *restrict dx = s->dx, *restrict dp = s->dproduct, *restrict carry = s->carry;
    for (size_t j = 0; j < h; j++) {
        float dh = dout[j] + back[j] + carry[j];
        float dn = dh * (1 - z[j]) * (1 - n[j] * n[j]);
        carry[j] = dh * z[j];
        dx[j] = dp[j] = dn * q[j] * r[j] * (1 - r[j]);
        dx[h + j] = dp[h + j] = dh * (hidden_before[j] - n[j]) * z[j] * (1 - z[j]);
        dx[2 * h + j] = dn;
        dp[2 * h + j] = dn * r[j];
    }
}

/* ---- LSTM: saves i, f, g, o and c; carries dc -------------------------------------------------------------------- */

static void lstm_step(const bo_cell_step *s)
{
    const size_t h = s->size;
    float *restrict i = s->kept, *restrict f = i + h, *restrict g = f + h, *restrict o = g + h, *restrict c = o + h;
    float *restrict cell = s->cell, *restrict hidden = s->hidden;
    join(s, 4);
    s->kernels->curve(BO_CURVE_SIGMOID, 2 * h, s->product, i);
    s->kernels->curve(BO_CURVE_TANH, h, s->product + 2 * h, g);
    s->kernels->curve(BO_CURVE_SIGMOID, h, s->product + 3 * h, o);
    for (size_t j = 0; j < h; j++) c[j] = cell[j] = f[j] * cell[j] + i[j] * g[j];
    s->kernels->curve(BO_CURVE_TANH, h, c, hidden);
    for (size_t j = 0; j < h; j++) hidden[j] *= o[j];
}

static void lstm_back(const bo_cell_back *s)
{
    const size_t h = s->size;
    const float *restrict i = s->kept, *restrict f = i + h, *restrict g = f + h, *restrict o = g + h;
    const float *restrict c_before = s->kept_before + 4 * h, *restrict dout = s->dout, *restrict back = s->back;
    float *restrict d = s->dproduct, *restrict carry = s->carry, *restrict tanh_c = s->work;
    s->kernels->curve(BO_CURVE_TANH, h, o + h, tanh_c);
    for (size_t j = 0; j < h; j++) {
        float dh = dout[j] + back[j], dc = carry[j] + dh * o[j] * (1 - tanh_c[j] * tanh_c[j]);
        d[j] = dc * g[j] * i[j] * (1 - i[j]);
        d[h + j] = dc * c_before[j] * f[j] * (1 - f[j]);
        d[2 * h + j] = dc * i[j] * (1 - g[j] * g[j]);
        d[3 * h + j] = dh * tanh_c[j] * o[j] * (1 - o[j]);
        carry[j] = dc * f[j];
    }
}

const bo_recurrent_cell *bo_cell_of(bo_recurrence kind)
{
    static const bo_recurrent_cell cells[BO_RECURRENCE_COUNT] = {
        [BO_RECURRENCE_RNN] = {1, 0, 1, false, rnn_step, rnn_back},
        [BO_RECURRENCE_GRU] = {3, 4, 1, true, gru_step, gru_back},
        [BO_RECURRENCE_LSTM] = {4, 5, 2, false, lstm_step, lstm_back},
    };
    return &cells[kind];
}
