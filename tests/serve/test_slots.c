/* Jobs in slots: the tokens of a session, with and without other jobs, for several kinds of attention and a mixer;
 * prefixes from the cache; states; embeddings; scores of prompts; ends of texts. */
#include "jobs.h"

static const char *const kinds[] = {"softmax", "rfa-gate", "favor", "hybrid", "ssm", "gru", "delta"};

static bo_model *model_of(bo_context *context, const char *kind)
{
    const bo_model_desc desc = test_desc(kind);
    return test_model(context, &desc, NULL);
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

enum { JOBS = 12 };

/* Jobs of different lengths; every third one draws. */
static task *crowd_task(server *s, size_t i)
{
    static const size_t lengths[JOBS] = {1, 2, 300, 17, 513, 5, 256, 257, 40, 258, 3, 600};
    int32_t prompt[MAX_PROMPT];
    test_text(i, lengths[i], prompt);
    task *t = task_create(s, prompt, lengths[i], 3 + 7 * i % 23, NULL);
    t->job.client.id = i % 4;
    if (i % 3 == 2) task_draw(t, i);
    return t;
}

/* Every job computes the same bits alone and with other jobs that join and leave at any time. */
static void check_kind(bo_context *context, const char *kind)
{
    bo_model *model = model_of(context, kind);
    server alone, crowd;
    task *one[JOBS], *crowded[JOBS];
    server_start(&alone, context, model, (bo_scheduler_desc){.slots = 1});
    for (size_t i = 0; i < JOBS; i++) {
        one[i] = crowd_task(&alone, i);
        assert_int_equal(task_finish(one[i]), BO_JOB_LENGTH);
        assert_int_equal(one[i]->generated_count, one[i]->job.max_tokens);
        assert_int_equal(one[i]->job.cached, 0);
        if (i % 3 != 2) task_check(kind, one[i], NULL, 0);
    }
    server_stop(&alone);
    assert_int_equal(alone.counters.prompt_tokens, 1 + 2 + 300 + 17 + 513 + 5 + 256 + 257 + 40 + 258 + 3 + 600);
    server_start(&crowd, context, model, (bo_scheduler_desc){.slots = 4});
    bo_rng rng = bo_rng_make(2, 2);
    size_t order[JOBS];
    for (size_t i = 0; i < JOBS; i++) order[i] = i;
    for (size_t i = JOBS; i-- > 1;) {
        const size_t k = bo_rng_below(&rng, i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    for (size_t i = 0; i < JOBS; i++) {
        crowded[order[i]] = crowd_task(&crowd, order[i]);
        task_submit(crowded[order[i]]);
        if (i % 4 == 3) task_wait(crowded[order[i - 3]]);
    }
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(task_wait(crowded[i]), BO_JOB_LENGTH);
        assert_int_equal(crowded[i]->generated_count, one[i]->generated_count);
        for (size_t k = 0; k < one[i]->generated_count; k++)
            if (crowded[i]->generated[k] != one[i]->generated[k] || crowded[i]->logprobs[k] != one[i]->logprobs[k])
                fail_msg("%s: job %zu, token %zu: %d (%.9g) with other jobs, %d (%.9g) alone", kind, i, k,
                         (int)crowded[i]->generated[k], (double)crowded[i]->logprobs[k], (int)one[i]->generated[k],
                         (double)one[i]->logprobs[k]);
    }
    server_end(&crowd);
    server_destroy(&alone);
    for (size_t i = 0; i < JOBS; i++) {
        task_free(one[i]);
        task_free(crowded[i]);
    }
    bo_model_destroy(model);
}

static void test_crowd(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) check_kind(context, kinds[k]);
    bo_context_destroy(context);
}

/* ---- the cache --------------------------------------------------------------------------------------------------- */

static void check_cache(bo_context *context, const char *kind)
{
    enum { LENGTH = 300, MADE = 40, MORE = 5, PART = 100 };
    bo_model *model = model_of(context, kind);
    server s;
    int32_t prompt[MAX_PROMPT];
    server_start(&s, context, model, (bo_scheduler_desc){.memory_bytes = 1 << 26});
    test_text(1, LENGTH, prompt);
    task *first = task_create(&s, prompt, LENGTH, MADE, NULL), *again = task_create(&s, prompt, LENGTH, MADE, NULL);
    task_finish(first);
    assert_int_equal(first->job.cached, 0);
    task_check(kind, first, NULL, 0);
    /* the same prompt: all but its last token is cached */
    task_finish(again);
    assert_int_equal(again->job.cached, LENGTH - 1);
    task_check(kind, again, NULL, 0);
    /* the conversation continues: the reply is also cached, except its last token, which was not read */
    memcpy(prompt + LENGTH, first->generated, MADE * sizeof *prompt);
    test_text(2, MORE, prompt + LENGTH + MADE);
    task *next = task_create(&s, prompt, LENGTH + MADE + MORE, MADE, NULL);
    task_finish(next);
    assert_int_equal(next->job.cached, LENGTH + MADE - 1);
    task_check(kind, next, NULL, 0);
    /* another text is not found up to its branch point; then that point is cached, or one shortly before it: another
     * prefix may have replaced its entry in the table of prompts, whose hashes have a random key */
    uint64_t place = 0;
    for (int i = 0; i < 3; i++) {
        test_text(1, PART, prompt);
        test_text(10 + (uint64_t)i, LENGTH - PART, prompt + PART);
        task *branch = task_create(&s, prompt, LENGTH, 5, NULL);
        task_finish(branch);
        if (i == 1) place = branch->job.cached;
        assert_int_equal(branch->job.cached, place);
        task_check(kind, branch, NULL, 0);
        task_free(branch);
    }
    assert_in_range(place, PART - 4, PART);
    server_stop(&s);
    assert_int_equal(s.counters.cached_tokens, LENGTH - 1 + LENGTH + MADE - 1 + 2 * place);
    server_destroy(&s);
    task_free(first);
    task_free(again);
    task_free(next);
    bo_model_destroy(model);
}

static void test_cache(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) check_cache(context, kinds[k]);
    bo_context_destroy(context);
}

/* Several concurrent jobs with the same prompt: one reads it, the other jobs wait for its state. */
static void test_same_prompt(void **state)
{
    (void)state;
    enum { LENGTH = 400, COUNT = 5 };
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "favor");
    server s;
    int32_t prompt[LENGTH];
    task *tasks[COUNT];
    bo_job *jobs[COUNT];
    size_t cached = 0;
    test_text(3, LENGTH, prompt);
    server_create(&s, context, model, (bo_scheduler_desc){.slots = COUNT, .memory_bytes = 1 << 24});
    for (size_t i = 0; i < COUNT; i++) {
        tasks[i] = task_create(&s, prompt, LENGTH, 10, NULL);
        jobs[i] = &tasks[i]->job;
    }
    assert_int_equal(bo_scheduler_submit(s.scheduler, jobs, COUNT), BO_SUBMIT_DONE);
    server_run(&s);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(task_wait(tasks[i]), BO_JOB_LENGTH);
        cached += tasks[i]->job.cached;
        task_check("favor", tasks[i], NULL, 0);
    }
    assert_int_equal(cached, (COUNT - 1) * (LENGTH - 1));
    server_end(&s);
    for (size_t i = 0; i < COUNT; i++) task_free(tasks[i]);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* ---- states ------------------------------------------------------------------------------------------------------ */

/* A text in three parts, from state to state, has the tokens of the whole text. */
static void check_states(bo_context *context, const char *kind)
{
    enum { LENGTH = 290, MADE = 6, MORE = 33 };
    bo_model *model = model_of(context, kind);
    server s;
    int32_t text[MAX_PROMPT], prompt[MAX_PROMPT];
    server_start(&s, context, model, (bo_scheduler_desc){.memory_bytes = 0});
    test_text(5, LENGTH, text);
    task *one = task_create(&s, text, LENGTH, MADE, NULL);
    one->job.keep_state = true;
    task_finish(one);
    assert_non_null(one->job.state);
    assert_int_equal(one->job.state->tokens, LENGTH + MADE - 1);
    assert_int_equal(one->job.state->pending_count, 1);
    assert_int_equal(one->job.state->pending[0], one->generated[MADE - 1]);
    bo_prefix prefix = one->chain[LENGTH];
    for (size_t i = 0; i + 1 < MADE; i++)
        prefix = bo_prefix_next(bo_store_secret(bo_scheduler_store(s.scheduler)), prefix, one->generated[i]);
    assert_true(bo_prefix_equal(one->job.state->prefix, prefix));
    memcpy(text + LENGTH, one->generated, MADE * sizeof *text);
    /* the second part only reads */
    prompt[0] = one->generated[MADE - 1];
    test_text(6, MORE, prompt + 1);
    memcpy(text + LENGTH + MADE, prompt + 1, MORE * sizeof *text);
    task *two = task_create(&s, prompt, 1 + MORE, 0, one->job.state);
    two->job.keep_state = true;
    assert_int_equal(task_finish(two), BO_JOB_LENGTH);
    assert_int_equal(two->generated_count, 0);
    assert_int_equal(two->job.state->tokens, LENGTH + MADE + MORE - 1);
    assert_int_equal(two->job.state->pending[0], text[LENGTH + MADE + MORE - 1]);
    task *three = task_create(&s, two->job.state->pending, 1, 20, two->job.state);
    assert_int_equal(task_finish(three), BO_JOB_LENGTH);
    task_check(kind, three, text, LENGTH + MADE + MORE - 1);
    /* the state is not changed by its use */
    task *again = task_create(&s, two->job.state->pending, 1, 20, two->job.state);
    task_finish(again);
    assert_memory_equal(again->generated, three->generated, sizeof again->generated);
    /* without interruption: the same tokens */
    task *uninterrupted = task_create(&s, text, LENGTH + MADE + MORE, 20, NULL);
    task_finish(uninterrupted);
    task_check(kind, uninterrupted, NULL, 0);
    for (size_t i = 0; i < 20; i++) assert_int_equal(uninterrupted->generated[i], three->generated[i]);
    server_end(&s);
    task *const all[] = {one, two, three, again, uninterrupted};
    for (size_t i = 0; i < 5; i++) task_free(all[i]);
    bo_model_destroy(model);
}

static void test_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) check_states(context, kinds[k]);
    bo_context_destroy(context);
}

/* A state without tokens: of a prompt of one token that is only read. */
static void test_empty_state(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "favor");
    server s;
    server_start(&s, context, model, (bo_scheduler_desc){.memory_bytes = 1 << 20});
    task *one = task_create(&s, (int32_t[]){9}, 1, 0, NULL);
    one->job.keep_state = true;
    assert_int_equal(task_finish(one), BO_JOB_LENGTH);
    assert_int_equal(one->job.state->tokens, 0);
    assert_null(one->job.state->bytes);
    task *two = task_create(&s, (int32_t[]){9, 4}, 2, 8, one->job.state);
    assert_int_equal(task_finish(two), BO_JOB_LENGTH);
    task_check("favor", two, NULL, 0);
    server_end(&s);
    task_free(one);
    task_free(two);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* A state that the client keeps is not cached, too; one at the end of a prompt that is continued is. */
static void test_kept_once(void **state)
{
    (void)state;
    enum { LENGTH = 100 };
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "favor");
    server s;
    int32_t prompt[LENGTH];
    bo_store_stats stats;
    test_text(4, LENGTH, prompt);
    server_start(&s, context, model, (bo_scheduler_desc){.memory_bytes = 1 << 24});
    for (size_t max_tokens = 0; max_tokens < 2; max_tokens++) {
        task *t = task_create(&s, prompt, LENGTH, max_tokens, NULL);
        t->job.keep_state = true;
        assert_int_equal(task_finish(t), BO_JOB_LENGTH);
        bo_store_get_stats(bo_scheduler_store(s.scheduler), &stats);
        assert_int_equal(stats.prefixes, max_tokens);
        assert_int_equal(t->job.cached, 0);
        task_free(t);
    }
    server_end(&s);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* States that cannot be loaded end the job with a message; other jobs are not affected. */
static void test_bad_states(void **state)
{
    (void)state;
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "softmax"), *other = model_of(context, "favor");
    server s, foreign;
    int32_t prompt[40];
    test_text(1, 40, prompt);
    server_start(&foreign, context, other, (bo_scheduler_desc){.slots = 1});
    task *source = task_create(&foreign, prompt, 40, 0, NULL);
    source->job.keep_state = true;
    task_finish(source);
    server_end(&foreign);
    bo_snapshot garbage = {.tokens = 40, .bytes = (char[]){"not a state"}, .size = 11};
    atomic_init(&garbage.owners, 100);
    server_start(&s, context, model, (bo_scheduler_desc){.slots = 2, .capacity = 60});
    task *good = task_create(&s, prompt, 40, 15, NULL);
    task *bad[] = {task_create(&s, prompt, 2, 5, source->job.state), task_create(&s, prompt, 2, 5, &garbage)};
    task_submit(good);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(task_finish(bad[i]), BO_JOB_BAD_STATE);
        assert_true(strlen(bad[i]->job.message) > 10);
        assert_int_equal(bad[i]->generated_count, 0);
        task_free(bad[i]);
    }
    assert_int_equal(task_wait(good), BO_JOB_LENGTH);
    task_check("softmax", good, NULL, 0);
    server_end(&s);
    task_free(good);
    task_free(source);
    bo_model_destroy(model);
    bo_model_destroy(other);
    bo_context_destroy(context);
}

/* ---- embeddings and scores --------------------------------------------------------------------------------------- */

static void check_embedding(bo_context *context, const char *kind, server *s, size_t count)
{
    enum { WIDTH = 16 };
    static float hidden[MAX_PROMPT * WIDTH];
    int32_t prompt[MAX_PROMPT];
    double embedding[WIDTH] = {0}, expected[WIDTH] = {0};
    bo_session *session;
    test_text(count, count, prompt);
    task *t = task_create(s, prompt, count, 0, NULL);
    t->job.embed = true;
    t->job.embedding = embedding;
    assert_int_equal(task_finish(t), BO_JOB_LENGTH);
    assert_int_equal(t->job.cached, 0);
    const bo_session_desc desc = {.capacity = MAX_PROMPT};
    assert_ok(context, bo_session_create(context, s->model, &desc, &session));
    assert_ok(context, bo_session_read(context, session,
                                       &(bo_session_reading){.ids = prompt, .count = count, .hidden = hidden}));
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; c < WIDTH; c++) expected[c] += (double)hidden[i * WIDTH + c] / (double)count;
    for (size_t c = 0; c < WIDTH; c++)
        if (!(fabs(embedding[c] - expected[c]) <= 1e-4))
            fail_msg("%s: %zu tokens: %g, expected %g", kind, count, embedding[c], expected[c]);
    bo_session_destroy(session);
    task_free(t);
}

static void check_scores(bo_context *context, const char *kind, server *s, size_t count)
{
    int32_t prompt[MAX_PROMPT + 1];
    float losses[MAX_PROMPT];
    bo_session *session;
    test_text(count + 1, count, prompt);
    task *t = task_create(s, prompt, count, 4, NULL);
    t->job.score_prompt = true;
    t->job.top = 2;
    assert_int_equal(task_finish(t), BO_JOB_LENGTH);
    assert_int_equal(t->scored_count, count - 1); /* nothing precedes the first token */
    const bo_session_desc desc = {.capacity = MAX_PROMPT};
    assert_ok(context, bo_session_create(context, s->model, &desc, &session));
    if (count > 1)
        assert_ok(context,
                  bo_session_read(context, session,
                                  &(bo_session_reading){
                                      .ids = prompt, .count = count - 1, .losses = losses, .targets = prompt + 1}));
    for (size_t i = 0; i + 1 < count; i++) {
        assert_int_equal(t->scored[i], prompt[i + 1]);
        if (!(fabsf(t->scores[i] + losses[i]) <= 1e-3f))
            fail_msg("%s: token %zu of %zu: %g, expected %g", kind, i, count, (double)t->scores[i], (double)-losses[i]);
    }
    task_check(kind, t, NULL, 0);
    bo_session_destroy(session);
    task_free(t);
}

static void test_embeddings_and_scores(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 64, 65, 66, 257, 300};
    bo_context *context = test_context(1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bo_model *model = model_of(context, kinds[k]);
        server s;
        server_start(&s, context, model, (bo_scheduler_desc){.memory_bytes = 1 << 24});
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            check_embedding(context, kinds[k], &s, counts[i]);
            check_embedding(context, kinds[k], &s, counts[i]); /* nothing is left of the first */
            check_scores(context, kinds[k], &s, counts[i]);
        }
        server_end(&s);
        bo_model_destroy(model);
    }
    bo_context_destroy(context);
}

/* ---- ends -------------------------------------------------------------------------------------------------------- */

static void test_ends(void **state)
{
    (void)state;
    enum { LENGTH = 20, MADE = 12 };
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "rfa-gate");
    server s;
    int32_t prompt[LENGTH];
    test_text(8, LENGTH, prompt);
    server_start(&s, context, model, (bo_scheduler_desc){.slots = 2});
    task *plain = task_create(&s, prompt, LENGTH, MADE, NULL);
    task_finish(plain);
    size_t at = 1; /* a token that occurs for the first time at `at` */
    for (bool again = true; again; at += again) {
        again = false;
        for (size_t i = 0; i < at; i++) again |= plain->generated[i] == plain->generated[at];
        if (at + 1 == MADE) break;
    }
    const int32_t end = plain->generated[at];
    for (int keep = 0; keep < 2; keep++) { /* an end token is not reported; the state contains it if requested */
        task *t = task_create(&s, prompt, LENGTH, MADE, NULL);
        t->job.end_token = end;
        t->job.keep_state = true;
        t->job.keep_end = keep;
        assert_int_equal(task_finish(t), BO_JOB_STOP);
        assert_int_equal(t->generated_count, at);
        assert_memory_equal(t->generated, plain->generated, at * sizeof *t->generated);
        assert_int_equal(t->job.state->tokens, LENGTH + at);
        assert_int_equal(t->job.state->pending_count, keep);
        if (keep) assert_int_equal(t->job.state->pending[0], end);
        task_free(t);
    }
    task *ignoring = task_create(&s, prompt, LENGTH, MADE, NULL);
    ignoring->job.end_token = end;
    ignoring->job.ignore_end = true;
    assert_int_equal(task_finish(ignoring), BO_JOB_LENGTH);
    assert_memory_equal(ignoring->generated, plain->generated, sizeof plain->generated);
    task *stopped = task_create(&s, prompt, LENGTH, MADE, NULL); /* the receiver stops the job: its last token counts */
    stopped->stop_after = 3;
    stopped->job.keep_state = true;
    assert_int_equal(task_finish(stopped), BO_JOB_STOP);
    assert_int_equal(stopped->generated_count, 3);
    assert_int_equal(stopped->job.state->tokens, LENGTH + 2);
    assert_int_equal(stopped->job.state->pending[0], plain->generated[2]);
    task *biased = task_create(&s, prompt, LENGTH, MADE, NULL);
    biased->job.biases = &(bo_bias){7, 100};
    biased->job.bias_count = 1;
    biased->job.frequency_penalty = 2;
    task_finish(biased);
    for (size_t i = 0; i < MADE; i++) assert_int_equal(biased->generated[i], 7);
    server_end(&s);
    task *const all[] = {plain, ignoring, stopped, biased};
    for (size_t i = 0; i < 4; i++) task_free(all[i]);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

/* Attention that keeps every key: the text ends where the capacity ends. */
static void test_capacity(void **state)
{
    (void)state;
    enum { CAPACITY = 50 };
    bo_context *context = test_context(1);
    bo_model *model = model_of(context, "softmax");
    server s;
    int32_t prompt[CAPACITY + 1];
    test_text(1, CAPACITY + 1, prompt);
    server_start(&s, context, model, (bo_scheduler_desc){.capacity = CAPACITY, .memory_bytes = 1 << 24});
    assert_int_equal(bo_scheduler_max_tokens(s.scheduler), CAPACITY);
    for (size_t count = 1; count <= CAPACITY + 1; count += count < 40 ? 13 : 1) {
        task *t = task_create(&s, prompt, count, 100, NULL);
        t->job.keep_state = true;
        const bo_job_end end = task_finish(t);
        if (count > CAPACITY) {
            assert_int_equal(end, BO_JOB_BAD_STATE);
            assert_non_null(strstr(t->job.message, "maximum of 50 tokens"));
        } else { /* the last token is not read, so that there is one more than the capacity */
            assert_int_equal(end, BO_JOB_LENGTH);
            assert_int_equal(t->generated_count, CAPACITY - count + 1);
            assert_int_equal(t->job.state->tokens, CAPACITY);
            task_check("softmax", t, NULL, 0);
            task *more = task_create(&s, t->job.state->pending, 1, 5, t->job.state);
            assert_int_equal(task_finish(more), BO_JOB_BAD_STATE);
            task_free(more);
        }
        task_free(t);
    }
    server_end(&s);
    bo_model_destroy(model);
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crowd),       cmocka_unit_test(test_cache),
        cmocka_unit_test(test_same_prompt), cmocka_unit_test(test_states),
        cmocka_unit_test(test_empty_state), cmocka_unit_test(test_bad_states),
        cmocka_unit_test(test_kept_once),   cmocka_unit_test(test_embeddings_and_scores),
        cmocka_unit_test(test_ends),        cmocka_unit_test(test_capacity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
