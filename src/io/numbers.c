/* Numbers to and from text, and half precision, independent of the locale. */
#include "numbers.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BO_DIGITS = 19 }; /* decimal digits that always fit into 64 bits */

/* A scanned decimal: digits * 10^exponent; `dropped` if nonzero digits after the nineteenth were ignored. */
typedef struct bo_decimal {
    uint64_t digits;
    int64_t exponent;
    bool negative, dropped;
} bo_decimal;

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

static const char *scan_exponent(const char *at, const char *end, int64_t *exponent)
{
    const char *p = at + 1;
    bool negative = false;
    if (p < end && (*p == '-' || *p == '+')) negative = *p++ == '-';
    if (p == end || !is_digit(*p)) return NULL;
    int64_t value = 0;
    for (; p < end && is_digit(*p); ++p)
        if (value < 1000000) value = value * 10 + (*p - '0');
    *exponent += negative ? -value : value;
    return p;
}

static const char *scan_decimal(const char *text, const char *end, bo_decimal *out)
{
    const char *p = text;
    bo_decimal d = {0};
    int significant = 0;
    if (p < end && (*p == '-' || *p == '+')) d.negative = *p++ == '-';
    const char *first = p;
    for (; p < end && is_digit(*p); ++p) {
        if (significant < BO_DIGITS) {
            d.digits = d.digits * 10 + (uint64_t)(*p - '0');
            significant += d.digits != 0;
        } else {
            ++d.exponent;
            d.dropped |= *p != '0';
        }
    }
    ptrdiff_t seen = p - first;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        for (; p < end && is_digit(*p); ++p) {
            if (significant < BO_DIGITS) {
                d.digits = d.digits * 10 + (uint64_t)(*p - '0');
                significant += d.digits != 0;
                --d.exponent;
            } else {
                d.dropped |= *p != '0';
            }
        }
        seen += p - fraction;
    }
    if (seen == 0) return NULL;
    if (p < end && (*p == 'e' || *p == 'E')) {
        p = scan_exponent(p, end, &d.exponent);
        if (!p) return NULL;
    }
    *out = d;
    return p;
}

/* Clinger 1990: with digits <= 2^53 and a power of ten that is exact in double (10^22 is the last), one rounding. */
static bool decimal_exact(const bo_decimal *d, double *value)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (d->dropped || d->digits > (uint64_t)1 << 53 || d->exponent < -22 || d->exponent > 22) return false;
    *value = d->exponent < 0 ? (double)d->digits / power[-d->exponent] : (double)d->digits * power[d->exponent];
    return true;
}

/* The same in the 64-bit mantissa of x87, where 10^27 is still exact (5^27 < 2^63): one rounding to 64 bits, so the
 * rounding to 53 bits is correct unless the 11 dropped bits are within one unit of the halfway point. */
static bool decimal_extended(const bo_decimal *d, double *value)
{
#if LDBL_MANT_DIG == 64 && defined(__x86_64__)
    if (d->dropped || d->exponent < -27 || d->exponent > 27) return false;
    long double power = 1, base = 10;
    for (int64_t n = d->exponent < 0 ? -d->exponent : d->exponent; n > 0; n >>= 1, base *= base)
        if (n & 1) power *= base;
    long double wide = d->exponent < 0 ? (long double)d->digits / power : (long double)d->digits * power;
    uint64_t mantissa;
    memcpy(&mantissa, &wide, sizeof mantissa);
    unsigned between = (unsigned)(mantissa & 0x7ff);
    if (between >= 0x3ff && between <= 0x401) return false;
    *value = (double)wide;
    return true;
#else
    (void)d;
    (void)value;
    return false;
#endif
}

static double decimal_slow(const char *text, const char *end, const bo_decimal *d)
{
    char copy[1024];
    size_t length = (size_t)(end - text);
    if (length < sizeof copy) {
        memcpy(copy, text, length);
        copy[length] = 0;
    } else { /* very long: nineteen digits are enough */
        snprintf(copy, sizeof copy, "%s%llue%lld", d->negative ? "-" : "", (unsigned long long)d->digits,
                 (long long)d->exponent);
    }
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(copy, NULL, c) : strtod(copy, NULL);
    if (c) freelocale(c);
    return fabs(value);
}

bool bo_number_read(const char *text, const char *end, const char **stop, double *value)
{
    bo_decimal d;
    const char *p = scan_decimal(text, end, &d);
    if (!p) return false;
    double v;
    if (d.digits == 0)
        v = 0;
    else if (!decimal_exact(&d, &v) && !decimal_extended(&d, &v))
        v = decimal_slow(text, p, &d);
    *value = d.negative ? -v : v;
    *stop = p;
    return true;
}

static bool is_literal(const char *text, size_t length, const char *literal)
{
    return strlen(literal) == length && strncasecmp(text, literal, length) == 0;
}

bo_cell_kind bo_cell_read(const char *text, const char *end, double *value)
{
    while (text < end && (*text == ' ' || *text == '\t')) ++text;
    while (text < end && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) --end;
    const char *stop;
    size_t length = (size_t)(end - text);
    *value = NAN;
    if (length == 0) return BO_CELL_MISSING;
    if (bo_number_read(text, end, &stop, value) && stop == end) return BO_CELL_NUMBER;
    *value = NAN;
    if (length == 1 && *text == '?') return BO_CELL_MISSING;
    if (length == 2 && memcmp(text, "NA", 2) == 0) return BO_CELL_MISSING;
    if (is_literal(text, length, "null") || is_literal(text, length, "n/a")) return BO_CELL_MISSING;
    if (is_literal(text, length, "#n/a") || is_literal(text, length, "<na>")) return BO_CELL_MISSING;
    bool negative = *text == '-';
    if (negative || *text == '+') {
        ++text;
        --length;
    }
    if (is_literal(text, length, "nan")) return BO_CELL_MISSING;
    if (is_literal(text, length, "inf") || is_literal(text, length, "infinity")) {
        *value = negative ? -INFINITY : INFINITY;
        return BO_CELL_NUMBER;
    }
    return BO_CELL_TEXT;
}

bool bo_is_missing_text(const char *text)
{
    if (strcmp(text, "-") == 0 || strcasecmp(text, "none") == 0 || strcasecmp(text, "null") == 0) return true;
    return strcasecmp(text + (*text == '-' || *text == '+'), "nan") == 0;
}

/* Copies a number with the decimal point '.' and without grouping. False if `text` is not a number of this form. */
static bool write_plain(const bo_number_form *form, const char *text, const char *end, char *out, size_t size)
{
    const char *p = text;
    size_t used = 0, group = 0;
    bool grouped = false;
    if ((size_t)(end - text) + 2 > size) return false;
    if (p < end && (*p == '-' || *p == '+')) out[used++] = *p++;
    const size_t sign = used;
    for (; p < end && (is_digit(*p) || (form->grouping && *p == form->grouping)); ++p) {
        if (is_digit(*p)) {
            out[used++] = *p;
            ++group;
            continue;
        }
        if (group == 0 || group > 3 || (grouped && group != 3)) return false;
        grouped = true;
        group = 0;
    }
    if ((grouped && (group != 3 || out[sign] == '0')) || used == sign) return false;
    if (p < end && *p == form->decimal) {
        out[used++] = '.';
        for (++p; p < end && is_digit(*p); ++p) out[used++] = *p;
    }
    if (p < end && *p != 'e' && *p != 'E') return false;
    while (p < end) out[used++] = *p++;
    out[used] = 0;
    return true;
}

static void trim(const char **text, const char **end)
{
    while (*text < *end && (**text == ' ' || **text == '\t')) ++*text;
    while (*text < *end && ((*end)[-1] == ' ' || (*end)[-1] == '\t' || (*end)[-1] == '\r')) --*end;
}

bo_cell_kind bo_cell_read_form(const bo_number_form *form, const char *text, const char *end, double *value)
{
    enum { LONGEST = 64 };
    char plain[LONGEST];
    const bool point = form->decimal == '.';
    if (point) {
        const bo_cell_kind kind = bo_cell_read(text, end, value);
        if (kind != BO_CELL_TEXT || !form->grouping) return kind;
    }
    trim(&text, &end);
    if (write_plain(form, text, end, plain, sizeof plain) &&
        bo_cell_read(plain, plain + strlen(plain), value) == BO_CELL_NUMBER)
        return BO_CELL_NUMBER;
    const bo_cell_kind kind = bo_cell_read(text, end, value);
    if (kind != BO_CELL_NUMBER || !isfinite(*value)) return kind;
    *value = NAN; /* a number with a decimal point in a file with decimal commas */
    return BO_CELL_TEXT;
}

void bo_number_signs_add(bo_number_signs *signs, const char *text, const char *end)
{
    enum { LONGEST = 64 };
    static const bo_number_form commas = {',', '.'}, points = {'.', ','};
    char plain[LONGEST];
    size_t comma = 0, point = 0;
    trim(&text, &end);
    for (const char *p = text; p < end; ++p) {
        if (!is_digit(*p) && *p != ',' && *p != '.' && !(p == text && (*p == '-' || *p == '+'))) return;
        comma += *p == ',';
        point += *p == '.';
    }
    const bool by_comma = write_plain(&commas, text, end, plain, sizeof plain),
               by_point = write_plain(&points, text, end, plain, sizeof plain);
    if (comma == 0 && point == 0) return;
    if (by_comma && by_point) { /* 1,234 or 1.234 */
        signs->maybe_commas += comma > 0;
        signs->maybe_points += point > 0;
    } else if (by_comma) { /* 0,5 or 1.234,5 or 1.234.567 */
        signs->comma_decimals += comma > 0;
        signs->point_groups += point > 0;
    } else if (by_point) {
        signs->point_decimals += point > 0;
        signs->comma_groups += comma > 0;
    }
}

/* Semicolons separate columns if commas are decimal. In a file with commas between columns, a quoted 1,234 has digit
 * groups. */
bo_number_form bo_number_form_find(const bo_number_signs *signs, char delimiter)
{
    static const bo_number_form plain = {'.', 0}, commas = {',', '.'}, groups = {'.', ','};
    const bool comma = signs->comma_decimals || signs->point_groups,
               point = signs->point_decimals || signs->comma_groups;
    if (comma && point) return plain; /* mixed: cells of the other form stay text */
    if (comma) return commas;
    if (signs->comma_groups) return groups;
    if (!signs->maybe_commas) return plain;
    if (point || delimiter == ',') return groups;
    return delimiter == ';' && !signs->maybe_points ? commas : plain;
}

bool bo_is_code(const char *text, const char *end)
{
    enum { EXACT = 15 }; /* decimal digits that a double always holds */
    while (text < end && (*text == ' ' || *text == '\t')) ++text;
    while (text < end && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r')) --end;
    const size_t length = (size_t)(end - text);
    if (length < 2) return false;
    const char *p = text;
    while (p < end && is_digit(*p)) ++p;
    if (p > text && p + 1 < end && (*p == 'e' || *p == 'E')) {
        while (++p < end && is_digit(*p)) {
        }
        return p == end;
    }
    if (p < end || (*text != '0' && length <= EXACT)) return false;
    if (*text == '0') return true;
    const char *stop;
    double value;
    char again[BO_NUMBER_TEXT];
    return !bo_number_read(text, end, &stop, &value) || bo_number_format(value, again, sizeof again) != length ||
           memcmp(again, text, length) != 0;
}

size_t bo_number_format(double value, char *out, size_t size)
{
    if (size > 0 && !out) return 0;
    char text[BO_NUMBER_TEXT];
    for (int digits = 15; digits <= 17; ++digits) {
        double back;
        snprintf(text, sizeof text, "%.*g", digits, value);
        for (char *p = text; *p; ++p) /* the locale may use another decimal point */
            if (!is_digit(*p) && !strchr("+-einfa", *p)) *p = '.';
        if (bo_cell_read(text, text + strlen(text), &back) != BO_CELL_NUMBER || back == value) break;
    }
    return (size_t)snprintf(out, size, "%s", text);
}

float bo_half_to_float(uint16_t half)
{
    const int exponent = (half >> 10) & 31;
    const int mantissa = half & 1023;
    float value;
    if (exponent == 31)
        value = mantissa ? NAN : INFINITY;
    else if (exponent == 0)
        value = ldexpf((float)mantissa, -24);
    else
        value = ldexpf((float)(mantissa | 1024), exponent - 25);
    return half & 0x8000 ? -value : value;
}
