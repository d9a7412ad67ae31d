/* Signatures of foreign file formats. */
#include "foreign.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* How to convert a format, as the end of a message: the file is "FILE". */
#define PANDAS(reader) "convert it to CSV, for example in Python: pandas." reader ".to_csv(\"data.csv\", index=False)"
#define UNPACK         "unpack it and use the file inside"
#define SHEET          "save the sheet as CSV in the spreadsheet program"

typedef struct signature {
    const char *bytes;
    size_t length, at;
    const char *format;
    const char *advice; /* NULL: there is no conversion in one line */
} signature;

static const signature signatures[] = {
    {"PAR1", 4, 0, "a Parquet file", PANDAS("read_parquet(\"FILE\")")},
    {"ARROW1", 6, 0, "an Arrow (Feather) file", PANDAS("read_feather(\"FILE\")")},
    {"FEA1", 4, 0, "a Feather file", PANDAS("read_feather(\"FILE\")")},
    {"ORC", 3, 0, "an ORC file", PANDAS("read_orc(\"FILE\")")},
    {"Obj\1", 4, 0, "an Avro file", "convert it to CSV"},
    {"\x89HDF\r\n\x1a\n", 8, 0, "an HDF5 file", "save the array as .npy with numpy.save"},
    {"CDF\1", 4, 0, "a NetCDF file", "save the array as .npy with numpy.save"},
    {"CDF\2", 4, 0, "a NetCDF file", "save the array as .npy with numpy.save"},
    {"MATLAB 5.0 MAT-file", 19, 0, "a MATLAB file", "save the matrix with writematrix(A, \"data.csv\")"},
    {"SQLite format 3", 16, 0, "a SQLite database",
     "export the table: sqlite3 -header -csv FILE \"SELECT * FROM t\" > data.csv"},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, 0, "an Excel (.xls) or other Microsoft Office file", SHEET},
    {"<stata_dta>", 11, 0, "a Stata file", PANDAS("read_stata(\"FILE\")")},
    {"$FL2", 4, 0, "an SPSS file", PANDAS("read_spss(\"FILE\")")},
    {"RDX2\n", 5, 0, "an R data file", "write it with write.csv in R"},
    {"RDX3\n", 5, 0, "an R data file", "write it with write.csv in R"},
    {"\x89PNG\r\n\x1a\n", 8, 0, "a PNG image", "save the pixels as .npy with numpy.save, one image per row"},
    {"\xff\xd8\xff", 3, 0, "a JPEG image", "save the pixels as .npy with numpy.save, one image per row"},
    {"GIF87a", 6, 0, "a GIF image", NULL},
    {"GIF89a", 6, 0, "a GIF image", NULL},
    {"BZh", 3, 0, "a bzip2-compressed file", "decompress it with bunzip2, or compress it with gzip instead"},
    {"\xfd"
     "7zXZ",
     6, 0, "an xz-compressed file", "decompress it with unxz, or compress it with gzip instead"},
    {"\x28\xb5\x2f\xfd", 4, 0, "a Zstandard-compressed file",
     "decompress it with unzstd, or compress it with gzip instead"},
    {"\x04\x22\x4d\x18", 4, 0, "an LZ4-compressed file", "decompress it with unlz4, or compress it with gzip instead"},
    {"7z\xbc\xaf\x27\x1c", 6, 0, "a 7z archive", UNPACK},
    {"Rar!\x1a\x07", 6, 0, "a RAR archive", UNPACK},
    {"ustar", 5, 257, "a tar archive", UNPACK},
    {"GGUF", 4, 0, "a GGUF model", NULL},
    {"\x7f"
     "ELF",
     4, 0, "a program", NULL},
    {"\xff\xfe", 2, 0, "UTF-16 text", "save it as UTF-8, for example: iconv -f UTF-16 -t UTF-8 FILE > data.csv"},
    {"\xfe\xff", 2, 0, "UTF-16 text", "save it as UTF-8, for example: iconv -f UTF-16 -t UTF-8 FILE > data.csv"},
};

static bool ends_with(const char *path, const char *end)
{
    const size_t length = strlen(path), more = strlen(end);
    return length >= more && strcasecmp(path + length - more, end) == 0;
}

/* `found` in the first bytes of a zip archive, which list the names of its members. */
static bool holds(const void *data, size_t size, const char *found)
{
    const size_t searched = size < 4096 ? size : 4096;
    return memmem(data, searched, found, strlen(found)) != NULL;
}

/* Formats that are zip archives inside. */
static const signature *inside_zip(const char *path, const void *data, size_t size)
{
    static const signature workbook = {.format = "an Excel workbook (.xlsx)", .advice = SHEET},
                           sheet = {.format = "an OpenDocument spreadsheet", .advice = SHEET},
                           arrays = {.format = "a NumPy .npz archive",
                                     .advice = "save one array as .npy: numpy.save(\"data.npy\", "
                                               "numpy.load(\"FILE\")[NAME])"},
                           torch = {.format = "a PyTorch file", .advice = "save the tensor as .npy with numpy.save"},
                           archive = {.format = "a zip archive", .advice = UNPACK};
    if (ends_with(path, ".xlsx") || ends_with(path, ".xlsm") || holds(data, size, "xl/") ||
        holds(data, size, "[Content_Types].xml"))
        return &workbook;
    if (ends_with(path, ".ods") || holds(data, size, "opendocument.spreadsheet")) return &sheet;
    if (ends_with(path, ".npz") || holds(data, size, ".npy")) return &arrays;
    if (ends_with(path, ".pt") || ends_with(path, ".pth") || holds(data, size, "data.pkl")) return &torch;
    return &archive;
}

/* Text does not contain these bytes, so a word at the start of a text is not mistaken for a signature. */
static bool has_control(const unsigned char *data, size_t size)
{
    for (size_t i = 0; i < size && i < 4096; ++i)
        if (data[i] < 9) return true;
    return false;
}

static const signature *find_binary(const char *path, const unsigned char *data, size_t size)
{
    static const signature pickle = {.format = "a Python pickle",
                                     .advice = "save a table with to_csv(\"data.csv\", index=False), or an array with "
                                               "numpy.save"};
    static const signature document = {.format = "a PDF document"};
    static const signature tensors = {.format = "a safetensors file (a model or a feature map)",
                                      .advice = "use `bochner info FILE` to describe it"};
    if (size >= 4 && memcmp(data, "PK\3\4", 4) == 0) return inside_zip(path, data, size);
    if (size >= 5 && memcmp(data, "%PDF-", 5) == 0) return &document; /* may be text at first */
    if (!has_control(data, size)) return NULL;
    for (size_t i = 0; i < sizeof signatures / sizeof *signatures; ++i) {
        const signature *s = &signatures[i];
        if (size >= s->at + s->length && memcmp(data + s->at, s->bytes, s->length) == 0) return s;
    }
    /* protocols 2 to 5, followed by a frame, a global, or the start of a container */
    if (size >= 3 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5 &&
        strchr("\x95"
               "c}](X\x8c",
               data[2]) &&
        data[2])
        return &pickle;
    if (size >= 10 && data[6] == 0 && data[7] == 0 && data[8] == '{' && data[9] == '"') return &tensors;
    return NULL;
}

/* The advice is a command to paste, in a shell or in Python: other characters would need quotes there. */
static bool is_plain(const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    return path[0] != '-' && path[strspn(path, plain)] == 0;
}

/* "PATH: expected a table (…), found a Parquet file; convert it …", with FILE replaced by a plain path. */
static bo_status refuse(bo_context *context, const char *path, const signature *found, const char *expected)
{
    char advice[512] = "";
    const char *from = found->advice, *place = from ? strstr(from, "FILE") : NULL;
    if (place && strlen(path) < 200 && is_plain(path))
        snprintf(advice, sizeof advice, "; %.*s%s%s", (int)(place - from), from, path, place + strlen("FILE"));
    else if (from)
        snprintf(advice, sizeof advice, "; %s", from);
    return bo_fail(context, BO_UNSUPPORTED, "%s: expected %s, found %s%s", path, expected, found->format, advice);
}

bo_status bo_foreign_refuse(bo_context *context, const char *path, const void *data, size_t size, const char *expected)
{
    const signature *found = find_binary(path, data, size);
    return found ? refuse(context, path, found, expected) : BO_OK;
}

static const char *skip_spaces(const char *text, const char *end)
{
    while (text < end && strchr(" \t\r\n", *text) && *text) ++text;
    return text;
}

/* An object with a quoted key, or a list of lists, objects or strings. */
static bool is_json(const char *path, const char *text, const char *end)
{
    const char *first = skip_spaces(text, end);
    if (first == end || (*first != '{' && *first != '[')) return false;
    if (ends_with(path, ".json") || ends_with(path, ".jsonl") || ends_with(path, ".ndjson")) return true;
    const char *second = skip_spaces(first + 1, end);
    return second < end && (*first == '{' ? *second == '"' : *second == '{' || *second == '[');
}

static bool starts_with(const char *text, const char *end, const char *start)
{
    return (size_t)(end - text) >= strlen(start) && strncasecmp(text, start, strlen(start)) == 0;
}

bo_status bo_foreign_refuse_text(bo_context *context, const char *path, const char *text, size_t size,
                                 const char *expected)
{
    static const signature json = {.format = "JSON", .advice = PANDAS("read_json(\"FILE\")")},
                           xml = {.format = "XML", .advice = "convert it to CSV"},
                           html = {.format = "an HTML page", .advice = "download the data file itself"},
                           arff = {.format = "a Weka ARFF file",
                                   .advice = "delete the lines that start with @ or %, and name it .csv"},
                           matrix = {.format = "a Matrix Market file",
                                     .advice = "save the matrix as .npy with numpy.save"};
    const char *end = text + size, *start = skip_spaces(text, end);
    const signature *found = is_json(path, text, end)                                                        ? &json
                             : starts_with(start, end, "<?xml")                                              ? &xml
                             : starts_with(start, end, "<!doctype html") || starts_with(start, end, "<html") ? &html
                             : starts_with(start, end, "@relation")                                          ? &arff
                             : starts_with(start, end, "%%MatrixMarket")                                     ? &matrix
                                                                                                             : NULL;
    return found ? refuse(context, path, found, expected) : BO_OK;
}

bo_status bo_foreign_unknown(bo_context *context, const char *path, const char *expected)
{
    return bo_fail(context, BO_FORMAT, "%s: expected %s, found binary data of an unknown format", path, expected);
}
