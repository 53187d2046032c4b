// Geometry of a backward pass: what the stored plans say about buffers, launches and order, evaluated for one number of
// tokens on one GPU. Plain C++17: neither CUDA nor PyTorch is needed to compile or test it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mlpbwd {

// A 64-bit integer whose arithmetic throws where it would overflow; division truncates.
class integer {
public:
    constexpr integer(std::int64_t v) : v_(v) {}
    constexpr std::int64_t value() const { return v_; }

    // Within [least, most], or an exception that says what is not.
    std::int64_t within(std::int64_t least, std::int64_t most, const char *what) const {
        if (v_ < least || v_ > most)
            throw std::out_of_range(std::string("mlpbwd: ") + what + " is " + std::to_string(v_) +
                                    " at this size, outside " + std::to_string(least) + " to " + std::to_string(most));
        return v_;
    }

    friend integer operator+(integer a, integer b) {
        std::int64_t r;
        return __builtin_add_overflow(a.v_, b.v_, &r) ? fail() : integer(r);
    }
    friend integer operator-(integer a, integer b) {
        std::int64_t r;
        return __builtin_sub_overflow(a.v_, b.v_, &r) ? fail() : integer(r);
    }
    friend integer operator*(integer a, integer b) {
        std::int64_t r;
        return __builtin_mul_overflow(a.v_, b.v_, &r) ? fail() : integer(r);
    }
    friend integer operator/(integer a, integer b) { return divides(a, b) ? integer(a.v_ / b.v_) : fail(); }
    friend integer operator%(integer a, integer b) { return divides(a, b) ? integer(a.v_ % b.v_) : fail(); }
    friend integer operator-(integer a) { return integer(0) - a; }

private:
    static bool divides(integer a, integer b) { return b.v_ != 0 && !(a.v_ == INT64_MIN && b.v_ == -1); }
    static integer fail() { throw std::overflow_error("mlpbwd: a size overflows 64 bits or divides by zero"); }

    std::int64_t v_;
};

constexpr integer operator""_i(unsigned long long v) {
    return integer(static_cast<std::int64_t>(v));
}

inline integer min(integer a, integer b) {
    return a.value() < b.value() ? a : b;
}
inline integer max(integer a, integer b) {
    return a.value() > b.value() ? a : b;
}
template <typename... More> integer min(integer a, integer b, More... more) {
    return min(min(a, b), more...);
}
template <typename... More> integer max(integer a, integer b, More... more) {
    return max(max(a, b), more...);
}
// Up to the next whole number, as mathematics has it for either sign.
inline integer ceildiv(integer a, integer b) {
    const integer quotient = a / b;
    const bool below = (a % b).value() != 0 && (a.value() < 0) == (b.value() < 0);
    return below ? quotient + 1_i : quotient;
}
inline integer align(integer a, integer b) {
    return ceildiv(a, integer(b.within(1, INT64_MAX, "a multiple to align to"))) * b;
}

// One argument of a kernel. The arguments' values are laid out as cudaLaunchKernel wants them: one address each.
struct argument {
    enum kind_t { CONSTANT, TENSOR, BUFFER } kind;
    int index; // TENSOR: in the order of run's parameters; BUFFER: in pass::buffers
    union {
        void *pointer;
        std::int64_t i64;
        std::int32_t i32;
        float f32;
    } value; // CONSTANT
    int map = -1; // the pointer is the address of this one of the launch's maps, which is passed; -1: the pointer is
};

// What copies of boxes are told about a tensor, its address aside; dimensions innermost first.
struct tensor_map {
    enum element_t { U8, F16, BF16, F32 } element;
    int swizzle, l2;                  // bytes: the row of a box that is permuted (or 0), what L2 fetches (or 0)
    std::vector<std::uint64_t> size;   // elements
    std::vector<std::uint64_t> stride; // bytes, from the second dimension on
    std::vector<std::uint32_t> box;    // elements
};

struct buffer {
    std::size_t size, offset; // bytes in the workspace
};

struct launch {
    int kernel; // index into the table of kernels
    std::uint32_t grid[3], block[3];
    std::size_t shared_bytes; // dynamic
    int stream;               // 0: the caller's
    std::vector<std::pair<int, int>> waits; // (later, earlier) streams: later waits for what earlier holds by now
    std::vector<argument> arguments;
    std::vector<tensor_map> maps;
};

struct pass {
    std::vector<buffer> buffers;
    std::vector<launch> launches;
    int streams = 1; // the caller's included
    std::size_t workspace = 0;

    void add_buffer(integer size) {
        const auto bytes = align(integer(size.within(0, INT64_MAX / 2, "a buffer's size")), 256_i).value();
        buffers.push_back({static_cast<std::size_t>(bytes), workspace});
        workspace = static_cast<std::size_t>((integer(static_cast<std::int64_t>(workspace)) + integer(bytes)).value());
    }
    void add_launch(int kernel, int stream, integer x, integer y, integer z, std::uint32_t block_x,
                    std::uint32_t block_y, std::uint32_t block_z, integer shared) {
        launch made = {};
        made.kernel = kernel;
        made.stream = stream;
        made.grid[0] = static_cast<std::uint32_t>(x.within(0, INT32_MAX, "a grid's x"));
        made.grid[1] = static_cast<std::uint32_t>(y.within(0, 65535, "a grid's y"));
        made.grid[2] = static_cast<std::uint32_t>(z.within(0, 65535, "a grid's z"));
        made.block[0] = block_x;
        made.block[1] = block_y;
        made.block[2] = block_z;
        made.shared_bytes = static_cast<std::size_t>(shared.within(0, INT32_MAX, "a launch's shared memory"));
        streams = stream + 1 > streams ? stream + 1 : streams;
        launches.push_back(std::move(made));
    }
    void wait(int later, int earlier) { launches.back().waits.emplace_back(later, earlier); }
    void tensor(int index) { add({argument::TENSOR, index, {}}); }
    void workspace_buffer(int index) { add({argument::BUFFER, index, {}}); }
    // The last argument, a tensor or buffer, is passed in a map.
    void in_map(tensor_map::element_t element, int swizzle, int l2, std::initializer_list<integer> size,
                std::initializer_list<integer> stride, std::initializer_list<integer> box) {
        tensor_map made = {element, swizzle, l2, {}, {}, {}};
        for (const integer &v : size)
            made.size.push_back(static_cast<std::uint64_t>(v.within(1, std::int64_t(1) << 32, "a map's size")));
        for (const integer &v : stride)
            made.stride.push_back(
                static_cast<std::uint64_t>(v.within(16, (std::int64_t(1) << 40) - 16, "a map's stride")));
        for (const integer &v : box)
            made.box.push_back(static_cast<std::uint32_t>(v.within(1, 256, "a map's box")));
        launches.back().arguments.back().map = static_cast<int>(launches.back().maps.size());
        launches.back().maps.push_back(std::move(made));
    }
    void null() { add({argument::CONSTANT, 0, {}}); }
    void i32(integer v) {
        argument made = {argument::CONSTANT, 0, {}};
        made.value.i32 = static_cast<std::int32_t>(v.within(INT32_MIN, INT32_MAX, "a 32-bit argument"));
        add(made);
    }
    void i64(integer v) {
        argument made = {argument::CONSTANT, 0, {}};
        made.value.i64 = v.value();
        add(made);
    }
    void f32(float v) {
        argument made = {argument::CONSTANT, 0, {}};
        made.value.f32 = v;
        add(made);
    }

private:
    void add(const argument &made) { launches.back().arguments.push_back(made); }
};

// Generated from the stored plans (mlpbwd_plans.cpp).
extern const std::int64_t hidden_size, intermediate_size;
// The pass for T > 0 tokens on a GPU of that many multiprocessors: the plan that was looked up for the nearest T (by
// ratio; of two the smaller). Throws std::exception where the plan does not fit this size.
pass make_pass(std::int64_t tokens, std::int64_t units);

} // namespace mlpbwd
