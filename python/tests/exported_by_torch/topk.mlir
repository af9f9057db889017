module @jit_func attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x5xf64>) -> (tensor<3x2xf64> {jax.result_info = "result[0]"}, tensor<3x2xi32> {jax.result_info = "result[1]"}) {
    %0:2 = stablehlo.composite "chlo.top_k" %arg0 {composite_attributes = {k = 2 : i64}, decomposition = @chlo.top_k.impl, version = 1 : i32} : (tensor<3x5xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>)
    %1 = call @sort(%0#0) : (tensor<3x2xf64>) -> tensor<3x2xf64>
    %2 = call @argsort(%1) : (tensor<3x2xf64>) -> tensor<3x2xi64>
    %3 = call @take_along_axis(%0#1, %2) : (tensor<3x2xi32>, tensor<3x2xi64>) -> tensor<3x2xi32>
    return %1, %3 : tensor<3x2xf64>, tensor<3x2xi32>
  }
  func.func private @chlo.top_k.impl(%arg0: tensor<3x5xf64>) -> (tensor<3x2xf64>, tensor<3x2xi32>) {
    %0 = stablehlo.iota dim = 1 : tensor<3x5xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %4 = stablehlo.compare GT, %arg1, %arg2, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    }) : (tensor<3x5xf64>, tensor<3x5xi32>) -> (tensor<3x5xf64>, tensor<3x5xi32>)
    %2 = stablehlo.slice %1#0 [0:3, 0:2] : (tensor<3x5xf64>) -> tensor<3x2xf64>
    %3 = stablehlo.slice %1#1 [0:3, 0:2] : (tensor<3x5xi32>) -> tensor<3x2xi32>
    return %2, %3 : tensor<3x2xf64>, tensor<3x2xi32>
  }
  func.func private @sort(%arg0: tensor<3x2xf64>) -> tensor<3x2xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %2 = stablehlo.compare EQ, %arg1, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %3 = stablehlo.select %2, %cst_0, %arg1 : tensor<i1>, tensor<f64>
      %4 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %5 = stablehlo.select %4, %cst, %3 : tensor<i1>, tensor<f64>
      %6 = stablehlo.compare EQ, %arg2, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %7 = stablehlo.select %6, %cst_0, %arg2 : tensor<i1>, tensor<f64>
      %8 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %9 = stablehlo.select %8, %cst, %7 : tensor<i1>, tensor<f64>
      %10 = stablehlo.compare LT, %5, %9, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<3x2xf64>) -> tensor<3x2xf64>
    %1 = stablehlo.reverse %0, dims = [1] : tensor<3x2xf64>
    return %1 : tensor<3x2xf64>
  }
  func.func private @argsort(%arg0: tensor<3x2xf64>) -> tensor<3x2xi64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.iota dim = 1 : tensor<3x2xi64>
    %1 = stablehlo.reverse %arg0, dims = [1] : tensor<3x2xf64>
    %2 = stablehlo.reverse %0, dims = [1] : tensor<3x2xi64>
    %3:2 = "stablehlo.sort"(%1, %2) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>, %arg3: tensor<i64>, %arg4: tensor<i64>):
      %5 = stablehlo.compare EQ, %arg1, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %6 = stablehlo.select %5, %cst_0, %arg1 : tensor<i1>, tensor<f64>
      %7 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %8 = stablehlo.select %7, %cst, %6 : tensor<i1>, tensor<f64>
      %9 = stablehlo.compare EQ, %arg2, %cst_0, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %10 = stablehlo.select %9, %cst_0, %arg2 : tensor<i1>, tensor<f64>
      %11 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
      %12 = stablehlo.select %11, %cst, %10 : tensor<i1>, tensor<f64>
      %13 = stablehlo.compare LT, %8, %12, TOTALORDER : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %13 : tensor<i1>
    }) : (tensor<3x2xf64>, tensor<3x2xi64>) -> (tensor<3x2xf64>, tensor<3x2xi64>)
    %4 = stablehlo.reverse %3#1, dims = [1] : tensor<3x2xi64>
    return %4 : tensor<3x2xi64>
  }
  func.func private @take_along_axis(%arg0: tensor<3x2xi32>, %arg1: tensor<3x2xi64>) -> tensor<3x2xi32> {
    %c = stablehlo.constant dense<-2147483648> : tensor<i32>
    %c_0 = stablehlo.constant dense<true> : tensor<i1>
    %c_1 = stablehlo.constant dense<1> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<2> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.convert %arg1 : (tensor<3x2xi64>) -> tensor<3x2xi32>
    %1 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %2 = stablehlo.compare LT, %0, %1, SIGNED : (tensor<3x2xi32>, tensor<3x2xi32>) -> tensor<3x2xi1>
    %3 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %4 = stablehlo.add %0, %3 : tensor<3x2xi32>
    %5 = stablehlo.select %2, %4, %0 : tensor<3x2xi1>, tensor<3x2xi32>
    %6 = stablehlo.reshape %5 : (tensor<3x2xi32>) -> tensor<3x2x1xi32>
    %7 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<3x2x1xi32>
    %8 = stablehlo.compare GE, %6, %7, SIGNED : (tensor<3x2x1xi32>, tensor<3x2x1xi32>) -> tensor<3x2x1xi1>
    %9 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<3x2x1xi32>
    %11 = stablehlo.compare LE, %6, %10, SIGNED : (tensor<3x2x1xi32>, tensor<3x2x1xi32>) -> tensor<3x2x1xi1>
    %12 = stablehlo.and %8, %11 : tensor<3x2x1xi1>
    %13 = stablehlo.reduce(%12 init: %c_0) applies stablehlo.and across dimensions = [2] : (tensor<3x2x1xi1>, tensor<i1>) -> tensor<3x2xi1>
    %14 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<3x2xi32>, tensor<3x2x1xi32>) -> tensor<3x2xi32>
    %15 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<3x2xi32>
    %16 = stablehlo.select %13, %14, %15 : tensor<3x2xi1>, tensor<3x2xi32>
    return %16 : tensor<3x2xi32>
  }
}
