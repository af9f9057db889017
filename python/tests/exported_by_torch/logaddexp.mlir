module @IrToHlo.37 {
  func.func @main(%arg0: tensor<4xf64>, %arg1: tensor<3x1xf64>) -> tensor<3x4xf64> {
    %cst = stablehlo.constant dense<0x7FF0000000000000> : tensor<3x4xf64>
    %0 = stablehlo.reshape %arg1 : (tensor<3x1xf64>) -> tensor<3xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xf64>) -> tensor<3x4xf64>
    %2 = stablehlo.compare  EQ, %1, %1 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>
    %3 = stablehlo.abs %1 : tensor<3x4xf64>
    %4 = stablehlo.compare  NE, %3, %cst : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>
    %5 = stablehlo.multiply %2, %4 : tensor<3x4xi1>
    %6 = stablehlo.not %5 : tensor<3x4xi1>
    %7 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<4xf64>) -> tensor<3x4xf64>
    %8 = stablehlo.compare  EQ, %1, %7 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>
    %9 = stablehlo.and %6, %8 : tensor<3x4xi1>
    %10 = stablehlo.compare  GE, %1, %7 : (tensor<3x4xf64>, tensor<3x4xf64>) -> tensor<3x4xi1>
    %11 = stablehlo.select %10, %1, %7 : tensor<3x4xi1>, tensor<3x4xf64>
    %12 = stablehlo.select %10, %7, %1 : tensor<3x4xi1>, tensor<3x4xf64>
    %13 = stablehlo.subtract %12, %11 : tensor<3x4xf64>
    %14 = stablehlo.exponential %13 : tensor<3x4xf64>
    %15 = stablehlo.log_plus_one %14 : tensor<3x4xf64>
    %16 = stablehlo.add %11, %15 : tensor<3x4xf64>
    %17 = stablehlo.select %9, %1, %16 : tensor<3x4xi1>, tensor<3x4xf64>
    return %17 : tensor<3x4xf64>
  }
}
