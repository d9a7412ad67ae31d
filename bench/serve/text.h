/* Growing text of the client of `bochner bench serve`. */
#ifndef BO_BENCH_SERVE_TEXT_H
#define BO_BENCH_SERVE_TEXT_H

#include "../bench.h"

/* Invariant: bytes[length] is 0 if bytes is not NULL. Empty text may have no buffer. */
typedef struct load_text {
    char *bytes; /* freed with free */
    size_t length, capacity;
} load_text;

/* Out of memory ends the program with a message, as everywhere in the benchmarks. */
void load_text_add(load_text *text, const char *bytes, size_t count);
void load_text_print(load_text *text, const char *format, ...) BO_PRINTF(2, 3); /* at most 255 bytes */
void load_text_json(load_text *text, const char *string);                       /* quoted and escaped */
void load_text_clear(load_text *text);                                          /* keeps the buffer */

#endif
