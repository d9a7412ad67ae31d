/** @file
 * A header-only C++17 wrapper of the C headers: owners of objects, exceptions, spans, sources and sinks.
 *
 *     #include <bochner/bochner.hpp>
 *
 *     bochner::context context;
 *     bo_features_desc desc{};
 *     desc.dim = 3;
 *     desc.features = 256;
 *     bochner::features phi(context, desc);
 *     std::vector<float> z = phi(rows);                          // throws bochner::error
 *
 * Every function of the C headers that takes a context and returns a status can be called through a context, which
 * throws an exception for its error. Owners convert to the pointers that functions take, and bochner::out() receives a
 * new object:
 *
 *     bochner::owner<bo_tokenizer> tokenizer;
 *     context.call(bo_tokenizer_load, bochner::source::file("tokenizer.json"), bochner::out(tokenizer));
 *
 * **Errors.** bochner::error has the status and the message of the context. An exception from a callback of the caller
 * (a source, a sink, progress) ends the library call and is rethrown by context::call() unchanged.
 *
 * **Ownership.** An owner destroys its object; moving it leaves it empty. As in C, a context must be destroyed after
 * the objects that were created with it, and weights after their graphs and optimizers: declare them in this order.
 *
 * **Threads.** As in C: one thread at a time per context.
 */
#ifndef BOCHNER_HPP
#define BOCHNER_HPP

#include <bochner/bochner.h>
#include <cstddef>
#include <exception>
#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__GNUC__) && !defined(__clang__) && __cplusplus >= 202002L
/* Descriptors are meant to be initialized in part: {.dim = 3}. GCC warns about that in C++, not in C. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif

namespace bochner {

/* ---- spans and errors -------------------------------------------------------------------------------------------- */

/** A non-owning span: a pointer and a size. Constructed from an array, a vector or any container with data() and
 * size(). */
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <std::size_t N> constexpr span(T (&array)[N]) noexcept : data_(array), size_(N) {}
    template <class C, class = std::enable_if_t<std::is_convertible_v<decltype(std::declval<C &>().data()), T *> &&
                                                !std::is_array_v<std::remove_reference_t<C>>>>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {}
    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T &operator[](std::size_t index) const noexcept { return data_[index]; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/** A call failed. what() is the message of the context. */
class error : public std::runtime_error {
public:
    error(bo_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
    bo_status status() const noexcept { return status_; }

private:
    bo_status status_;
};

/* ---- owners ------------------------------------------------------------------------------------------------------ */

/** Destroys an object. A type that is not in the list of BOCHNER_OWNED below needs a specialization. */
template <class T> struct destroy;

/** Owns an object of the C headers, and converts to its pointer. */
template <class T> class owner {
public:
    owner() noexcept = default;
    explicit owner(T *object) noexcept : object_(object) {}
    operator T *() const noexcept { return object_.get(); }
    T *get() const noexcept { return object_.get(); }
    void reset(T *object = nullptr) noexcept { object_.reset(object); }
    T *release() noexcept { return object_.release(); }

private:
    std::unique_ptr<T, destroy<T>> object_;
};

/** Receives an object from a function with a parameter `T **out`. */
template <class T> class out {
public:
    explicit out(owner<T> &to) noexcept : to_(to) {}
    out(const out &) = delete;
    out &operator=(const out &) = delete;
    ~out() {
        if (object_) to_.reset(object_);
    }
    operator T **() noexcept { return &object_; }

private:
    owner<T> &to_;
    T *object_ = nullptr;
};

#define BOCHNER_OWNED(type, verb)                                                                                      \
    template <> struct destroy<bo_##type> {                                                                            \
        void operator()(bo_##type *object) const noexcept { bo_##type##_##verb(object); }                              \
    }
// clang-format off
BOCHNER_OWNED(attention, destroy); BOCHNER_OWNED(chat_template, destroy); BOCHNER_OWNED(context, destroy);
BOCHNER_OWNED(corpus, close); BOCHNER_OWNED(data, destroy); BOCHNER_OWNED(examples, destroy);
BOCHNER_OWNED(features, destroy); BOCHNER_OWNED(fitting, destroy); BOCHNER_OWNED(graph, destroy);
BOCHNER_OWNED(machine, destroy); BOCHNER_OWNED(metrics, destroy); BOCHNER_OWNED(model, destroy);
BOCHNER_OWNED(optimizer, destroy); BOCHNER_OWNED(sampler, destroy); BOCHNER_OWNED(schema, destroy);
BOCHNER_OWNED(session, destroy); BOCHNER_OWNED(table, close); BOCHNER_OWNED(texts, close);
BOCHNER_OWNED(tokenizer, destroy); BOCHNER_OWNED(trainer, destroy); BOCHNER_OWNED(weights, destroy);
// clang-format on
#undef BOCHNER_OWNED

/* ---- sources and sinks ------------------------------------------------------------------------------------------- */

namespace detail {
/* Calls a function of the caller from C code, which exceptions must not cross. */
template <class F> bo_status guard(std::exception_ptr &failure, F function) {
    try {
        function();
        return BO_OK;
    } catch (...) {
        failure = std::current_exception();
        return BO_IO;
    }
}
} // namespace detail

/** Where a function reads bytes. Converts to the `const bo_source *` that functions take. */
class source {
public:
    using reader = std::function<std::size_t(void *to, std::size_t capacity)>;
    /** A file, or a directory where the function takes one. */
    static source file(std::string path) { return source(std::move(path), nullptr); }
    /** Memory, which must outlive the call, and the object if the function says so. */
    static source memory(std::string_view bytes) { return source(bytes); }
    /** A function that stores the next bytes and returns their number, 0 at the end. */
    static source function(reader read) { return source(std::string(), std::move(read)); }
    /** A stream, which must outlive the source. */
    static source stream(std::istream &stream) {
        return function([&stream](void *to, std::size_t capacity) {
            stream.read(static_cast<char *>(to), static_cast<std::streamsize>(capacity));
            if (stream.bad()) throw error(BO_IO, "a stream cannot be read");
            return static_cast<std::size_t>(stream.gcount());
        });
    }
    source(const source &) = delete;
    source &operator=(const source &) = delete;
    operator const bo_source *() const noexcept { return &source_; }
    std::exception_ptr failure() const noexcept { return failure_; }

private:
    source(std::string path, reader read) : path_(std::move(path)), read_(std::move(read)) {
        source_.path = read_ ? nullptr : path_.c_str();
        source_.read = read_ ? call : nullptr;
        source_.user = this;
    }
    explicit source(std::string_view bytes) : source_() {
        source_.bytes = bytes.data();
        source_.size = bytes.size();
    }
    static bo_status call(void *user, void *to, std::size_t capacity, std::size_t *count) {
        source *self = static_cast<source *>(user);
        return detail::guard(self->failure_, [&] { *count = self->read_(to, capacity); });
    }

    std::string path_;
    reader read_;
    std::exception_ptr failure_;
    bo_source source_{};
};

/** Where a function writes bytes. Converts to the `const bo_sink *` that functions take. */
class sink {
public:
    using writer = std::function<void(std::string_view bytes)>;
    /** A file, or a directory where the function takes one. */
    static sink file(std::string path) { return sink(std::move(path), nullptr); }
    /** A string, to which the bytes are appended. It must outlive the sink. */
    static sink memory(std::string &to) {
        return function([&to](std::string_view bytes) { to.append(bytes); });
    }
    /** A function that receives the next bytes. */
    static sink function(writer write) { return sink(std::string(), std::move(write)); }
    /** A stream, which must outlive the sink. */
    static sink stream(std::ostream &stream) {
        return function([&stream](std::string_view bytes) {
            if (!stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())))
                throw error(BO_IO, "a stream cannot be written");
        });
    }
    sink(const sink &) = delete;
    sink &operator=(const sink &) = delete;
    operator const bo_sink *() const noexcept { return &sink_; }
    std::exception_ptr failure() const noexcept { return failure_; }

private:
    sink(std::string path, writer write) : path_(std::move(path)), write_(std::move(write)) {
        sink_.path = write_ ? nullptr : path_.c_str();
        sink_.write = write_ ? call : nullptr;
        sink_.user = this;
    }
    static bo_status call(void *user, const void *from, std::size_t count) {
        sink *self = static_cast<sink *>(user);
        return detail::guard(self->failure_,
                             [&] { self->write_(std::string_view(static_cast<const char *>(from), count)); });
    }

    std::string path_;
    writer write_;
    std::exception_ptr failure_;
    bo_sink sink_{};
};

/* ---- context ----------------------------------------------------------------------------------------------------- */

/** A context, and the callbacks of the caller. */
class context {
public:
    using log_function = std::function<void(bo_log_level level, std::string_view message)>;
    using progress_function = std::function<bool(std::string_view what, double done, double total)>;

    /** Creates a context. `log`, which must not throw, and `progress` replace the callbacks of the descriptor. */
    explicit context(bo_context_desc desc = {}, log_function log = nullptr, progress_function progress = nullptr)
        : callbacks_(new callbacks{std::move(log), std::move(progress), nullptr}) {
        if (callbacks_->log || callbacks_->progress) {
            desc.log = callbacks_->log ? report : nullptr;
            desc.progress = callbacks_->progress ? advance : nullptr;
            desc.user = callbacks_.get();
        }
        const bo_status status = bo_context_create(&desc, out<bo_context>(context_));
        if (status != BO_OK) throw error(status, bo_status_string(status));
    }
    context(const context &) = delete; /* features, weights and graphs refer to it */
    context &operator=(const context &) = delete;
    operator bo_context *() const noexcept { return context_; }

    /** Throws for a status: the exception of a callback, if any, otherwise an error with the message of the context. */
    void check(bo_status status) const {
        if (const std::exception_ptr thrown = std::exchange(callbacks_->thrown, nullptr))
            std::rethrow_exception(thrown);
        if (status == BO_OK) return;
        const char *message = bo_context_error(context_);
        throw error(status, *message ? message : bo_status_string(status));
    }

    /** Calls a function of the C headers with this context as its first argument. Pass nullptr, not NULL. */
    template <class... P, class... A> void call(bo_status (*function)(bo_context *, P...), A &&...arguments) const {
        static_assert(sizeof...(P) == sizeof...(A), "the function has another number of parameters");
        const bo_status status = function(context_, static_cast<P>(arguments)...);
        if (status != BO_OK) (rethrow(arguments), ...);
        check(status);
    }

    /** Calls a function whose last parameter receives a new object, which it returns. */
    template <class T, class... P, class... A>
    owner<T> create(bo_status (*function)(bo_context *, P...), A &&...arguments) const {
        owner<T> made;
        call(function, std::forward<A>(arguments)..., out<T>(made));
        return made;
    }

private:
    struct callbacks {
        log_function log;
        progress_function progress;
        std::exception_ptr thrown;
    };
    static void report(void *user, bo_log_level level, const char *message) {
        static_cast<callbacks *>(user)->log(level, message);
    }
    static bool advance(void *user, const char *what, double done, double total) {
        callbacks *self = static_cast<callbacks *>(user);
        try {
            return !self->thrown && self->progress(what, done, total);
        } catch (...) {
            self->thrown = std::current_exception();
            return false;
        }
    }
    static void rethrow(const source &from) {
        if (from.failure()) std::rethrow_exception(from.failure());
    }
    static void rethrow(const sink &to) {
        if (to.failure()) std::rethrow_exception(to.failure());
    }
    template <class T> static void rethrow(const T &) noexcept {}

    std::unique_ptr<callbacks> callbacks_;
    owner<bo_context> context_;
};

/* ---- feature maps ------------------------------------------------------------------------------------------------ */

/** A feature map. The context must outlive it. */
class features : public owner<bo_features> {
public:
    features(const context &in, const bo_features_desc &desc)
        : owner(in.create<bo_features>(bo_features_create, &desc)), context_(&in) {}
    features(const context &in, const source &from)
        : owner(in.create<bo_features>(bo_features_load, from)), context_(&in) {}
    const bo_features_desc &describe() const noexcept { return *bo_features_describe(*this); }
    void save(const sink &to) const { context_->call(bo_features_save, *this, to); }
    /** Computes the features of rows of `dim` numbers each. */
    std::vector<float> operator()(span<const float> x) const {
        const std::size_t dim = describe().dim, length = describe().features;
        if (x.size() % dim) throw error(BO_INVALID, "the numbers are not rows of " + std::to_string(dim));
        std::vector<float> z(x.size() / dim * length);
        bo_inputs inputs{};
        inputs.rows = x.size() / dim;
        inputs.x = x.data();
        if (!z.empty()) context_->call(bo_features_apply, *this, &inputs, z.data(), length);
        return z;
    }

private:
    const context *context_;
};

/* ---- weights and graphs ------------------------------------------------------------------------------------------ */

/** A set of weights. The context must outlive it. */
class weights : public owner<bo_weights> {
public:
    explicit weights(const context &in) : owner(in.create<bo_weights>(bo_weights_create)), context_(&in) {}
    const bo_weights_info &describe() const noexcept { return *bo_weights_describe(*this); }
    std::vector<float> values(const char *name) const { return read(name, false); }
    std::vector<float> gradient(const char *name) const { return read(name, true); }

private:
    std::vector<float> read(const char *name, bool gradient) const {
        const bo_weight *weight = bo_weights_find(*this, name);
        std::vector<float> out(weight ? weight->rows * weight->columns : 1);
        float *nothing = nullptr;
        context_->call(bo_weights_get, *this, name, gradient ? nothing : out.data(), gradient ? out.data() : nothing);
        return out;
    }
    const context *context_;
};

/** A graph. It is recorded with the functions of graph.h and layers.h, which take it as a pointer. The context and the
 * weights must outlive it. */
class graph : public owner<bo_graph> {
public:
    graph(const context &in, const weights &of) : owner(in.create<bo_graph>(bo_graph_create, of)), context_(&in) {}
    void compile(const bo_graph_compile_desc &desc = {}) const { context_->call(bo_graph_compile, *this, &desc); }
    void allocate() const { context_->call(bo_graph_allocate, *this); }
    void run(const bo_graph_pass &pass = {}) const { context_->call(bo_graph_run, *this, &pass); }
    void write(bo_value value, span<const float> numbers) const { write(value, numbers.data(), numbers.size()); }
    void write(bo_value value, span<const std::int32_t> numbers) const { write(value, numbers.data(), numbers.size()); }
    std::vector<float> read(bo_value value) const {
        std::vector<float> numbers(bo_graph_rows(*this, value) * bo_graph_columns(*this, value));
        context_->call(bo_graph_read, *this, value, static_cast<void *>(numbers.data()));
        return numbers;
    }

private:
    void write(bo_value value, const void *numbers, std::size_t count) const {
        if (count != bo_graph_rows(*this, value) * bo_graph_columns(*this, value))
            throw error(BO_INVALID,
                        "value " + std::to_string(value) + " does not have " + std::to_string(count) + " numbers");
        context_->call(bo_graph_write, *this, value, numbers);
    }
    const context *context_;
};

} // namespace bochner

#endif
