/* Names of the enumerations of this module. The name of an invalid value is NULL. An unknown name leaves *out
 * unchanged. Outside the library, bo_enum_name and bo_enum_parse (api/enums.c) find them. */
#ifndef BO_ATTENTION_ENUMS_H
#define BO_ATTENTION_ENUMS_H

#include <bochner/attention.h>

const char *bo_attention_kind_name(bo_attention_kind value);
bool bo_attention_kind_parse(const char *name, bo_attention_kind *out);
/* The presets of bo_attention_preset, in order, and the preset of a name or alias; NULL if it is unknown. */
const char *bo_attention_preset_name(size_t index);
bool bo_attention_preset_parse(const char *name, size_t *out);
const char *bo_attention_preset_find(const char *name);
const char *bo_gate_name(bo_gate value);
bool bo_gate_parse(const char *name, bo_gate *out);
const char *bo_proposal_name(bo_proposal value);
bool bo_proposal_parse(const char *name, bo_proposal *out);

#endif
