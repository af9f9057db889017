// print.cpp - Arrays as NumPy prints them: nested brackets, columns aligned, long axes cut to their edges.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <ostream>
#include <sstream>

#include "frontend/context.hpp"

namespace tidu {
namespace {

constexpr std::int64_t whole = 1000;  // most elements that are printed in full
constexpr std::int64_t edge = 3;      // elements at each end of an axis that is cut
constexpr int decimals = 8;

// An element: as a complex number, and of integers as a whole one, which beyond 2^53 says more.
struct Shown {
  std::complex<double> z;
  std::int64_t whole;
};

// Texts of the numbers that are shown, of one style and width.
class Format {
 public:
  Format(DType dtype, const std::vector<Shown>& shown) : dtype_(dtype) {
    double greatest = 0.0, least = INFINITY;
    for (const auto& [z, number] : shown) {
      for (const double x : {std::abs(z.real()), std::abs(z.imag())}) {
        if (!std::isfinite(x) || x == 0.0) continue;
        greatest = std::max(greatest, x);
        least = std::min(least, x);
      }
    }
    scientific_ = greatest >= 1e16 || (greatest > 0.0 && (least < 1e-4 || greatest / least > 1e3));
    if (scientific_ && greatest < 1e16 && all_integers(shown)) scientific_ = false;
    for (const auto& [z, number] : shown) {
      places_ = std::max({places_, needed(z.real()), is_complex(dtype) ? needed(z.imag()) : 0});
    }
    for (const Shown& element : shown) width_ = std::max(width_, text(element).size());
  }
  std::string padded(const Shown& element) const {
    std::string plain = text(element);
    return std::string(width_ - plain.size(), ' ') + plain;
  }

 private:
  static bool all_integers(const std::vector<Shown>& shown) {
    return std::all_of(shown.begin(), shown.end(), [](const Shown& element) {
      const std::complex<double>& z = element.z;
      return (!std::isfinite(z.real()) || z.real() == std::floor(z.real())) &&
             (!std::isfinite(z.imag()) || z.imag() == std::floor(z.imag()));
    });
  }
  std::string print(double x, int places) const {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, scientific_ ? "%.*e" : "%.*f", places, x);
    return buffer;
  }
  // Decimals that say no less than all of them do.
  int needed(double x) const {
    if (!std::isfinite(x)) return 0;
    std::string digits = print(x, decimals);
    if (scientific_) digits.resize(digits.find('e'));
    const std::size_t last = digits.find_last_not_of('0');
    const std::size_t point = digits.find('.');
    return last > point ? static_cast<int>(last - point) : 0;
  }
  std::string floating(double x) const {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
    std::string digits = print(x, places_);
    if (places_ != 0) return digits;
    const std::size_t end = scientific_ ? digits.find('e') : digits.size();
    return detail::str(std::string_view(digits).substr(0, end), '.', std::string_view(digits).substr(end));
  }
  std::string text(const Shown& element) const {
    const std::complex<double>& z = element.z;
    if (is_bool(dtype_)) return z.real() != 0.0 ? "true" : "false";
    if (is_integer(dtype_)) return detail::str(element.whole);
    if (!is_complex(dtype_)) return floating(z.real());
    return floating(z.real()) + (std::signbit(z.imag()) ? "-" : "+") + floating(std::abs(z.imag())) + "i";
  }

  DType dtype_;
  bool scientific_ = false;
  int places_ = 0;
  std::size_t width_ = 0;
};

class Printer {
 public:
  explicit Printer(const Tensor& tensor) : tensor_(tensor), cut_(tensor.size() > whole) {}

  std::string print() {
    if (only_brackets()) return "[]";
    collect(0, 0);
    const Format format(tensor_.dtype(), shown_);
    next_ = 0;
    write(0, format);
    return std::move(out_).str();
  }

 private:
  // Nothing to show, in more brackets than elements would be shown?
  bool only_brackets() const {
    if (tensor_.size() != 0) return false;
    std::int64_t brackets = 1;
    for (std::size_t axis = 0; tensor_.dim(axis) != 0; ++axis) {
      if (tensor_.dim(axis) > whole / brackets) return true;
      brackets *= tensor_.dim(axis);
    }
    return false;
  }
  bool cut(std::size_t axis) const { return cut_ && tensor_.dim(axis) > 2 * edge; }
  std::int64_t stride(std::size_t axis) const {
    std::int64_t elements = 1;
    for (std::size_t i = axis + 1; i < tensor_.rank(); ++i) elements *= tensor_.dim(i);
    return elements;
  }
  // Callbacks of the walk over an axis: `each` for a position, `dots` once where some are omitted.
  template <class Each, class Dots>
  void walk(std::size_t axis, const Each& each, const Dots& dots) const {
    const std::int64_t extent = tensor_.dim(axis);
    for (std::int64_t i = 0; i < extent; ++i) {
      if (cut(axis) && i == edge) {
        dots();
        i = extent - edge;
      }
      each(i);
    }
  }
  // The elements that are shown, in order. The depth is the rank.
  void collect(std::size_t axis, std::int64_t offset) {
    if (axis == tensor_.rank()) {
      const std::complex<double> z = tensor_.at(offset);
      shown_.push_back({z, tensor_.dtype() == i64   ? tensor_.data<std::int64_t>()[offset]
                           : tensor_.dtype() == i32 ? static_cast<std::int64_t>(z.real())
                                                    : 0});
      return;
    }
    walk(
        axis, [&](std::int64_t i) { collect(axis + 1, offset + i * stride(axis)); }, [] {});
  }
  void write(std::size_t axis, const Format& format) {
    if (axis == tensor_.rank()) {
      out_ << format.padded(shown_[next_++]);
      return;
    }
    const bool innermost = axis + 1 == tensor_.rank();
    const std::string separator = innermost ? std::string(", ")
                                            : detail::str(',', std::string(tensor_.rank() - axis - 1, '\n'),
                                                          std::string(7 + axis, ' '));
    bool first = true;
    const auto separate = [&] {
      if (!first) out_ << separator;
      first = false;
    };
    out_ << '[';
    walk(
        axis,
        [&](std::int64_t) {
          separate();
          write(axis + 1, format);
        },
        [&] {
          separate();
          out_ << "...";
        });
    out_ << ']';
  }

  const Tensor& tensor_;
  bool cut_;
  std::vector<Shown> shown_;
  std::size_t next_ = 0;
  std::ostringstream out_;
};

}  // namespace

std::ostream& operator<<(std::ostream& out, const Array& array) {
  if (array.body() == nullptr) return out << "array()";
  if (array.is_traced()) return out << "traced(" << array.type() << ')';
  const std::string elements = Printer(array.tensor()).print();  // may throw: before anything is written
  out << "array(" << elements << ", " << array.type();
  if (array.requires_grad()) out << ", requires_grad";
  return out << ')';
}

std::string to_string(const Array& array) { return detail::str(array); }

}  // namespace tidu
