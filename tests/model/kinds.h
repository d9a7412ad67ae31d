/* All mixers by name: presets of attention, then the other mixers. */
#ifndef BO_TEST_MODEL_KINDS_H
#define BO_TEST_MODEL_KINDS_H

#include <bochner/names.h>
#include <bochner/model.h>
#include "testing.h"

typedef struct test_mixer {
    const char *name;
    bo_mixer mixer;
    bo_ssm ssm;
} test_mixer;

static const test_mixer test_mixers[] = {{"mlp", BO_MIXER_MLP, 0},
                                         {"ssm", BO_MIXER_SSM, BO_SSM_DIAGONAL},
                                         {"ssm closed", BO_MIXER_SSM, BO_SSM_CLOSED},
                                         {"ssm low-rank", BO_MIXER_SSM, BO_SSM_LOW_RANK},
                                         {"conv", BO_MIXER_CONV, 0},
                                         {"rnn", BO_MIXER_RNN, 0},
                                         {"gru", BO_MIXER_GRU, 0},
                                         {"lstm", BO_MIXER_LSTM, 0},
                                         {"degree-2", BO_MIXER_DEGREE_2, 0},
                                         {"degree-3", BO_MIXER_DEGREE_3, 0},
                                         {"degree-4", BO_MIXER_DEGREE_4, 0},
                                         {"degree-e", BO_MIXER_DEGREE_E, 0}};
enum { TEST_MIXERS = sizeof test_mixers / sizeof *test_mixers };

/* Returns NULL after the last one. */
static inline const char *test_kind(size_t index)
{
    size_t presets = 0;
    while (bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)presets)) presets++;
    if (index < presets) return bo_enum_name(BO_ENUM_ATTENTION_PRESET, (int)index);
    return index - presets < TEST_MIXERS ? test_mixers[index - presets].name : NULL;
}

/* gcc warns about strcmp of different literals. */
static inline bool test_same_word(const char *a, const char *b)
{
    while (*a && *a == *b) a++, b++;
    return *a == *b;
}

/* Sets the attention or mixer, with small sizes. */
static inline void test_set_kind(const char *name, bo_model_desc *desc)
{
    desc->block.attention = (bo_attention_desc){.features = {.features = 0}};
    desc->block.mixer = BO_MIXER_ATTENTION;
    if (bo_attention_preset(name, &desc->block.attention)) {
        if (strcmp(name, "hybrid") == 0) desc->block.attention.window = 5;
        return;
    }
    for (size_t i = 0; i < TEST_MIXERS; i++) {
        if (!test_same_word(test_mixers[i].name, name)) continue;
        desc->block.mixer = test_mixers[i].mixer, desc->block.ssm = test_mixers[i].ssm;
        if (desc->block.mixer == BO_MIXER_SSM) desc->block.state_size = 3;
        if (desc->block.mixer == BO_MIXER_CONV) desc->block.kernel = 5;
        return;
    }
    fail_msg("no preset or mixer %s", name);
}

#endif
