/* One AdamW step in plain C. */
#include "ref.h"
#define ISA(name) bo_ref_##name
#include "../simd/adamw_body.h"
