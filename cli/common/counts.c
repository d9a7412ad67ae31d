#include "counts.h"
#include "cli.h"
#include <errno.h>
#include <stdlib.h>

bool cli_read_counts(const char *command, const char *option, const char *text, size_t lower, size_t upper,
                     cli_counts *out)
{
    out->count = 0;
    for (const char *at = text;;) {
        char *end;
        errno = 0;
        unsigned long long value = *at >= '0' && *at <= '9' ? strtoull(at, &end, 10) : 0;
        bool fits = errno == 0 && value >= lower && value <= upper && out->count < CLI_COUNTS &&
                    (*end == ',' || *end == 0) && (out->count == 0 || value > out->items[out->count - 1]);
        if (!fits) {
            cli_usage_error(command, "--%s: expected up to %d ascending numbers from %zu to %zu, found '%s'", option,
                            CLI_COUNTS, lower, upper, text);
            return false;
        }
        out->items[out->count++] = (size_t)value;
        if (*end == 0) return true;
        at = end + 1;
    }
}
