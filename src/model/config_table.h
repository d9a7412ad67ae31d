/* How tables of fields of a bo_model_desc are written down. */
#ifndef BO_MODEL_CONFIG_TABLE_H
#define BO_MODEL_CONFIG_TABLE_H

#include <stddef.h>
#include "config.h"

/* name and parse of an enum as functions of a plain number. */
#define NAMED(type, word)                                                                                              \
    static const char *word##_text(unsigned value)                                                                     \
    {                                                                                                                  \
        return bo_##word##_name((type)value);                                                                          \
    }                                                                                                                  \
    static bool word##_parse(const char *text, unsigned *out)                                                          \
    {                                                                                                                  \
        type value;                                                                                                    \
        bool found = bo_##word##_parse(text, &value);                                                                  \
        if (found) *out = (unsigned)value;                                                                             \
        return found;                                                                                                  \
    }

#define PLAIN(key, sort, member)                                                                                       \
    {                                                                                                                  \
        .name = key, .type = sort, .offset = offsetof(bo_model_desc, member)                                           \
    }
#define NEEDED(key, member)                                                                                            \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_SIZE, .offset = offsetof(bo_model_desc, member), .required = true               \
    }
#define ENUM(key, member, word)                                                                                        \
    {                                                                                                                  \
        .name = key, .type = BO_CONFIG_NAME, .offset = offsetof(bo_model_desc, member), .text = word##_text,           \
        .parse = word##_parse                                                                                          \
    }
#define COUNT(fields) (sizeof fields / sizeof *fields)

#endif
