/* The functions of functions.h as members of a table (bo_kernels), for the table.c of every instruction set. */
#ifndef BO_KERNELS_ENTRIES_H
#define BO_KERNELS_ENTRIES_H

#define BO_KERNEL_FUNCTIONS                                                                                            \
    .sincos = ISA(sincos), .cos_shift = ISA(cos_shift), .exp_shift = ISA(exp_shift), .relu = ISA(relu),                \
    .axpy = ISA(axpy), .dot = ISA(dot), .sum = ISA(sum), .affine = ISA(affine), .quantize = ISA(quantize),             \
    .hadamard = ISA(hadamard), .multiply = ISA(multiply), .multiply_runs = ISA(multiply_runs),                         \
    .transpose = ISA(transpose), .triangle = ISA(triangle), .triangle_back = ISA(triangle_back), .max = ISA(max),      \
    .scale = ISA(scale), .scale_rows = ISA(scale_rows), .renew = ISA(renew), .dot_f32 = ISA(dot_f32),                  \
    .dots = ISA(dots), .log_size = ISA(log_size), .exp_below = ISA(exp_below), .exp_sum = ISA(exp_sum),                \
    .exp_weigh = ISA(exp_weigh), .exp_weigh_wide = ISA(exp_weigh_wide), .finite = ISA(finite),                         \
    .finite_rows = ISA(finite_rows), .state_step = ISA(state_step), .state_step_gated = ISA(state_step_gated),         \
    .product = ISA(product), .gated_scores = ISA(gated_scores), .gated_gradients = ISA(gated_gradients),               \
    .rotate = ISA(rotate), .adamw = ISA(adamw), .norm_back = ISA(norm_back), .random = ISA(random),                    \
    .curve = ISA(curve), .curve_derivative = ISA(curve_derivative), .round_bf16 = ISA(round_bf16),                     \
    .widen_bf16 = ISA(widen_bf16), .widen_s8 = ISA(widen_s8), .dots_bf16 = ISA(dots_bf16),                             \
    .quantize_s16 = ISA(quantize_s16), .dots_s8 = ISA(dots_s8), .widen_s4 = ISA(widen_s4), .dots64 = ISA(dots64),      \
    .combine64 = ISA(combine64), .dots_combine64 = ISA(dots_combine64), .rotate_rows64 = ISA(rotate_rows64),           \
    .distances = ISA(distances), .radial = ISA(radial), .radial_derivative = ISA(radial_derivative),                   \
    .pair_sums = ISA(pair_sums)

#endif
