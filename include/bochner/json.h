/** @file
 * Numbers and strings as JSON text, and checksums of JSON files. Experimental.
 *
 * The functions do not depend on the locale, allocate nothing and are thread-safe.
 *
 *     char number[32], piece[256];
 *     bo_number_format(0.1, number, sizeof number);
 *     while (*text) fwrite(piece, 1, bo_json_escape(&text, piece, sizeof piece), file);
 */
#ifndef BOCHNER_JSON_H
#define BOCHNER_JSON_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Writes a number as the shortest decimal of 15, 16 or 17 digits that reads back as the same number.
 *
 * An infinity or a NaN is written as "inf", "-inf" or "nan", which is not JSON.
 *
 * @param value      the number
 * @param[out] out   receives the text and a NUL, truncated to `size` bytes
 * @param size       the size of `out`; 32 is always enough
 * @return the length of the whole text without the NUL, as snprintf() returns it
 */
BO_API size_t bo_number_format(double value, char *out, size_t size);

/** Escapes a text for a JSON string, piece by piece.
 *
 * Each call fills `out` with as many whole characters as fit, without quotes and without a NUL. Bytes that are not
 * UTF-8 become the replacement character. Repeat the call until `*text` is at the NUL.
 *
 * @param[in,out] text   the NUL-terminated text; advanced past the characters that were written
 * @param[out] out       receives the escaped text
 * @param size           the size of `out`, at least 6
 * @return the number of bytes written
 */
BO_API size_t bo_json_escape(const char **text, char *out, size_t size);

/** The value of the member `checksum` before bo_json_seal() fills it in. */
#define BO_JSON_UNSEALED "v1:0000000000000000"

/** Fills in the checksum of a JSON object.
 *
 * The text must start with `{`, a newline, and the member ` "checksum": "v1:0000000000000000"` (#BO_JSON_UNSEALED). The
 * digits are replaced by the checksum of all other bytes (docs/reference/files.md).
 *
 * @param[in,out] text   the text of the object
 * @param length         the length of the text
 * @return false if the text does not start with these bytes
 */
BO_API bool bo_json_seal(char *text, size_t length);

/** Verifies the checksum that bo_json_seal() filled in, and reports damage.
 *
 * @param context   the context; NULL: there is no message
 * @param where     the name of the file, for the message
 * @param text      the text of a JSON object
 * @param length    the length of the text
 * @return BO_OK if the checksum matches or the text has none; otherwise BO_FORMAT, with a message that explains what to
 *     do
 */
BO_API bo_status bo_json_check(bo_context *context, const char *where, const char *text, size_t length);

#endif

#ifdef __cplusplus
}
#endif
#endif
