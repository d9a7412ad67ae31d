/* The references return results and refuse invalid arguments. The speed of the host is not tested. */
#include "testing.h"
#include <sys/resource.h>
#include "bench/reference.h"
#include "cli/shared/rates.h"

static void gemm_reports_bochner_and_openblas(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_reference_rate reference;
    assert_ok(context, bo_reference_gemm(context, 96, 3, &reference));
    const bool compared = reference.openblas_threads > 0;
    assert_true(reference.bochner_gflops > 0 && (reference.openblas_gflops > 0) == compared);
    assert_true(reference.best_gflops == fmax(reference.openblas_gflops, reference.bochner_gflops));
    assert_non_null(strstr(reference.library, "OpenBLAS"));
    assert_true(reference.bochner_threads == 2 && reference.n == 96);
    double rate;
    assert_ok(context, bo_gemm_rate(context, 96, 3, &rate));
    assert_true(rate > 0);
    assert_fails(context, BO_INVALID, "100 repeats", bo_reference_gemm(context, 96, 100, &reference));
    assert_fails(context, BO_INVALID, "99999", bo_reference_gemm(context, 99999, 1, &reference));
    bo_context_destroy(context);
}

/* OpenBLAS would retry a failing allocation forever, so it is not loaded under a limit. Runs first, because
 * the library stays loaded. */
static void not_under_a_limit(void **state)
{
    (void)state;
    struct rlimit before, limited;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limited = before;
    limited.rlim_cur = (rlim_t)1 << 46;
    if (setrlimit(RLIMIT_AS, &limited) != 0) skip();
    bo_context *context = test_context(1);
    bo_reference_rate reference;
    assert_ok(context, bo_reference_gemm(context, 96, 1, &reference));
    assert_true(reference.openblas_threads == 0 && reference.openblas_gflops == 0);
    assert_true(reference.best_gflops == reference.bochner_gflops && reference.bochner_gflops > 0);
    assert_non_null(strstr(reference.library, "limit of the address space"));
    bo_context_destroy(context);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void narrow_products_have_a_peak(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    bo_narrow_reference reference;
    assert_ok(context, bo_reference_narrow_gemm(context, 96, 2, &reference));
    assert_true(reference.gflops > 0 && reference.n == 96);
    const char *isa = bo_context_describe(context)->isa;
    assert_int_equal(reference.peak_gflops > 0, strcmp(isa, "amx") == 0 || strcmp(isa, "avx512bf16") == 0);
    assert_fails(context, BO_INVALID, "0 repeats", bo_reference_narrow_gemm(context, 96, 0, &reference));
    bo_context_destroy(context);
}

static void refusals(void **state)
{
    (void)state;
    bo_context *context = test_context(2);
    double rate;
    const char *name;
    assert_ok(context, bo_reference_triad(context, 1 << 20, 3, &rate));
    assert_true(rate > 0);
    assert_fails(context, BO_INVALID, "11 bytes", bo_reference_triad(context, 11, 1, &rate));
    assert_ok(context, bo_reference_small_gemm(context, 1, &rate, &name));
    assert_true(rate > 0 && name[0]);
    assert_fails(context, BO_INVALID, "-1 repeats", bo_reference_small_gemm(context, -1, &rate, &name));
    bo_context_destroy(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(not_under_a_limit),
                                       cmocka_unit_test(gemm_reports_bochner_and_openblas),
                                       cmocka_unit_test(narrow_products_have_a_peak), cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
