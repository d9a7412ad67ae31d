/* separation-rank: how much of what two halves of an input say to each other a network can express. */
#include "separation.h"

#define NAVON  "Attention is optimal building block (Navon 2021)"
#define LEVINE "Levine et al. 2020 (2006.12467)"

static const bo_lab_claim claims[] = {
    {.name = "known-rank",
     .statement = "Ranks modulo a prime recover polynomials of known separation rank, 1 to 35, without exception.",
     .number = "ranks that were missed, of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 4.3: the rank of a matricization is a lower bound"},
    {.name = "degree",
     .statement = "L layers of degree d are a polynomial of degree d^L, as networks of numbers and of tokens.",
     .number = "networks of another degree, of 18",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2"},
    {.name = "proxy",
     .statement = "The degree stands for the rank: four layers of degree 2 and two of degree 4 have the same.",
     .number = "difference of the ranks",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0,
     .source = NAVON ", section 6.2"},
    {.name = "monomials",
     .statement = "With layers as wide as the input, the rank is the number of monomials that can be paired, no less.",
     .number = "share of networks with another rank",
     .rule = BO_LAB_EACH_AT_MOST,
     .bound = 0},
    {.name = "document-rank",
     .statement = "Six inputs through two layers of degree 3 have the separation rank d^(L d_x) = 3^12.",
     .number = "ln rank / (L d_x ln d)",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 1,
     .source = NAVON ", equation 3, taken as a number"},
    {.name = "above",
     .statement = "Beyond the threshold L > log_d d_x every layer multiplies the rank by d to the power of the inputs "
                  "of a half.",
     .number = "growth of ln rank a layer / (inputs of a half · ln d)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.85,
     .upper = 1.15,
     .source = NAVON ", equation 3; " LEVINE},
    {.name = "below",
     .statement =
         "Below the threshold the rank grows with width as a power, half the degree, and no longer exponentially.",
     .number = "exponent of the rank in the inputs of a half / (degree / 2)",
     .rule = BO_LAB_BETWEEN,
     .bound = 0.8,
     .upper = 1.1,
     .source = LEVINE},
    {.name = "countings",
     .statement =
         "A budget of matrices buys the most rank with d = 2 where a layer costs d - 1 of them, 3 where it costs d, "
         "4 where it costs d + 1.",
     .number = "ways of counting whose best d is the predicted one, of 3",
     .rule = BO_LAB_EACH_AT_LEAST,
     .bound = 3,
     .source = NAVON ", section 1.2, which counts d"},
};

static const bo_lab_table tables[] = {
    {.name = "degree",
     .title = "Exact separation rank by degree, 3 + 3 inputs",
     .rows = "degree d^L",
     .values = "rank",
     .picture = BO_LAB_POINTS,
     .log_x = true,
     .log_y = true,
     .theory = "monomials"},
    {.name = "depth", .title = "Depth: layers of degree 2", .rows = "layers", .values = "ln rank"},
    {.name = "inputs",
     .title = "Width: layers of degree 2 as wide as the input",
     .rows = "inputs of a half",
     .values = "rank",
     .log_x = true,
     .log_y = true},
    {.name = "layer-width",
     .title = "Layers narrower than 3 + 3 inputs",
     .rows = "width",
     .values = "rank",
     .log_y = true},
    {.name = "budget",
     .title = "What a matrix buys, by what a layer of degree d costs",
     .rows = "a layer costs",
     .values = "growth of ln rank a matrix",
     .picture = BO_LAB_BARS},
};

static bo_status measure(lab_run *run)
{
    return lab_separation_networks(run);
}

const lab_experiment lab_separation_rank = {{.name = "separation-rank",
                                             .group = LAB_DEGREE,
                                             .title = "Separation rank: degree, depth, width and attention",
                                             .claim = "",
                                             .source = NAVON "; " LEVINE,
                                             .method = "",
                                             LAB_CLAIMS(claims),
                                             LAB_TABLES(tables)},
                                            measure};
