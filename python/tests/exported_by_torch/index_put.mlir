module @IrToHlo.24 {
  func.func @main(%arg0: tensor<5x2xf64>, %arg1: tensor<5xi64>, %arg2: tensor<4x2xf64>) -> tensor<4x2xf64> {
    %c = stablehlo.constant dense<4> : tensor<5xi64>
    %c_0 = stablehlo.constant dense<0> : tensor<5xi64>
    %0 = stablehlo.compare  LT, %arg1, %c_0 : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi1>
    %1 = stablehlo.add %arg1, %c : tensor<5xi64>
    %2 = stablehlo.select %0, %1, %arg1 : tensor<5xi1>, tensor<5xi64>
    %3 = stablehlo.reshape %2 : (tensor<5xi64>) -> tensor<5x1xi64>
    %4 = "stablehlo.scatter"(%arg2, %3, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %5 = stablehlo.add %arg3, %arg4 : tensor<f64>
      stablehlo.return %5 : tensor<f64>
    }) : (tensor<4x2xf64>, tensor<5x1xi64>, tensor<5x2xf64>) -> tensor<4x2xf64>
    return %4 : tensor<4x2xf64>
  }
}
