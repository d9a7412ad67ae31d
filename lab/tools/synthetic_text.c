/* Synthetic text with enough structure to learn, identical on every host. */
#include "language.h"
#include <math.h>
#include <string.h>

enum { WORDS = 320, WORD = 12, KINDS = 5, SENTENCES = 8 };
/* Kinds of words, in this order: names, nouns, verbs, adjectives, places. Each has a range of the vocabulary. */
static const size_t class_begin[KINDS + 1] = {0, 40, 160, 240, 290, WORDS};
enum { NAME, NOUN, VERB, ADJECTIVE, PLACE };

typedef struct writer {
    bo_rng rng;
    char words[WORDS][WORD];
    char *out;
    size_t capacity;
} writer;

/* Alternates consonants and vowels; names start with a capital letter. */
static void invent(writer *w, size_t index)
{
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    const size_t syllables = 1 + index % 3 + (index > 60);
    char *word = w->words[index];
    for (size_t i = 0; i < syllables && i < (WORD - 2) / 2; i++) {
        *word++ = consonants[bo_rng_below(&w->rng, sizeof consonants - 1)];
        *word++ = vowels[bo_rng_below(&w->rng, sizeof vowels - 1)];
    }
    *word++ = consonants[bo_rng_below(&w->rng, sizeof consonants - 1)];
    *word = 0;
    if (index < class_begin[1] || index >= class_begin[PLACE]) w->words[index][0] += 'A' - 'a';
}

/* The rank of a word is log-uniform: Zipf's law. */
static const char *pick(writer *w, size_t kind)
{
    const size_t count = class_begin[kind + 1] - class_begin[kind];
    const size_t rank = (size_t)exp(bo_rng_uniform(&w->rng) * log((double)count + 1));
    return w->words[class_begin[kind] + (rank <= count ? rank : count) - 1];
}

static void append(writer *w, const char *text)
{
    const size_t length = strlen(text), copied = length < w->capacity ? length : w->capacity;
    memcpy(w->out, text, copied);
    w->out += copied;
    w->capacity -= copied;
}

static void sentence(writer *w, const char *subject, const char *other)
{
    append(w, subject);
    append(w, " ");
    append(w, pick(w, VERB));
    append(w, bo_rng_below(&w->rng, 3) ? " the " : " a ");
    if (bo_rng_below(&w->rng, 2)) {
        append(w, pick(w, ADJECTIVE));
        append(w, " ");
    }
    append(w, pick(w, NOUN));
    if (bo_rng_below(&w->rng, 3) == 0) {
        append(w, " of ");
        append(w, other);
    }
    if (bo_rng_below(&w->rng, 3) == 0) {
        append(w, " in ");
        append(w, pick(w, PLACE));
    }
    append(w, ". ");
}

void lab_synthetic_text(uint64_t seed, size_t bytes, char *out)
{
    writer w = {.out = out, .capacity = bytes};
    w.rng = bo_rng_make(1, bo_rng_stream("lab.words", 0)); /* one vocabulary for all texts */
    for (size_t i = 0; i < WORDS; i++) invent(&w, i);
    w.rng = bo_rng_make(seed, bo_rng_stream("lab.text", 0));
    while (w.capacity) {
        const char *a = w.words[bo_rng_below(&w.rng, class_begin[1])],
                   *b = w.words[bo_rng_below(&w.rng, class_begin[1])];
        for (size_t i = 0; i < SENTENCES && w.capacity; i++)
            sentence(&w, bo_rng_below(&w.rng, 3) ? a : b, bo_rng_below(&w.rng, 2) ? a : b);
        append(&w, "\n");
    }
}
