/* Recognizes files and directories that are not models. The message names the format and what to do. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "../io/foreign.h"
#include "files.h"

enum { START = 512 };

#define EXPECTED "a model directory or a file of bo_model_save()"

#define CONVERT                                                                                                        \
    "convert it to a model directory first, with bo_convert() or the command: bochner convert FILE --out DIR"
#define SAVE                                                                                                           \
    "save the model as a directory with safetensors, with the Python package transformers: "                           \
    "model.save_pretrained(\"DIR\", safe_serialization=True)"

static const struct format {
    const char *bytes;
    size_t length;
    const char *name, *advice;
} formats[] = {{"GGUF", 4, "a GGUF model", CONVERT},
               {"24ka", 4, "a llama2.c model", CONVERT},
               {"PK\3\4", 4, "a PyTorch file or another zip archive", SAVE},
               {"\x80\2", 2, "a Python pickle, such as a PyTorch file", SAVE},
               {"\x1f\x8b", 2, "a gzip-compressed file", "decompress it with gunzip"}};

static bool ends_with(const char *name, const char *end)
{
    const size_t length = strlen(name), more = strlen(end);
    return length >= more && strcasecmp(name + length - more, end) == 0;
}

static bo_status refuse(bo_context *context, const char *path, const char *found, const char *advice)
{
    return bo_fail(context, BO_FORMAT, "%s: expected %s, found %s; %s", path, EXPECTED, found, advice);
}

bo_status bo_model_refuse_file(bo_context *context, const char *path)
{
    unsigned char start[START] = {0};
    FILE *file = fopen(path, "rb");
    const size_t size = file ? fread(start, 1, sizeof start, file) : 0;
    if (file) fclose(file);
    /* Safetensors, before the signatures of two bytes, which its length of the header may have. */
    if (size > 8 && start[6] == 0 && start[7] == 0 && start[8] == '{') return BO_OK;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (size >= formats[i].length && memcmp(start, formats[i].bytes, formats[i].length) == 0)
            return refuse(context, path, formats[i].name, formats[i].advice);
    if (ends_with(path, ".onnx"))
        return refuse(context, path, "an ONNX model", "load the directory of the original model from Hugging Face");
    if (ends_with(path, ".json") && size > 0 && start[0] == '{')
        return refuse(context, path, "a JSON file", "load the directory that contains it");
    if (bo_foreign_refuse(context, path, start, size, EXPECTED) != BO_OK) return BO_FORMAT;
    return size > 8 ? refuse(context, path, "another format",
                             "load a model directory; GGUF and llama2.c files are converted by bo_convert() or the "
                             "command: bochner convert FILE --out DIR")
                    : BO_OK;
}

bo_status bo_model_refuse_weights(bo_context *context, const char *path)
{
    const char *slash = strrchr(path, '/');
    char directory[4096];
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (bo_model_holds(directory, "config.json"))
        return refuse(context, path, "the weights of a model directory",
                      "load the directory that contains them and config.json");
    return BO_OK;
}

bo_status bo_model_refuse_directory(bo_context *context, const char *path)
{
    char found[256] = "";
    DIR *listing = opendir(path);
    if (!listing) return BO_OK;
    for (struct dirent *entry; (entry = readdir(listing));)
        if (ends_with(entry->d_name, ".gguf") && (!*found || strcmp(entry->d_name, found) < 0))
            snprintf(found, sizeof found, "%.255s", entry->d_name);
    closedir(listing);
    if (*found)
        return bo_fail(context, BO_IO,
                       "%s: not a model directory: it has no config.json; it contains a GGUF model, %s: convert that "
                       "file first, with bo_convert() or the command: bochner convert FILE --out DIR",
                       path, found);
    return bo_fail(
        context, BO_IO,
        "%s: not a model directory: it has no config.json; bo_model_save(), bochner train --out DIR and Hugging Face "
        "write one",
        path);
}
