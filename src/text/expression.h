/* Regular expressions of tokenizers are written for Oniguruma, whose syntax and character classes differ from those of
 * PCRE2 in a few points. */
#ifndef BO_TEXT_EXPRESSION_H
#define BO_TEXT_EXPRESSION_H

#include "buffer.h"

/* Appends the expression in the syntax of PCRE2, and a NUL. BO_UNSUPPORTED: it contains syntax that has no equivalent.
 * where: prefix of the error message. */
bo_status bo_expression_translate(bo_context *context, const char *where, const char *expression, bo_buffer *out);

#endif
