/* Opening of inputs: the kind and the size of a file are checked before anything is read. */
#ifndef BO_IO_INPUT_H
#define BO_IO_INPUT_H

#include "../base/base.h"
#include <sys/stat.h>

/* The limits of one kind of input. `bytes` counts bytes after decompression. */
typedef struct bo_limits {
    uint64_t bytes;
    bool streams; /* pipes and standard input ("-") are accepted; otherwise only regular files are */
    bool raw;     /* gzip is not decompressed */
    bool whole;   /* read into memory as a whole: decompression is limited to BO_MAX_RATIO */
} bo_limits;

/* The maximum ratio of decompression, which applies from BO_RATIO_BYTES of output on. Text and JSON reach about 20:1,
 * the most repetitive logs about 100:1; the maximum of DEFLATE is 1032:1. */
enum { BO_MAX_RATIO = 250, BO_RATIO_BYTES = 64 << 20 };

/* All limits; docs/reference/limits.md lists them. */
extern const bo_limits bo_limits_table;       /* tables, arrays and their labels: read in pieces, of any size */
extern const bo_limits bo_limits_text;        /* corpora and labeled texts */
extern const bo_limits bo_limits_config;      /* config.json, adapter_config.json, companions (model/specials.h) */
extern const bo_limits bo_limits_index;       /* model.safetensors.index.json, which has a line per tensor */
extern const bo_limits bo_limits_tokenizer;   /* tokenizer.json */
extern const bo_limits bo_limits_network;     /* network.json, which contains a schema */
extern const bo_limits bo_limits_record;      /* training.json */
extern const bo_limits bo_limits_metrics;     /* metrics.jsonl, which has a line per report of a run */
extern const bo_limits bo_limits_calibration; /* calibration and law files of plans */
extern const bo_limits bo_limits_result;      /* results of experiments */
extern const bo_limits bo_limits_weights;     /* safetensors: mapped, of any size */

/* Opens a file for reading and checks its kind and size. Never blocks: a pipe without a writer is opened, and its
 * descriptor is non-blocking. */
bo_status bo_input_open(bo_context *context, const char *path, const bo_limits *limits, int *descriptor,
                        struct stat *about);
/* Checks the kind and the size of an open file. */
bo_status bo_input_check(bo_context *context, const char *path, const bo_limits *limits, int descriptor,
                         struct stat *about);
/* Maps an open file of `size` bytes for reading; *out is released with munmap, NULL: the file is empty. */
bo_status bo_input_map(bo_context *context, const char *path, int descriptor, size_t size, void **out);
/* The error for an input of `found` bytes; with `at_least`, of `found` or more. */
bo_status bo_input_too_large(bo_context *context, const char *path, uint64_t found, bool at_least, uint64_t max_bytes);

#endif
