/* Messages of states: joined with the messages of a request, replies appended, damaged ones refused. */
#include "testing.h"
#include "serve/conversation.h"

static bo_status join(bo_context *context, const char *messages, const char *variables, char **out)
{
    *out = bo_strdup(context, variables);
    return *out ? bo_conversation_prepend(context, messages, out) : BO_MEMORY;
}

static void test_join(void **state)
{
    bo_context *context = test_context(1);
    char *text, *list, *added;
    (void)state;
    assert_ok(context, join(context, "[{\"role\":\"user\",\"content\":\"a\"}]",
                            "{\"x\":1,\"messages\":[{\"role\":\"b\",\"content\":\"\"}]}", &text));
    assert_ok(context, bo_conversation_find(context, text, &list));
    assert_string_equal(list, "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"b\",\"content\":\"\"}]");
    assert_non_null(strstr(text, "\"x\":1"));
    assert_ok(context, bo_conversation_add(context, list, "\"\xc3\xa9\n", 4, &added));
    assert_non_null(strstr(added, ",{\"role\":\"assistant\",\"content\":\"\\\"\xc3\xa9\\n\"}]"));
    bo_free(added);
    bo_free(list);
    bo_free(text);
    assert_ok(context, bo_conversation_add(context, "[]", "", 0, &added));
    assert_string_equal(added, "[{\"role\":\"assistant\",\"content\":\"\"}]");
    bo_free(added);
    bo_context_destroy(context);
}

static void test_damaged(void **state)
{
    static const char *const bad[] = {"",
                                      "nonsense",
                                      "{}",
                                      "[1]",
                                      "[{}]",
                                      "[{\"role\":1,\"content\":\"\"}]",
                                      "[{\"role\":\"user\"}]",
                                      "[{\"role\":\"user\",\"content\":[]}]",
                                      "[{\"role\":\"user\",\"content\":\"\",\"content\":[]}]",
                                      "[{\"role\":\"user\",\"content\":\"\xff\"}]",
                                      "[{\"role\":\"user\",\"content\":\"\\u0000\"}]",
                                      "[",
                                      "null"};
    bo_context *context = test_context(1);
    (void)state;
    assert_ok(context, bo_conversation_check(context, "[]"));
    assert_ok(context, bo_conversation_check(context, "[{\"role\":\"\",\"x\":1,\"x\":2,\"content\":\"\\\\u0000\"}]"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *text;
        assert_int_equal(bo_conversation_check(context, bad[i]), BO_FORMAT);
        assert_int_equal(join(context, bad[i], "{\"messages\":[]}", &text), BO_FORMAT);
        assert_string_equal(text, "{\"messages\":[]}");
        bo_free(text);
    }
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_join), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
