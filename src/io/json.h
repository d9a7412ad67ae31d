/* JSON: read with bo_json under limits of size and depth, written with the functions below. */
#ifndef BO_IO_JSON_H
#define BO_IO_JSON_H

#include "../base/base.h"
#include <bochner/json.h>
#include "json_tree.h"

/* The maximum number of values of a text: this many, and one per BO_JSON_VALUE_BYTES. A value takes 64 bytes of memory
 * or more, but only 2 of text ("0,"). */
enum { BO_JSON_VALUES = 1 << 20, BO_JSON_VALUE_BYTES = 8 };

/* Parses text that is one value, with optional whitespace around it, nested at most `depth` deep. Error messages start
 * with `where`. Freed with bo_json_delete. */
bo_status bo_json_parse(bo_context *context, const char *where, const char *text, size_t length, int depth,
                        bo_json **out);
/* True if a string contains an escaped NUL, at which bo_json would end the string. */
bool bo_json_has_nul(const char *text, size_t length);
/* A whole number below 2^53. */
bool bo_json_size(const bo_json *item, size_t *out);
/* A 64-bit integer: a number below 2^53, or the digits of any integer as text. */
bool bo_json_uint64(const bo_json *item, uint64_t *out);

/* Growing text. After a failed allocation it is empty and `failed` is set, so that one check at the end is enough. */
typedef struct bo_json_text {
    bo_context *context;
    char *bytes; /* NUL-terminated; freed with bo_free */
    size_t length, capacity;
    bool failed;
} bo_json_text;

/* The start of an object with a checksum, which bo_json_seal fills in. The next member starts with a newline. */
#define BO_JSON_SEALED "{\n  \"checksum\": \"" BO_JSON_UNSEALED "\","

void bo_json_raw(bo_json_text *text, const char *raw);
void bo_json_add(bo_json_text *text, const void *bytes, size_t size); /* as they are */
void bo_json_string(bo_json_text *text, const char *string);          /* quoted and escaped */
/* The same for a number of bytes; bytes that are not UTF-8 become the replacement character. */
void bo_json_text_of(bo_json_text *text, const char *bytes, size_t size);
void bo_json_number(bo_json_text *text, double number);
/* From 2^53 on, the digits are written as text, because JSON readers may round such numbers. */
void bo_json_whole(bo_json_text *text, uint64_t number);
/* The digits as text, for fields that often have 64 bits, such as seeds. */
void bo_json_digits(bo_json_text *text, uint64_t number);
/* Fills in the checksum of a text that starts with BO_JSON_SEALED, writes it as bo_file_save does, and frees it. */
bo_status bo_json_text_save(bo_json_text *text, const char *path);

#endif
