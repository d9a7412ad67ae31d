/* Companions: text files such as config.json, whose checksums are recorded in the metadata of the safetensors file that
 * was written with them (BO_TENSORS_COMPANION). */
#ifndef BO_IO_COMPANIONS_H
#define BO_IO_COMPANIONS_H

#include "../base/base.h"

/* BO_FORMAT if a file next to the safetensors file `path` is missing or does not match its recorded checksum. For files
 * that nobody edits, such as checkpoints; bo_tensors_compare is for files that may be edited. */
bo_status bo_companions_check(bo_context *context, const char *path);

#endif
