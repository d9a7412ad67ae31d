/* FNV-1a hash of the numbers of a map. */
#include "fingerprint.h"
#include "internal.h"

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; bytes && i < count; i++) hash = (hash ^ at[i]) * 0x100000001b3u;
    return hash;
}

uint64_t bo_features_fingerprint(const bo_features *f)
{
    const bo_features_desc *d = &f->desc;
    const uint64_t fields[] = {d->kernel,   d->function,         d->draw,       d->dim,
                               d->features, (uint64_t)d->degree, f->frequencies};
    const double numbers[] = {d->gamma, d->alpha, f->u_scale, f->oprf_a, f->log_d};
    const bo_hadamard *h = &f->hadamard;
    size_t m = f->frequencies;
    uint64_t hash = 0xcbf29ce484222325u;
    hash = hash_bytes(hash, fields, sizeof fields);
    hash = hash_bytes(hash, numbers, sizeof numbers);
    hash = hash_bytes(hash, f->factor, d->dim * sizeof *f->factor);
    hash = hash_bytes(hash, f->w, m * d->dim * sizeof *f->w);
    hash = hash_bytes(hash, f->weights, m * sizeof *f->weights);
    hash = hash_bytes(hash, f->bias, m * sizeof *f->bias);
    hash = hash_bytes(hash, h->signs, h->blocks * 3 * h->padded * sizeof *h->signs);
    hash = hash_bytes(hash, h->padded ? h->norms : NULL, m * sizeof *h->norms);
    if (f->sketch) {
        size_t entries = (size_t)d->degree * (d->dim + 1);
        hash = hash_bytes(hash, bo_sketch_hashes(f->sketch), entries * sizeof(int32_t));
        hash = hash_bytes(hash, bo_sketch_signs(f->sketch), entries * sizeof(float));
    }
    if (bo_kernel_of_networks(d->kernel)) {
        const double shape[] = {d->depth, d->activation, d->weight_variance, d->bias_variance};
        hash = hash_bytes(hash, shape, sizeof shape);
    }
    if (f->network)
        hash = hash_bytes(hash, bo_random_network_matrices(f->network), bo_random_network_count(d) * sizeof(float));
    if (f->landmarks) {
        const size_t count = f->landmarks->count;
        hash = hash_bytes(hash, f->landmarks->rows, count * d->dim * sizeof(float));
        hash = hash_bytes(hash, f->landmarks->lower, count * (count + 1) / 2 * sizeof(float));
    }
    if (f->selftensor)
        hash = hash_bytes(hash, bo_selftensor_matrices(f->selftensor), bo_selftensor_count(d) * sizeof(float));
    return hash;
}
