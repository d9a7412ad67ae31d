/* Reads dates and times, and divides them into parts. */
#include "dates.h"

#include <math.h>
#include <string.h>

/* A date as it is written: three numbers with one separator, and the time in days. */
typedef struct bo_written_date {
    int number[3];
    size_t digits[3];
    char separator;
    bool has_time;
    double time;
} bo_written_date;

static const char *read_digits(const char *p, size_t max_digits, int *value, size_t *digits)
{
    *value = 0;
    for (*digits = 0; *digits < max_digits && p[*digits] >= '0' && p[*digits] <= '9'; ++*digits)
        *value = 10 * *value + (p[*digits] - '0');
    return p + *digits;
}

/* HH:MM[:SS[.fraction]] */
static const char *read_time(const char *p, double *days)
{
    int hour, minute, second = 0;
    size_t digits;
    double fraction = 0;
    p = read_digits(p, 2, &hour, &digits);
    if (digits == 0 || *p != ':') return NULL;
    p = read_digits(p + 1, 2, &minute, &digits);
    if (digits != 2) return NULL;
    if (*p == ':') {
        p = read_digits(p + 1, 2, &second, &digits);
        if (digits != 2) return NULL;
        if (*p == '.' || *p == ',')
            for (double unit = 0.1; *++p >= '0' && *p <= '9'; unit /= 10) fraction += unit * (*p - '0');
    }
    if (hour > 23 || minute > 59 || second > 60) return NULL;
    *days = (hour * 3600 + minute * 60 + second + fraction) / 86400;
    return p;
}

/* Z, UTC, +01:00, +0100 or +01 at the end. */
static bool is_zone(const char *p)
{
    if (*p == ' ') ++p;
    if (*p == 0 || strcmp(p, "Z") == 0 || strcmp(p, "UTC") == 0) return true;
    if (*p != '+' && *p != '-') return false;
    enum { MAX_HOURS = 15 }; /* the zones of all times are between -15:13:42 and +15:08:10 */
    int hours, minutes = 0;
    size_t digits;
    p = read_digits(p + 1, 2, &hours, &digits);
    if (digits != 2) return false;
    if (*p) {
        p = read_digits(p + (*p == ':'), 2, &minutes, &digits);
        if (digits != 2) return false;
    }
    return *p == 0 && hours <= MAX_HOURS && minutes < 60;
}

static bool scan(const char *text, bo_written_date *date)
{
    const char *p = text;
    for (int i = 0; i < 3; ++i) {
        if (i == 1) date->separator = *p;
        if (i > 0 && (*p != date->separator || !*p || !strchr("-/.", *p++))) return false;
        p = read_digits(p, 4, &date->number[i], &date->digits[i]);
        if (date->digits[i] == 0) return false;
    }
    date->has_time = *p == 'T' || *p == ' ';
    date->time = 0;
    if (!date->has_time) return *p == 0;
    p = read_time(p + 1, &date->time);
    return p && is_zone(p);
}

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days before the month of a year. */
static int days_before(int year, int month)
{
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
    return before[month - 1] + (month > 2 && is_leap(year));
}

/* Days from 1970-01-01 to January 1 of a year. */
static int days_to_year(int year)
{
    const int y = year - 1;
    return 365 * (year - 1970) + (y / 4 - y / 100 + y / 400) - (1969 / 4 - 1969 / 100 + 1969 / 400);
}

static bool date_in_form(const bo_written_date *date, bo_date_form form, double *days)
{
    static const int places[BO_DATE_FORMS][3] = {{0, 1, 2}, {2, 1, 0}, {2, 0, 1}}; /* of year, month, day */
    const int *at = places[form], year = date->number[at[0]], month = date->number[at[1]], day = date->number[at[2]];
    if (date->digits[at[0]] != 4 || date->digits[at[1]] > 2 || date->digits[at[2]] > 2) return false;
    if (form == BO_DATE_MDY && date->separator == '.') return false;
    if (year < 1 || month < 1 || month > 12 || day < 1) return false;
    const int length = (month == 12 ? 365 + is_leap(year) : days_before(year, month + 1)) - days_before(year, month);
    if (day > length) return false;
    *days = days_to_year(year) + days_before(year, month) + day - 1 + date->time;
    return true;
}

unsigned bo_date_forms(const char *text, bool *has_time)
{
    bo_written_date date;
    double days;
    unsigned forms = 0;
    *has_time = false;
    if (!scan(text, &date)) return 0;
    for (int form = 0; form < BO_DATE_FORMS; ++form)
        if (date_in_form(&date, (bo_date_form)form, &days)) forms |= 1u << form;
    *has_time = date.has_time;
    return forms;
}

bool bo_date_read(const char *text, bo_date_form form, double *days)
{
    bo_written_date date;
    return scan(text, &date) && date_in_form(&date, form, days);
}

void bo_date_parts(double days, float parts[BO_DATE_PARTS])
{
    const int whole = (int)floor(days);
    int year = 1970 + (int)floor(whole / 365.2425);
    while (days_to_year(year) > whole) --year;
    while (days_to_year(year + 1) <= whole) ++year;
    parts[0] = (float)year;
    parts[1] = (float)(whole - days_to_year(year) + 1);
    parts[2] = (float)(((whole + 3) % 7 + 7) % 7 + 1); /* 1970-01-01 was a Thursday */
    parts[3] = (float)((days - whole) * 24);
}

const char *bo_date_part_name(size_t part)
{
    static const char *const names[BO_DATE_PARTS] = {"year", "day of the year", "weekday", "hour"};
    return part < BO_DATE_PARTS ? names[part] : NULL;
}
