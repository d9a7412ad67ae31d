/* circuits: attention of heads on repeated sequences, and whether they copy. */
#include "circuits.h"
#include <bochner/inspect.h>
#include <math.h>

enum { SCENES = 4 };

/* Repeats a permutation of the alphabet, so that every token has one position per repetition. */
static void draw_tokens(lab_scene *s, bo_rng *rng)
{
    size_t order[ALPHABET];
    bo_rng_permutation(rng, ALPHABET, order);
    for (size_t i = 0; i < TOKENS; i++) s->tokens[i] = FIRST_TOKEN + (int32_t)order[i % ALPHABET];
}

/* ---- attention patterns ------------------------------------------------------------------------------------------ */

typedef struct observations {
    lab_head_score heads[LAYERS][HEADS];
    double offsets[HEADS][OFFSETS]; /* layer 0 only */
} observations;

/* Adds the attention by distance of the heads of layer 0. */
static bool add_offsets(void *user, const bo_inspect_array *array)
{
    observations *out = user;
    if (array->kind != BO_INSPECT_ARRAY_PATTERN || array->layer != 0) return true;
    for (size_t h = 0; h < HEADS; h++)
        for (size_t back = 0; back < OFFSETS; back++)
            for (size_t i = OFFSETS; i < TOKENS; i++)
                out->offsets[h][back] +=
                    (double)array->values[(h * TOKENS + i) * TOKENS + i - back] / ((TOKENS - OFFSETS) * SCENES);
    return true;
}

/* Attention to the previous token, and to the tokens that followed earlier occurrences of the current one. */
static bo_status observe_attention(const lab_scene *s, observations *out)
{
    const bo_inspect_desc desc = {
        .parts = BO_INSPECT_PART_BEHAVIOR, .tokens = TOKENS, .receive = add_offsets, .user = out};
    bo_inspection *report;
    BO_TRY(bo_inspect(s->context, s->model, s->tokens, TOKENS, &desc, &report));
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        const bo_head_report *head = &report->layers[i / HEADS].heads[i % HEADS];
        out->heads[i / HEADS][i % HEADS].previous += head->previous / SCENES;
        out->heads[i / HEADS][i % HEADS].induction += head->induction / SCENES;
    }
    bo_inspection_destroy(report);
    return BO_OK;
}

/* ---- copying ----------------------------------------------------------------------------------------------------- */

/* Extracts the rows of the tokens in use: of the embedding after the first normalization, or of the output layer with
 * its gain. */
static bo_status token_rows(lab_scene *s, const char *name, const char *gain_name, double *out)
{
    float gain[WIDTH];
    float *table = bo_alloc(s->context, 256 * WIDTH, sizeof *table, "a table of tokens");
    bo_status status = table ? bo_weights_get(s->context, bo_model_weights(s->model), name, table, NULL) : BO_MEMORY;
    if (status == BO_OK && gain_name)
        status = bo_weights_get(s->context, bo_model_weights(s->model), gain_name, gain, NULL);
    const float *rows = table + (size_t)FIRST_TOKEN * WIDTH;
    if (status == BO_OK && !gain_name) lab_normalize(ALPHABET, WIDTH, 0, rows, out);
    for (size_t i = 0; status == BO_OK && gain_name && i < ALPHABET * WIDTH; i++)
        out[i] = (double)rows[i] * (double)gain[i % WIDTH];
    bo_free(table);
    return status;
}

/* The nonzero eigenvalues of U W_O W_V Eᵀ are those of the smaller matrix W_V Eᵀ U W_O. */
static bo_status copying(lab_scene *s, const lab_head *head, const double *embedding, const double *output, double *out)
{
    double read[DIM * ALPHABET], write[ALPHABET * DIM], loop[DIM * DIM], real[DIM], imaginary[DIM];
    BO_TRY(lab_multiply(s->context, false, true, DIM, ALPHABET, WIDTH, 1, head->v, WIDTH, embedding, WIDTH, 0, read,
                        ALPHABET));
    BO_TRY(lab_multiply(s->context, false, false, ALPHABET, DIM, WIDTH, 1, output, WIDTH, head->o, DIM, 0, write, DIM));
    BO_TRY(lab_multiply(s->context, false, false, DIM, DIM, ALPHABET, 1, read, ALPHABET, write, DIM, 0, loop, DIM));
    BO_TRY(lab_eigenvalues(s->context, DIM, loop, real, imaginary));
    double sum = 0, size = 0;
    for (size_t i = 0; i < DIM; i++) {
        sum += real[i];
        size += hypot(real[i], imaginary[i]);
    }
    *out = sum / size;
    return BO_OK;
}

/* ---- singular values --------------------------------------------------------------------------------------------- */

static void add_spectrum(const bo_circuit *circuit, lab_circuit_scores *out)
{
    const double share = 1.0 / (2 * LAYERS * HEADS);
    for (size_t i = 0; i < DIM; i++) out->spectrum[i] += share * circuit->singular[i] / circuit->singular[0];
    out->effective_rank += share * circuit->effective;
}

static bo_status observe_spectra(const lab_scene *s, lab_circuit_scores *out)
{
    const bo_inspect_desc desc = {.parts = BO_INSPECT_PART_CIRCUITS};
    bo_inspection *report;
    BO_TRY(bo_inspect(s->context, s->model, NULL, 0, &desc, &report));
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        const bo_head_report *head = &report->layers[i / HEADS].heads[i % HEADS];
        add_spectrum(&head->ov, out);
        add_spectrum(&head->qk, out);
    }
    bo_inspection_destroy(report);
    return BO_OK;
}

/* Copying is measured over the tokens in use, not over the whole vocabulary. */
static bo_status observe_weights(lab_scene *s, observations *l)
{
    double embedding[ALPHABET * WIDTH], output[ALPHABET * WIDTH];
    BO_TRY(token_rows(s, "model.embed_tokens.weight", NULL, embedding));
    BO_TRY(token_rows(s, "lm_head.weight", "model.norm.weight", output));
    for (size_t i = 0; i < LAYERS * HEADS; i++) {
        lab_head head;
        BO_TRY(lab_head_read(s->context, s->model, i / HEADS, i % HEADS, &head));
        const bo_status status = copying(s, &head, embedding, output, &l->heads[i / HEADS][i % HEADS].copying);
        lab_head_free(&head);
        BO_TRY(status);
    }
    return BO_OK;
}

static double rating(size_t layer, const lab_head_score *score)
{
    return layer ? score->induction : score->previous;
}

/* Sorts heads, best first. */
static void sort(const observations *l, lab_circuit_scores *out)
{
    for (size_t layer = 0; layer < LAYERS; layer++)
        for (size_t h = 0; h < HEADS; h++) {
            size_t better = 0;
            for (size_t o = 0; o < HEADS; o++) {
                const double head_rating = rating(layer, &l->heads[layer][h]),
                             other_rating = rating(layer, &l->heads[layer][o]);
                better += other_rating > head_rating || (other_rating == head_rating && o < h);
            }
            out->heads[layer][better] = l->heads[layer][h];
            for (size_t i = 0; layer == 0 && better == 0 && i < OFFSETS; i++) out->offsets[i] = l->offsets[h][i];
        }
}

bo_status lab_circuits_score(lab_scene *s, lab_circuit_scores *out)
{
    observations l = {0};
    bo_rng rng = lab_rng(s->run, "lab.circuits.scenes");
    *out = (lab_circuit_scores){0};
    for (size_t i = 0; i < SCENES; i++) {
        draw_tokens(s, &rng);
        BO_TRY(observe_attention(s, &l));
    }
    BO_TRY(observe_spectra(s, out));
    BO_TRY(observe_weights(s, &l));
    sort(&l, out);
    return BO_OK;
}
