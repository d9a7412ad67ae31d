/* Bochner: pieces of JSON text as the library writes them. Experimental. Nothing here depends on the locale. */
#ifndef BOCHNER_JSON_H
#define BOCHNER_JSON_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/* The shortest decimal of 15, 16 or 17 digits that reads back as the same number, NUL-terminated, as snprintf writes
 * it: returns the length of the whole text and writes at most `size` bytes of it; 32 are always enough. A number that
 * is not finite becomes "inf", "-inf" or "nan", which JSON does not have. */
BO_API size_t bo_number_format(double value, char *out, size_t size);

/* Escapes a NUL-terminated text for a JSON string, piece by piece: fills `out` with as many whole characters as fit
 * into `size` bytes (at least 6), without quotes and without a NUL, advances *text past them and returns the number of
 * bytes written. Bytes that are not UTF-8 become the replacement character.
 *
 *     char piece[256];
 *     while (*text) fwrite(piece, 1, bo_json_escape(&text, piece, sizeof piece), file); */
BO_API size_t bo_json_escape(const char **text, char *out, size_t size);

#endif

#ifdef __cplusplus
}
#endif
#endif
