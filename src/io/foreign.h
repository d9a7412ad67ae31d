/* Files in formats that the library does not read, recognized by their first bytes and their names, so that the message
 * can name the format and a way to convert the file. */
#ifndef BO_IO_FOREIGN_H
#define BO_IO_FOREIGN_H

#include "../base/base.h"

/* The formats that a reader expects, for its message. */
#define BO_READABLE_TABLES                                                                                             \
    "a table (CSV, TSV, .npy, libsvm, IDX or whitespace-separated values, optionally gzip-compressed)"
#define BO_READABLE_TEXT "text (plain text or JSON Lines, optionally gzip-compressed)"

/* Fails with BO_UNSUPPORTED if `data`, the start of a file, has the signature of a foreign binary format. */
bo_status bo_foreign_refuse(bo_context *context, const char *path, const void *data, size_t size, const char *expected);
/* The same for text formats that are not tables: JSON, XML and others. */
bo_status bo_foreign_refuse_text(bo_context *context, const char *path, const char *text, size_t size,
                                 const char *expected);
/* Fails with BO_FORMAT: `path` is binary data without a known signature. */
bo_status bo_foreign_unknown(bo_context *context, const char *path, const char *expected);

#endif
