/* Evaluation: windows over a corpus, several at once where they are short, in pieces with a state where they are long. */
#include <math.h>
#include "internal.h"

enum { ROWS = 2048, PIECE = 512 }; /* tokens of a graph with whole windows, and of a piece of a longer window */

typedef struct evaluator {
    const bo_model *model;
    const bo_corpus *corpus;
    size_t window;          /* tokens that are read */
    uint64_t scored;        /* tokens in all to be scored: 1 … scored of the corpus */
    double nats, bytes;     /* so far */
    int32_t *ids, *targets; /* of one call, targets a token later than ids */
    int32_t *positions;
    float *losses;
} evaluator;

static double bytes_of(const evaluator *e, int32_t id)
{
    const bo_tokenizer *tokenizer = e->model->tokenizer;
    size_t bytes = 1;
    if (id == bo_tokenizer_end(tokenizer)) return 0; /* stands between texts */
    bo_tokenizer_piece(tokenizer, id, &bytes);
    return (double)bytes;
}

static void add_losses(evaluator *e, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (e->targets[i] < 0) continue;
        e->nats += (double)e->losses[i];
        e->bytes += bytes_of(e, e->targets[i]);
    }
}

static bo_status note_progress(bo_context *context, const evaluator *e, uint64_t done)
{
    return bo_progress(context, "evaluating", (double)done, (double)e->scored);
}

/* ---- short windows: whole ones side by side ------------------------------------------------------------------------- */

/* From token `first` on; behind the last token to be scored there are targets that do not count. */
static bo_status fill(bo_context *context, evaluator *e, uint64_t first, size_t rows)
{
    uint64_t left = e->scored - first;
    size_t count = left < rows ? (size_t)left : rows;
    BO_TRY(bo_corpus_read(context, e->corpus, first, count, e->ids));
    BO_TRY(bo_corpus_read(context, e->corpus, first + 1, count, e->targets));
    for (size_t i = count; i < rows; i++) {
        e->ids[i] = 0;
        e->targets[i] = -1;
    }
    for (size_t i = 0; i < rows; i++) e->positions[i] = (int32_t)(i % e->window);
    return BO_OK;
}

static bo_status run_windows(bo_context *context, evaluator *e, bo_model_graph *g, size_t rows)
{
    const bo_pass pass = {0};
    BO_TRY(bo_graph_allocate(context, g->graph));
    for (uint64_t first = 0; first < e->scored; first += rows) {
        BO_TRY(note_progress(context, e, first));
        BO_TRY(fill(context, e, first, rows));
        BO_TRY(bo_graph_write(context, g->graph, g->tokens, e->ids));
        BO_TRY(bo_graph_write(context, g->graph, g->targets, e->targets));
        if (g->positions) BO_TRY(bo_graph_write(context, g->graph, g->positions, e->positions));
        BO_TRY(bo_graph_run(context, g->graph, &pass));
        BO_TRY(bo_graph_read(context, g->graph, g->losses, e->losses));
        add_losses(e, rows);
    }
    return BO_OK;
}

static bo_status evaluate_windows(bo_context *context, evaluator *e, size_t rows)
{
    bo_model_graph graph;
    bo_model_graph_desc desc = {.rows = rows, .tokens = e->window, .loss = true};
    BO_TRY(bo_model_graph_create(context, e->model, &desc, &graph));
    bo_status status = run_windows(context, e, &graph, rows);
    bo_model_graph_destroy(&graph);
    return status;
}

/* ---- long windows: one after the other, in pieces -------------------------------------------------------------------- */

static bo_status run_pieces(bo_context *context, evaluator *e, bo_session *session)
{
    for (uint64_t at = 0; at < e->scored;) {
        uint64_t left = e->scored - at, in_window = e->window - at % e->window;
        size_t count = PIECE;
        if (count > left) count = (size_t)left;
        if (count > in_window) count = (size_t)in_window;
        if (at % e->window == 0) BO_TRY(bo_session_reset(context, session));
        BO_TRY(note_progress(context, e, at));
        BO_TRY(bo_corpus_read(context, e->corpus, at, count, e->ids));
        BO_TRY(bo_corpus_read(context, e->corpus, at + 1, count, e->targets));
        BO_TRY(bo_session_score(context, session, e->ids, e->targets, count, e->losses));
        add_losses(e, count);
        at += count;
    }
    return BO_OK;
}

/* What attention with a cache of keys must hold: a window, or all there is. */
static size_t most_kept(const evaluator *e)
{
    return e->window < e->scored ? e->window : (size_t)e->scored;
}

static bo_status evaluate_pieces(bo_context *context, evaluator *e)
{
    bo_session *session;
    bo_session_desc desc = {.chunk = PIECE, .capacity = most_kept(e)};
    BO_TRY(bo_session_create(context, e->model, &desc, &session));
    bo_status status = run_pieces(context, e, session);
    bo_session_destroy(session);
    return status;
}

/* ---- the call ----------------------------------------------------------------------------------------------------- */

static bo_status check(bo_context *context, const evaluator *e)
{
    const bo_model *model = e->model;
    if (!e->corpus || !model)
        return bo_fail(context, BO_INVALID, "evaluation: the %s is NULL", model ? "corpus" : "model");
    BO_TRY(bo_model_require_language(context, model, "evaluation"));
    if (!model->tokenizer) return bo_fail(context, BO_INVALID, "evaluation: the model has no tokenizer");
    if (bo_corpus_tokens(e->corpus) < 2)
        return bo_fail(context, BO_INVALID, "evaluation: the corpus has %llu tokens, at least 2 are needed",
                       (unsigned long long)bo_corpus_tokens(e->corpus));
    if (bo_model_most_tokens(&model->desc) && e->window > bo_model_most_tokens(&model->desc))
        return bo_fail(context, BO_INVALID,
                       "evaluation: windows of %zu tokens, but the model has learned %zu positions", e->window,
                       model->desc.context);
    return BO_OK;
}

static bo_status evaluate(bo_context *context, evaluator *e)
{
    bool pieces = e->window > ROWS;
    size_t rows = pieces ? PIECE : ROWS / e->window * e->window;
    uint64_t wanted = (e->scored + e->window - 1) / e->window * e->window;
    if (!pieces && rows > wanted) rows = (size_t)wanted;
    int32_t *numbers = bo_alloc(context, rows, 3 * sizeof *numbers, "tokens to evaluate");
    e->losses = bo_alloc(context, rows, sizeof *e->losses, "losses");
    bo_status status = numbers && e->losses ? BO_OK : BO_MEMORY;
    e->ids = numbers;
    e->targets = numbers + (numbers ? rows : 0);
    e->positions = numbers + (numbers ? 2 * rows : 0);
    if (status == BO_OK) status = pieces ? evaluate_pieces(context, e) : evaluate_windows(context, e, rows);
    bo_free(numbers);
    bo_free(e->losses);
    return status;
}

bo_status bo_model_evaluate(bo_context *context, const bo_model *model, const bo_corpus *corpus, size_t context_tokens,
                            uint64_t most, bo_evaluation *out)
{
    evaluator e = {.model = model, .corpus = corpus};
    double begin = bo_seconds();
    if (model) e.window = context_tokens ? context_tokens : model->desc.context;
    BO_TRY(check(context, &e));
    e.scored = bo_corpus_tokens(corpus) - 1;
    if (most && e.scored > most) e.scored = most;
    BO_TRY(evaluate(context, &e));
    double seconds = bo_seconds() - begin, loss = e.nats / (double)e.scored;
    *out = (bo_evaluation){.loss = loss,
                           .bits_per_byte = e.bytes > 0 ? e.nats / (e.bytes * log(2)) : NAN,
                           .perplexity = exp(loss),
                           .tokens = e.scored,
                           .seconds = seconds,
                           .tokens_per_second = (double)e.scored / seconds};
    return bo_session_memory(context, model, &(bo_session_desc){.capacity = most_kept(&e)}, &out->state_bytes, NULL);
}
