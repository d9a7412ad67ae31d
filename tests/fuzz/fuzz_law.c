/* Files of fitted laws: parsed, then written and parsed again. Laws are not fitted, because it takes long. */
#include <stdlib.h>
#include "fuzz.h"
#include "plan/laws.h"

typedef struct parsed_law {
    bo_plan_family family;
    bo_plan_observation observations[BO_PLAN_RUNS];
    size_t count;
    bo_json *root;
} parsed_law;

static bool parse(bo_context *context, const char *text, size_t size, parsed_law *out)
{
    return fuzz_ok(context, bo_plan_laws_parse(context, "fuzz", text, size, &out->root, &out->family, out->observations,
                                               &out->count));
}

/* Written data can be read. */
static void again(bo_context *context, const parsed_law *law)
{
    static parsed_law other;
    bo_json_text text = {.context = context};
    const bo_plan_laws laws = {.family = law->family, .observations = law->observations, .count = law->count};
    bo_plan_laws_text(&laws, &text);
    if (text.failed || !parse(context, text.bytes, text.length, &other) || other.count != law->count) abort();
    bo_json_delete(other.root);
    bo_free(text.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static parsed_law law;
    bo_context *context = fuzz_context();
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = 0;
    if (parse(context, text, size, &law)) {
        if (law.count > BO_PLAN_RUNS || !law.family.config) abort();
        again(context, &law);
        bo_json_delete(law.root);
    }
    free(text);
    return 0;
}
