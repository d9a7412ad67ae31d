/* Operations on grids, position by position. Included by oracle.h. */
#ifndef BO_TEST_BACKEND_ORACLE_GRID_H
#define BO_TEST_BACKEND_ORACLE_GRID_H

/* 0 means 1. */
static inline size_t plain_or_one(size_t x)
{
    return x ? x : 1;
}

static inline const bo_axis_windows *plain_axis(const bo_windows *w, size_t axis)
{
    return axis ? &w->width : &w->height;
}

static inline size_t plain_windows(const bo_windows *w, size_t axis)
{
    const bo_axis_windows *a = plain_axis(w, axis);
    return (a->before + a->size + a->after - plain_or_one(a->kernel)) / plain_or_one(a->stride) + 1;
}

/* Position of tap `tap` of window `window` along an axis; -1: outside of the image. */
static inline ptrdiff_t plain_tap(const bo_windows *w, size_t axis, size_t window, size_t tap)
{
    const bo_axis_windows *a = plain_axis(w, axis);
    ptrdiff_t at = (ptrdiff_t)(window * plain_or_one(a->stride) + tap) - (ptrdiff_t)a->before;
    return at < (ptrdiff_t)a->size ? at : -1;
}

/* One image, given the first of its rows in x and y. */
static inline void plain_convolve(plain_op *op, const bo_windows *w, size_t from, size_t to)
{
    const bo_convolution_attributes *a = op->attributes;
    size_t groups = plain_or_one(a->groups), in = op->in[0].columns / groups, all = op->out[0].columns;
    size_t high = plain_or_one(w->height.kernel), wide = plain_or_one(w->width.kernel), width = plain_windows(w, 1);
    for (size_t place = 0; place < plain_windows(w, 0) * width; place++)
        for (size_t o = 0; o < all; o++) {
            double sum = 0;
            for (size_t u = 0; u < high; u++)
                for (size_t v = 0; v < wide; v++) {
                    ptrdiff_t y = plain_tap(w, 0, place / width, u), x = plain_tap(w, 1, place % width, v);
                    if (y < 0 || x < 0) continue;
                    size_t row = from + (size_t)y * w->width.size + (size_t)x, first = o / (all / groups) * in;
                    for (size_t c = 0; c < in; c++)
                        sum += plain_at(&op->in[1], o, (u * wide + v) * in + c) * plain_at(&op->in[0], row, first + c);
                }
            op->out[0].x[(to + place) * all + o] =
                (a->scale != 0 ? a->scale : 1) * sum + (a->bias ? op->in[2].x[o] : 0);
        }
}

static inline void plain_convolution(plain_op *op)
{
    const bo_convolution_attributes *a = op->attributes;
    bo_windows w = a->windows;
    const size_t *lengths = plain_lengths(op, a->sequences.source);
    w.height.size = plain_or_one(w.height.size);
    for (size_t from = 0, to = 0, s = 0; from < op->in[0].rows; s++) {
        if (!a->windows.width.size)
            w.width.size = lengths ? lengths[s] : a->sequences.tokens ? a->sequences.tokens : op->in[0].rows;
        if (!w.width.size) continue;
        plain_convolve(op, &w, from, to);
        from += w.height.size * w.width.size, to += plain_windows(&w, 0) * plain_windows(&w, 1);
    }
}

static inline size_t plain_window_rows(const bo_windows *w, size_t rows)
{
    if (!w->width.size) return rows;
    return rows / (w->height.size * w->width.size) * plain_windows(w, 0) * plain_windows(w, 1);
}

static inline void plain_shape_convolution(plain_op *op)
{
    const bo_convolution_attributes *a = op->attributes;
    op->out[0].rows = plain_window_rows(&a->windows, op->in[0].rows);
    op->out[0].columns = op->in[1].rows;
}

/* One element of y. */
static inline double plain_pooled(const plain_op *op, size_t place, size_t channel)
{
    const bo_pool_attributes *a = op->attributes;
    const bo_windows *w = &a->windows;
    size_t high = plain_windows(w, 0), wide = plain_windows(w, 1), image = place / (high * wide), count = 0;
    double largest = -INFINITY, sum = 0;
    for (size_t u = 0; u < plain_or_one(w->height.kernel); u++)
        for (size_t v = 0; v < plain_or_one(w->width.kernel); v++) {
            ptrdiff_t y = plain_tap(w, 0, place / wide % high, u), x = plain_tap(w, 1, place % wide, v);
            if (y < 0 || x < 0) continue;
            double value =
                plain_at(&op->in[0], (image * w->height.size + (size_t)y) * w->width.size + (size_t)x, channel);
            largest = fmax(largest, value), sum += value, count++;
        }
    return a->kind == BO_POOL_KIND_MEAN ? sum / (double)count : largest;
}

static inline void plain_pool(plain_op *op)
{
    size_t columns = op->out[0].columns;
    for (size_t i = 0; i < plain_count(&op->out[0]); i++) op->out[0].x[i] = plain_pooled(op, i / columns, i % columns);
}

static inline void plain_shape_pool(plain_op *op)
{
    const bo_pool_attributes *a = op->attributes;
    op->out[0].rows = plain_window_rows(&a->windows, op->in[0].rows);
}

static inline void plain_batch_norm(plain_op *op)
{
    const bo_batch_norm_attributes *a = op->attributes;
    size_t rows = op->in[0].rows, columns = op->in[0].columns;
    for (size_t j = 0; j < columns; j++) {
        double mean = op->in[3].x[j], variance = op->in[4].x[j];
        if (op->pass && op->pass->training) {
            mean = variance = 0;
            for (size_t r = 0; r < rows; r++) mean += plain_at(&op->in[0], r, j) / (double)rows;
            for (size_t r = 0; r < rows; r++) variance += pow(plain_at(&op->in[0], r, j) - mean, 2) / (double)rows;
        }
        double rate = 1 / sqrt(variance + (a->epsilon != 0 ? a->epsilon : 1e-5));
        for (size_t r = 0; r < rows; r++)
            op->out[0].x[r * columns + j] =
                (plain_at(&op->in[0], r, j) - mean) * rate * op->in[1].x[j] + op->in[2].x[j];
    }
}

#endif
