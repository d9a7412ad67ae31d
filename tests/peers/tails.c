/* Upper tails of weighted sums of chi-square variables, for test_drift.py: each line of standard input has x and
 * weights, and its tail is printed. */
#include <stdio.h>
#include <stdlib.h>
#include "math/special.h"

int main(void)
{
    enum { MAX_NUMBERS = 1 << 16 };
    char *line = NULL;
    size_t capacity = 0;
    double *numbers = malloc((MAX_NUMBERS + 1) * sizeof *numbers);
    if (!numbers) return 1;
    while (getline(&line, &capacity, stdin) > 0) {
        size_t count = 0;
        for (char *at = line, *end; count <= MAX_NUMBERS; at = end) {
            numbers[count] = strtod(at, &end);
            if (end == at) break;
            count++;
        }
        if (count < 2) return 1;
        printf("%.17g\n", bo_chi_square_tail(count - 1, numbers + 1, numbers[0]));
    }
    free(line), free(numbers);
    return 0;
}
