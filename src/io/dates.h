/* Dates and times in text: 2024-01-31, 2024-01-31T12:00:00, 31.01.2024, 01/31/2024. */
#ifndef BO_IO_DATES_H
#define BO_IO_DATES_H

#include <stdbool.h>
#include <stddef.h>

/* The order of year, month and day. */
typedef enum bo_date_form { BO_DATE_YMD = 0, BO_DATE_DMY = 1, BO_DATE_MDY = 2, BO_DATE_FORMS = 3 } bo_date_form;

/* The forms in which `text` is a date, as a bit mask; 0: none. *has_time: it has a time of the day. Dates with points
 * have the day before the month. */
unsigned bo_date_forms(const char *text, bool *has_time);
/* Reads a date in this form: days since 1970-01-01 with the time of the day as a fraction. A time zone is ignored. */
bool bo_date_read(const char *text, bo_date_form form, double *days);

/* The inputs that a date becomes: year, day of the year (1 to 366), weekday (1 Monday to 7 Sunday), hour. */
enum { BO_DATE_PARTS = 4 };
void bo_date_parts(double days, float parts[BO_DATE_PARTS]);
const char *bo_date_part_name(size_t part);

#endif
