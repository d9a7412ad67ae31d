/* bochner.hpp: owners, exceptions, spans, sources and sinks. Compiled and run by test_cpp.sh as C++17 and C++20. */
#include <bochner/bochner.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

/* Fails also in builds without assertions. */
#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                       \
            std::exit(1);                                                                                              \
        }                                                                                                              \
    } while (0)

struct stop : std::exception {};

/* The status of the error that a function throws; BO_OK: none. */
template <class F> static bo_status status_of(F function)
{
    try {
        function();
    } catch (const bochner::error &e) {
        REQUIRE(*e.what());
        return e.status();
    }
    return BO_OK;
}

template <class F> static bool throws_stop(F function)
{
    try {
        function();
    } catch (const stop &) {
        return true;
    }
    return false;
}

static bo_features_desc map_desc()
{
#if __cplusplus >= 202002L
    return {.kernel = BO_KERNEL_RBF, .dim = 3, .features = 64}; /* without a warning */
#else
    bo_features_desc desc{};
    desc.dim = 3;
    desc.features = 64;
    return desc;
#endif
}

static const float rows[6] = {0.1f, 0.2f, 0.3f, -1, 0, 1};

/* A map is saved to memory, a file and streams, and loaded from each, with the same features. */
static void maps_survive_every_sink(const bochner::context &context)
{
    const bochner::features phi(context, map_desc());
    const std::vector<float> z = phi(rows);
    REQUIRE(z.size() == 2 * phi.describe().features);
    std::array<float, 6> copy{};
    std::copy(std::begin(rows), std::end(rows), copy.begin());
    REQUIRE(phi(copy) == z && phi(std::vector<float>(copy.begin(), copy.end())) == z);
    REQUIRE(phi(bochner::span<const float>()).empty());
    REQUIRE(status_of([&] { phi(bochner::span<const float>(rows, 4)); }) == BO_INVALID);

    std::string bytes;
    phi.save(bochner::sink::memory(bytes));
    REQUIRE(!bytes.empty());
    REQUIRE(bochner::features(context, bochner::source::memory(bytes))(rows) == z);
    std::stringstream stream;
    phi.save(bochner::sink::stream(stream));
    REQUIRE(stream.str() == bytes);
    REQUIRE(bochner::features(context, bochner::source::stream(stream))(rows) == z);
    phi.save(bochner::sink::file("map"));
    REQUIRE(bochner::features(context, bochner::source::file("map"))(rows) == z);
    bochner::owner<bo_features> third;
    context.call(bo_features_load, bochner::source::file("map"), bochner::out(third));
    REQUIRE(third && third.get() == static_cast<bo_features *>(third));
    bochner::owner<bo_features> moved = std::move(third);
    REQUIRE(moved && !third);
}

static void errors_have_status_and_message(const bochner::context &context)
{
    bo_features_desc wrong = map_desc();
    wrong.dim = 0;
    REQUIRE(status_of([&] { bochner::features(context, wrong); }) == BO_INVALID);
    REQUIRE(status_of([&] { bochner::features(context, bochner::source::file("no such file")); }) == BO_IO);
    REQUIRE(status_of([&] { bochner::features(context, bochner::source::memory("no map")); }) == BO_FORMAT);
    bochner::owner<bo_features> kept;
    context.call(bo_features_load, bochner::source::file("map"), bochner::out(kept));
    const bo_features *before = kept;
    REQUIRE(status_of([&] {
                context.call(bo_features_load, bochner::source::file("no such file"), bochner::out(kept));
            }) == BO_IO);
    REQUIRE(kept.get() == before); /* after a failure an owner is unchanged */
    bo_context_desc unknown{};
    unknown.isa = "none of them";
    REQUIRE(status_of([&] { bochner::context fails(unknown); }) == BO_UNSUPPORTED);
}

/* Exceptions of sources, sinks and progress pass through the library. */
static void exceptions_of_callbacks_arrive(const bochner::context &context)
{
    const auto read = [](void *, std::size_t) -> std::size_t { throw stop(); };
    const auto write = [](std::string_view) { throw stop(); };
    const bochner::features phi(context, map_desc());
    REQUIRE(throws_stop([&] { bochner::features(context, bochner::source::function(read)); }));
    REQUIRE(throws_stop([&] { phi.save(bochner::sink::function(write)); }));
    std::ofstream closed;
    REQUIRE(status_of([&] { phi.save(bochner::sink::stream(closed)); }) == BO_IO);

    bool throwing = false;
    std::size_t calls = 0;
    const bochner::context watched({}, nullptr, [&](std::string_view, double, double) -> bool {
        calls++;
        if (throwing) throw stop();
        return false;
    });
    const auto load = [&] {
        std::ifstream file("map", std::ios::binary);
        bochner::features(watched, bochner::source::stream(file));
    };
    REQUIRE(status_of(load) == BO_CANCELED && calls > 0);
    throwing = true;
    REQUIRE(throws_stop(load));
    throwing = false;
    REQUIRE(status_of(load) == BO_CANCELED); /* thrown once only */
}

/* A gradient step on a line, through the types of the wrapper and functions of the C headers. */
static void a_graph_learns_a_line(const bochner::context &context)
{
    const float points[4] = {0, 1, 2, 3}, targets[4] = {1, 3, 5, 7};
    const bochner::weights weights(context);
    const bochner::graph graph(context, weights);
    const bo_value x = bo_graph_input(graph, "x", BO_ELEMENT_FLOAT32, 4, 1);
    const bo_value t = bo_graph_input(graph, "t", BO_ELEMENT_FLOAT32, 4, 1);
    bo_linear_layer line{};
    line.out = 1;
    line.bias = true;
    bo_graph_compile_desc compile{};
    compile.loss = bo_graph_loss(graph, BO_LOSS_KIND_MSE, bo_nn_linear(graph, "line", x, &line), t);
    compile.gradients = true;
    graph.compile(compile);
    context.call(bo_weights_allocate, weights, true);
    context.call(bo_weights_init, weights, 1);
    graph.allocate();
    graph.write(x, points);
    graph.write(t, targets);
    REQUIRE(status_of([&] { graph.write(x, bochner::span<const float>(points, 3)); }) == BO_INVALID);
    REQUIRE(status_of([&] { graph.read(99); }) == BO_INVALID);
    bo_optimizer_desc desc{};
    desc.kind = BO_OPTIMIZER_ADAMW;
    desc.rate = 0.1;
    const auto optimizer = context.create<bo_optimizer>(bo_optimizer_create, &desc, weights);
    for (int step = 0; step < 400; step++) {
        context.call(bo_weights_zero_gradients, weights);
        graph.run();
        context.call(bo_optimizer_step, optimizer, 1, nullptr);
    }
    REQUIRE(graph.read(compile.loss)[0] < 1e-3f);
    REQUIRE(weights.describe().parameters == 2 && weights.describe().count == 2);
    REQUIRE(weights.values("line.weight")[0] > 1.9f && weights.values("line.weight")[0] < 2.1f);
    REQUIRE(weights.gradient("line.bias").size() == 1);
    REQUIRE(status_of([&] { weights.values("no such weight"); }) == BO_INVALID);
    const bochner::graph wrong(context, weights);
    bo_graph_add(wrong, bo_graph_input(wrong, "x", BO_ELEMENT_FLOAT32, 4, 1), 77);
    REQUIRE(status_of([&] { wrong.compile(); }) == BO_INVALID);
}

int main()
{
    const bochner::context context;
    maps_survive_every_sink(context);
    errors_have_status_and_message(context);
    exceptions_of_callbacks_arrive(context);
    a_graph_learns_a_line(context);
    return 0;
}
