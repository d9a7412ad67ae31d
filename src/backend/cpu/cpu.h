/* The operations of the CPU backend, one object each; table.c lists them. Shapes are checked by functions that all
 * backends share (../shapes.c). */
#ifndef BO_BACKEND_CPU_H
#define BO_BACKEND_CPU_H

#include "../backend.h"

extern const bo_op bo_cpu_embed, bo_cpu_position, bo_cpu_linear, bo_cpu_norm, bo_cpu_dropout, bo_cpu_rope,
    bo_cpu_attention, bo_cpu_unary, bo_cpu_glu, bo_cpu_add, bo_cpu_cross_entropy, bo_cpu_loss;
extern const bo_op bo_cpu_round;
extern const bo_op bo_cpu_scale, bo_cpu_product, bo_cpu_features, bo_cpu_quadratic;
extern const bo_op bo_cpu_recurrent, bo_cpu_mix;
extern const bo_op bo_cpu_reshape, bo_cpu_concat, bo_cpu_aggregate, bo_cpu_noise;
extern const bo_op bo_cpu_ssm;
extern const bo_op bo_cpu_convolution, bo_cpu_pool, bo_cpu_batch_norm;

#endif
