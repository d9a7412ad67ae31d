/* Declares the kernels that every instruction set has, as ISA(name). The header of an instruction set (such as
 * avx2/avx2.h) defines ISA, includes this file and undefines ISA. kernels.h documents each function. There is no
 * include guard: this file is included once per instruction set. */
void ISA(gemm_f32)(size_t k, const float *a, const float *b, float *c, size_t ldc, size_t m, size_t n, bool add);
void ISA(gemm_f32_f64)(size_t k, const float *a, const float *b, double *c, size_t ldc, size_t m, size_t n, bool add);
void ISA(gemm_f64)(size_t k, const double *a, const double *b, double *c, size_t ldc, size_t m, size_t n, bool add);

void ISA(sincos)(size_t n, float scale, const float *x, float *s, float *c);
void ISA(cos_shift)(size_t n, float scale, const float *x, const float *shift, float *y);
void ISA(exp_shift)(size_t n, const float *x, float shift, float *y);
void ISA(relu)(size_t n, float scale, const float *x, float *y);
void ISA(axpy)(size_t n, float a, const float *x, float *y);
double ISA(dot)(size_t n, const float *x, const float *y);
double ISA(sum)(size_t n, const float *x);
void ISA(affine)(size_t n, const float *x, const float *mean, const float *factor, float *y);
void ISA(quantize)(size_t n, float scale, const float *x, int8_t *q);
void ISA(hadamard)(size_t n, float *x);

void ISA(multiply)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                   bool add, float *c, size_t ldc);
void ISA(multiply_runs)(size_t m, size_t n, bo_runs runs, size_t k, const float *a, size_t row, size_t column,
                        const float *b, size_t ldb, bool add, float *c, size_t ldc);
void ISA(transpose)(size_t rows, size_t columns, const float *a, size_t lda, float *b, size_t ldb);
void ISA(triangle)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                   float *out);
void ISA(triangle_back)(size_t n, const float *a, const float *t, float head, float diagonal, float off_diagonal,
                        const float *g, float *da, float *dt);
float ISA(max)(size_t n, const float *x);
void ISA(scale)(size_t n, float a, const float *x, float *y);
void ISA(scale_rows)(size_t rows, size_t n, const float *a, const float *x, size_t ldx, float *y, size_t ldy);
void ISA(renew)(size_t m, size_t n, size_t k, const float *a, size_t row, size_t column, const float *b, size_t ldb,
                float keep, float *c, size_t ldc);
float ISA(dot_f32)(size_t n, const float *x, const float *y);
void ISA(dots)(size_t lines, size_t rows, size_t n, const float *w, size_t ldw, const float *x, size_t ldx, float *out,
               size_t ldo);
void ISA(log_size)(size_t n, float a, const float *x, float *y);
void ISA(exp_below)(size_t n, const float *x, float shift, float *y);
float ISA(exp_sum)(size_t n, const float *x, float shift, float *y);
float ISA(exp_weigh)(size_t n, const float *x, float shift, float *y);
float ISA(exp_weigh_wide)(size_t n, const double *x, double shift, float *y);
bool ISA(finite)(size_t n, const float *x);
bool ISA(finite_rows)(size_t rows, size_t n, const float *x, size_t ldx);
void ISA(state_step)(size_t rows, size_t n, bool update, float decay, const float *f, const float *v, float *s,
                     size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
void ISA(state_step_gated)(size_t rows, size_t n, bool update, const float *decay, const float *f, const float *v,
                           float *s, size_t queries, const float *q, size_t ldq, float *out, size_t ldo);
void ISA(product)(size_t n, const float *x, const float *y, bool add, float *z);
void ISA(gated_scores)(size_t rows, size_t n, const float *q, size_t ldq, const float *k, size_t ldk, const float *g,
                       size_t ldg, float *out, size_t ldo);
void ISA(gated_gradients)(size_t rows, size_t n, const float *w, size_t ldw, const float *q, const float *k, size_t ldk,
                          const float *g, float *dq, float *dk, float *dlog);
void ISA(rotate)(size_t n, size_t count, const double *c, const double *s, double *row, double *y, size_t ldy,
                 size_t outputs, const double *z, double *w, size_t ldw);
void ISA(dots64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y);
void ISA(combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *w, double *z);
void ISA(dots_combine64)(size_t rows, size_t n, const double *a, size_t lda, const double *x, double *y,
                         const double *w, double *z);
void ISA(rotate_rows64)(size_t count, size_t n, const bo_rotation *rotations, double *x, size_t ldx);
void ISA(adamw)(size_t n, const bo_adamw_step *step, const float *g, float *m, float *v, float *w);
void ISA(norm_back)(size_t n, const bo_norm_row *row, const float *x, const float *dy, const float *gain, bool add,
                    float *dx, float *dgain, float *dbias);
void ISA(random)(uint64_t seed, uint64_t stream, uint64_t first, size_t groups, uint32_t *out);
void ISA(curve)(bo_curve curve, size_t n, const float *x, float *y);
void ISA(curve_derivative)(bo_curve curve, size_t n, const float *x, float *y);
void ISA(distances)(bo_distance distance, size_t rows, size_t columns, size_t dim, const float *x, size_t ldx,
                    const float *weight, const float *panel, float *out, size_t ldo);
void ISA(radial)(const bo_radial *radial, size_t n, const float *s, float *y);
void ISA(radial_derivative)(const bo_radial *radial, size_t n, const float *s, float *y);
void ISA(pair_sums)(bo_distance distance, size_t dim, const float *x, const float *weight, const float *panel,
                    const float *factor, float *sums);
void ISA(round_bf16)(size_t n, const float *x, uint16_t *y);
void ISA(widen_bf16)(size_t n, const uint16_t *x, float *y);
void ISA(widen_s8)(size_t n, float scale, const int8_t *q, float *y);
void ISA(dots_bf16)(size_t lines, size_t rows, size_t n, const uint16_t *w, size_t ldw, const float *x, size_t ldx,
                    float *out, size_t ldo);
void ISA(quantize_s16)(size_t n, float scale, const float *x, int16_t *q);
void ISA(widen_s4)(size_t n, const uint8_t *line, size_t first, size_t count, float *y);
void ISA(dots_s4)(size_t lines, size_t rows, size_t n, const uint8_t *w, size_t ldw, const bo_byte_rows *x, float *out,
                  size_t ldo);
void ISA(dots_s8)(size_t lines, size_t rows, size_t n, const int8_t *w, size_t ldw, const int16_t *x, size_t ldx,
                  const float *scale, float *out, size_t ldo);
