/* Lists of names for error messages. */
#include "names.h"

#include <stdarg.h>
#include <stdio.h>

void bo_names_add(bo_names *list, const char *format, ...)
{
    char item[256];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(item, sizeof item, format, arguments);
    va_end(arguments);
    list->count++;
    if (length < 0 || list->shown + 1 < list->count || list->used + sizeof item + 32 > sizeof list->text) return;
    list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used, "%s%s",
                                   list->shown ? ", " : "", item);
    list->shown++;
}

const char *bo_names_text(bo_names *list)
{
    if (list->shown < list->count)
        snprintf(list->text + list->used, sizeof list->text - list->used, " and %zu more", list->count - list->shown);
    return list->text;
}
