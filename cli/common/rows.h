/* Rows of tables of options (options.h). */
#ifndef CLI_COMMON_ROWS_H
#define CLI_COMMON_ROWS_H

#include "options.h"

#define SECTION(title)                                                                                                 \
    {                                                                                                                  \
        CLI_SECTION, title, NULL, NULL, NULL, NULL, 0, 0                                                               \
    }
#define TEXT(name, argument, help, value)                                                                              \
    {                                                                                                                  \
        CLI_TEXT, name, argument, help, value, NULL, 0, 0                                                              \
    }
#define LIST(name, argument, help, value)                                                                              \
    {                                                                                                                  \
        CLI_LIST, name, argument, help, value, NULL, 0, 0                                                              \
    }
#define COUNT(name, argument, help, value, low, high)                                                                  \
    {                                                                                                                  \
        CLI_COUNT, name, argument, help, value, NULL, low, high                                                        \
    }
#define REAL(name, argument, help, value, low, high)                                                                   \
    {                                                                                                                  \
        CLI_REAL, name, argument, help, value, NULL, low, high                                                         \
    }
#define POSITIVE(name, help, value)                                                                                    \
    {                                                                                                                  \
        CLI_REAL_OR_AUTO, name, "X|auto", help, value, NULL, 0, 0                                                      \
    }
#define CHOICE(name, argument, help, value, choice)                                                                    \
    {                                                                                                                  \
        CLI_CHOICE, name, argument, help, value, choice, 0, 0                                                          \
    }
#define FLAG(name, help, value)                                                                                        \
    {                                                                                                                  \
        CLI_FLAG, name, NULL, help, value, NULL, 0, 0                                                                  \
    }

#endif
