/* Every format, and the ways in which files can be broken. */
#include "io/reader.h"
#include "io/output.h"
#include "files.h"
#include <fcntl.h>

/* The whole file as doubles; the caller frees it. */
static double *read_all(test_directory *directory, const char *path, bo_format format, size_t *rows, size_t *columns)
{
    bo_reader *reader;
    assert_ok(directory->context, bo_reader_open(directory->context, &(bo_source){.path = path}, format, 0, &reader));
    double *all = NULL;
    *rows = 0;
    *columns = bo_reader_describe(reader)->columns;
    for (;;) {
        bo_data_block block;
        assert_ok(directory->context, bo_reader_next(directory->context, reader, 3, &block));
        if (block.rows == 0) break;
        assert_int_equal(block.first_row, *rows);
        all = realloc(all, (*rows + block.rows) * *columns * sizeof *all);
        memcpy(all + *rows * *columns, block.cells, block.rows * *columns * sizeof *all);
        *rows += block.rows;
    }
    bo_reader_close(reader);
    return all;
}

static void expect(test_directory *directory, const char *path, bo_format format, size_t rows, size_t columns,
                   const double *values)
{
    size_t r, c;
    double *all = read_all(directory, path, format, &r, &c);
    assert_int_equal(r, rows);
    assert_int_equal(c, columns);
    for (size_t i = 0; i < rows * columns; ++i)
        if (!(all[i] == values[i] || (isnan(all[i]) && isnan(values[i]))))
            fail_msg("%s: cell %zu is %g, not %g", path, i, all[i], values[i]);
    free(all);
}

/* Opening or reading fails with this message. */
static void refuse(test_directory *directory, const char *path, bo_format format, bo_status expected,
                   const char *message)
{
    bo_reader *reader;
    bo_status status = bo_reader_open(directory->context, &(bo_source){.path = path}, format, 0, &reader);
    while (status == BO_OK) {
        bo_data_block block;
        status = bo_reader_next(directory->context, reader, 100, &block);
        if (status == BO_OK && block.rows == 0) fail_msg("%s was read to the end", path);
    }
    bo_reader_close(reader);
    assert_fails(directory->context, expected, message, status);
    assert_non_null(strstr(bo_context_error(directory->context), directory->path)); /* the message names the file */
}

static const double six[] = {1, 2, 3, 4, 5, 6};

static void csv_shapes(void **state)
{
    test_directory *f = *state;
    expect(f, test_text(f, "a.csv", "1,2,3\n4,5,6\n"), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.csv", "1;2;3\n4;5;6"), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.csv", "1\t2\t3\r\n4\t5\t6\r\n"), BO_FORMAT_CSV, 2, 3, six);
    expect(f,
           test_text(f, "a.csv",
                     "\xef\xbb\xbf"
                     "1, 2 ,3\n\n4,\"5\", \"6\" \n\n"),
           BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.csv", "a,b,c\n1,2,3\n4,5,6\n"), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.txt", "  1 2\t3  \n# note\n4  5 6\n"), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.txt", "a b c\n1 2 3\n4 5 6\n"), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_text(f, "a.txt", "1\n2\n3\n4\n5\n6\n"), BO_FORMAT_AUTO, 6, 1, six);
    const double gaps[] = {1, NAN, NAN, NAN, NAN, 2};
    expect(f, test_text(f, "a.csv", "1,,NA\nnull,?,2\n"), BO_FORMAT_AUTO, 2, 3, gaps);
    expect(f, test_text(f, "a.tsv", "1\t\tNA\nnull\t?\t2\n"), BO_FORMAT_AUTO, 2, 3, gaps);
    expect(f, test_text(f, "a.csv", "7\n"), BO_FORMAT_AUTO, 1, 1, (double[]){7});
}

static void csv_quotes(void **state)
{
    test_directory *f = *state;
    const char *path = test_text(
        f, "q.csv", "name,\"say \"\"hi\"\"\",n\n\"a, b\",\"two\nlines\",1\n\"x\"\"y\",5\" pipe,2\n\n\"\",\"Z\xe9\",3");
    bo_reader *reader;
    bo_data_block block;
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 0, &reader));
    assert_string_equal(bo_reader_column(reader, 1), "say \"hi\"");
    for (int pass = 0; pass < 2; ++pass) {
        assert_ok(f->context, bo_reader_next(f->context, reader, 100, &block));
        assert_int_equal(block.rows, 3);
        assert_string_equal(block.text[0], "a, b");
        assert_string_equal(block.text[1], "two\nlines");
        assert_string_equal(block.text[3], "x\"y");
        assert_string_equal(block.text[4], "5\" pipe");
        assert_null(block.text[6]);
        assert_true(isnan(block.cells[6]));
        assert_string_equal(block.text[7], "Z\xc3\xa9"); /* Latin-1 becomes UTF-8 */
        assert_true(block.cells[8] == 3);
        assert_int_equal(block.lines[0], 2);
        assert_int_equal(block.lines[1], 4);
        assert_int_equal(block.lines[2], 6);
        assert_ok(f->context, bo_reader_rewind(f->context, reader));
    }
    bo_reader_close(reader);
}

static void csv_headers(void **state)
{
    test_directory *f = *state;
    static const struct {
        const char *text;
        bool header;
    } cases[] = {{"a,b\n1,x\n2,y\n", true},  {"5.1,setosa\n4.9,setosa\n", false},
                 {"cat\ndog\ncat\n", false}, {"kind\ncat\ndog\n", true},
                 {"a,b\nx,y\n", true},       {"T,2,8\nI,5,12\n", false},
                 {"y\n1\n2\n", true},        {"1,2\n3,x\n", false},
                 {"NA,2\n3,4\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        bo_reader *reader;
        assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = test_text(f, "h.csv", cases[i].text)},
                                             BO_FORMAT_AUTO, 0, &reader));
        if ((bo_reader_column(reader, 0) != NULL) != cases[i].header) fail_msg("header of '%s'", cases[i].text);
        bo_reader_close(reader);
    }
}

static void csv_refused(void **state)
{
    test_directory *f = *state;
    refuse(f, test_text(f, "r.csv", "a,b,c\n1,2,3\n4,5\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 3: expected 3 columns, as in the first row, found 2");
    refuse(f, test_text(f, "r.csv", "1,2\n3,4,5\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 2: expected 2 columns, as in the first row, found 3");
    refuse(f, test_text(f, "r.txt", "1 2\n3 4 5\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 2: expected 2 columns, as in the first row, found 3");
    refuse(f, test_text(f, "r.csv", "a,b,a\n1,2,3\n"), BO_FORMAT_AUTO, BO_FORMAT, "has 'a' twice, in columns 0 and 2");
    refuse(f, test_text(f, "r.csv", "a,b\n1,\"2\n3,4\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 2: expected a closing quote");
    refuse(f, test_text(f, "r.csv", "a,b\n1,2\n\"1\"x,2\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 3, column 'a': expected a delimiter after the closing quote");
    refuse(f, test_text(f, "e.csv", ""), BO_FORMAT_AUTO, BO_FORMAT, "is empty");
    refuse(f, test_text(f, "e.csv", " \n\r\n"), BO_FORMAT_AUTO, BO_FORMAT, "is empty");
    refuse(f, test_write(f, "z.csv", "a\0b,1\n", 6), BO_FORMAT_AUTO, BO_FORMAT,
           "found binary data of an unknown format");
    refuse(f, test_write(f, "z.zip", "PK\3\4abcd", 8), BO_FORMAT_AUTO, BO_UNSUPPORTED, "found a zip archive");
    refuse(f, test_path(f, "absent.csv"), BO_FORMAT_AUTO, BO_IO, "No such file");
    refuse(f, f->path, BO_FORMAT_AUTO, BO_IO, "directory");
}

/* Formats that are not read: the message names the format, the formats that are read, and a conversion. */
static void foreign_formats(void **state)
{
    test_directory *f = *state;
    static const struct {
        const char *name, *bytes;
        size_t size;
        const char *expected;
    } cases[] = {
        {"a.parquet", "PAR1\x15\x04\x15\x00", 8, "found a Parquet file; convert it to CSV"},
        {"b.feather", "ARROW1\0\0", 8, "found an Arrow (Feather) file"},
        {"c.xlsx", "PK\3\4\x14\0\6\0\x08\0[Content_Types].xml", 29,
         "found an Excel workbook (.xlsx); save the sheet as CSV"},
        {"d.npz", "PK\3\4\x14\0\0\0\0\0x.npy", 15, "found a NumPy .npz archive; save one array"},
        {"e.xls", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", 10, "found an Excel (.xls)"},
        {"f.db", "SQLite format 3\0\x10\0", 18, "found a SQLite database; export the table"},
        {"g.h5", "\x89HDF\r\n\x1a\n\0\0", 10, "found an HDF5 file"},
        {"h.pkl", "\x80\x04\x95\x10\0\0\0", 7, "found a Python pickle"},
        {"i.pdf", "%PDF-1.7\n%\xe2\xe3\n1 0 obj", 20, "found a PDF document"},
        {"j.png", "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "found a PNG image"},
        {"k.jpg", "\xff\xd8\xff\xe0\0\x10JFIF", 10, "found a JPEG image"},
        {"l.bz2", "BZh91AY&SY\1\2", 12, "found a bzip2-compressed file; decompress it with bunzip2"},
        {"m.zst", "\x28\xb5\x2f\xfd\4\0", 6, "found a Zstandard-compressed file"},
        {"n.xz",
         "\xfd"
         "7zXZ\0\0\4",
         8, "found an xz-compressed file"},
        {"o.txt",
         "\xff\xfe"
         "1\0,\0"
         "2\0\n\0",
         10, "found UTF-16 text; save it as UTF-8"},
        {"p.model", "\x10\0\0\0\0\0\0\0{\"a\": 1}", 16, "found a safetensors file"},
        {"q.json", "[1, 2]\n", 7, "found JSON; convert it to CSV"},
        {"r.csv", "{\"price\": 3}\n", 13, "found JSON"},
        {"s.html", "<!DOCTYPE html>\n<p>", 19, "found an HTML page"},
        {"t.arff", "@relation iris\n", 15, "found a Weka ARFF file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        const char *path = test_write(f, cases[i].name, cases[i].bytes, cases[i].size);
        refuse(f, path, BO_FORMAT_AUTO, BO_UNSUPPORTED, cases[i].expected);
        refuse(f, path, BO_FORMAT_AUTO, BO_UNSUPPORTED, "expected a table (CSV, TSV, .npy, libsvm, IDX");
    }
    /* the advice is a command to paste: the name of the file must not change it */
    refuse(f, test_write(f, "a $(b).db", "SQLite format 3\0\x10\0", 18), BO_FORMAT_AUTO, BO_UNSUPPORTED,
           "sqlite3 -header -csv FILE \"SELECT");
    /* text that looks like a signature */
    static const char *const texts[] = {"ORC,BZh\n1,2\n", "GIF89a,PAR1\n1,2\n", "[a],b\n1,2\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
        bo_reader *reader;
        assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = test_text(f, "w.csv", texts[i])},
                                             BO_FORMAT_AUTO, 0, &reader));
        bo_reader_close(reader);
    }
    refuse(f, test_text(f, "x.npy", "1,2\n"), BO_FORMAT_NPY, BO_FORMAT, "expected a NumPy .npy file");
    refuse(f, test_write(f, "x.npy", "PAR1\0\0", 6), BO_FORMAT_NPY, BO_UNSUPPORTED,
           "expected a NumPy .npy file, found a Parquet file");
}

static void libsvm(void **state)
{
    test_directory *f = *state;
    const double cells[] = {1, 0.5, 0, 2, -1, 0, 0, 0, 1, 0, 3, 0};
    const char *path = test_text(f, "a.svm", "# first\n+1 1:0.5 3:2 # note\n-1\n1 qid:7 2:3 \n");
    expect(f, path, BO_FORMAT_AUTO, 3, 4, cells);
    bo_reader *reader;
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 9, &reader));
    assert_int_equal(bo_reader_describe(reader)->columns, 9);
    assert_string_equal(bo_reader_column(reader, 0), "label");
    bo_reader_close(reader);
    refuse(f, test_text(f, "b.svm", "1 1:1\n1 0:1\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "line 2: expected indices that start at 1, found '0:1'");
    refuse(f, test_text(f, "b.svm", "1 2:1 1:1\n"), BO_FORMAT_AUTO, BO_FORMAT,
           "expected ascending indices, found '1:1'");
    refuse(f, test_text(f, "b.svm", "1 2:1 2:1\n"), BO_FORMAT_AUTO, BO_FORMAT, "expected each index once");
    refuse(f, test_text(f, "b.svm", "1 99999999999999999999:1\n"), BO_FORMAT_AUTO, BO_FORMAT, "at most 4194303");
    refuse(f, test_text(f, "b.svm", "1,2 1:1\n"), BO_FORMAT_AUTO, BO_FORMAT, "expected one label per line");
    refuse(f, test_text(f, "b.svm", "x 1:1\n"), BO_FORMAT_LIBSVM, BO_FORMAT, "expected a number as label");
    refuse(f, test_text(f, "b.svm", "1 1:1\n1 1:x\n"), BO_FORMAT_LIBSVM, BO_FORMAT,
           "line 2: expected a number after the colon, found '1:x'");
    refuse(f, test_text(f, "b.svm", "1 1:1\n1 5\n"), BO_FORMAT_LIBSVM, BO_FORMAT, "expected index:value, found '5'");
}

static void npy_types(void **state)
{
    test_directory *f = *state;
    char header[128];
#define ARRAY(descr, type)                                                                                             \
    do {                                                                                                               \
        const type values[] = {1, 2, 3, 4, 5, 6};                                                                      \
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }\n", descr);        \
        expect(f, test_npy(f, "a.npy", header, values, sizeof values), BO_FORMAT_AUTO, 2, 3, six);                     \
    } while (0)
    ARRAY("<f4", float);
    ARRAY("<f8", double);
    ARRAY("|i1", int8_t);
    ARRAY("|u1", uint8_t);
    ARRAY("<i2", int16_t);
    ARRAY("<u2", uint16_t);
    ARRAY("<i4", int32_t);
    ARRAY("<u4", uint32_t);
    ARRAY("<i8", int64_t);
    ARRAY("=u8", uint64_t);
#undef ARRAY
    const unsigned char halves[] = {0, 0x3c, 0, 0xc0}, big_i2[] = {0, 1, 0xff, 0xfe},
                        big_f4[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
    const unsigned char big_f8[] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0};
    const double one[] = {1, -2};
    expect(f, test_npy(f, "a.npy", "{'descr':'<f2','fortran_order':False,'shape':(2,)}", halves, 4), BO_FORMAT_AUTO, 2,
           1, one);
    expect(f, test_npy(f, "a.npy", "{'descr':'>i2','fortran_order':False,'shape':(2,)}", big_i2, 4), BO_FORMAT_AUTO, 2,
           1, one);
    expect(f, test_npy(f, "a.npy", "{'descr':'>f4','fortran_order':False,'shape':(2,1)}", big_f4, 8), BO_FORMAT_AUTO, 2,
           1, one);
    expect(f, test_npy(f, "a.npy", "{'descr':'>f8','fortran_order':True,'shape':(2,)}", big_f8, 16), BO_FORMAT_AUTO, 2,
           1, one);
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6}, columns[] = {1, 4, 2, 5, 3, 6};
    expect(f, test_npy(f, "a.npy", "{'shape':(2,3,1),'descr':'|u1','fortran_order':False}", bytes, 6), BO_FORMAT_AUTO,
           2, 3, six);
    expect(f, test_npy(f, "a.npy", "{'shape':(2,3),'descr':'|u1','fortran_order':True}", columns, 6), BO_FORMAT_AUTO, 2,
           3, six);
}

static void npy_version_two(void **state)
{
    test_directory *f = *state;
    static const char header[] = "{'shape':(6,),'descr':'|u1','fortran_order':False}";
    unsigned char file[128] = "\x93NUMPY\x02";
    size_t length = sizeof header - 1;
    file[8] = (unsigned char)length;
    memcpy(file + 12, header, length);
    for (unsigned char i = 0; i < 6; ++i) file[12 + length + i] = (unsigned char)(i + 1);
    for (unsigned char version = 2; version <= 3; ++version) {
        file[6] = version;
        expect(f, test_write(f, "v.npy", file, 12 + length + 6), BO_FORMAT_AUTO, 6, 1, six);
    }
    file[6] = 4;
    refuse(f, test_write(f, "v.npy", file, 12 + length + 6), BO_FORMAT_AUTO, BO_FORMAT,
           "expected .npy version 1, 2 or 3, found 4");
    file[6] = 2;
    file[11] = 0x7f;
    refuse(f, test_write(f, "v.npy", file, 12 + length + 6), BO_FORMAT_AUTO, BO_FORMAT, "more than the maximum");
}

static void npy_refused(void **state)
{
    test_directory *f = *state;
    const float values[6] = {1};
    static const struct {
        const char *header, *message;
        size_t bytes;
        bo_status status;
    } cases[] = {
        {"{'descr':'<f4','fortran_order':False,'shape':(2,3)}", "truncated", 20, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(2,3)}", "truncated", 0, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(2,2)}", "8 bytes more", 24, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(60000000000000000,100)}", "more than a file can hold", 24,
         BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(2,72057594037927935,72057594037927935)}", "too large", 24,
         BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(99999999999999999999,2)}", "too large", 24, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(2,0)}", "expected an array with columns", 0, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':()}", "rank 0", 4, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(-1,2)}", "expected integers in shape", 24, BO_FORMAT},
        {"{'descr':'|O','fortran_order':False,'shape':(2,3)}", "found '|O'", 24, BO_UNSUPPORTED},
        {"{'descr':'<c8','fortran_order':False,'shape':(3,)}", "found '<c8'", 24, BO_UNSUPPORTED},
        {"{'descr':[('a','<f4')],'fortran_order':False,'shape':(6,)}", "structured", 24, BO_UNSUPPORTED},
        {"{'descr':'<f4','fortran_order':True,'shape':(1,2,3)}", "Fortran", 24, BO_UNSUPPORTED},
        {"{'descr':'<f4','fortran_order':Maybe,'shape':(6,)}", "expected True or False", 24, BO_FORMAT},
        {"{'descr':'<f4','shape':(6,)}", "missing", 24, BO_FORMAT},
        {"{'descr':'<f4','descr':'<f8','fortran_order':False,'shape':(6,)}", "repeated", 24, BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(6,)} import os", "expected the end of the header", 24,
         BO_FORMAT},
        {"{'descr':'<f4','fortran_order':False,'shape':(6,", "malformed", 24, BO_FORMAT},
        {"['descr']", "dictionary", 24, BO_FORMAT},
        {"", "dictionary", 24, BO_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
        refuse(f, test_npy(f, "n.npy", cases[i].header, values, cases[i].bytes), BO_FORMAT_AUTO, cases[i].status,
               cases[i].message);
    refuse(f, test_write(f, "n.npy", "\x93NUMPY\x01\x00\x76", 9), BO_FORMAT_AUTO, BO_FORMAT, "truncated");
    refuse(f, test_write(f, "n.npy", "\x93NUMPY\x01\x00\x76\x00{", 11), BO_FORMAT_AUTO, BO_FORMAT, "truncated");
}

static void idx(void **state)
{
    test_directory *f = *state;
    const unsigned char u8[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6};
    const unsigned char i16[] = {0, 0, 0x0b, 1, 0, 0, 0, 2, 0, 1, 0xff, 0xfe};
    const unsigned char f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 2, 0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
    const unsigned char i8[] = {0, 0, 0x09, 1, 0, 0, 0, 2, 1, 0xfe};
    const unsigned char i32[] = {0, 0, 0x0c, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe};
    const unsigned char f64[] = {0, 0, 0x0e, 1, 0, 0, 0, 2, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0};
    const unsigned char huge[] = {0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const unsigned char type[] = {0, 0, 0x0a, 1, 0, 0, 0, 1, 1}, rank[] = {0, 0, 8, 0, 1};
    expect(f, test_write(f, "a-idx3", u8, sizeof u8), BO_FORMAT_AUTO, 2, 3, six);
    expect(f, test_write(f, "a-idx1", i16, sizeof i16), BO_FORMAT_AUTO, 2, 1, (double[]){1, -2});
    expect(f, test_write(f, "a-idx1", f32, sizeof f32), BO_FORMAT_AUTO, 2, 1, (double[]){1, -2});
    expect(f, test_write(f, "a-idx1", i8, sizeof i8), BO_FORMAT_AUTO, 2, 1, (double[]){1, -2});
    expect(f, test_write(f, "a-idx1", i32, sizeof i32), BO_FORMAT_AUTO, 2, 1, (double[]){1, -2});
    expect(f, test_write(f, "a-idx1", f64, sizeof f64), BO_FORMAT_AUTO, 2, 1, (double[]){1, -2});
    expect(f, test_gzip(f, "a-idx3.gz", u8, sizeof u8), BO_FORMAT_AUTO, 2, 3, six);
    refuse(f, test_write(f, "b-idx3", u8, sizeof u8 - 1), BO_FORMAT_AUTO, BO_FORMAT, "truncated");
    refuse(f, test_write(f, "b-idx3", u8, 9), BO_FORMAT_AUTO, BO_FORMAT, "truncated");
    refuse(f, test_gzip(f, "b-idx3.gz", u8, sizeof u8 - 1), BO_FORMAT_AUTO, BO_FORMAT, "the file ends in row 1");
    refuse(f, test_write(f, "b-idx3", huge, sizeof huge), BO_FORMAT_AUTO, BO_FORMAT, "too large");
    refuse(f, test_write(f, "b-idx", type, sizeof type), BO_FORMAT_AUTO, BO_FORMAT, "found 0x0a");
    refuse(f, test_write(f, "b-idx", "\1\0\10\1", 4), BO_FORMAT_IDX, BO_FORMAT, "expected an IDX file");
    refuse(f, test_write(f, "b-idx", u8, 3), BO_FORMAT_IDX, BO_FORMAT, "expected an IDX file");
    refuse(f, test_write(f, "b-idx", rank, sizeof rank), BO_FORMAT_AUTO, BO_FORMAT, "rank 0");
}

static void gzip(void **state)
{
    test_directory *f = *state;
    static const char text[] = "1,2,3\n4,5,6\n";
    unsigned char bytes[512];
    const char *path = test_gzip(f, "a.csv.gz", text, strlen(text));
    expect(f, path, BO_FORMAT_AUTO, 2, 3, six);
    FILE *file = fopen(path, "rb");
    size_t size = fread(bytes, 1, 200, file);
    fclose(file);
    for (size_t cut = 2; cut < size; ++cut)
        refuse(f, test_write(f, "c.csv.gz", bytes, cut), BO_FORMAT_AUTO, BO_FORMAT, "gzip data is truncated");
    bytes[size - 6] ^= 1; /* in the checksum */
    refuse(f, test_write(f, "c.csv.gz", bytes, size), BO_FORMAT_AUTO, BO_FORMAT, "incorrect data check");
    bytes[size - 6] ^= 1;
    memcpy(bytes + size, "garbage", 7);
    refuse(f, test_write(f, "c.csv.gz", bytes, size + 7), BO_FORMAT_AUTO, BO_FORMAT,
           "expected the end of the file after the gzip data");
    memset(bytes + size, 0, 20); /* padding is allowed */
    expect(f, test_write(f, "c.csv.gz", bytes, size + 20), BO_FORMAT_AUTO, 2, 3, six);
    memcpy(bytes + size, bytes, size); /* two members form one file */
    expect(f, test_write(f, "c.csv.gz", bytes, 2 * size), BO_FORMAT_AUTO, 4, 3,
           (double[]){1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
    /* The end of a binary file is checked too: a wrong checksum, and an extra byte. */
    const unsigned char more[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2, 3};
    refuse(f, test_gzip(f, "m-idx1.gz", more, sizeof more), BO_FORMAT_AUTO, BO_FORMAT,
           "more bytes than its header declares");
    path = test_gzip(f, "m-idx1.gz", more, sizeof more - 1);
    file = fopen(path, "rb");
    size = fread(bytes, 1, 200, file);
    fclose(file);
    bytes[size - 6] ^= 1;
    refuse(f, test_write(f, "m-idx1.gz", bytes, size), BO_FORMAT_AUTO, BO_FORMAT, "incorrect data check");
    /* A header that declares more than DEFLATE can expand to. */
    const unsigned char lie[] = {0, 0, 8, 2, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0xff, 0xff};
    refuse(f, test_gzip(f, "l-idx2.gz", lie, sizeof lie), BO_FORMAT_AUTO, BO_FORMAT, "truncated");
    /* Fortran order cannot be read from a stream. */
    const char *npy = test_npy(f, "f.npy", "{'descr':'|u1','fortran_order':True,'shape':(2,3)}", "\1\4\2\5\3\6", 6);
    file = fopen(npy, "rb");
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    refuse(f, test_gzip(f, "f.npy.gz", bytes, size), BO_FORMAT_AUTO, BO_UNSUPPORTED, "Fortran order");
}

typedef struct byte_source {
    const char *next;
} byte_source;

static bo_status read_byte(void *user, void *to, size_t capacity, size_t *count)
{
    byte_source *left = user;
    *count = *left->next && capacity ? 1 : 0;
    if (*count) *(char *)to = *left->next++;
    return BO_OK;
}

/* Memory and callbacks are read as files are. */
static void sources(void **state)
{
    static const char text[] = "a,b\n1,2\n3,4\n";
    test_directory *f = *state;
    byte_source left = {text};
    const bo_source all[] = {{.bytes = text, .size = sizeof text - 1},
                             {.read = read_byte, .user = &left, .name = "letters"}};
    for (size_t i = 0; i < 2; ++i) {
        bo_reader *reader;
        bo_data_block block;
        assert_ok(f->context, bo_reader_open(f->context, &all[i], BO_FORMAT_AUTO, 0, &reader));
        assert_string_equal(bo_reader_describe(reader)->path, i ? "letters" : "memory");
        assert_true(bo_reader_describe(reader)->rows == SIZE_MAX);
        for (int pass = 0; pass < 2; ++pass) {
            assert_ok(f->context, bo_reader_next(f->context, reader, 10, &block));
            assert_true(block.rows == 2 && block.columns == 2 && block.cells[3] == 4);
            assert_ok(f->context, bo_reader_rewind(f->context, reader));
        }
        assert_string_equal(bo_reader_column(reader, 1), "b");
        bo_reader_close(reader);
    }
}

static void seeking(void **state)
{
    test_directory *f = *state;
    float values[300];
    for (int i = 0; i < 300; ++i) values[i] = (float)i;
    const char *path = test_path(f, "s.npy");
    assert_ok(f->context, bo_npy_save_f32(f->context, path, 100, 3, values));
    bo_reader *reader;
    bo_data_block block;
    size_t rows;
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 0, &reader));
    const bo_reader_info *info = bo_reader_describe(reader);
    assert_true(bo_reader_rows(reader, &rows) && rows == 100 && info->rows == 100 && info->columns == 3);
    assert_true(info->format == BO_FORMAT_NPY && strcmp(info->path, path) == 0);
    assert_ok(f->context, bo_reader_seek(f->context, reader, 98));
    assert_ok(f->context, bo_reader_next(f->context, reader, 10, &block));
    assert_int_equal(block.rows, 2);
    assert_int_equal(block.first_row, 98);
    assert_true(block.cells[0] == 294);
    assert_fails(f->context, BO_INVALID, "found 101", bo_reader_seek(f->context, reader, 101));
    bo_reader_close(reader);
    assert_ok(f->context, bo_reader_open(f->context, &(bo_source){.path = test_text(f, "s.csv", "1,2\n")},
                                         BO_FORMAT_AUTO, 0, &reader));
    assert_fails(f->context, BO_UNSUPPORTED, "out of order", bo_reader_seek(f->context, reader, 0));
    bo_reader_close(reader);
}

/* A record longer than every buffer, and many rows over many refills. */
static void long_records(void **state)
{
    test_directory *f = *state;
    const size_t columns = 200000, rows = 3;
    char *text = malloc(columns * rows * 3 + 1), *at = text;
    for (size_t r = 0; r < rows; ++r)
        for (size_t c = 0; c < columns; ++c) {
            *at++ = (char)('0' + (r + c) % 10);
            *at++ = c + 1 == columns ? '\n' : ',';
        }
    size_t r, c;
    double *all = read_all(f, test_write(f, "w.csv", text, (size_t)(at - text)), BO_FORMAT_AUTO, &r, &c);
    assert_int_equal(r, rows);
    assert_int_equal(c, columns);
    for (size_t i = 0; i < r * c; ++i) assert_true(all[i] == (double)((i / c + i % c) % 10));
    free(all);
    free(text);
}

static bool refuse_to_go_on(void *user, const char *what, double done, double total)
{
    (void)user, (void)what, (void)done, (void)total;
    return false;
}

/* An open pipe without data: waiting can be canceled. The alarm ends a test that would hang. */
static void silent_pipes(void **state)
{
    test_directory *f = *state;
    const char *path = test_path(f, "pipe.csv");
    bo_context *context;
    bo_context_desc impatient = {.threads = 1, .progress = refuse_to_go_on};
    bo_data_desc desc = {.path = path};
    bo_data *data;
    bo_reader *reader;
    assert_int_equal(bo_context_create(&impatient, &context), BO_OK);
    assert_int_equal(mkfifo(path, 0600), 0);
    int writer = open(path, O_RDWR);
    assert_true(writer >= 0);
    alarm(20);
    assert_fails(context, BO_CANCELED, "", bo_data_load(context, &desc, NULL, &data));
    assert_fails(context, BO_CANCELED, "",
                 bo_reader_open(context, &(bo_source){.path = path}, BO_FORMAT_AUTO, 0, &reader));
    alarm(0);
    close(writer);
    bo_context_destroy(context);
}

/* An endless device is not copied first. */
static void endless_devices(void **state)
{
    test_directory *f = *state;
    bo_data_desc desc = {.path = "/dev/zero"};
    bo_data *data;
    alarm(5);
    assert_fails(f->context, BO_IO, "/dev/zero: not a regular file or a pipe (it is a device)",
                 bo_data_load(f->context, &desc, NULL, &data));
    alarm(0);
}

static void messages_name_the_error(void **state)
{
    test_directory *f = *state;
    refuse(f, test_text(f, "mac.csv", "a,b\r1,2\r3,4\r"), BO_FORMAT_AUTO, BO_UNSUPPORTED, "carriage returns");
    refuse(f, test_text(f, "bad.libsvm", "1 1:2\n-1 foo\n"), BO_FORMAT_AUTO, BO_FORMAT, "line 2");
    const double one_row[] = {1, 2};
    expect(f, test_text(f, "one.csv", "1,2\r"), BO_FORMAT_CSV, 1, 2, one_row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(csv_shapes),
                                       cmocka_unit_test(silent_pipes),
                                       cmocka_unit_test(endless_devices),
                                       cmocka_unit_test(messages_name_the_error),
                                       cmocka_unit_test(csv_quotes),
                                       cmocka_unit_test(csv_headers),
                                       cmocka_unit_test(csv_refused),
                                       cmocka_unit_test(foreign_formats),
                                       cmocka_unit_test(libsvm),
                                       cmocka_unit_test(npy_types),
                                       cmocka_unit_test(npy_version_two),
                                       cmocka_unit_test(npy_refused),
                                       cmocka_unit_test(idx),
                                       cmocka_unit_test(gzip),
                                       cmocka_unit_test(seeking),
                                       cmocka_unit_test(sources),
                                       cmocka_unit_test(long_records)};
    return cmocka_run_group_tests(tests, test_setup, test_teardown);
}
