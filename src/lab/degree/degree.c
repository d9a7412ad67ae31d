/* degree: which degree a layer should have. */
#include "degree.h"

#define NAVON "Attention is optimal building block (Navon 2021)"

static const bo_lab_claim claims[] = {
    {.name = "arrays-2",
     .statement = "Where a layer is said to cost d - 1 matrices, networks of degree 2 learn best.",
     .number = "ln (least error of d = 3, 4 / error of d = 2), mean over three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", equation 2: the matrices that its layer has"},
    {.name = "arrays-3",
     .statement = "Where it costs d matrices, degree 3 does.",
     .number = "ln (least error of d = 2, 4 / error of d = 3), mean over three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", conclusion 1.1"},
    {.name = "arrays-4",
     .statement = "Where it costs d + 1, degree 4 does.",
     .number = "ln (least error of d = 2, 3 / error of d = 4), mean over three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = "attention has four matrices for degree 3"},
    {.name = "e",
     .statement = "At a cost of d, degree e is better than any whole number.",
     .number = "ln (least error of d = 2, 3, 4 / error of d = e), mean over three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", conclusion 1.1"},
    {.name = "heads",
     .statement = "Heads of four columns, each normalised by itself, help degree 3.",
     .number = "ln (error of one head / error of four), mean over three tasks",
     .rule = BO_LAB_AT_LEAST,
     .bound = 0,
     .source = NAVON ", section 3.2.2"},
};

static const bo_lab_table tables[] = {
    {.name = "arrays",
     .title = "Networks on numbers: error held out, by task and by what a layer costs",
     .rows = "task, cost of a layer",
     .values = "error / error of guessing",
     .picture = BO_LAB_BARS},
    {.name = "speed",
     .title = "Networks on numbers: steps until the loss is half of that of guessing",
     .rows = "task, cost of a layer",
     .values = "steps",
     .picture = BO_LAB_BARS},
};

static bo_status measure(lab_run *run)
{
    return lab_degree_arrays(run);
}

const lab_experiment lab_degree = {{.name = "degree",
                                    .group = LAB_DEGREE,
                                    .title = "Which degree should a layer have?",
                                    .claim = "",
                                    .source = NAVON,
                                    .method = "",
                                    LAB_CLAIMS(claims),
                                    LAB_TABLES(tables)},
                                   measure};
