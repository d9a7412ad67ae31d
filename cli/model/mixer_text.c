#include "mixer_text.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const bo_block *cli_main_block(const bo_model_desc *d)
{
    for (size_t i = 0; i < d->layers; i++)
        if (bo_model_block(d, i)->replaced.heads) return bo_model_block(d, i);
    return bo_model_block(d, 0);
}

const char *cli_mixer_title(const bo_model_desc *d)
{
    return cli_main_block(d)->mixer == BO_MIXER_ATTENTION ? "attention" : "mixer";
}

/* ---- attention --------------------------------------------------------------------------------------------------- */

/* The gate, unless the name of the attention implies it. */
static void add_gate(const bo_attention_desc *a, char out[48])
{
    bo_attention_desc preset = {.kind = a->kind};
    out[0] = 0;
    if (bo_attention_preset(bo_attention_name(a), &preset) && preset.gate == a->gate) return;
    if (a->gate != BO_GATE_NONE) snprintf(out, 48, ", %s gate", bo_enum_name(BO_ENUM_GATE, a->gate));
}

const char *cli_attention_summary(const bo_attention_desc *a, char out[CLI_MIXER_TEXT])
{
    char gate[48], features[80] = "", window[80] = "";
    add_gate(a, gate);
    if (a->features.features) snprintf(features, sizeof features, ", %s features", cli_count(a->features.features).s);
    if (a->window) snprintf(window, sizeof window, ", window %s", cli_count(a->window).s);
    snprintf(out, CLI_MIXER_TEXT, "%s%.40s%.40s%.40s", bo_attention_name(a), gate, features, window);
    return out;
}

/* ---- mixers ------------------------------------------------------------------------------------------------------ */

static void name_mixer(const bo_block *b, char out[CLI_MIXER_TEXT])
{
    char gate[48];
    add_gate(&b->attention, gate);
    if (b->mixer == BO_MIXER_ATTENTION)
        snprintf(out, CLI_MIXER_TEXT, "%s%s", bo_attention_name(&b->attention), gate);
    else if (b->mixer == BO_MIXER_SSM)
        snprintf(out, CLI_MIXER_TEXT, "%s %s", bo_enum_name(BO_ENUM_MIXER, b->mixer),
                 bo_enum_name(BO_ENUM_SSM, b->ssm));
    else
        snprintf(out, CLI_MIXER_TEXT, "%s", bo_enum_name(BO_ENUM_MIXER, b->mixer));
}

static const char *mixer_summary(const bo_block *b, char out[CLI_MIXER_TEXT])
{
    char state[80] = "", rank[80] = "", kernel[80] = "", name[CLI_MIXER_TEXT];
    if (b->mixer == BO_MIXER_ATTENTION) return cli_attention_summary(&b->attention, out);
    name_mixer(b, name);
    if (b->mixer == BO_MIXER_SSM) snprintf(state, sizeof state, ", state %s", cli_count(b->state_size).s);
    if (b->state_rank) snprintf(rank, sizeof rank, ", rank %s", cli_count(b->state_rank).s);
    if (b->kernel) snprintf(kernel, sizeof kernel, ", kernel %s", cli_count(b->kernel).s);
    snprintf(out, CLI_MIXER_TEXT, "%.40s%.36s%.36s%.36s", name, state, rank, kernel);
    return out;
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

static bool has_same_text(const bo_block *a, const bo_block *b)
{
    char one[CLI_MIXER_TEXT], other[CLI_MIXER_TEXT];
    return strcmp(mixer_summary(a, one), mixer_summary(b, other)) == 0;
}

static bool is_like(const bo_block *a, const bo_block *b)
{
    return a->heads == b->heads && a->key_heads == b->key_heads && a->head_dim == b->head_dim &&
           a->positions == b->positions && has_same_text(a, b);
}

/* Adds "0" or "5-7" to a list of `capacity` bytes, or "…" if it does not fit. */
static void add_range(char *list, size_t capacity, size_t first, size_t last)
{
    const size_t used = strlen(list);
    char range[56];
    const char *comma = used ? "," : "";
    int length = first == last ? snprintf(range, sizeof range, "%s%zu", comma, first)
                               : snprintf(range, sizeof range, "%s%zu-%zu", comma, first, last);
    if (used + (size_t)length + sizeof "layers ,…" <= capacity)
        snprintf(list + used, capacity - used, "%s", range);
    else if (!strstr(list, "…"))
        snprintf(list + used, capacity - used, ",…");
}

typedef bool selects(const bo_block *block, const bo_block *other);

/* Lists the layers whose blocks are selected. Returns their number. */
static size_t list_layers(const bo_model_desc *d, selects *selected, const bo_block *other, char *list, size_t capacity)
{
    size_t count = 0;
    list[0] = 0;
    for (size_t i = 0, last; i < d->layers; i = last + 1) {
        last = i;
        if (!selected(bo_model_block(d, i), other)) continue;
        while (last + 1 < d->layers && selected(bo_model_block(d, last + 1), other)) last++;
        count += last - i + 1;
        add_range(list, capacity, i, last);
    }
    return count;
}

static bool is_kept(const bo_block *block, const bo_block *other)
{
    (void)other;
    return block->replaced.heads == 0;
}

const char *cli_kept_layers(const bo_model_desc *d, char out[CLI_LAYER_LIST])
{
    if (list_layers(d, is_kept, NULL, out, CLI_LAYER_LIST) == d->layers) out[0] = 0;
    return out;
}

static bool is_same(const bo_block *block, const bo_block *other)
{
    return block == other;
}

const char *cli_block_layers(const bo_model_desc *d, size_t index, char out[CLI_LAYER_LIST])
{
    list_layers(d, is_same, &cli_blocks_of(d).blocks[index], out, CLI_LAYER_LIST);
    return out;
}

const char *cli_block_mixer(const bo_block *block, char out[CLI_MIXER_TEXT])
{
    return mixer_summary(block, out);
}

static cli_layer_kind kind_of(const bo_model *model, size_t layer, selects *alike)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bo_attention *attention = bo_model_attention(model, layer);
    cli_layer_kind kind = {.block = bo_model_block(d, layer)};
    if (kind.block->mixer == BO_MIXER_ATTENTION && attention) {
        kind.state_bytes = bo_attention_state_bytes(attention);
        kind.keeps_all = bo_attention_has(&kind.block->attention, BO_TRAIT_CAPACITY) && !kind.block->attention.window;
    }
    char list[64];
    kind.count = list_layers(d, alike, kind.block, list, sizeof list);
    snprintf(kind.layers, sizeof kind.layers, "layer%s %.56s", kind.count == 1 ? "" : "s", list);
    return kind;
}

/* Freed by the caller. */
static cli_layer_kind *find_kinds(const bo_model *model, selects *alike, size_t *count)
{
    const bo_model_desc *d = bo_model_describe(model);
    const bo_block *named = cli_main_block(d);
    cli_layer_kind *out = cli_allocate(cli_blocks_of(d).count, sizeof *out, "kinds of layers");
    size_t found = 0;
    for (int main = 1; main >= 0; main--)
        for (size_t i = 0; i < d->layers; i++) {
            const bo_block *b = bo_model_block(d, i);
            bool is_new = alike(b, named) == (main == 1);
            for (size_t k = 0; k < found && is_new; k++) is_new = !alike(b, out[k].block);
            if (is_new) out[found++] = kind_of(model, i, alike);
        }
    *count = found;
    return out;
}

cli_layer_kind *cli_layer_kinds(const bo_model *model, size_t *count)
{
    return find_kinds(model, is_like, count);
}

/* Parts of a description, joined as long as they fit. */
enum { PARTS = 4, MORE_BYTES = 40 };

static void add_more(char *out, size_t used, const char *before, size_t more)
{
    if (more)
        snprintf(out + used, CLI_MIXER_TEXT - used, "%s%s more kind%s", before, cli_count(more).s,
                 more == 1 ? "" : "s");
}

static bool fits_text(size_t part, size_t used, const char *text)
{
    return part == 0 || (part < PARTS && used + strlen(text) + MORE_BYTES < CLI_MIXER_TEXT);
}

const char *cli_mixer_name(const bo_model *model, char out[CLI_MIXER_TEXT])
{
    size_t count, used = 0, parts = 0, more = 0;
    cli_layer_kind *kinds = find_kinds(model, has_same_text, &count);
    for (size_t i = 0; i < count; i++) {
        char name[CLI_MIXER_TEXT], other[CLI_MIXER_TEXT];
        bool named = false; /* the same kind with another window */
        name_mixer(kinds[i].block, name);
        for (size_t k = 0; k < i && !named; k++) {
            name_mixer(kinds[k].block, other);
            named = strcmp(other, name) == 0;
        }
        if (named) continue;
        if (more || !fits_text(parts, used, name))
            more++;
        else
            used += (size_t)snprintf(out + used, CLI_MIXER_TEXT - used, "%s%s", parts++ ? " and " : "", name);
    }
    add_more(out, used, " and ", more);
    free(kinds);
    return out;
}

const char *cli_mixer_text(const bo_model *model, char out[CLI_MIXER_TEXT])
{
    size_t count, used = 0, i;
    cli_layer_kind *kinds = find_kinds(model, has_same_text, &count);
    for (i = 0; i < count; i++) {
        char summary[CLI_MIXER_TEXT], part[2 * CLI_MIXER_TEXT];
        mixer_summary(kinds[i].block, summary);
        snprintf(part, sizeof part, i ? "; %s in %s" : "%s", summary, kinds[i].layers);
        if (!fits_text(i, used, part)) break;
        used += (size_t)snprintf(out + used, CLI_MIXER_TEXT - used, "%s", part);
    }
    add_more(out, used, " and ", count - i);
    free(kinds);
    return out;
}

/* ---- heads and positions ----------------------------------------------------------------------------------------- */

typedef struct range {
    size_t min, max;
} range;

static size_t member(const bo_block *b, size_t offset)
{
    size_t value;
    memcpy(&value, (const char *)b + offset, sizeof value);
    return value;
}

/* The range of a member over blocks with attention, or its value in the first layer. */
static range find_range(const bo_model_desc *d, size_t offset)
{
    const cli_blocks list = cli_blocks_of(d);
    const size_t first = member(bo_model_block(d, 0), offset);
    range found = {first, first};
    bool any = false;
    for (size_t i = 0; i < list.count; i++) {
        const size_t value = member(&list.blocks[i], offset);
        if (list.blocks[i].mixer != BO_MIXER_ATTENTION) continue;
        if (!any || value < found.min) found.min = value;
        if (!any || value > found.max) found.max = value;
        any = true;
    }
    return found;
}

/* "8", or "4 to 8". */
static const char *range_text(range r, char out[CLI_RANGE])
{
    if (r.min == r.max)
        snprintf(out, CLI_RANGE, "%zu", r.min);
    else
        snprintf(out, CLI_RANGE, "%zu to %zu", r.min, r.max);
    return out;
}

const char *cli_heads_text(const bo_model_desc *d, char out[CLI_RANGE])
{
    const range heads = find_range(d, offsetof(bo_block, heads));
    char text[CLI_RANGE];
    snprintf(out, CLI_RANGE, "%.40s head%s", range_text(heads, text), heads.max == 1 ? "" : "s");
    return out;
}

const char *cli_head_text(const bo_model_desc *d, const char *before, char out[CLI_HEAD_TEXT])
{
    const range heads = find_range(d, offsetof(bo_block, heads)), keys = find_range(d, offsetof(bo_block, key_heads));
    char text[3][CLI_RANGE];
    const int length = snprintf(out, CLI_HEAD_TEXT, "%s heads of dimension %s", range_text(heads, text[0]),
                                range_text(find_range(d, offsetof(bo_block, head_dim)), text[1]));
    if (keys.min != heads.min || keys.max != heads.max)
        snprintf(out + length, CLI_HEAD_TEXT - (size_t)length, "%s%s key head%s", before, range_text(keys, text[2]),
                 keys.max == 1 ? "" : "s");
    return out;
}

bo_positions cli_positions_of(const bo_model_desc *d)
{
    const cli_blocks list = cli_blocks_of(d);
    for (size_t i = 0; i < list.count; i++)
        if (list.blocks[i].positions != BO_POSITIONS_NONE) return list.blocks[i].positions;
    return BO_POSITIONS_NONE;
}
