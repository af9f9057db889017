// windows.hpp - functions of Arrays that slide a window over them: convolutions and pools. Kernels are not
// flipped. All throw Error (type, invalid_argument) that names function, types and the user's source
// location.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "tidu/frontend/array.hpp"
#include "tidu/primitives/convolution.hpp"

namespace tidu {

/// Padding around an operand, for each spatial axis: none ("VALID"); enough for extent / stride windows,
/// rounded up, with the odd one after ("SAME"); one amount everywhere; or [low, high] for each axis, where
/// negative amounts crop.
class WindowPadding {
 public:
  /// Which of these.
  enum class Kind : std::uint8_t { valid, same, everywhere, given };
  /// Throws Error (invalid_argument) unless it is "VALID" or "SAME".
  WindowPadding(const char* name, Where where = Where::current());
  /// `amount` before and after every axis.
  WindowPadding(int amount) : kind_(Kind::everywhere), amounts_{{amount, amount}} {}
  /// [low, high] for each spatial axis.
  WindowPadding(IntLists amounts) : kind_(Kind::given), amounts_(std::move(amounts)) {}
  /// [low, high] for each spatial axis.
  WindowPadding(std::initializer_list<Ints> amounts) : WindowPadding(IntLists(amounts)) {}
  /// [low, high] for spatial axes of these extents; `windows` are extents with dilation, `strides` those of
  /// the windows. Throws Error (invalid_argument) for another number of axes.
  IntLists resolve(const Ints& extents, const Ints& windows, const Ints& strides,
                   std::string_view function) const;

 private:
  Kind kind_;
  IntLists amounts_{};
};

/// See ops::conv_general_dilated for layouts, strides, dilations and groups; empty dimension numbers mean
/// [batch, feature, spatial...] and, for the kernel, [result feature, feature, spatial...].
Array conv_general_dilated(const Array& x, const Array& kernel, const ops::Convolution& convolution = {},
                           Where where = Where::current());
/// x [batch, features, height, width], kernel [results, features / groups, height, width] -> [batch, results,
/// ...]. Empty strides and dilation stand for ones; dilation is that of the kernel.
Array conv2d(const Array& x, const Array& kernel, const Ints& strides = {},
             const WindowPadding& padding = "VALID", const Ints& dilation = {}, std::int64_t groups = 1,
             Where where = Where::current());

/// The maximum over each window of x [batch, features, spatial...]; `window` names its spatial extents, empty
/// strides stand for the window's. Padding is less than anything. The gradient of a maximum goes to the first
/// element that is the greatest.
Array max_pool(const Array& x, const Ints& window, const Ints& strides = {},
               const WindowPadding& padding = "VALID", Where where = Where::current());
/// The sum over each window divided by the window's size; padding counts as 0. Else as max_pool.
Array avg_pool(const Array& x, const Ints& window, const Ints& strides = {},
               const WindowPadding& padding = "VALID", Where where = Where::current());

}  // namespace tidu
