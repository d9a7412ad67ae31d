/** @file
 * Conversion of models of other programs to Hugging Face model directories.
 *
 *     bo_convert(context, &(bo_convert_desc){.from = "model.gguf", .to = "model"});
 *     bo_model_load(context, &(bo_source){.path = "model"}, NULL, &model);
 *
 * The result is a directory with config.json, generation_config.json, model.safetensors (or shards and
 * model.safetensors.index.json), tokenizer.json and tokenizer_config.json. The model has the format of its family
 * (`"model_type": "llama"`, …), so other programs can load it too.
 *
 * **Sources**, found by content:
 *
 * - GGUF files, versions 2 and 3, little-endian, of the architectures llama (also of Mistral), qwen2, qwen3, gemma,
 *   gemma3, olmo2, granite, phi2, phi3, gpt2, gptneox, starcoder2 and stablelm, with tensors of the types F32, F16,
 *   BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K, and a tokenizer of SentencePiece pieces or
 *   byte-level BPE.
 * - llama2.c files, versions 0, 1 and 2, with a tokenizer.bin.
 *
 * Whatever the directory cannot express is refused by name: nothing is left out silently.
 *
 * **Memory.** The source is mapped. Tensors are decoded and written in blocks of rows; a matrix of GPT-2, which is
 * transposed, is held as a whole. All files get their names after the last one is complete.
 *
 * **Ownership.** A conversion belongs to the caller. **Threads.** A conversion is used by one thread at a time.
 */
#ifndef BOCHNER_CONVERT_H
#define BOCHNER_CONVERT_H

#include <bochner/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ==== Simple ====================================================================================================== */

/** The type of the numbers of the result. Values are fixed. */
typedef enum bo_convert_dtype {
    BO_CONVERT_DTYPE_SOURCE = 0, /**< the type of each tensor; quantized tensors become float32, which is exact */
    BO_CONVERT_DTYPE_FLOAT32 = 1,
    BO_CONVERT_DTYPE_FLOAT16 = 2, /**< rounded to nearest; larger numbers than 65,504 are refused */
    BO_CONVERT_DTYPE_BFLOAT16 = 3 /**< rounded to nearest */
} bo_convert_dtype;

/** The settings of a conversion. `from` has no default. */
typedef struct bo_convert_desc {
    const char *from;       /**< the file to convert */
    const char *tokenizer;  /**< tokenizer.bin of a llama2.c model; or NULL: the directory gets no tokenizer */
    const char *to;         /**< the directory, which is created if it does not exist; bo_convert() only */
    bo_convert_dtype dtype; /**< the type of the result (default: the type of the source) */
    uint64_t shard_bytes;   /**< the largest size of the tensors of a file (default: 5,000,000,000) */
    uint64_t reserved[4];   /**< must be zero */
} bo_convert_desc;

/** Converts a model. Existing files of the directory are replaced.
 *
 * @param context   the context
 * @param desc      the settings
 * @return BO_OK; BO_IO if a file cannot be read or written; BO_FORMAT if the source is malformed; BO_UNSUPPORTED if it
 *     contains unsupported data; BO_INVALID if a number is outside the range of the type; BO_CANCELED
 */
BO_API bo_status bo_convert(bo_context *context, const bo_convert_desc *desc);

/* ==== Advanced ==================================================================================================== */

/** A source that was read and checked, before its tensors are written. */
typedef struct bo_conversion bo_conversion;

/** The number of tensors and parameters of a type. */
typedef struct bo_conversion_type {
    const char *name;  /**< "F32", "Q4_K", "int8 groups" */
    size_t tensors;    /**< number of tensors */
    double parameters; /**< number of their numbers */
} bo_conversion_type;

/** The contents of a source. The conversion owns the strings. */
typedef struct bo_conversion_info {
    const char *format;          /**< "GGUF version 3", "llama2.c version 0" */
    const char *architecture;    /**< `model_type` of the result: "llama" */
    const char *tokenizer;       /**< "SentencePiece BPE" or "byte-level BPE"; NULL: none */
    size_t layers;               /**< number of layers */
    size_t width;                /**< size of the hidden states */
    size_t vocab;                /**< rows of the embedding */
    size_t context;              /**< longest context */
    size_t tokens;               /**< tokens of the tokenizer; 0: none */
    double parameters;           /**< numbers of the result */
    double bytes;                /**< bytes of the tensors of the result */
    size_t types;                /**< number of entries in `type` */
    bo_conversion_type type[16]; /**< the types of the source, in the order of their first tensors */
    bool runs;                   /**< Bochner can run the result; false: it is for other programs only */
    uint64_t reserved[4];        /**< zero */
} bo_conversion_info;

/* ==== Experimental ================================================================================================ */

#ifdef BO_EXPERIMENTAL

/** Reads and checks a source. No file is written.
 *
 * @param context    the context
 * @param desc       the settings
 * @param[out] info  the contents of the source, with strings owned by the conversion; or NULL
 * @param[out] out   the conversion; release it with bo_conversion_close()
 * @return as bo_convert()
 */
BO_API bo_status bo_conversion_open(bo_context *context, const bo_convert_desc *desc, bo_conversion_info *info,
                                    bo_conversion **out);

/** Writes the directory. Existing files with the same names are replaced.
 *
 * @param context      the context
 * @param conversion   the conversion
 * @param directory       the directory, which is created if it does not exist
 * @return as bo_convert()
 */
BO_API bo_status bo_conversion_write(bo_context *context, const bo_conversion *conversion, const char *directory);

/** Releases a conversion.
 *
 * @param conversion   the conversion, or NULL
 */
BO_API void bo_conversion_close(bo_conversion *conversion);

#endif

#ifdef __cplusplus
}
#endif
#endif
