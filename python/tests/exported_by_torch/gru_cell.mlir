module @IrToHlo.53 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<9xf64>, %arg1: tensor<9x2xf64>, %arg2: tensor<2x2xf64>, %arg3: tensor<9xf64>, %arg4: tensor<9x3xf64>, %arg5: tensor<2x3xf64>) -> tensor<2x3xf64> {
    %0 = stablehlo.transpose %arg1, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[2,9]{0,1}"} : (tensor<9x2xf64>) -> tensor<2x9xf64>
    %1 = stablehlo.dot_general %arg2, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x2xf64>, tensor<2x9xf64>) -> tensor<2x9xf64>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<9xf64>) -> tensor<2x9xf64>
    %3 = stablehlo.add %1, %2 : tensor<2x9xf64>
    %4 = stablehlo.slice %3 [0:2, 6:9] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %5 = stablehlo.transpose %arg4, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[3,9]{0,1}"} : (tensor<9x3xf64>) -> tensor<3x9xf64>
    %6 = stablehlo.dot_general %arg5, %5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf64>, tensor<3x9xf64>) -> tensor<2x9xf64>
    %7 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<9xf64>) -> tensor<2x9xf64>
    %8 = stablehlo.add %6, %7 : tensor<2x9xf64>
    %9 = stablehlo.slice %8 [0:2, 6:9] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %10 = stablehlo.slice %8 [0:2, 0:3] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %11 = stablehlo.slice %3 [0:2, 0:3] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %12 = stablehlo.add %10, %11 : tensor<2x3xf64>
    %13 = stablehlo.logistic %12 : tensor<2x3xf64>
    %14 = stablehlo.multiply %9, %13 : tensor<2x3xf64>
    %15 = stablehlo.add %4, %14 : tensor<2x3xf64>
    %16 = stablehlo.tanh %15 : tensor<2x3xf64>
    %17 = stablehlo.subtract %arg5, %16 : tensor<2x3xf64>
    %18 = stablehlo.slice %8 [0:2, 3:6] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %19 = stablehlo.slice %3 [0:2, 3:6] : (tensor<2x9xf64>) -> tensor<2x3xf64>
    %20 = stablehlo.add %18, %19 : tensor<2x3xf64>
    %21 = stablehlo.logistic %20 : tensor<2x3xf64>
    %22 = stablehlo.multiply %17, %21 : tensor<2x3xf64>
    %23 = stablehlo.add %22, %16 : tensor<2x3xf64>
    return %23 : tensor<2x3xf64>
  }
}
