module @jit_func {
  func.func public @main(%arg0: tensor<3xf64>, %arg1: tensor<3xf64>, %arg2: tensor<2x3x2x2xf64>) -> (tensor<2x3x2x2xf64> ) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %cst_1 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg2 init: %cst_2) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x3x2x2xf64>, tensor<f64>) -> tensor<3xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<1x3x1x1xf64>
    %4 = call @_var(%arg2, %c) : (tensor<2x3x2x2xf64>, tensor<i64>) -> tensor<1x3x1x1xf64>
    %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %6 = stablehlo.add %4, %5 : tensor<1x3x1x1xf64>
    %7 = stablehlo.convert %6 : (tensor<1x3x1x1xf64>) -> tensor<1x3x1x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<1x3x1x1xf32>
    %9 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %10 = stablehlo.multiply %3, %9 : tensor<1x3x1x1xf64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<2x3x2x2xf64>
    %12 = stablehlo.subtract %arg2, %11 : tensor<2x3x2x2xf64>
    %13 = stablehlo.convert %8 : (tensor<1x3x1x1xf32>) -> tensor<1x3x1x1xf64>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<2x3x2x2xf64>
    %15 = stablehlo.multiply %12, %14 : tensor<2x3x2x2xf64>
    %16 = stablehlo.convert %15 : (tensor<2x3x2x2xf64>) -> tensor<2x3x2x2xf32>
    %17 = stablehlo.broadcast_in_dim %arg0, dims = [0] : (tensor<3xf64>) -> tensor<3x1xf64>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1] : (tensor<3x1xf64>) -> tensor<3x1x1xf64>
    %19 = stablehlo.convert %16 : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf64>
    %20 = stablehlo.broadcast_in_dim %18, dims = [1, 2, 3] : (tensor<3x1x1xf64>) -> tensor<1x3x1x1xf64>
    %21 = stablehlo.broadcast_in_dim %20, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<2x3x2x2xf64>
    %22 = stablehlo.multiply %19, %21 : tensor<2x3x2x2xf64>
    %23 = stablehlo.convert %22 : (tensor<2x3x2x2xf64>) -> tensor<2x3x2x2xf32>
    %24 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<3xf64>) -> tensor<3x1xf64>
    %25 = stablehlo.broadcast_in_dim %24, dims = [0, 1] : (tensor<3x1xf64>) -> tensor<3x1x1xf64>
    %26 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<3x1x1xf64>
    %27 = stablehlo.multiply %25, %26 : tensor<3x1x1xf64>
    %28 = stablehlo.convert %23 : (tensor<2x3x2x2xf32>) -> tensor<2x3x2x2xf64>
    %29 = stablehlo.broadcast_in_dim %27, dims = [1, 2, 3] : (tensor<3x1x1xf64>) -> tensor<1x3x1x1xf64>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<2x3x2x2xf64>
    %31 = stablehlo.add %28, %30 : tensor<2x3x2x2xf64>
    return %31 : tensor<2x3x2x2xf64>
  }
  func.func private @_var(%arg0: tensor<2x3x2x2xf64>, %arg1: tensor<i64>) -> tensor<1x3x1x1xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x3x2x2xf64>, tensor<f64>) -> tensor<3xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<1x3x1x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<2x3x2x2xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x3x2x2xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<2x3x2x2xf64>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f64>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [0, 2, 3] : (tensor<2x3x2x2xf64>, tensor<f64>) -> tensor<3xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [1] : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %12 = stablehlo.divide %10, %11 : tensor<1x3x1x1xf64>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %14 = call @_where(%13, %12, %cst) : (tensor<i1>, tensor<1x3x1x1xf64>, tensor<f64>) -> tensor<1x3x1x1xf64>
    return %14 : tensor<1x3x1x1xf64>
  }
  func.func private @_where(%arg0: tensor<i1>, %arg1: tensor<1x3x1x1xf64>, %arg2: tensor<f64>) -> tensor<1x3x1x1xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<1x3x1x1xf64>
    return %2 : tensor<1x3x1x1xf64>
  }
}
