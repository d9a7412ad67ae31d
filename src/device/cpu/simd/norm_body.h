/* The backward pass of a normalized group, in the vector operations of the including file, which is compiled without
 * fused multiply-add. */

static inline __attribute__((always_inline)) v norm_load(const float *x, size_t n)
{
    return n >= LANES ? v_load(x) : v_load_part(x, n);
}

static inline __attribute__((always_inline)) void norm_store(float *x, size_t n, v value)
{
    if (n >= LANES)
        v_store(x, value);
    else
        v_store_part(x, n, value);
}

void ISA(norm_back)(size_t n, const bo_norm_row *row, const float *x, const float *dy, const float *gain, bool add,
                    float *dx, float *dgain, float *dbias)
{
    const v mean = v_set(row->mean), rate = v_set(row->rate), shift = v_set(row->shift), slope = v_set(row->slope);
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j;
        v gradient = norm_load(dy + j, left), centered = v_sub(norm_load(x + j, left), mean);
        if (dgain) {
            v term = v_mul(gradient, v_mul(centered, rate));
            norm_store(dgain + j, left, v_add(norm_load(dgain + j, left), term));
        }
        if (dbias) norm_store(dbias + j, left, v_add(norm_load(dbias + j, left), gradient));
        if (!dx) continue;
        v g = gain ? v_mul(gradient, norm_load(gain + j, left)) : gradient;
        v value = v_mul(rate, v_sub(v_sub(g, shift), v_mul(centered, slope)));
        norm_store(dx + j, left, add ? v_add(norm_load(dx + j, left), value) : value);
    }
}
