module @IrToHlo.51 {
  func.func @main(%arg0: tensor<1x1x4x4xf64>) -> (tensor<1x1x2x2xf64>, tensor<1x1x2x2xui32>) {
    %c = stablehlo.constant dense<4294967295> : tensor<1x1x4x4xui32>
    %cst = stablehlo.constant dense<0xFFF0000000000000> : tensor<1x1x4x4xf64>
    %c_0 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %cst_1 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = "stablehlo.reduce_window"(%arg0, %cst_1) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %7 = stablehlo.maximum %arg1, %arg2 : tensor<f64>
      stablehlo.return %7 : tensor<f64>
    }) : (tensor<1x1x4x4xf64>, tensor<f64>) -> tensor<1x1x2x2xf64>
    %1 = "stablehlo.select_and_scatter"(%arg0, %0, %cst_1) <{padding = dense<0> : tensor<4x2xi64>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %7 = stablehlo.compare  GE, %arg1, %arg2 : (tensor<f64>, tensor<f64>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    }, {
    ^bb0(%arg1: tensor<f64>, %arg2: tensor<f64>):
      %7 = stablehlo.maximum %arg1, %arg2 : tensor<f64>
      stablehlo.return %7 : tensor<f64>
    }) : (tensor<1x1x4x4xf64>, tensor<1x1x2x2xf64>, tensor<f64>) -> tensor<1x1x4x4xf64>
    %2 = stablehlo.compare  NE, %1, %cst : (tensor<1x1x4x4xf64>, tensor<1x1x4x4xf64>) -> tensor<1x1x4x4xi1>
    %3 = stablehlo.iota dim = 0 : tensor<16xui32>
    %4 = stablehlo.reshape %3 : (tensor<16xui32>) -> tensor<1x1x4x4xui32>
    %5 = stablehlo.select %2, %4, %c : tensor<1x1x4x4xi1>, tensor<1x1x4x4xui32>
    %6 = "stablehlo.reduce_window"(%5, %c_0) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<ui32>, %arg2: tensor<ui32>):
      %7 = stablehlo.minimum %arg1, %arg2 : tensor<ui32>
      stablehlo.return %7 : tensor<ui32>
    }) : (tensor<1x1x4x4xui32>, tensor<ui32>) -> tensor<1x1x2x2xui32>
    return %0, %6 : tensor<1x1x2x2xf64>, tensor<1x1x2x2xui32>
  }
}
