/* NULL in every pointer argument of every exported function, as include/bochner/base.h promises. The calls are
 * generated from the headers (cmake/api.awk). They run in a child process, so that a crash or a call that does not
 * return is reported with its function and its argument, and the calls after it are still made. */
#include "objects.h"
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { MAX_PARAMETERS = 12, SECONDS = 20 };
#define SENTINEL ((void *)(uintptr_t)64)

/* The arguments of a call: pointers by their position, and the size that stands for every number of elements. */
typedef struct arguments {
    void *pointer[MAX_PARAMETERS];
    size_t size;
} arguments;

typedef struct outcome {
    bo_status status; /* of functions that return a status */
    bool nothing;     /* other functions returned their value for no result */
} outcome;

/* Invariant: a list of parameters ends with one without a name. */
typedef struct parameter {
    size_t at;
    const char *name, *type;
    enum { NEVER, ALWAYS, SOMETIMES } may_be_null; /* SOMETIMES: depending on other arguments */
} parameter;

typedef struct function {
    const char *name;
    bool has_status;
    void (*call)(const arguments *a, outcome *o);
    parameter parameters[MAX_PARAMETERS];
} function;

/* A public struct, and the function that sets all its members of type size_t to 1. */
typedef struct struct_type {
    const char *name;
    size_t size;
    void (*count)(void *at);
} struct_type;

/* A pointer in a public struct. */
typedef struct member {
    const char *type, *name;
    size_t offset;
} member;

/* ---- numbers and results ----------------------------------------------------------------------------------------- */

/* A function of each type of callback that is an argument. */
static void nothing_of_bo_range_fn(void *user, size_t begin, size_t end)
{
    (void)user, (void)begin, (void)end;
}

static bool nothing_of_bo_token_fn(void *user, const bo_token *token)
{
    (void)user, (void)token;
    return true;
}

/* Indices and the size of optional attributes are 0. Distances between rows are large enough. Other sizes count the
 * elements of arrays. */
static size_t size_of(const arguments *a, const char *name)
{
    static const char *const indices[] = {"index", "key_head", "example", "side",
                                          "first", "part",     "rank",    "attributes_bytes"};
    for (size_t i = 0; i < sizeof indices / sizeof *indices; i++)
        if (strcmp(name, indices[i]) == 0) return 0;
    return strncmp(name, "ld", 2) == 0 ? 64 : a->size;
}

static bool is_empty(const char *text)
{
    return !text || !*text;
}

/* A count, or a file descriptor. */
static bool is_no_number(int number)
{
    return number == 0 || number == -1;
}

#define RESULT_bo_status(call)    o->status = (call)
#define RESULT_void(call)         (call), o->nothing = true
#define RESULT_double(call)       o->nothing = isnan(call)
#define RESULT_int32_t(call)      o->nothing = (call) == -1
#define RESULT_int(call)          o->nothing = is_no_number(call)
#define RESULT_char_pointer(call) o->nothing = is_empty(call)
#define RESULT_pointer(call)      o->nothing = !(call)
#define RESULT_number(call)       o->nothing = !(call)
#include "api_calls.h"

/* ---- arguments --------------------------------------------------------------------------------------------------- */

typedef struct named {
    const char *type;
    void *object;
} named;

static objects made;

/* The object of a type, NULL if the test has none. */
static void *object_of(const char *type)
{
#define DESC(name) {"bo_" #name, &made.name}
#define OBJECT(name)                                                                                                   \
    {                                                                                                                  \
        "bo_" #name, made.name                                                                                         \
    }
    const named all[] = {OBJECT(context),
                         OBJECT(features),
                         OBJECT(attention),
                         OBJECT(calibration),
                         OBJECT(data),
                         OBJECT(schema),
                         OBJECT(table),
                         OBJECT(reader),
                         OBJECT(machine),
                         OBJECT(fitting),
                         OBJECT(embedding),
                         OBJECT(drift),
                         OBJECT(metrics),
                         OBJECT(output),
                         OBJECT(weights),
                         OBJECT(graph),
                         OBJECT(optimizer),
                         OBJECT(profile),
                         OBJECT(tokenizer),
                         OBJECT(chat_template),
                         OBJECT(corpus),
                         OBJECT(texts),
                         OBJECT(model),
                         OBJECT(session),
                         OBJECT(inspection),
                         OBJECT(sampler),
                         OBJECT(conversion),
                         OBJECT(examples),
                         OBJECT(network),
                         OBJECT(trainer),
                         OBJECT(widths),
                         {"bo_plan_losses", made.losses},
                         {"bo_plan_laws", made.laws},
                         {"FILE", made.file},
                         DESC(features_desc),
                         DESC(attention_desc),
                         {"bo_attention_call", &made.call},
                         DESC(data_desc),
                         DESC(table_desc),
                         DESC(array),
                         DESC(machine_desc),
                         DESC(samples),
                         DESC(embedding_desc),
                         {"bo_inputs", &made.rows},
                         DESC(prediction),
                         DESC(drift_desc),
                         DESC(metrics_desc),
                         DESC(weight_desc),
                         DESC(tokenizer_desc),
                         DESC(chat_template_desc),
                         DESC(corpus_desc),
                         DESC(texts_desc),
                         DESC(model_desc),
                         DESC(compose_desc),
                         DESC(inspect_desc),
                         DESC(replacement_desc),
                         DESC(linearize_desc),
                         DESC(convert_desc),
                         DESC(examples_desc),
                         DESC(network_desc),
                         DESC(trainer_desc),
                         DESC(widths_desc)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].type, type) == 0) return all[i].object;
    return NULL;
}

/* Memory for the arguments: zeroed for each call, so that a struct is `{0}`. */
static char *blocks[MAX_PARAMETERS];
static void *slots[MAX_PARAMETERS];

/* "bo_model" of "const bo_model *"; "" if the type is not a single pointer. */
static const char *pointed(const char *type)
{
    static char name[64];
    if (strncmp(type, "const ", 6) == 0) type += 6;
    const size_t length = strcspn(type, " ");
    snprintf(name, sizeof name, "%.*s", strcmp(type + length, " *") == 0 ? (int)length : 0, type);
    return name;
}

static bool is_output(const parameter *p)
{
    const size_t length = strlen(p->type);
    return length > 2 && strcmp(p->type + length - 2, "**") == 0;
}

static void *text_of(const parameter *p)
{
    if (strcmp(p->name, "directory") == 0) return made.directory;
    return strcmp(p->name, "path") == 0 ? made.path : "x";
}

static void *valid(const parameter *p)
{
    void *object = object_of(pointed(p->type));
    if (object) return object;
    if (strcmp(p->type, "const char *") == 0) return text_of(p);
    if (strcmp(p->type, "const char *const *") == 0) return made.paths;
    if (strcmp(p->type, "const char **") == 0) slots[p->at] = "x";
    if (is_output(p)) return &slots[p->at];
    if (strcmp(p->type, "void *const *") == 0 || strcmp(p->type, "const void *const *") == 0) return &made.state;
    if (strcmp(p->type, "const float *const *") == 0) return &made.floats;
    return blocks[p->at];
}

static arguments all_valid(const function *f, size_t size)
{
    arguments a = {.size = size};
    for (const parameter *p = f->parameters; p->name; p++) {
        memset(blocks[p->at], 0, BYTES);
        slots[p->at] = SENTINEL;
        a.pointer[p->at] = valid(p);
    }
    return a;
}

/* ---- checks ------------------------------------------------------------------------------------------------------ */

/* What the parent sees of the child: the number of calls begun, the text of the last one, and the number of
 * complaints. */
typedef struct progress {
    size_t calls, complaints;
    char last[256];
} progress;

static progress *shared;
static size_t resume_at; /* calls before this one were made by an earlier child */

static void complain(const char *what)
{
    shared->complaints++;
    fprintf(stderr, "%s: %s (message: %s)\n", shared->last, what, bo_context_error(made.context));
}

/* Makes a call, unless an earlier child did. */
static bool attempt(const function *f, const char *how, const char *which, const arguments *a, outcome *o)
{
    if (shared->calls++ < resume_at) return false;
    snprintf(shared->last, sizeof shared->last, "%s, %s%s", f->name, which, how);
    *o = (outcome){0};
    bo_context_forget_error(made.context);
    alarm(SECONDS);
    f->call(a, o);
    alarm(0);
    return true;
}

static bool says_null(const function *f, const parameter *p)
{
    char expected[256];
    snprintf(expected, sizeof expected, "%s: argument '%s' is NULL", f->name, p->name);
    return strcmp(bo_context_error(made.context), expected) == 0;
}

static bool is_context(const parameter *p)
{
    return strcmp(p->type, "bo_context *") == 0;
}

/* Recording functions return a value, but leave a message for bo_graph_compile(). */
static bool has_message(const function *f)
{
    return f->has_status
               ? is_context(f->parameters)
               : strcmp(f->parameters[0].type, "bo_graph *") == 0 && strncmp(f->name, "bo_graph_scope", 14) != 0;
}

static void refuse(const function *f, const parameter *null)
{
    outcome o;
    arguments a = all_valid(f, 1);
    a.pointer[null->at] = NULL;
    if (!attempt(f, " NULL", null->name, &a, &o)) return;
    if (f->has_status ? o.status != BO_INVALID : !o.nothing)
        complain(f->has_status ? "expected BO_INVALID" : "expected 0, false, NULL, NAN or -1");
    if (has_message(f) && null != f->parameters && !says_null(f, null)) complain("the message lacks the argument");
    for (const parameter *p = f->parameters; f->has_status && p->name; p++)
        if (p != null && is_output(p) && slots[p->at]) complain("an output pointer is not NULL");
}

static void accept(const function *f, const parameter *null)
{
    outcome o;
    arguments a = all_valid(f, 1);
    a.pointer[null->at] = NULL;
    if (attempt(f, " NULL, which is allowed", null->name, &a, &o) && null->may_be_null == ALWAYS && has_message(f) &&
        says_null(f, null))
        complain("NULL was refused");
}

static void use_empty(const function *f, const parameter *null)
{
    outcome o;
    arguments a = all_valid(f, 0);
    a.pointer[null->at] = NULL;
    attempt(f, " NULL, all sizes 0", null->name, &a, &o);
}

static const struct_type *struct_of(const char *type)
{
    size_t i = 0;
    while (strcmp(struct_types[i].name, type) != 0) i++;
    return &struct_types[i];
}

/* Every pointer of the struct is NULL; then its numbers of elements are 1. */
static void use_zeroed(const function *f, const parameter *zeroed)
{
    outcome o;
    arguments a = all_valid(f, 1);
    a.pointer[zeroed->at] = blocks[zeroed->at];
    attempt(f, " zeroed", zeroed->name, &a, &o);
    a = all_valid(f, 1);
    a.pointer[zeroed->at] = blocks[zeroed->at];
    struct_of(pointed(zeroed->type))->count(blocks[zeroed->at]);
    attempt(f, " with sizes and without pointers", zeroed->name, &a, &o);
}

/* An array whose only element is NULL. */
static void use_elements(const function *f, const parameter *p)
{
    static void *none[1];
    outcome o;
    arguments a = all_valid(f, 1);
    a.pointer[p->at] = none;
    if (attempt(f, "[0] NULL", p->name, &a, &o) && o.status != BO_INVALID) complain("expected BO_INVALID");
}

/* One pointer of the struct is NULL, with the sizes of the struct or with all sizes 1. */
static void use_without(const function *f, const parameter *p, const member *m, bool counted)
{
    outcome o;
    char which[128];
    arguments a = all_valid(f, 1);
    char *copy = blocks[p->at];
    if (a.pointer[p->at] != copy) memcpy(copy, a.pointer[p->at], struct_of(m->type)->size);
    if (counted) struct_of(m->type)->count(copy);
    memset(copy + m->offset, 0, sizeof(void *));
    a.pointer[p->at] = copy;
    snprintf(which, sizeof which, "%s->%s", p->name, m->name);
    attempt(f, counted ? " NULL, all its sizes 1" : " NULL", which, &a, &o);
}

static void use_none(const function *f)
{
    outcome o;
    bool required = false;
    for (const parameter *p = f->parameters; p->name; p++) required |= !p->may_be_null;
    if (attempt(f, "all pointers NULL", "", &(arguments){.size = 1}, &o) && required &&
        (f->has_status ? o.status != BO_INVALID : !o.nothing))
        complain("expected BO_INVALID or no result");
}

static bool is_opaque(const char *type)
{
    for (size_t i = 0; i < sizeof opaque_types / sizeof *opaque_types; i++)
        if (strcmp(type, opaque_types[i]) == 0) return true;
    return false;
}

/* A struct that callers fill in, not one that only the library makes. */
static bool is_descriptor(const parameter *p)
{
    static const char *const results[] = {"bo_data", "bo_examples", "bo_plan_host", "bo_plan_losses", "bo_plan_laws"};
    const char *type = pointed(p->type);
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        if (strcmp(type, results[i]) == 0) return false;
    return strncmp(p->type, "const bo_", 9) == 0 && *type && !is_opaque(type) && strcmp(type, "bo_value") != 0;
}

static void use_descriptors(const function *f, const parameter *p)
{
    use_zeroed(f, p);
    for (size_t i = 0; i < sizeof pointer_members / sizeof *pointer_members; i++) {
        if (strcmp(pointer_members[i].type, pointed(p->type)) != 0) continue;
        use_without(f, p, &pointer_members[i], false);
        use_without(f, p, &pointer_members[i], true);
    }
}

static void check_function(const function *f)
{
    const bool is_slow = strcmp(f->name, "bo_plan_host_calibrate") == 0; /* measures this host for 40 seconds */
    for (const parameter *p = f->parameters; p->name; p++) {
        if (p->may_be_null && !is_slow) accept(f, p);
        if (!p->may_be_null) refuse(f, p);
        if (!p->may_be_null) use_empty(f, p);
        if (is_descriptor(p) && !is_slow) use_descriptors(f, p);
        if (strstr(p->type, "*const *")) use_elements(f, p);
    }
    if (f->parameters[0].name) use_none(f);
}

static void check_all(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) signal(signals[i], SIG_DFL); /* CMocka set them */
    shared->calls = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) check_function(&functions[i]);
    fflush(stderr);
    _exit(0);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void test_nulls(void **state)
{
    (void)state;
    objects_make(&made);
    for (size_t i = 0; i < MAX_PARAMETERS; i++) blocks[i] = calloc(1, BYTES);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    for (int how = 1; how != 0; resume_at = shared->calls) {
        const pid_t child = fork();
        if (child == 0) check_all();
        assert_int_equal(waitpid(child, &how, 0), child);
        if (how == 0) break;
        shared->complaints++;
        fprintf(stderr, "%s: %s\n", shared->last,
                !WIFSIGNALED(how)          ? "the process ended"
                : WTERMSIG(how) == SIGALRM ? "does not return"
                                           : strsignal(WTERMSIG(how)));
    }
    print_message("%zu calls of %zu functions\n", shared->calls, sizeof functions / sizeof *functions);
    assert_int_equal(shared->complaints, 0);
    munmap(shared, sizeof *shared);
    for (size_t i = 0; i < MAX_PARAMETERS; i++) free(blocks[i]);
    objects_destroy(&made);
}

/* A type whose members are not public is not tested with zeroed memory. */
static void test_objects(void **state)
{
    (void)state;
    objects_make(&made);
    for (size_t i = 0; i < sizeof opaque_types / sizeof *opaque_types; i++)
        if (!object_of(opaque_types[i])) fail_msg("tests/api/objects.h does not make a %s", opaque_types[i]);
    objects_destroy(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_objects), cmocka_unit_test(test_nulls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
