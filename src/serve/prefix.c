/* SipHash-2-4 with 128 bits (Aumasson and Bernstein 2012). */
#include "prefix.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

typedef struct sip {
    uint64_t v[4];
} sip;

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void mix(sip *s, int rounds)
{
    uint64_t *v = s->v;
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = rotate(v[1], 13) ^ v[0], v[3] = rotate(v[3], 16) ^ v[2];
        v[0] = rotate(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = rotate(v[1], 17) ^ v[2], v[3] = rotate(v[3], 21) ^ v[0];
        v[2] = rotate(v[2], 32);
    }
}

static sip start(const bo_prefix_secret *secret)
{
    const uint64_t a = secret->words[0], b = secret->words[1];
    return (sip){{a ^ UINT64_C(0x736f6d6570736575), b ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                  a ^ UINT64_C(0x6c7967656e657261), b ^ UINT64_C(0x7465646279746573)}};
}

static void add(sip *s, uint64_t word)
{
    s->v[3] ^= word;
    mix(s, 2);
    s->v[0] ^= word;
}

static bo_prefix end(sip *s)
{
    bo_prefix out;
    s->v[2] ^= 0xee;
    mix(s, 4);
    out.words[0] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
    s->v[1] ^= 0xdd;
    mix(s, 4);
    out.words[1] = s->v[0] ^ s->v[1] ^ s->v[2] ^ s->v[3];
    return out;
}

bo_prefix bo_prefix_of_nothing(void)
{
    return (bo_prefix){{0, 0}};
}

bo_prefix bo_prefix_next(const bo_prefix_secret *secret, bo_prefix before, int32_t token)
{
    enum { BYTES = 20 };
    sip s = start(secret);
    add(&s, before.words[0]);
    add(&s, before.words[1]);
    add(&s, (uint64_t)BYTES << 56 | (uint32_t)token);
    return end(&s);
}

bo_prefix bo_prefix_of_bytes(const bo_prefix_secret *secret, const void *bytes, size_t count)
{
    const unsigned char *from = bytes;
    sip s = start(secret);
    uint64_t word;
    size_t at = 0;
    for (; at + sizeof word <= count; at += sizeof word) {
        memcpy(&word, from + at, sizeof word);
        add(&s, word);
    }
    word = (uint64_t)count << 56;
    for (size_t i = 0; at + i < count; i++) word |= (uint64_t)from[at + i] << 8 * i;
    add(&s, word);
    return end(&s);
}

bool bo_prefix_equal(bo_prefix a, bo_prefix b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

void bo_prefix_format(bo_prefix prefix, char out[BO_PREFIX_DIGITS + 1])
{
    snprintf(out, BO_PREFIX_DIGITS + 1, "%016llx%016llx", (unsigned long long)prefix.words[0],
             (unsigned long long)prefix.words[1]);
}

bool bo_random_bytes(void *out, size_t count)
{
    for (size_t at = 0; at < count;) {
        const ssize_t got = getrandom((char *)out + at, count - at, 0);
        if (got < 0 && errno != EINTR) return false;
        if (got > 0) at += (size_t)got;
    }
    return true;
}
