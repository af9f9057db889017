module @jit_func {
  func.func public @main(%arg0: tensor<3x2x3x3xf64>, %arg1: tensor<3x3x3x3xf64>, %arg2: tensor<3xf64>, %arg3: tensor<3xf64>, %arg4: tensor<3xf64>, %arg5: tensor<3xf64>, %arg6: tensor<3x2x1x1xf64>, %arg7: tensor<3xf64>, %arg8: tensor<3xf64>, %arg9: tensor<3xf64>, %arg10: tensor<3xf64>, %arg11: tensor<1x2x5x5xf64>) -> (tensor<1x3x3x3xf64> ) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %0 = stablehlo.convolution(%arg11, %arg0) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x5x5xf64>, tensor<3x2x3x3xf64>) -> tensor<1x3x3x3xf64>
    %1 = stablehlo.reshape %arg8 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %3 = stablehlo.add %1, %2 : tensor<1x3x1x1xf64>
    %4 = stablehlo.rsqrt %3 : tensor<1x3x1x1xf64>
    %5 = stablehlo.reshape %arg7 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %6 = stablehlo.broadcast_in_dim %5, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %7 = stablehlo.subtract %0, %6 : tensor<1x3x3x3xf64>
    %8 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %9 = stablehlo.multiply %7, %8 : tensor<1x3x3x3xf64>
    %10 = stablehlo.reshape %arg2 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %11 = stablehlo.broadcast_in_dim %10, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %12 = stablehlo.multiply %9, %11 : tensor<1x3x3x3xf64>
    %13 = stablehlo.reshape %arg3 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %15 = stablehlo.add %12, %14 : tensor<1x3x3x3xf64>
    %16 = call @relu(%15) : (tensor<1x3x3x3xf64>) -> tensor<1x3x3x3xf64>
    %17 = stablehlo.convolution(%16, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x3x3x3xf64>, tensor<3x3x3x3xf64>) -> tensor<1x3x3x3xf64>
    %18 = stablehlo.reshape %arg10 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %19 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<1x3x1x1xf64>
    %20 = stablehlo.add %18, %19 : tensor<1x3x1x1xf64>
    %21 = stablehlo.rsqrt %20 : tensor<1x3x1x1xf64>
    %22 = stablehlo.reshape %arg9 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %24 = stablehlo.subtract %17, %23 : tensor<1x3x3x3xf64>
    %25 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %26 = stablehlo.multiply %24, %25 : tensor<1x3x3x3xf64>
    %27 = stablehlo.reshape %arg4 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %29 = stablehlo.multiply %26, %28 : tensor<1x3x3x3xf64>
    %30 = stablehlo.reshape %arg5 : (tensor<3xf64>) -> tensor<1x3x1x1xf64>
    %31 = stablehlo.broadcast_in_dim %30, dims = [0, 1, 2, 3] : (tensor<1x3x1x1xf64>) -> tensor<1x3x3x3xf64>
    %32 = stablehlo.add %29, %31 : tensor<1x3x3x3xf64>
    %33 = stablehlo.convolution(%arg11, %arg6) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [2, 2]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x2x5x5xf64>, tensor<3x2x1x1xf64>) -> tensor<1x3x3x3xf64>
    %34 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<1x3x3x3xf64>
    %35 = stablehlo.multiply %33, %34 : tensor<1x3x3x3xf64>
    %36 = stablehlo.add %32, %35 : tensor<1x3x3x3xf64>
    %37 = call @relu(%36) : (tensor<1x3x3x3xf64>) -> tensor<1x3x3x3xf64>
    return %37 : tensor<1x3x3x3xf64>
  }
  func.func private @relu(%arg0: tensor<1x3x3x3xf64>) -> tensor<1x3x3x3xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<1x3x3x3xf64>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x3x3x3xf64>
    return %1 : tensor<1x3x3x3xf64>
  }
}
