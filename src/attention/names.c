/* The names of kinds, gates and proposals, and the descriptors that go by a name. */
#include "internal.h"

static const char *const kind_names[BO_ATTENTION_COUNT] = {"exact",   "linear", "rfa", "favor", "dark", "hybrid",
                                                           "learned", "power",  "gla", "delta", "ridge"};
static const char *const gate_names[BO_GATE_COUNT] = {"none", "convex", "decay", "fixed"};
static const char *const proposal_names[BO_PROPOSAL_COUNT] = {"none", "oprf", "sderf", "gaussian"};

BO_NAMED(attention, bo_attention_kind, kind_names)
BO_NAMED(gate, bo_gate, gate_names)
BO_NAMED(proposal, bo_proposal, proposal_names)

/* ---- presets --------------------------------------------------------------------------------------------------- */

typedef struct preset {
    const char *name;
    bo_attention_kind kind;
    bo_gate gate;
    bo_normalizer normalizer;
    bo_proposal proposal;
    bo_kernel kernel;
    bo_function function;
    bool causal, unit; /* causal: it is nothing else */
} preset;

static const preset presets[] = {
    {.name = "exact", .kind = BO_ATTENTION_EXACT},
    {.name = "linear", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_ELU},
    {.name = "rfa", .kind = BO_ATTENTION_RFA},
    {.name = "rfa-gate", .kind = BO_ATTENTION_RFA, .gate = BO_GATE_CONVEX, .causal = true},
    {.name = "favor", .kind = BO_ATTENTION_FAVOR},
    {.name = "favor++", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_OPRF},
    {.name = "favor#", .kind = BO_ATTENTION_FAVOR, .proposal = BO_PROPOSAL_SDERF},
    {.name = "dark", .kind = BO_ATTENTION_DARK},
    {.name = "hybrid", .kind = BO_ATTENTION_HYBRID, .causal = true},
    {.name = "poly", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_POLYNOMIAL},
    {.name = "taylor", .kind = BO_ATTENTION_LINEAR, .kernel = BO_KERNEL_TAYLOR},
    {.name = "retention",
     .kind = BO_ATTENTION_LINEAR,
     .gate = BO_GATE_FIXED,
     .normalizer = BO_NORMALIZER_NONE,
     .kernel = BO_KERNEL_LINEAR,
     .causal = true},
    {.name = "hedgehog", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_COSH},
    {.name = "t2r", .kind = BO_ATTENTION_LEARNED, .kernel = BO_KERNEL_RECTIFIER},
    {.name = "power", .kind = BO_ATTENTION_POWER},
    {.name = "gla", .kind = BO_ATTENTION_GLA, .normalizer = BO_NORMALIZER_NONE, .causal = true},
    {.name = "delta", .kind = BO_ATTENTION_DELTA, .normalizer = BO_NORMALIZER_NONE, .causal = true, .unit = true},
    {.name = "gated-delta",
     .kind = BO_ATTENTION_DELTA,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .causal = true,
     .unit = true},
    {.name = "ridge", .kind = BO_ATTENTION_RIDGE, .normalizer = BO_NORMALIZER_NONE, .causal = true},
    {.name = "gated-ridge",
     .kind = BO_ATTENTION_RIDGE,
     .gate = BO_GATE_DECAY,
     .normalizer = BO_NORMALIZER_NONE,
     .causal = true},
};

enum { PRESETS = sizeof presets / sizeof *presets };

const char *bo_attention_preset_name(size_t index)
{
    return index < PRESETS ? presets[index].name : NULL;
}

bool bo_attention_preset(const char *name, bo_attention_desc *desc)
{
    for (size_t i = 0; desc && i < PRESETS; i++) {
        const preset *p = &presets[i];
        if (!bo_same_name(name, p->name)) continue;
        desc->kind = p->kind;
        desc->gate = p->gate;
        desc->normalizer = p->normalizer;
        desc->proposal = p->proposal;
        desc->features.kernel = p->kernel;
        desc->features.function = p->function;
        desc->unit = p->unit;
        if (p->causal) desc->causal = true;
        return true;
    }
    return false;
}
