/* Generated lines: parsed again by an independent implementation of the rules, and checked statistically. */
#include "base/counting.h"
#include "cli/shared/generators.h"

typedef struct page {
    char *text;
    size_t length, capacity;
} page;

static bool keep(void *user, const char *lines, size_t bytes)
{
    page *p = user;
    if (p->capacity - p->length < bytes + 1) {
        p->capacity = 2 * p->capacity + bytes + 1;
        p->text = realloc(p->text, p->capacity);
    }
    memcpy(p->text + p->length, lines, bytes);
    p->length += bytes;
    p->text[p->length] = 0;
    return lines[bytes - 1] == '\n';
}

typedef bo_status generate_fn(bo_context *context, const void *desc, uint64_t count, uint64_t seed, page *out,
                              bo_generated *made);

static bo_status listops(bo_context *context, const void *desc, uint64_t count, uint64_t seed, page *out,
                         bo_generated *made)
{
    return bo_generate_listops(context, desc, count, seed, keep, out, made);
}

static bo_status match(bo_context *context, const void *desc, uint64_t count, uint64_t seed, page *out,
                       bo_generated *made)
{
    return bo_generate_match(context, desc, count, seed, keep, out, made);
}

static bo_status recall(bo_context *context, const void *desc, uint64_t count, uint64_t seed, page *out,
                        bo_generated *made)
{
    return bo_generate_recall(context, desc, count, seed, keep, out, made);
}

static page generate_page(generate_fn *generate, const void *desc, uint64_t count, int threads, bo_generated *made)
{
    bo_context *context = test_context(threads);
    page p = {0};
    assert_ok(context, generate(context, desc, count, 7, &p, made));
    assert_int_equal(made->lines, count);
    assert_int_equal(made->bytes, p.length);
    uint64_t labels = 0;
    for (size_t i = 0; i < BO_GENERATED_CLASSES; i++) labels += made->labels[i];
    assert_int_equal(labels, count);
    bo_context_destroy(context);
    return p;
}

/* Splits the next line into fields, without its end; NULL after the last. */
static char *next_line(char **at, char **fields, size_t count)
{
    char *line = *at, *end = strchr(line, '\n');
    if (!*line) return NULL;
    assert_non_null(end);
    *end = 0;
    *at = end + 1;
    for (size_t i = 0; i < count; i++) {
        fields[i] = line;
        line = i + 1 < count ? strchr(line, '\t') : strchr(line, 0);
        assert_non_null(line);
        if (i + 1 < count) *line++ = 0;
    }
    assert_null(strchr(fields[count - 1], '\t'));
    return fields[0];
}

/* ---- ListOps ----------------------------------------------------------------------------------------------------- */

typedef struct reading {
    const char *at;
    size_t tokens, deepest, max_arguments, operations[4];
} reading;

/* Returns the next token as a letter; for words their third letter (mIn, mAx, mEd, sM). */
static char next_token(reading *r, bool words)
{
    r->tokens++;
    if (!words) return *r->at++;
    while (*r->at == ' ') r->at++;
    const char *word = r->at;
    while (*r->at && *r->at != ' ') r->at++;
    const size_t length = (size_t)(r->at - word);
    if (length == 1) return *word;
    if (length == 3 && memcmp(word, "[SM", 3) == 0) return 's';
    assert_int_equal(length, 4);
    return memcmp(word, "[MIN", 4) == 0   ? 'm'
           : memcmp(word, "[MAX", 4) == 0 ? 'M'
           : memcmp(word, "[MED", 4) == 0 ? 'd'
                                          : '!';
}

/* Evaluates a list from the counts of its digits. -1: the end of a list. */
static int evaluate(reading *r, bool words, size_t depth)
{
    static const char symbols[] = "mMds";
    const char token = next_token(r, words);
    if (token == ']') return -1;
    if (depth > r->deepest) r->deepest = depth;
    if (token >= '0' && token <= '9') return token - '0';
    const char *operation = strchr(symbols, token);
    assert_true(token && operation);
    r->operations[operation - symbols]++;
    int counts[10] = {0}, total = 0;
    size_t arguments = 0;
    for (int value; (value = evaluate(r, words, depth + 1)) >= 0; arguments++) {
        counts[value]++;
        total += value;
    }
    assert_true(arguments >= 2);
    if (arguments > r->max_arguments) r->max_arguments = arguments;
    if (token == 's') return total - total / 10 * 10;
    int sorted[256], filled = 0;
    for (int value = 0; value < 10; value++)
        for (int i = 0; i < counts[value]; i++) sorted[filled++] = value;
    if (token == 'm') return sorted[0];
    if (token == 'M') return sorted[filled - 1];
    if (filled % 2) return sorted[filled / 2];
    return (int)floor((sorted[filled / 2 - 1] + sorted[filled / 2]) / 2.0);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void expect_listops(bo_listops_desc desc, size_t min_tokens, size_t max_tokens, size_t depth, size_t arguments)
{
    enum { COUNT = 400 };
    bo_generated made;
    page p = generate_page(listops, &desc, COUNT, 2, &made);
    char *at = p.text, *fields[2], *lines[COUNT];
    size_t operations[4] = {0}, all = 0, deepest = 0, widest = 0, tokens = 0, count = 0;
    uint64_t labels[10] = {0};
    while (next_line(&at, fields, 2)) {
        reading r = {.at = fields[1]};
        const int value = evaluate(&r, desc.words, 1);
        assert_true(*r.at == 0);
        assert_int_equal(fields[0][0] - '0', value);
        assert_int_equal(fields[0][1], 0);
        assert_true(r.tokens > min_tokens && r.tokens < max_tokens);
        if (!desc.words) assert_int_equal(strlen(fields[1]), r.tokens);
        for (int i = 0; i < 4; i++) operations[i] += r.operations[i];
        if (r.deepest > deepest) deepest = r.deepest;
        if (r.max_arguments > widest) widest = r.max_arguments;
        tokens += r.tokens;
        labels[value]++;
        lines[count++] = fields[1];
    }
    assert_int_equal(count, COUNT);
    assert_int_equal(made.tokens, tokens);
    assert_memory_equal(made.labels, labels, sizeof labels);
    assert_int_equal(deepest, depth);
    assert_int_equal(widest, arguments);
    qsort(lines, COUNT, sizeof *lines, compare_lines);
    for (size_t i = 1; i < COUNT; i++) assert_true(strcmp(lines[i - 1], lines[i]) != 0);
    /* Operations are drawn uniformly in every tree: chi-squared with three degrees of freedom has mean 3 and deviation
     * sqrt(6). */
    double chi = 0;
    for (int i = 0; i < 4; i++) all += operations[i];
    for (int i = 0; i < 4; i++) chi += pow((double)operations[i] - (double)all / 4, 2) / ((double)all / 4);
    assert_true(chi < 3 + 6 * sqrt(6));
    free(p.text);
}

static void test_listops(void **state)
{
    (void)state;
    expect_listops((bo_listops_desc){0}, 500, 2000, 10, 10);
    expect_listops((bo_listops_desc){.min_tokens = 100, .max_tokens = 500, .words = true}, 100, 500, 10, 10);
    expect_listops((bo_listops_desc){.min_tokens = 10, .max_tokens = 60, .depth = 4, .arguments = 5}, 10, 60, 4, 5);
}

/* Draws the number of tokens of a tree by the rules of ListOps. */
static size_t draw_size(bo_rng *rng, size_t depth)
{
    if (depth == 10 || bo_rng_uniform(rng) > 0.25) return 1;
    size_t size = 2;
    for (uint64_t i = 2 + bo_rng_below(rng, 9); i > 0; i--) size += draw_size(rng, depth + 1);
    return size;
}

/* The fraction of accepted trees equals that of trees drawn here; both estimates vary by p (1 - p) / n. */
static void test_listops_rules(void **state)
{
    (void)state;
    enum { DRAWS = 40000, COUNT = 2000 };
    bo_rng rng = bo_rng_make(3, bo_rng_stream("test.listops", 0));
    double kept = 0, total = 0;
    for (int i = 0; i < DRAWS; i++) {
        const size_t size = draw_size(&rng, 1);
        if (size <= 500 || size >= 2000) continue;
        kept++;
        total += (double)size;
    }
    bo_generated made;
    const bo_listops_desc desc = {0};
    page p = generate_page(listops, &desc, COUNT, 2, &made);
    const double expected = kept / DRAWS, found = COUNT / (double)made.tried;
    assert_close(found, expected, 5 * sqrt(expected * (1 - expected) * (1.0 / DRAWS + 1 / (double)made.tried)));
    /* Lengths of accepted trees: within 500 to 2000 the deviation is below 500. */
    assert_close((double)made.tokens / COUNT, total / kept, 5 * 500 * sqrt(1.0 / COUNT + 1 / kept));
    free(p.text);
}

/* ---- pairs of documents ------------------------------------------------------------------------------------------ */

enum { MAX_DOCUMENT = 400 };

static size_t split_words(char *text, char **words)
{
    size_t count = 0;
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        assert_true(count < MAX_DOCUMENT);
        words[count++] = word;
    }
    return count;
}

/* Counts words of one document that have a separate partner in the other. */
static double common_words(char **a, char **b, size_t count)
{
    bool taken[MAX_DOCUMENT] = {false};
    double common = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            if (!taken[j] && strcmp(a[i], b[j]) == 0) {
                taken[j] = true;
                common++;
                break;
            }
    return common / (double)count;
}

/* Counts words of one document at the same position in the other, with the best shift. */
static double aligned_words(char **a, char **b, size_t count)
{
    double best = 0;
    for (long shift = -(long)count / 2; shift <= (long)count / 2; shift++) {
        double same = 0;
        for (long i = 0; i < (long)count; i++) {
            const long j = i + shift;
            if (j >= 0 && j < (long)count) same += strcmp(a[i], b[j]) == 0;
        }
        if (same > best) best = same;
    }
    return best / (double)count;
}

typedef struct weighed {
    double ones, common[2], spread[2], aligned[2]; /* means by label; variances of common */
} weighed;

static weighed weigh(bo_match_desc desc, size_t count, size_t letters)
{
    bo_generated made;
    page p = generate_page(match, &desc, count, 2, &made);
    char *at = p.text, *fields[3];
    weighed w = {0};
    double counted[2] = {0}, squares[2] = {0};
    while (next_line(&at, fields, 3)) {
        const int label = fields[0][0] - '0';
        assert_true((label == 0 || label == 1) && !fields[0][1]);
        char *words[2][MAX_DOCUMENT];
        size_t length[2];
        for (int d = 0; d < 2; d++) {
            assert_true(strlen(fields[1 + d]) <= desc.length && strlen(fields[1 + d]) + letters + 1 > desc.length);
            length[d] = split_words(fields[1 + d], words[d]);
            for (size_t i = 0; i < length[d]; i++) { /* every word has every letter once */
                unsigned seen = 0;
                for (size_t c = 0; c < letters; c++) seen |= 1u << (words[d][i][c] - 'a');
                assert_int_equal(seen, (1u << letters) - 1);
                assert_int_equal(strlen(words[d][i]), letters);
            }
        }
        assert_int_equal(length[0], length[1]);
        const double common = common_words(words[0], words[1], length[0]);
        w.common[label] += common;
        squares[label] += common * common;
        w.aligned[label] += aligned_words(words[0], words[1], length[0]);
        counted[label]++;
        w.ones += label;
    }
    for (int label = 0; label < 2; label++) {
        w.common[label] /= counted[label];
        w.aligned[label] /= counted[label];
        w.spread[label] = squares[label] / counted[label] - w.common[label] * w.common[label];
    }
    free(p.text);
    return w;
}

static void test_match(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    const bo_match_desc plain = {.length = 400, .drop = 0.1, .replace = 0.1, .shuffle = 3, .shift = 0.25};
    weighed w = weigh(plain, COUNT, 6);
    assert_close(w.ones, COUNT / 2.0, 5 * sqrt(COUNT / 4.0));
    assert_true(w.common[1] > 0.6 && w.common[0] < 0.2);

    bo_match_desc hard = plain; /* word counts no longer distinguish the classes, but word order does */
    hard.same_words = true;
    w = weigh(hard, COUNT, 6);
    assert_close(w.common[1], w.common[0], 5 * sqrt((w.spread[0] + w.spread[1]) / (COUNT / 2.0)));
    hard.drop = 0;
    hard.shuffle = 1; /* so that positions can be compared */
    w = weigh(hard, COUNT, 6);
    assert_true(w.aligned[1] > 0.6 && w.aligned[0] < 0.3);

    const bo_match_desc clean = {.length = 300, .words = 24, .topic = 24};
    w = weigh(clean, COUNT, 4); /* without noise the copies are exact */
    assert_close(w.aligned[1], 1, 0);
    assert_true(w.aligned[0] < 0.5);

    const bo_match_desc noisy = {.length = 300, .words = 5040, .drop = 0.5, .replace = 0.5, .shuffle = 10, .shift = 1};
    const weighed v = weigh(noisy, 100, 7); /* all options combined respect the length */
    assert_true(v.common[1] > v.common[0]);
}

/* ---- recall ------------------------------------------------------------------------------------------------------ */

static void expect_recall(bo_recall_desc desc, size_t length, size_t pairs, size_t width, size_t values)
{
    enum { COUNT = 600 };
    bo_generated made;
    page p = generate_page(recall, &desc, COUNT, 2, &made);
    char *at = p.text, *fields[2];
    size_t nearest = length, farthest = 0;
    uint64_t labels[36] = {0};
    while (next_line(&at, fields, 2)) {
        const char *text = fields[1], *question = strchr(text, '?');
        assert_int_equal(strlen(text), length);
        assert_int_equal(question - text, length - 1 - width);
        size_t found = 0, fill = 0, requested = length;
        char keys[64][4] = {{0}};
        for (const char *c = text; c < question;) {
            if (strchr(".,:;", *c)) {
                c++, fill++;
                continue;
            }
            for (size_t i = 0; i < width; i++) assert_true(c[i] >= 'a' && c[i] <= 'z');
            memcpy(keys[found], c, width);
            for (size_t i = 0; i < found; i++) assert_true(strcmp(keys[i], keys[found]) != 0);
            found++;
            const char value = c[width];
            assert_true((value >= '0' && value <= '9') || (value >= 'A' && value <= 'Z'));
            if (memcmp(c, question + 1, width) == 0) {
                assert_int_equal(fields[0][0], value);
                requested = (size_t)(c + width - text);
            }
            c += width + 1;
        }
        assert_int_equal(found, pairs);
        assert_int_equal(found * (width + 1) + fill + 1 + width, length);
        const size_t distance = length - 1 - requested;
        if (distance < nearest) nearest = distance;
        if (distance > farthest) farthest = distance;
        const char label = fields[0][0];
        labels[label <= '9' ? label - '0' : label - 'A' + 10]++;
    }
    assert_memory_equal(made.labels, labels, sizeof labels);
    if (desc.farthest) { /* all distances of a short range occur */
        assert_int_equal(nearest, desc.nearest);
        assert_int_equal(farthest, desc.farthest);
    } else {
        assert_true(farthest > length * 3 / 4 && nearest < length / 4);
    }
    double chi = 0; /* values are drawn uniformly: chi-squared has mean values - 1 and variance twice that */
    for (size_t i = 0; i < values; i++) chi += pow((double)labels[i] - (double)COUNT / (double)values, 2);
    chi /= (double)COUNT / (double)values;
    assert_true(chi < (double)(values - 1) + 6 * sqrt(2.0 * (double)(values - 1)));
    for (size_t i = values; i < 36; i++) assert_int_equal(labels[i], 0);
    free(p.text);
}

/* The same with one word per pair. */
static void expect_words(bo_recall_desc desc, size_t width)
{
    enum { COUNT = 300 };
    bo_generated made;
    page p = generate_page(recall, &desc, COUNT, 2, &made);
    assert_int_equal(made.tokens, COUNT * desc.length);
    char *at = p.text, *fields[2], *words[MAX_DOCUMENT];
    while (next_line(&at, fields, 2)) {
        assert_int_equal(fields[1][0], ' ');
        const size_t count = split_words(fields[1], words);
        assert_int_equal(count, desc.length);
        const char *question = words[count - 1];
        assert_int_equal(strlen(question), width);
        size_t pairs = 0, matches = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            if (strlen(words[i]) == 1) {
                assert_non_null(strchr(".,:;", words[i][0]));
                continue;
            }
            assert_int_equal(strlen(words[i]), width + 1);
            assert_true(words[i][width] >= 'A' && words[i][width] <= 'Z');
            pairs++;
            if (memcmp(words[i], question, width) != 0) continue;
            matches++;
            assert_int_equal(words[i][width], fields[0][0]);
            if (desc.farthest) assert_true(count - 1 - i >= desc.nearest && count - 1 - i <= desc.farthest);
        }
        assert_int_equal(pairs, desc.pairs);
        assert_int_equal(matches, 1);
    }
    free(p.text);
}

static void test_recall_words(void **state)
{
    (void)state;
    expect_words((bo_recall_desc){.words = true, .length = 64, .pairs = 8, .nearest = 20, .farthest = 30}, 1);
    expect_words((bo_recall_desc){.words = true, .length = 101, .pairs = 100, .values = 26}, 2);
    expect_words((bo_recall_desc){.words = true, .length = 9, .pairs = 8, .nearest = 3}, 1);
}

static void test_recall(void **state)
{
    (void)state;
    expect_recall((bo_recall_desc){0}, 256, 8, 1, 10);
    expect_recall((bo_recall_desc){.length = 18, .pairs = 8}, 18, 8, 1, 10); /* the minimum length */
    expect_recall((bo_recall_desc){.length = 100, .pairs = 5, .values = 36, .nearest = 40, .farthest = 49}, 100, 5, 1,
                  36);
    expect_recall((bo_recall_desc){.length = 60, .pairs = 1, .nearest = 2, .farthest = 2}, 60, 1, 1, 10);
    expect_recall((bo_recall_desc){.length = 60, .pairs = 4, .nearest = 58, .farthest = 58}, 60, 4, 1, 10);
    expect_recall((bo_recall_desc){.length = 300, .pairs = 60, .values = 2, .nearest = 20, .farthest = 30}, 300, 60, 2,
                  2);
    expect_recall((bo_recall_desc){.length = 300, .pairs = 9, .keys = 700, .nearest = 299 - 3, .farthest = 299 - 3},
                  300, 9, 3, 10);
}

/* ---- all generators ---------------------------------------------------------------------------------------------- */

/* The bytes do not depend on the number of threads, fewer lines are a prefix of more, and another seed gives other
 * lines. */
static void test_determinism(void **state)
{
    (void)state;
    const bo_listops_desc nested = {.min_tokens = 20, .max_tokens = 200};
    const bo_match_desc pairs = {.length = 100, .drop = 0.2, .shuffle = 4};
    const bo_recall_desc keys = {.nearest = 10, .farthest = 200};
    const struct {
        generate_fn *generate;
        const void *desc;
    } kinds[] = {{listops, &nested}, {match, &pairs}, {recall, &keys}};
    for (size_t k = 0; k < 3; k++) {
        bo_generated made;
        page one = generate_page(kinds[k].generate, kinds[k].desc, 300, 1, &made);
        page three = generate_page(kinds[k].generate, kinds[k].desc, 300, 3, &made);
        page few = generate_page(kinds[k].generate, kinds[k].desc, 40, 2, &made), other = {0};
        assert_int_equal(one.length, three.length);
        assert_memory_equal(one.text, three.text, one.length);
        assert_memory_equal(one.text, few.text, few.length);
        bo_context *context = test_context(1);
        assert_ok(context, kinds[k].generate(context, kinds[k].desc, 300, 8, &other, NULL));
        assert_true(other.length != one.length || memcmp(other.text, one.text, one.length) != 0);
        bo_context_destroy(context);
        free(one.text), free(three.text), free(few.text), free(other.text);
    }
}

static bool refuse(void *user, const char *lines, size_t bytes)
{
    (void)user, (void)lines, (void)bytes;
    return false;
}

static void test_refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    const struct {
        bo_listops_desc desc;
        const char *expected;
    } nested[] = {
        {{.depth = 65}, "depth 65"},
        {{.arguments = 1}, "1 arguments"},
        {{.min_tokens = 10, .max_tokens = 11}, "greater than 10 and less than 11"},
        {{.min_tokens = 1, .max_tokens = 4},
         "after 0 lines, 1048576 consecutive drafts were rejected"}, /* no tree has two or three tokens */
        {{.min_tokens = 3, .max_tokens = 6, .depth = 2, .arguments = 2},
         "expected a new line with more than 3 and fewer than 6"},
    };
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
        page p = {0}; /* 4 operations on 100 pairs of digits are 400 trees in total */
        assert_fails(context, BO_INVALID, nested[i].expected, listops(context, &nested[i].desc, 401, 1, &p, NULL));
        free(p.text);
    }
    const struct {
        bo_match_desc desc;
        const char *expected;
    } pairs[] = {
        {{.words = 5041}, "5041"},      {{.words = 10, .topic = 11}, "topics of 11 out of 10 words"},
        {{.drop = 0.95}, "0.95"},       {{.replace = -1}, "-1"},
        {{.shift = NAN}, "shifted by"}, {{.length = 8}, "documents of 8 bytes"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        assert_fails(context, BO_INVALID, pairs[i].expected,
                     bo_generate_match(context, &pairs[i].desc, 1, 1, refuse, NULL, NULL));
    const struct {
        bo_recall_desc desc;
        const char *expected;
    } keys[] = {
        {{.pairs = 30, .keys = 26}, "30 pairs"},
        {{.keys = SIZE_MAX}, "at most 17576"},
        {{.values = 37}, "37 values"},
        {{.values = 27, .words = true}, "expected 2 to 26"},
        {{.length = 8, .words = true}, "expected 9 to 2^30 tokens"},
        {{.length = 17}, "expected 18 to 2^30 tokens"},
        {{.length = 19, .nearest = 5}, "expected 20 to 2^30 tokens"},
        {{.nearest = 1}, "the possible distances are 2 to 254"},
        {{.nearest = 10, .farthest = 255}, "10 to 255"},
        {{.nearest = 10, .farthest = 9}, "10 to 9"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_fails(context, BO_INVALID, keys[i].expected,
                     bo_generate_recall(context, &keys[i].desc, 1, 1, refuse, NULL, NULL));
    const bo_recall_desc fine = {0};
    assert_fails(context, BO_IO, "could not be written", bo_generate_recall(context, &fine, 1, 1, refuse, NULL, NULL));
    bo_context_destroy(context);
}

/* ---- out of memory ----------------------------------------------------------------------------------------------- */

static bool reject_lines(void *user, const char *lines, size_t bytes)
{
    (void)user, (void)lines, (void)bytes;
    return true;
}

static bo_status draw_listops(void *context) /* more lines than the first hash table holds */
{
    const bo_listops_desc desc = {.min_tokens = 3, .max_tokens = 50};
    return bo_generate_listops(context, &desc, 700, 1, reject_lines, NULL, NULL);
}

static bo_status draw_match(void *context)
{
    const bo_match_desc desc = {.length = 50};
    return bo_generate_match(context, &desc, 3, 1, reject_lines, NULL, NULL);
}

static bo_status draw_recall(void *context)
{
    const bo_recall_desc desc = {0};
    return bo_generate_recall(context, &desc, 3, 1, reject_lines, NULL, NULL);
}

/* At every allocation: BO_MEMORY with a message, no leak, and the same work succeeds afterwards. */
static void memory_may_run_out(void **state)
{
    (void)state;
    static bo_status (*const works[])(void *) = {draw_listops, draw_match, draw_recall};
    counting counted = {0};
    bo_context *context = counting_context(&counted, 2);
    for (size_t i = 0; i < sizeof works / sizeof *works; i++)
        counting_inject(&(injection){&counted, context, works[i], context, 60, 7, NULL});
    bo_context_destroy(context);
    assert_true(counted.live == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_listops),  cmocka_unit_test(test_listops_rules), cmocka_unit_test(test_match),
        cmocka_unit_test(test_recall),   cmocka_unit_test(test_recall_words),  cmocka_unit_test(test_determinism),
        cmocka_unit_test(test_refusals), cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
