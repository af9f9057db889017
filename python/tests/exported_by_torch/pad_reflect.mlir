module @IrToHlo.31 {
  func.func @main(%arg0: tensor<1x2x5xf64>) -> tensor<1x2x8xf64> {
    %c = stablehlo.constant dense<[[1], [0], [1], [2], [3], [4], [3], [2]]> : tensor<8x1xi64>
    %0 = "stablehlo.gather"(%arg0, %c) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], collapsed_slice_dims = [2], start_index_map = [2], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 2, 1>}> : (tensor<1x2x5xf64>, tensor<8x1xi64>) -> tensor<1x2x8xf64>
    return %0 : tensor<1x2x8xf64>
  }
}
