/* Companions: text files such as config.json, whose checksums are recorded in the metadata of the safetensors file that
 * was written with them (BO_TENSORS_COMPANION). */
#ifndef BO_IO_COMPANIONS_H
#define BO_IO_COMPANIONS_H

#include "../base/base.h"

/* BO_FORMAT if a file beside the safetensors file `path` is missing or has another checksum than the recorded one. For
 * files that nobody edits, as those of checkpoints; bo_tensors_compare is for files that may be edited. */
bo_status bo_companions_check(bo_context *context, const char *path);

#endif
