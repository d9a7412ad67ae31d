/* The gradient of a lookup table: sums over the rows with the same index. */
#ifndef BO_BACKEND_CPU_SCATTER_H
#define BO_BACKEND_CPU_SCATTER_H

#include "blocks.h"

/* Adds din[table][indices[r]] += dout[0][r] for every row r, in order. Does nothing if din[table] is NULL. */
void bo_scatter(bo_context *context, const bo_op_call *call, size_t indices, size_t table);

#endif
