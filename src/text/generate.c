#include "generate.h"
#include "vocabulary.h"

enum {
    DRAFTS_A_THREAD = 64,
    MOST_DRAWN = 1 << 20, /* in a row without one that is kept: there may be none */
};

/* The drafts of a round, drawn on the pool and looked through in order. */
typedef struct bo_generating {
    const bo_drawing *drawing;
    uint64_t seed;
    bo_context **contexts; /* by worker */
    int workers;
    bo_draft *drafts;
    bo_status *statuses;
    size_t round;
    uint64_t first;   /* draft of this round */
    size_t fruitless; /* drafts since the latest that was kept */
    bo_buffer block;

    /* Hashes of the lines that were kept, where they must be distinct: open addressing, at most half full, 0 is empty. */
    uint64_t *seen;
    size_t places;
} bo_generating;

static void draw_task(void *arg, size_t index, int worker)
{
    bo_generating *g = arg;
    bo_draft *draft = &g->drafts[index];
    bo_rng rng = bo_rng_make(g->seed, bo_rng_stream(g->drawing->name, g->first + index));
    draft->text.length = 0;
    draft->kept = false;
    g->statuses[index] = g->drawing->draw(g->contexts[worker], g->drawing->desc, &rng, draft);
}

/* ---- distinct lines ----------------------------------------------------------------------------------------------------- */

static uint64_t *place_of(const bo_generating *g, uint64_t hash)
{
    size_t at = (size_t)hash & (g->places - 1);
    while (g->seen[at] && g->seen[at] != hash) at = (at + 1) & (g->places - 1);
    return &g->seen[at];
}

static bo_status grow(bo_context *context, bo_generating *g)
{
    bo_generating larger = {.places = g->places ? 2 * g->places : 1024};
    larger.seen = bo_alloc(context, larger.places, sizeof *larger.seen, "distinct lines");
    if (!larger.seen) return BO_MEMORY;
    for (size_t i = 0; i < g->places; ++i)
        if (g->seen[i]) *place_of(&larger, g->seen[i]) = g->seen[i];
    bo_free(g->seen);
    g->seen = larger.seen;
    g->places = larger.places;
    return BO_OK;
}

static bo_status keep_distinct(bo_context *context, bo_generating *g, uint64_t lines, bo_draft *draft)
{
    const uint64_t hash = bo_hash_bytes(draft->text.bytes, draft->text.length) | 1;
    if (2 * lines >= g->places) BO_TRY(grow(context, g));
    uint64_t *place = place_of(g, hash);
    draft->kept = *place == 0;
    *place = hash;
    return BO_OK;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------------- */

static bo_status flush(bo_context *context, bo_generating *g, bo_write_fn write, void *user)
{
    const bool written = g->block.length == 0 || write(user, g->block.bytes, g->block.length);
    g->block.length = 0;
    return written ? BO_OK : bo_fail(context, BO_IO, "generated lines could not be written");
}

static bo_status take(bo_context *context, bo_generating *g, bo_draft *draft, bo_generated *made)
{
    if (draft->kept && g->drawing->distinct) BO_TRY(keep_distinct(context, g, made->lines, draft));
    if (!draft->kept) return BO_OK;
    BO_TRY(bo_buffer_append(context, &g->block, draft->text.bytes, draft->text.length));
    ++made->lines;
    ++made->labels[draft->label];
    made->bytes += draft->text.length;
    made->tokens += draft->tokens;
    return BO_OK;
}

static bo_status take_round(bo_context *context, bo_generating *g, uint64_t count, bo_generated *made)
{
    for (size_t i = 0; i < g->round; ++i)
        if (g->statuses[i] != BO_OK)
            return bo_fail(context, g->statuses[i], "%s: a line could not be drawn: %s", g->drawing->name,
                           bo_status_string(g->statuses[i]));
    for (size_t i = 0; i < g->round && made->lines < count; ++i) {
        BO_TRY(take(context, g, &g->drafts[i], made));
        ++made->tried;
        g->fruitless = g->drafts[i].kept ? 0 : g->fruitless + 1;
        if (g->fruitless == MOST_DRAWN)
            return bo_fail(context, BO_INVALID, "after %llu lines, %d more were drawn and none is a new one with %s",
                           (unsigned long long)made->lines, MOST_DRAWN, g->drawing->wanted);
    }
    return BO_OK;
}

static bo_status run(bo_context *context, bo_generating *g, uint64_t count, bo_write_fn write, void *user,
                     bo_generated *made)
{
    for (; made->lines < count; g->first += g->round) {
        BO_TRY(bo_progress(context, "drawing lines", (double)made->lines, (double)count));
        bo_parallel(context, g->round, draw_task, g);
        BO_TRY(take_round(context, g, count, made));
        BO_TRY(flush(context, g, write, user));
    }
    return BO_OK;
}

static bo_status prepare(bo_context *context, bo_generating *g)
{
    const int workers = bo_context_threads(context);
    g->round = (size_t)workers * DRAFTS_A_THREAD;
    g->contexts = bo_alloc(context, (size_t)workers, sizeof *g->contexts, "drawing lines");
    g->drafts = bo_alloc(context, g->round, sizeof *g->drafts, "drawing lines");
    g->statuses = bo_alloc(context, g->round, sizeof *g->statuses, "drawing lines");
    if (!g->contexts || !g->drafts || !g->statuses) return BO_MEMORY;
    for (; g->workers < workers; ++g->workers) BO_TRY(bo_context_branch(context, &g->contexts[g->workers]));
    return BO_OK;
}

bo_status bo_generate(bo_context *context, const bo_drawing *drawing, uint64_t count, uint64_t seed, bo_write_fn write,
                      void *user, bo_generated *made)
{
    bo_generating g = {.drawing = drawing, .seed = seed};
    bo_generated unwanted;
    if (!made) made = &unwanted;
    *made = (bo_generated){0};
    bo_status status = prepare(context, &g);
    if (status == BO_OK) status = run(context, &g, count, write, user, made);
    for (int w = 0; w < g.workers; ++w) bo_context_destroy(g.contexts[w]);
    for (size_t i = 0; g.drafts && i < g.round; ++i) bo_buffer_free(&g.drafts[i].text);
    bo_buffer_free(&g.block);
    bo_free(g.contexts);
    bo_free(g.drafts);
    bo_free(g.statuses);
    bo_free(g.seen);
    return status;
}

void bo_draw_distinct(bo_rng *rng, size_t from, size_t count, uint16_t *out)
{
    for (size_t i = 0; i < from; ++i) out[i] = (uint16_t)i;
    for (size_t i = 0; i < count; ++i) {
        const size_t other = i + (size_t)bo_rng_below(rng, from - i);
        const uint16_t chosen = out[other];
        out[other] = out[i];
        out[i] = chosen;
    }
}
