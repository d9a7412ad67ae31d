/* What modules of the library need of samplers beyond the public functions. */
#ifndef BO_MODEL_SAMPLER_H
#define BO_MODEL_SAMPLER_H

#include <bochner/generate.h>

/* The number of random numbers drawn so far. A sampler with this number as `drawn` continues with the next one. */
uint64_t bo_sampler_drawn(const bo_sampler *sampler);

#endif
