module @jit_func {
  func.func public @main(%arg0: tensor<2x3x3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<1x2x4xf64>) -> (tensor<1x3x7xf64> ) {
    %0 = call @_flip(%arg0) : (tensor<2x3x3xf64>) -> tensor<2x3x3xf64>
    %1 = stablehlo.convolution(%arg2, %0) dim_numbers = [b, f, 0]x[i, o, 0]->[b, f, 0], window = {pad = [[1, 1]], lhs_dilate = [2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x4xf64>, tensor<2x3x3xf64>) -> tensor<1x3x7xf64>
    %2 = stablehlo.reshape %arg1 : (tensor<3xf64>) -> tensor<1x3x1xf64>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x3x1xf64>) -> tensor<1x3x7xf64>
    %4 = stablehlo.add %1, %3 : tensor<1x3x7xf64>
    return %4 : tensor<1x3x7xf64>
  }
  func.func private @_flip(%arg0: tensor<2x3x3xf64>) -> tensor<2x3x3xf64> {
    %0 = stablehlo.reverse %arg0, dims = [2] : tensor<2x3x3xf64>
    return %0 : tensor<2x3x3xf64>
  }
}
