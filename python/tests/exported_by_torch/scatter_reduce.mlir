module @jit_func attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf64>, %arg1: tensor<6xi64>, %arg2: tensor<6xf64>) -> (tensor<4xf64> {jax.result_info = "result[0]"}) {
    %c = stablehlo.constant dense<4> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<6xi64>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<6xi64>, tensor<6xi64>) -> tensor<6xi1>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<6xi64>
    %3 = stablehlo.add %arg1, %2 : tensor<6xi64>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<6xi1>, tensor<6xi64>
    %5 = stablehlo.convert %4 : (tensor<6xi64>) -> tensor<6xi32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<6xi32>) -> tensor<6x1xi32>
    %7 = "stablehlo.scatter"(%arg0, %6, %arg2) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg3: tensor<f64>, %arg4: tensor<f64>):
      %8 = stablehlo.maximum %arg3, %arg4 : tensor<f64>
      stablehlo.return %8 : tensor<f64>
    }) : (tensor<4xf64>, tensor<6x1xi32>, tensor<6xf64>) -> tensor<4xf64>
    return %7 : tensor<4xf64>
  }
}
