/* Every experiment is completely described. */
#include "testing.h"
#include "lab/internal.h"

static bool is_text(const char *text)
{
    return text && *text && text[0] != ' ' && text[strlen(text) - 1] != ' ';
}

/* Names are used in file names, anchors and commands. */
static bool is_slug(const char *text)
{
    if (!is_text(text)) return false;
    return strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(text) && text[0] != '-';
}

#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) fail_msg(__VA_ARGS__);                                                                       \
    } while (0)

static void check_claims(const bo_lab_experiment *e)
{
    REQUIRE(e->claim_count >= 1 && e->claim_count <= 24, "%s has %zu claims", e->name, e->claim_count);
    for (size_t i = 0; i < e->claim_count; i++) {
        const bo_lab_claim *c = &e->claims[i];
        REQUIRE(is_slug(c->name), "a claim of %s has an invalid name", e->name);
        REQUIRE(is_text(c->statement) && is_text(c->number), "%s, %s: no statement or number", e->name, c->name);
        REQUIRE(!c->source || is_text(c->source), "%s, %s: an empty source", e->name, c->name);
        REQUIRE(!c->passage || strstr(c->passage, "founding document 00"), "%s, %s: a passage of no document", e->name,
                c->name);
        REQUIRE(!c->passage || strstr(c->passage, " line"), "%s, %s: a passage without lines", e->name, c->name);
        REQUIRE(bo_lab_rule_name(c->rule) && isfinite(c->bound), "%s, %s: a strange rule", e->name, c->name);
        REQUIRE(c->rule == BO_LAB_BETWEEN ? c->bound < c->upper && isfinite(c->upper) : c->upper == 0,
                "%s, %s: strange bounds", e->name, c->name);
        for (size_t k = 0; k < i; k++)
            REQUIRE(!bo_same_name(c->name, e->claims[k].name), "%s has two claims %s", e->name, c->name);
    }
}

static void check_tables(const bo_lab_experiment *e)
{
    REQUIRE(e->table_count >= 1 && e->table_count <= 16, "%s has %zu tables", e->name, e->table_count);
    for (size_t i = 0; i < e->table_count; i++) {
        const bo_lab_table *t = &e->tables[i];
        REQUIRE(is_slug(t->name), "a table of %s has an invalid name", e->name);
        REQUIRE(is_text(t->title) && is_text(t->rows) && is_text(t->values), "%s, %s: no text", e->name, t->name);
        REQUIRE((unsigned)t->plot <= BO_LAB_NO_PLOT, "%s, %s: an unknown plot", e->name, t->name);
        REQUIRE(!t->theory || is_text(t->theory), "%s, %s: theory without a name", e->name, t->name);
        for (size_t k = 0; k < i; k++)
            REQUIRE(!bo_same_name(t->name, e->tables[k].name), "%s has two tables %s", e->name, t->name);
    }
}

static void test_descriptions(void **state)
{
    (void)state;
    assert_true(bo_lab_count() > 30);
    for (size_t i = 0; i < bo_lab_count(); i++) {
        const bo_lab_experiment *e = bo_lab_at(i);
        REQUIRE(is_slug(e->name), "experiment %zu has an invalid name", i);
        REQUIRE(bo_lab_find(e->name) == e, "%s is there twice", e->name);
        REQUIRE(is_text(e->group) && is_text(e->title) && is_text(e->claim) && is_text(e->source) && is_text(e->method),
                "%s: group, title, claim, source or method is missing", e->name);
        REQUIRE(lab_at(i)->measure, "%s measures nothing", e->name);
        check_claims(e);
        check_tables(e);
    }
}

/* The experiments of a group are consecutive: the list and the page have one heading per group. */
static void test_groups(void **state)
{
    (void)state;
    for (size_t i = 1; i < bo_lab_count(); i++) {
        const char *group = bo_lab_at(i)->group;
        if (strcmp(group, bo_lab_at(i - 1)->group) == 0) continue;
        for (size_t k = 0; k + 1 < i; k++)
            REQUIRE(strcmp(bo_lab_at(k)->group, group) != 0, "the group %s is interrupted", group);
    }
}

static void test_finding(void **state)
{
    (void)state;
    assert_ptr_equal(bo_lab_find("Scaled_Dot"), bo_lab_find("scaled-dot"));
    assert_null(bo_lab_find("nothing"));
    assert_null(bo_lab_find(NULL));
    assert_null(bo_lab_at(bo_lab_count()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_descriptions), cmocka_unit_test(test_groups),
                                       cmocka_unit_test(test_finding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
