module @jit_func attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x3xf64>, %arg1: tensor<2xf64>) -> (tensor<4x3xf32> {jax.result_info = "result[0]"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<1> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.slice %arg0 [1:3, 0:3] : (tensor<4x3xf64>) -> tensor<2x3xf64>
    %1 = stablehlo.iota dim = 0 : tensor<3xi64>
    %2 = stablehlo.reshape %1 : (tensor<3xi64>) -> tensor<1x3xi64>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<1x3xi64>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<1x3xi64>, tensor<1x3xi64>) -> tensor<1x3xi1>
    %5 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<2xf64>) -> tensor<2x1xf64>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1] : (tensor<2x1xf64>) -> tensor<2x3xf64>
    %7 = call @_where(%4, %6, %0) : (tensor<1x3xi1>, tensor<2x3xf64>, tensor<2x3xf64>) -> tensor<2x3xf64>
    %8 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %9 = "stablehlo.scatter"(%arg0, %8, %7) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], scatter_dims_to_operand_dims = [0]>, unique_indices = true}> ({
    ^bb0(%arg2: tensor<f64>, %arg3: tensor<f64>):
      stablehlo.return %arg3 : tensor<f64>
    }) : (tensor<4x3xf64>, tensor<1xi32>, tensor<2x3xf64>) -> tensor<4x3xf64>
    %10 = stablehlo.slice %9 [0:1, 0:3] : (tensor<4x3xf64>) -> tensor<1x3xf64>
    %11 = stablehlo.reshape %10 : (tensor<1x3xf64>) -> tensor<3xf64>
    %12 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<3xf64>
    %13 = stablehlo.add %11, %12 : tensor<3xf64>
    %14 = stablehlo.convert %13 : (tensor<3xf64>) -> tensor<3xf32>
    %15 = stablehlo.iota dim = 0 : tensor<4xi64>
    %16 = stablehlo.reshape %15 : (tensor<4xi64>) -> tensor<4x1xi64>
    %17 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<4x1xi64>
    %18 = stablehlo.compare EQ, %16, %17, SIGNED : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi1>
    %19 = stablehlo.broadcast_in_dim %14, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x3xf32>) -> tensor<4x3xf32>
    %21 = call @_where_0(%18, %20, %9) : (tensor<4x1xi1>, tensor<4x3xf32>, tensor<4x3xf64>) -> tensor<4x3xf64>
    %22 = stablehlo.slice %21 [0:1, 0:3] : (tensor<4x3xf64>) -> tensor<1x3xf64>
    %23 = stablehlo.reshape %22 : (tensor<1x3xf64>) -> tensor<3xf64>
    %24 = stablehlo.iota dim = 0 : tensor<4xi64>
    %25 = stablehlo.reshape %24 : (tensor<4xi64>) -> tensor<4x1xi64>
    %26 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<4x1xi64>
    %27 = stablehlo.compare EQ, %25, %26, SIGNED : (tensor<4x1xi64>, tensor<4x1xi64>) -> tensor<4x1xi1>
    %28 = stablehlo.broadcast_in_dim %23, dims = [1] : (tensor<3xf64>) -> tensor<1x3xf64>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1] : (tensor<1x3xf64>) -> tensor<4x3xf64>
    %30 = call @_where_1(%27, %29, %21) : (tensor<4x1xi1>, tensor<4x3xf64>, tensor<4x3xf64>) -> tensor<4x3xf64>
    %31 = stablehlo.multiply %30, %arg0 : tensor<4x3xf64>
    %32 = stablehlo.convert %31 : (tensor<4x3xf64>) -> tensor<4x3xf32>
    return %32 : tensor<4x3xf32>
  }
  func.func private @_where(%arg0: tensor<1x3xi1>, %arg1: tensor<2x3xf64>, %arg2: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<1x3xi1>) -> tensor<2x3xi1>
    %1 = stablehlo.select %0, %arg1, %arg2 : tensor<2x3xi1>, tensor<2x3xf64>
    return %1 : tensor<2x3xf64>
  }
  func.func private @_where_0(%arg0: tensor<4x1xi1>, %arg1: tensor<4x3xf32>, %arg2: tensor<4x3xf64>) -> tensor<4x3xf64> {
    %0 = stablehlo.convert %arg1 : (tensor<4x3xf32>) -> tensor<4x3xf64>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<4x1xi1>) -> tensor<4x3xi1>
    %2 = stablehlo.select %1, %0, %arg2 : tensor<4x3xi1>, tensor<4x3xf64>
    return %2 : tensor<4x3xf64>
  }
  func.func private @_where_1(%arg0: tensor<4x1xi1>, %arg1: tensor<4x3xf64>, %arg2: tensor<4x3xf64>) -> tensor<4x3xf64> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<4x1xi1>) -> tensor<4x3xi1>
    %1 = stablehlo.select %0, %arg1, %arg2 : tensor<4x3xi1>, tensor<4x3xf64>
    return %1 : tensor<4x3xf64>
  }
}
