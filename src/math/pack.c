/* Packing of panels, from one source for each pair of types. */
#include "panel.h"

#define NAME    bo_pack_f32
#define ACROSS  across_f32
#define ALONG   along_f32
#define SLIVERS slivers_f32
#define SOURCE  float
#define TARGET  float
#include "pack_body.h"

#define NAME    bo_pack_f64
#define ACROSS  across_f64
#define ALONG   along_f64
#define SLIVERS slivers_f64
#define SOURCE  double
#define TARGET  double
#include "pack_body.h"

#define NAME    bo_pack_f32_f64
#define ACROSS  across_f32_f64
#define ALONG   along_f32_f64
#define SLIVERS slivers_f32_f64
#define SOURCE  float
#define TARGET  double
#include "pack_body.h"
