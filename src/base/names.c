/* Comparison of names that users type: kernels, formats, solvers. */
#include "base.h"

#include <ctype.h>

static int plain(char character)
{
    return character == '_' ? '-' : tolower((unsigned char)character);
}

bool bo_same_name(const char *a, const char *b)
{
    if (!a || !b) return false;
    for (; *a && *b; a++, b++)
        if (plain(*a) != plain(*b)) return false;
    return *a == *b;
}

int bo_find_name(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (bo_same_name(name, names[i])) return i;
    return -1;
}
