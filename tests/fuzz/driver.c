/* Fuzzing without libFuzzer: replays a directory of inputs, then mutates them with a fixed seed for some seconds.
 *
 *     fuzz_csv corpus/csv 2
 *
 * With a sanitizer this finds the same errors as libFuzzer, but more slowly; but it runs in every build. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_SEEDS = 512, MAX_BYTES = 1 << 16 };

typedef struct seed_input {
    uint8_t *bytes;
    size_t size;
} seed_input;

static uint64_t draw(uint64_t *state)
{
    *state ^= *state << 13; /* xorshift, Marsaglia 2003 */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static size_t read_corpus(const char *directory, seed_input *seeds)
{
    size_t count = 0;
    struct dirent **names;
    int found = scandir(directory, &names, NULL, alphasort);
    for (int i = 0; i < found; ++i) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        FILE *file = names[i]->d_name[0] == '.' || count == MAX_SEEDS ? NULL : fopen(path, "rb");
        free(names[i]);
        if (!file) continue;
        seeds[count].bytes = malloc(MAX_BYTES);
        seeds[count].size = fread(seeds[count].bytes, 1, MAX_BYTES, file);
        fclose(file);
        ++count;
    }
    if (found >= 0) free(names);
    return count;
}

/* One small change of bytes[0, *size), whose capacity is MAX_BYTES. */
static void mutate(uint8_t *bytes, size_t *size, const seed_input *other, uint64_t *state)
{
    static const char *const tokens[] = {"\"",
                                         ",",
                                         "\n",
                                         "\r\n",
                                         "0",
                                         "-",
                                         "1e309",
                                         "nan",
                                         "NA",
                                         ":",
                                         "{",
                                         "}",
                                         "[",
                                         "]",
                                         "99999999999999999999",
                                         "\xff\xff\xff\xff",
                                         "\x00",
                                         "True",
                                         "(",
                                         "#",
                                         "qid:",
                                         "\t"};
    const size_t at = *size ? draw(state) % *size : 0;
    size_t length = 1 + draw(state) % 8;
    switch (draw(state) % 8) {
    case 0:
        if (*size) bytes[at] ^= (uint8_t)(1u << draw(state) % 8);
        break;
    case 1:
        if (*size) bytes[at] = (uint8_t)draw(state);
        break;
    case 2: /* remove */
        if (length > *size - at) length = *size - at;
        memmove(bytes + at, bytes + at + length, *size - at - length);
        *size -= length;
        break;
    case 3: { /* insert a token */
        const char *token = tokens[draw(state) % (sizeof tokens / sizeof *tokens)];
        length = *token ? strlen(token) : 1;
        if (*size + length > MAX_BYTES) break;
        memmove(bytes + at + length, bytes + at, *size - at);
        memcpy(bytes + at, token, length);
        *size += length;
        break;
    }
    case 4: /* repeat a part */
        length = 1 + draw(state) % 64;
        if (length > *size - at) length = *size - at;
        if (*size + length > MAX_BYTES) break;
        memmove(bytes + at + length, bytes + at, *size - at);
        *size += length;
        break;
    case 5: /* append the end of another input */
        if (other->size) {
            size_t from = draw(state) % other->size;
            length = other->size - from;
            if (at + length > MAX_BYTES) length = MAX_BYTES - at;
            memcpy(bytes + at, other->bytes + from, length);
            *size = at + length;
        }
        break;
    case 6: /* cut */
        if (draw(state) % 4 == 0) *size = at;
        break;
    default: /* add or subtract a small number */
        if (*size) bytes[at] = (uint8_t)(bytes[at] + draw(state) % 5 - 2);
        break;
    }
}

int main(int argc, char **argv)
{
    static seed_input seeds[MAX_SEEDS];
    const size_t count = argc > 1 ? read_corpus(argv[1], seeds) : 0;
    const double seconds = argc > 2 ? atof(argv[2]) : 2;
    if (count == 0) {
        fprintf(stderr, "use: %s CORPUS_DIRECTORY [SECONDS]; the directory must contain inputs\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < count; ++i) {
        /* In a block of exact size, so that reads after its end are detected. */
        uint8_t *exact = malloc(seeds[i].size ? seeds[i].size : 1);
        memcpy(exact, seeds[i].bytes, seeds[i].size);
        LLVMFuzzerTestOneInput(exact, seeds[i].size);
        free(exact);
    }
    uint64_t state = 88172645463325252u;
    size_t runs = 0;
    uint8_t *work = malloc(MAX_BYTES);
    for (clock_t start = clock(); (double)(clock() - start) / CLOCKS_PER_SEC < seconds; ++runs) {
        const seed_input *seed = &seeds[draw(&state) % count];
        size_t size = seed->size;
        memcpy(work, seed->bytes, size);
        for (uint64_t changes = 1 + draw(&state) % 6; changes > 0; --changes)
            mutate(work, &size, &seeds[draw(&state) % count], &state);
        uint8_t *exact = malloc(size ? size : 1);
        memcpy(exact, work, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    free(work);
    for (size_t i = 0; i < count; ++i) free(seeds[i].bytes);
    printf("%zu inputs replayed, %zu mutations run\n", count, runs);
    return 0;
}
