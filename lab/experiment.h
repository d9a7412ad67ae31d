/* The interface for experiments. There is one file per experiment. It contains the claims and tables as constants, and
 * a function that measures them once, with one seed.
 *
 *     static bo_status measure(lab_run *run)
 *     {
 *         …
 *         lab_point(run, "error", "sin and cos", 256, error);
 *         lab_claim(run, "sin-cos", phase / pair);
 *         return BO_OK;
 *     }
 *     const lab_experiment lab_rff_regression = {{.name = "rff-regression", …}, measure};
 *
 * The registry (registry.c) has one line per experiment. Bounds are chosen before the first full run, from theory if
 * possible, and state an effect that matters. They are not adjusted to the data.
 *
 * An experiment includes public headers, this header and those of its own directory. Helpers beyond the public API are
 * in lab/tools; this header includes all of its headers. Only the sources of lab/tools and lab include headers of src/,
 * and headers of the lab include only those of src/base (errors, memory, random numbers). The test house.layers
 * enforces it. */
#ifndef BO_LAB_EXPERIMENT_H
#define BO_LAB_EXPERIMENT_H

#include "measurement.h"
#include "statistics.h"
#include "tools/algebra.h"
#include "tools/clock.h"
#include "tools/converge.h"
#include "tools/descent.h"
#include "tools/fit.h"
#include "tools/heads.h"
#include "tools/kernels.h"
#include "tools/language.h"
#include "tools/layers.h"
#include "tools/least_squares.h"
#include "tools/linear_machine.h"
#include "tools/matricization.h"
#include "tools/model_pass.h"
#include "tools/modular.h"
#include "tools/numbers.h"
#include "tools/orthogonal.h"
#include "tools/perturbed.h"
#include "tools/polynomial.h"
#include "tools/reading.h"
#include "tools/recall.h"
#include "tools/stochastic.h"
#include "tools/tape.h"
#include "tools/time_terms.h"
#include "tools/token_rank.h"

#endif
