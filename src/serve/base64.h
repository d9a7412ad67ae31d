/* Base64 (RFC 4648). */
#ifndef BO_SERVE_BASE64_H
#define BO_SERVE_BASE64_H

#include "../io/json.h"

/* Appends bytes as base64, in quotes. */
void bo_base64_write(bo_json_text *out, const void *bytes, size_t size);
/* False: the text is not base64. `out` must hold 3 bytes per 4 characters. */
bool bo_base64_read(const char *text, unsigned char *out, size_t *size);

#endif
